//! Tests of rates that change, of keep-alive and of HTTP versions, and of wrong values for these.

use super::*;
use hoptax_format::spec::{Arrivals, HttpVersion, Rate, Retry, Shape, Stage};
use std::time::Duration;

fn entry(load: &str) -> String {
    format!("gateways: []\nload:\n  - {{ {load} }}\n")
}

fn rates(load: &str) -> Vec<Rate> {
    let rate = |point: &LoadPoint| match &point.shape {
        Shape::Open { rate, .. } => rate.clone(),
        Shape::Closed => panic!("an open loop"),
    };
    good(&entry(&format!("loop: open, connections: 8, {load}"))).load.iter().map(rate).collect()
}

fn stage(from: f64, to: f64, seconds: u64) -> Stage {
    Stage { from, to, for_ns: seconds * 1_000_000_000 }
}

#[test]
fn a_list_of_stages_is_one_rate_and_a_list_of_rates_a_sweep() {
    let ramp = Rate::Stages(vec![stage(100.0, 100.0, 10), stage(100.0, 5000.0, 60)]);
    let typed = "100/s for 10s, ramp to 5000/s over 60s";
    assert_eq!(rates(&format!("rate: [{typed}]")), std::slice::from_ref(&ramp));
    assert_eq!(rates(&format!("rate: \"{typed}\"")), std::slice::from_ref(&ramp));
    assert_eq!(
        rates(&format!("rate: [[{typed}], 50/s, [5/s for 1s]]")),
        [ramp.clone(), Rate::Fixed(50.0), Rate::Stages(vec![stage(5.0, 5.0, 1)])]
    );
    assert_eq!(rates(&format!("rate: [\"{typed}\", 50/s]")), [ramp, Rate::Fixed(50.0)]);
    assert_eq!(rates("rate: [10/s, 20/s]"), [Rate::Fixed(10.0), Rate::Fixed(20.0)]);
    assert_eq!(rates("rate: 10/s for 1s"), [Rate::Stages(vec![stage(10.0, 10.0, 1)])]);
}

#[test]
fn stages_set_the_duration() {
    let plan = good(&entry(
        "loop: open, connections: 8, rate: [[5/s for 1s, 9/s for 2s], 50/s], requests: 9, duration: 3s",
    ));
    assert_eq!(plan.load.iter().map(|point| point.duration.as_secs()).collect::<Vec<_>>(), [3, 3]);
    let plan = good(&entry("loop: open, connections: 8, rate: [ramp to 9/s over 7s], requests: 5"));
    assert_eq!(plan.load[0].duration, Duration::from_secs(7));
    // Stages are shown in plan syntax.
    insta::assert_snapshot!(plan.load[0].describe());
}

#[test]
fn keep_alive_and_http_can_be_swept() {
    let plan =
        good(&entry("loop: closed, connections: 2, keepalive: [on, off, 100, 7 requests], http: [1.1, 1.0]"));
    let shown: Vec<String> = plan.load.iter().map(LoadPoint::describe).collect();
    insta::assert_snapshot!(shown.join("\n"));
    assert_eq!((plan.load[3].requests_per_connection, plan.load[3].http), (Some(1), HttpVersion::Http10));
}

#[test]
fn retries_can_be_swept() {
    let plan = good(&entry("loop: closed, connections: 2, retry: [off, idle-close]"));
    let shown: Vec<String> = plan.load.iter().map(LoadPoint::describe).collect();
    insta::assert_snapshot!(shown.join("\n"));
    assert_eq!(plan.load.iter().map(|point| point.retry).collect::<Vec<_>>(), [Retry::Off, Retry::IdleClose]);
    assert_eq!(good(&entry("loop: closed, connections: 2")).load[0].retry, Retry::Off);
}

#[test]
fn retries_need_a_target_that_can_be_requested_twice() {
    let with = |targets: &str| {
        format!("target: [{targets}]\n{}", entry("loop: closed, connections: 2, retry: [off, idle-close]"))
    };
    let (post, patch) = ("{ path: /a, method: POST }", "{ path: /b, method: PATCH }");
    for targets in ["{ method: PUT }", &format!("{post}, {{ method: DELETE }}")] {
        assert_eq!(good(&with(targets)).load.len(), 2, "{targets}");
    }
    insta::assert_snapshot!(mistake(&with(&format!("{post}, {patch}"))));
}

#[test]
fn mistakes() {
    let told = refusals(
        &[
            "loop: open, connections: 1, rate: [100/s, ramp to 5/s over 1s]",
            "loop: open, connections: 1, rate: [[]]",
            "loop: open, connections: 1, rate: [[5/s]]",
            "loop: open, connections: 1, rate: [5/s fro 1s]",
            "loop: open, connections: 1, rate: [0/s for 1s]",
            "loop: open, connections: 1, rate: [5/s for 0s]",
            "loop: open, connections: 1, rate: [5/s for 2s], duration: 3s",
            "loop: open, connections: 1, rate: [0.1/s for 2s]",
            "loop: open, connections: 1, rate: [9/s for 1s, ramp to 99999999/s over 1s]",
            "loop: open, connections: 1, rate: 1/h, duration: 2h",
            "loop: closed, connections: 1, rate: [5/s for 1s]",
            "loop: closed, connections: 1, keepalive: true",
            "loop: closed, connections: 1, keepalive: 0",
            "loop: closed, connections: 1, keepalive: often",
            "loop: closed, connections: 1, retry: on",
            "loop: closed, connections: 1, http: 3",
            "loop: closed, connections: 1, keepalive: [off, 1]",
        ],
        |load| mistake(&entry(load)),
    );
    insta::assert_snapshot!(told);
}

#[test]
fn connections_must_carry_the_mean_rate_of_stages() {
    let plan = |rate: &str| {
        format!(
            "upstream: {{ delay: 100ms }}\n{}",
            entry(&format!("loop: open, connections: 10, rate: {rate}"))
        )
    };
    // At first the rate is above the limit of 100/s, but its average is below the limit. Requests that have
    // to wait are sent later.
    good(&plan("[300/s for 1s, 10/s for 9s]"));
    let shown = parsed(&plan("[300/s for 9s, 10/s for 1s]"), &[]).expect_err("too much").to_string();
    insta::assert_snapshot!(shown);
}

#[test]
fn a_plan_with_features_has_a_steady_rate_for_times_and_a_closed_loop_for_cpu() {
    let load = |more: &str| good(&format!("gateways: [{{ name: nginx, features: each }}]\n{more}")).load;
    let point = |shape, connections, millis| LoadPoint {
        shape,
        ..LoadPoint::closed(connections, Duration::from_millis(millis))
    };
    let steady = || Shape::Open { rate: Rate::Fixed(1000.0), arrivals: Arrivals::Constant };
    assert_eq!(load(""), [point(steady(), 8, 300), point(Shape::Closed, 16, 300)]);
    // With a delay, twice as many connections as requests are in flight.
    let slow = "upstream: { delay: 20ms }\n";
    let connections: Vec<u32> = load(slow).iter().map(|point| point.connections).collect();
    assert_eq!(connections, [40, 40]);
    assert_eq!(
        load("load: [{ loop: closed, connections: 1, duration: 1s }]"),
        [point(Shape::Closed, 1, 1000)]
    );
    assert_eq!(load("start: {}").len(), 1);
    let refused = parsed("gateways: [{ name: nginx, label: n }]\n", &[]).expect_err("no load");
    insta::assert_snapshot!(refused);
}
