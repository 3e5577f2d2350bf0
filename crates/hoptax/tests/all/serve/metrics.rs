//! Tests of `/metrics`, and of the dashboard that shows these metrics.

use super::lab::{analyse, current_state, get, history, served};
use hoptax_history::live::{Board, Stage};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Every metric in the text of `/metrics`, with the names of its labels.
fn metrics(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_at(line.find(['{', ' ']).expect("a value"));
        let labels = rest
            .split("=\"")
            .filter_map(|part| part.rsplit(['{', ',']).next())
            .filter(|name| !name.contains(['"', ' ', '}']));
        found.entry(name.to_owned()).or_default().extend(labels.map(str::to_owned));
    }
    found
}

fn scraped(stage: Stage) -> String {
    let history = history();
    let mut state = current_state();
    state.stage = stage;
    analyse(history.path());
    let server = served(history.path(), Some(Board::new(state)));
    let answer = get(server.address(), "/metrics");
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        answer.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    answer.text()
}

#[test]
fn metrics_are_valid_open_metrics() {
    let text = scraped(Stage::Measuring);
    assert!(text.ends_with("# EOF\n"), "{text}");
    for name in metrics(&text).keys() {
        for kind in ["HELP", "TYPE"] {
            assert!(text.contains(&format!("# {kind} {name} ")), "{name} has no {kind}");
        }
        assert!(name.starts_with("hoptax_"), "{name}");
    }
    for line in text.lines().filter(|line| line.starts_with("# UNIT")) {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(words[2].ends_with(&format!("_{}", words[3])), "{line}");
    }
    for line in [
        "hoptax_run_under_way 1.0",
        "hoptax_trial_responses_per_second{gateway=\"nginx\",load=\"closed loop, 32 connections\"} 7900.0",
        "hoptax_run_cpu_cores{role=\"gateway\"} 0.93",
        "hoptax_run_findings{run=\"20261105T000000Z-nightly\",plan=\"nightly\",severity=\"warning\"} 1.0",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
}

#[test]
fn the_last_complete_run_of_each_case_is_shown() {
    let text = scraped(Stage::Ended);
    let of = |start: &str| -> f64 {
        let line = text
            .lines()
            .find(|line| line.starts_with(start))
            .unwrap_or_else(|| panic!("no {start} in\n{text}"));
        line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
    };
    let case = "{plan=\"nightly\",gateway=\"nginx\",load=\"closed loop, 32 connections\"";
    // The values must come from the last run (150 µs, direct 100 µs), and not from the slow run before it.
    let added = of(&format!("hoptax_result_added_latency_seconds{case},quantile=\"0.5\"}}"));
    assert!((added - 50e-6).abs() < 3e-6, "{added}");
    let low = of(&format!("hoptax_result_added_latency_low_seconds{case},quantile=\"0.5\"}}"));
    let high = of(&format!("hoptax_result_added_latency_high_seconds{case},quantile=\"0.5\"}}"));
    assert!(low <= added && added <= high);
    assert!(text.contains("run=\"20261105T000000Z-nightly\",version=\"1.26\",verdict=\""), "{text}");
    assert_eq!(of("hoptax_run_under_way"), 0.0);
    assert!(!text.contains("hoptax_trial_"), "{text}");
}

/// Names of the metrics in a PromQL expression, each with the names of its labels. Functions and quoted text
/// are left out.
fn names(expression: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (at, _) in expression.match_indices("hoptax_") {
        let rest = &expression[at..];
        let end =
            rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(rest.len());
        let selector =
            rest[end..].strip_prefix('{').and_then(|inside| inside.split('}').next()).unwrap_or_default();
        let labels = selector.split(',').filter_map(|part| part.split(['=', '!']).next());
        let labels = labels.map(|label| label.trim().to_owned()).filter(|label| !label.is_empty());
        found.push((rest[..end].to_owned(), labels.collect()));
    }
    found
}

#[test]
fn the_dashboard_uses_only_served_metrics() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/hoptax.json");
    let text = std::fs::read_to_string(path).expect("docs/grafana/hoptax.json");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let served = metrics(&scraped(Stage::Measuring));
    let mut expressions: Vec<String> = Vec::new();
    let panels = dashboard["panels"].as_array().expect("panels");
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten()) {
        expressions.push(target["expr"].as_str().expect("an expression").to_owned());
        // A legend such as `{{gateway}}` also uses a label.
        let legend = target["legendFormat"].as_str().unwrap_or_default();
        let (metric, _) = names(&expressions[expressions.len() - 1]).swap_remove(0);
        for label in legend.split("{{").skip(1).filter_map(|part| part.split("}}").next()) {
            assert!(
                served.get(&metric).is_some_and(|labels| labels.contains(label)),
                "{metric} has no label {label}"
            );
        }
    }
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    for query in variables
        .iter()
        .filter_map(|one| one["query"].as_str())
        .filter(|query| query.starts_with("label_values("))
    {
        let (metric, label) =
            query.trim_start_matches("label_values(").trim_end_matches(')').split_once(", ").expect("two");
        let name = &names(metric)[0].0;
        assert!(served.get(name).is_some_and(|labels| labels.contains(label)), "{query}");
    }
    assert!(expressions.len() >= 8, "{expressions:?}");
    for expression in expressions {
        for (metric, labels) in names(&expression) {
            let known = served.get(&metric).unwrap_or_else(|| panic!("{expression}: there is no {metric}"));
            for label in labels {
                assert!(known.contains(&label), "{expression}: {metric} has no label {label}");
            }
        }
    }
}
