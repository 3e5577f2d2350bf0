//! Tests of plans that measure starts, and of wrong ones.

use super::*;
use hoptax_format::spec::{Arrivals, Rate, Shape};
use std::time::Duration;

#[test]
fn starts_have_defaults() {
    let plan = good("gateways: [nginx]\nstart: {}\n");
    let start = Start { times: 20, duration: Duration::from_secs(10), reload: true };
    assert_eq!((plan.start, plan.trials), (Some(start), Trials::Fixed(20)));
    let shape = Shape::Open { rate: Rate::Fixed(1000.0), arrivals: Arrivals::Constant };
    assert_eq!(plan.load, [LoadPoint { shape, ..LoadPoint::closed(32, Duration::from_secs(10)) }]);
    assert_eq!(kept(&plan), plan);
}

#[test]
fn the_load_lasts_as_long_as_start_says() {
    let plan = good(
        "gateways: [hop-l7]\nstart: { times: 3, for: 2s, reload: false }\nload: [{ loop: closed, \
        connections: 4 }]\n",
    );
    let start = Start { times: 3, duration: Duration::from_secs(2), reload: false };
    assert_eq!(plan.start, Some(start));
    assert_eq!(plan.load, [LoadPoint::closed(4, Duration::from_secs(2))]);
    assert_eq!(kept(&plan), plan);
}

#[test]
fn budgets_of_starts_are_times() {
    let plan = good(
        "gateways: [nginx]\nstart: {}\nbudget:\n  - { metric: ready, max: 300ms }\n  - { metric: settled, \
        max: 5s }\n",
    );
    let limits: Vec<_> = plan.budget.iter().map(|budget| (budget.metric, budget.max)).collect();
    assert_eq!(limits, [(Metric::Ready, Some(300_000.0)), (Metric::Settled, Some(5_000_000.0))]);
}

/// The only error of a plan with `start: {}` and this further text.
fn refused(more: &str) -> String {
    let text = format!("gateways: [nginx]\nstart: {{}}\n{more}\n");
    let PlanErrors(errors) = parsed(&text, &[]).expect_err(&text);
    let shown =
        |error: &PlanError| format!("{}:{} {}; {}", error.line, error.column, error.message, error.help);
    errors.iter().map(shown).collect::<Vec<_>>().join("\n")
}

#[test]
fn keys_of_trials_cannot_be_beside_start() {
    for (more, expected) in [
        ("time: 3m", "3:7 a plan with `start` cannot have `time`; remove it, or remove `start`"),
        ("precision: 5%", "3:12 a plan with `start` cannot have `precision`;"),
        ("trials: 5", "3:9 a plan with `start` cannot have `trials`;"),
        ("isolate: true", "3:10 a plan with `start` cannot have `isolate`;"),
        ("restarts: 3", "3:11 a plan with `start` cannot have `restarts`;"),
        ("events: [{ at: 1s, do: reload }]", "3:10 a plan with `start` cannot have `events`;"),
        (
            "load: [{ loop: closed, connections: 1, duration: 1s }]",
            "3:50 a load point of a plan with `start` cannot have `duration`; remove `duration`; `for` of \
            `start`",
        ),
        (
            "load: [{ loop: closed, connections: [1, 2] }]",
            "3:7 a plan with `start` has one load point, but this `load` has 2;",
        ),
        (
            "load: [{ loop: open, connections: 1, rate: [10/s for 1s, 20/s for 1s] }]",
            "3:7 the load of a plan with `start` cannot have stages;",
        ),
        ("load: [{ loop: open, connections: 1, rate: 1/m }]", "3:44 at 1/m, no request is due within 10s;"),
        (
            "load: [{ loop: open, connections: 1, search: { from: 100/s, to: 900/s } }]",
            "3:46 a plan with `start` cannot search for capacity;",
        ),
        (
            "budget: [{ metric: p99, max: 1ms }]",
            "3:20 a run with `start` does not measure `p99`; use listening, ready, first_request or settled",
        ),
    ] {
        let shown = refused(more);
        assert!(shown.starts_with(expected) && !shown.contains('\n'), "{more}\n{shown}");
    }
}

#[test]
fn wrong_values_of_start() {
    for (text, expected) in [
        ("gateways: []\nstart: { times: 0 }\n", "`times` is zero"),
        ("gateways: []\nstart: { times: 1001 }\n", "`times` is too large: 1001"),
        ("gateways: []\nstart: { for: 0s }\n", "the load after a start cannot last 0s"),
        ("gateways: []\nstart: { for: 11m }\n", "write a time above 0 and up to 10m"),
        ("gateways: []\nstart: { warm: 1 }\n", "unknown key `warm`"),
        (
            "gateways: [{ name: external, url: \"http://127.0.0.1:1\" }]\nstart: {}\n",
            "hoptax cannot measure the start of a gateway that it does not start",
        ),
        (
            "gateways: []\nload: [{ loop: closed, connections: 1 }]\nbudget: [{ metric: ready, max: 1s }]\n",
            "only a run with `start` measures `ready`",
        ),
    ] {
        let shown = parsed(text, &[]).expect_err(text).to_string();
        assert!(shown.contains(expected), "{text}\n{shown}");
    }
}
