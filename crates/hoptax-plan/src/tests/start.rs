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
    mistake(&format!("gateways: [nginx]\nstart: {{}}\n{more}\n"))
}

#[test]
fn keys_of_trials_cannot_be_beside_start() {
    let told = refusals(
        &[
            "time: 3m",
            "precision: 5%",
            "trials: 5",
            "isolate: true",
            "restarts: 3",
            "events: [{ at: 1s, do: reload }]",
            "load: [{ loop: closed, connections: 1, duration: 1s }]",
            "load: [{ loop: closed, connections: [1, 2] }]",
            "load: [{ loop: open, connections: 1, rate: [10/s for 1s, 20/s for 1s] }]",
            "load: [{ loop: open, connections: 1, rate: 1/m }]",
            "load: [{ loop: open, connections: 1, search: { from: 100/s, to: 900/s } }]",
            "budget: [{ metric: p99, max: 1ms }]",
        ],
        refused,
    );
    insta::assert_snapshot!(told);
}

#[test]
fn wrong_values_of_start() {
    let told = refusals(
        &[
            "gateways: []\nstart: { times: 0 }\n",
            "gateways: []\nstart: { times: 1001 }\n",
            "gateways: []\nstart: { for: 0s }\n",
            "gateways: []\nstart: { for: 11m }\n",
            "gateways: []\nstart: { warm: 1 }\n",
            "gateways: [{ name: external, url: \"http://127.0.0.1:1\" }]\nstart: {}\n",
            "gateways: []\nload: [{ loop: closed, connections: 1 }]\nbudget: [{ metric: ready, max: 1s }]\n",
        ],
        mistake,
    );
    insta::assert_snapshot!(told);
}
