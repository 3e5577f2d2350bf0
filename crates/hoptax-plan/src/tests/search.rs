//! Tests of searches for capacity, and of wrong searches.

use super::*;
use hoptax_format::spec::{Arrivals, Rate, Shape};
use std::time::Duration;

fn entry(search: &str, rest: &str) -> String {
    format!("gateways: []\nload:\n  - {{ loop: open, connections: 8, search: {{ {search} }}{rest} }}\n")
}

fn search(typed: &str, rest: &str) -> (LoadPoint, Search) {
    let point = good(&entry(typed, rest)).load.remove(0);
    let search = point.search.clone().expect("a search");
    (point, search)
}

#[track_caller]
fn says(text: &str, expected: &str) {
    let shown = parsed(text, &[]).expect_err("must be refused").to_string();
    assert_eq!(shown, expected.trim_matches('\n'), "\n{shown}\n");
}

#[test]
fn defaults_of_a_search() {
    let (point, search) = search(r#"slo: "p99 < 10ms", from: 100/s, to: 50000/s"#, ", duration: 5s");
    assert_eq!(point.shape, Shape::Open { rate: Rate::Fixed(100.0), arrivals: Arrivals::Constant });
    assert_eq!((search.from, search.to, search.precision), (100.0, 50_000.0, 0.05));
    assert_eq!((search.confirm, point.duration), (Duration::from_secs(10), Duration::from_secs(5)));
    assert_eq!(point.describe(), "search, 100/s to 50000/s, p99 < 10ms, constant, 8 connections");
}

#[test]
fn a_frontier_is_one_search_with_several_objectives() {
    let texts = |typed: &str| -> Vec<String> {
        let (_, search) = search(&format!("{typed} from: 100/s, to: 1000/s"), ", duration: 5s");
        search.objectives.into_iter().map(|objective| objective.text).collect()
    };
    let standard = texts("");
    assert_eq!(standard.len(), 5);
    assert_eq!(
        (&*standard[0], &*standard[4]),
        ("p99 < 1ms and errors < 0.1%", "p99 < 100ms and errors < 0.1%")
    );
    assert_eq!(texts("bounds: [1ms, 5ms, 10ms, 50ms, 100ms],"), standard);
    assert_eq!(texts(r#"slo: ["p50 < 1ms", "mean < 2ms"],"#), ["p50 < 1ms", "mean < 2ms"]);
}

#[test]
fn searches_can_be_swept() {
    let text = entry(
        "from: 1000/s, to: 9000/s, confirm: 7s, precision: 10%",
        ", duration: [1s, 2s], arrivals: poisson",
    );
    let plan = good(&text);
    let confirms: Vec<Duration> =
        plan.load.iter().map(|point| point.search.as_ref().expect("a search").confirm).collect();
    assert_eq!(confirms, [Duration::from_secs(7); 2]);
    assert_eq!(plan.load[1].duration, Duration::from_secs(2));
}

#[test]
fn errors_in_an_objective_have_places() {
    says(
        &entry(r#"slo: "p99 < 10ms and eror < 0.1%", from: 100/s, to: 900/s"#, ""),
        r#"
plans/x.yaml:3:66: an objective cannot limit `eror`
  |
3 |   - { loop: open, connections: 8, search: { slo: "p99 < 10ms and eror < 0.1%", from: 100/s, to: 900/s } }
  |                                                                  ^^^^
  = help: did you mean `errors`?
"#,
    );
    says(
        &entry(r#"slo: "p99 < 10", from: 100/s, to: 900/s"#, ""),
        r#"
plans/x.yaml:3:57: the duration `10` has no unit
  |
3 |   - { loop: open, connections: 8, search: { slo: "p99 < 10", from: 100/s, to: 900/s } }
  |                                                         ^^
  = help: write 10s for seconds or 10ms for milliseconds
"#,
    );
}

#[test]
fn wrong_searches_are_refused() {
    let slo = r#"slo: "p99 < 10ms""#;
    for (typed, rest, part) in [
        ("from: 900/s, to: 100/s", "", "the highest rate (100/s) is not above the lowest rate (900/s)"),
        ("from: 100/s, to: 900/s", ", rate: 5/s", "remove `rate`"),
        ("from: 100/s, to: 900/s", ", requests: 500, duration: 9s", "remove `requests`"),
        ("from: 100/s, to: 900/s, precision: 0.1%", "", "write 1% to 50%"),
        ("from: 100/s, to: 900/s, bounds: [1ms]", "", "both `slo` and `bounds`"),
        (
            "from: 10/s, to: 900/s",
            ", duration: 2s",
            "at 10/s, a trial of 2s has 20 requests, which are too few for p99",
        ),
        ("from: 10/s, to: 900/s", ", duration: 2s", "to have at least 100"),
        ("from: 100/s, to: 99999999/s", "", "rates above 10000000/s are not supported"),
        ("from: 100/s", "", "to"),
        ("from: 100/s, to: 900/s, confirm: 0s", "", "`confirm` is zero"),
    ] {
        let shown = parsed(&entry(&format!("{slo}, {typed}"), rest), &[]).expect_err(typed).to_string();
        assert!(shown.contains(part), "{typed}: {shown}");
    }
    let closed = entry(&format!("{slo}, from: 100/s, to: 900/s"), "").replace("loop: open", "loop: closed");
    let shown = parsed(&closed, &[]).expect_err("closed").to_string();
    insta::assert_snapshot!(shown);
    for (typed, part) in [
        (r#"slo: ["p99 < 1ms", "p99 <= 1ms"]"#, "appears twice"),
        ("bounds: [1ms, 0ms]", "the bound is zero"),
    ] {
        let shown = parsed(&entry(&format!("{typed}, from: 100/s, to: 900/s"), ""), &[])
            .expect_err(typed)
            .to_string();
        assert!(shown.contains(part), "{typed}: {shown}");
    }
}

/// By Little's law, four connections can carry 200/s if each response takes 20 ms. A search must not start
/// above this rate, but it may reach higher rates later.
#[test]
fn the_first_rate_of_a_search_fits_its_connections() {
    let text = |from: &str| {
        format!(
            "upstream: {{ delay: 20ms }}\n{}",
            entry(&format!("slo: \"p90 < 1s\", from: {from}, to: 9000/s"), "")
        )
        .replace("connections: 8", "connections: 4")
    };
    good(&text("100/s"));
    let shown = parsed(&text("300/s"), &[]).expect_err("too much").to_string();
    insta::assert_snapshot!(shown);
}
