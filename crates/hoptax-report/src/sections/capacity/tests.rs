//! Tests the results of searches in each format.

use crate::fixture::*;
use crate::formats::html::words;
use crate::{json, markdown, terminal};
use hoptax_format::spec::Shape;
use hoptax_plan::Objective;
use hoptax_record::StepPurpose;
use std::time::Duration;

/// A run with searches. With a p99 below 10 ms, direct reaches 8,000/s and nginx 3,000/s. With a p99 below 2
/// ms, nginx reaches 1,500/s. Each contender was tried at a few rates.
fn searched() -> Run {
    let mut point = searched_point();
    let search = point.search.as_mut().expect("a search");
    search.objectives = [2, 10].map(|ms| Objective::at_bound(Duration::from_millis(ms))).to_vec();
    let mut run = Run::with_load(vec![point]);
    run.contender("direct", None).contender("nginx", None);
    for (who, quick, slow) in [("direct", 8000.0, 8000.0), ("nginx", 1500.0, 3000.0)] {
        let near = [0.5, 0.8, 0.97, 1.03, 1.2, 2.0, 0.95, 1.05, 0.97, 1.03].map(|part| part * slow);
        let rates = near.into_iter().chain([0.97, 1.03, 0.97, 1.03].map(|part| part * quick));
        for (number, rate) in rates.chain([0.9 * slow; 2]).enumerate() {
            let us = if rate <= quick {
                1000
            } else if rate <= slow {
                5000
            } else {
                80_000
            };
            let mut trial = via(who, number as u32).all_at_us(us).step(rate);
            if number > 13 {
                trial.0.step.as_mut().expect("just given").purpose = StepPurpose::Confirm;
            }
            run.push(trial);
        }
    }
    run
}

#[test]
fn a_terminal_shows_a_table_for_each_objective_within_its_width() {
    let model = searched().model();
    for width in [80, 60, 40] {
        let text = terminal(&model, width, false);
        for line in text.lines().filter(|line| !line.starts_with("Highest rate held")) {
            assert!(line.chars().count() <= usize::from(width), "{line}");
        }
    }
    let text = terminal(&model, 80, false);
    insta::assert_snapshot!(text);
    assert!(!text.contains("not measured") && !text.contains("NaN"), "{text}");
}

#[test]
fn a_closed_loop_holds_connections_instead_of_a_rate() {
    let mut run = searched();
    run.record.load[0].shape = Shape::Closed;
    let model = run.model();
    for text in [terminal(&model, 120, false), markdown(&model)] {
        assert!(text.contains("Most connections held: "), "{text}");
        assert!(text.contains(" connections under p99") && !text.contains("Highest rate"), "{text}");
    }
}

#[test]
fn the_heading_mentions_rounds_only_if_there_were_any() {
    let mut run = searched();
    assert_eq!(run.model().rounds, 0);
    insta::assert_snapshot!(terminal(&run.model(), 120, false));
    let page = words(&run.model());
    assert!(page.contains(" in 1 search. ") && !page.contains("gateway is compared"));
    run.record.load.insert(0, hoptax_analysis::fixture::closed_point(8, 1));
    run.record.plan.load = run.record.load.clone();
    for trial in &mut run.trials {
        trial.load = 1;
    }
    run.direct(0, 100, 101);
    insta::assert_snapshot!(terminal(&run.model(), 120, false));
}

#[test]
fn the_page_has_the_table_and_its_chart() {
    let mut run = searched();
    let page = words(&run.model());
    for part in
        ["Highest rate held", "Response time at p99 by rate", "data-chart=\"frontier\"", "p99 &lt; 2ms"]
    {
        assert!(page.contains(part), "the page lacks `{part}`");
    }
    assert!(!page.contains("NaN"));
    assert!(page.contains("Believable"));
    run.trials.truncate(5);
    run.record.ended.as_mut().expect("made with an end").interrupted = true;
    let model = run.model();
    assert!(model.measured_anything(), "an interrupted search still has results");
    assert_eq!(model.capacity[0].rate.expect("of five trials").trials, 5);
    run.trials.clear();
    assert!(words(&run.model()).contains("not reached"), "a search that was never begun");
}

#[test]
fn json_has_an_entry_for_each_gateway_and_objective() {
    let report: serde_json::Value = serde_json::from_str(&json(&searched().model())).expect("JSON");
    let capacity = report["capacity"].as_array().expect("a list");
    let names: Vec<(&str, &str)> = capacity
        .iter()
        .map(|one| (one["gateway"].as_str().expect("text"), one["slo"].as_str().expect("text")))
        .collect();
    let (quick, slow) = ("p99 < 2ms and errors < 0.1%", "p99 < 10ms and errors < 0.1%");
    assert_eq!(names, [("direct", quick), ("direct", slow), ("nginx", quick), ("nginx", slow)]);
    let nginx = &capacity[3];
    assert_eq!((&nginx["limited_by"], &nginx["at_least"]), (&"gateway".into(), &false.into()));
    let rate = |end: &str| nginx["rate"][end].as_f64().expect("a number");
    assert!(rate("low") < 3000.0 && 3000.0 < rate("high") && (rate("estimate") / 3000.0 - 1.0).abs() < 0.05);
    assert_eq!(nginx["steps"].as_array().expect("a list").len(), 16);
    assert_eq!(nginx["confirmed"]["held"], 2);
    assert_eq!(report["cases"], serde_json::json!([]), "what is searched has no cases");
    let direct = &capacity[0];
    assert_eq!((&direct["of_direct"], &direct["limited_by"]), (&serde_json::Value::Null, &"upstream".into()));
}

#[test]
fn a_search_beside_rounds_adds_a_sentence_about_the_gateway() {
    let mut run = searched();
    run.record.load.insert(0, hoptax_analysis::fixture::closed_point(8, 1));
    run.record.plan.load = run.record.load.clone();
    for trial in &mut run.trials {
        trial.load = 1;
    }
    for round in 0..3 {
        run.direct(round, 100, 101);
        run.push(via("nginx", round).all_at_us(150));
    }
    let model = run.model();
    insta::assert_snapshot!(model.summary[0].in_full());
    assert_eq!(model.cases.len(), 2);
    assert_eq!(model.loads().count(), 1);
}

#[test]
fn a_void_search_claims_nothing_in_words() {
    let mut run = searched();
    for trial in &mut run.trials {
        trial.host.foreign = 0.9;
    }
    let model = run.model();
    insta::assert_snapshot!(model.summary[0].in_full());
}

/// The run, with other longer trials of nginx: two at 2,700/s, or none.
fn with_longer_trials(of_nginx: Option<u64>) -> Run {
    let mut run = searched();
    let is_longer = |trial: &hoptax_record::TrialRecord| {
        trial.step.is_some_and(|step| step.purpose == StepPurpose::Confirm)
    };
    run.trials.retain(|trial| trial.contender != "nginx" || !is_longer(trial));
    for number in 30..32 {
        let Some(us) = of_nginx else { break };
        let mut trial = via("nginx", number).all_at_us(us).step(2700.0);
        trial.0.step.as_mut().expect("just given").purpose = StepPurpose::Confirm;
        run.push(trial);
    }
    run
}

#[test]
fn an_unconfirmed_rate_says_why_and_what_to_do() {
    let broken = with_longer_trials(Some(80_000)).model();
    let page = words(&broken);
    let (_, page) = page.split_once("</head>").expect("a page");
    for text in [&terminal(&broken, 300, false), &markdown(&broken), page] {
        insta::assert_snapshot!(text);
    }
    insta::assert_snapshot!(broken.summary[0].sentence);
    insta::assert_snapshot!(terminal(&with_longer_trials(None).model(), 300, false));
}

#[test]
fn trials_without_a_p99_are_drawn_too() {
    let run = searched().with([via("nginx", 40).all_at_us(80_000).scheduled(2000).step(9000.0)]);
    let model = run.model();
    let points = |text: &str| text.matches("[9000.0,").count();
    let page = crate::formats::page::Page::new(&model).json();
    assert!(points(&page) == 1 && page.contains(",null]"), "{page}");
}
