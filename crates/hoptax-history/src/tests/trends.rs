//! Tests of trends.

use super::*;
use crate::{Bound, TrendQuery};
use hoptax_analysis::fixture::starts::{Cold, started};
use hoptax_analysis::fixture::{searched_point, via};
use hoptax_plan::Metric;
use hoptax_record::RunHost;

const LOAD: &str = "closed loop, 32 connections";

fn query(gateway: &str, metric: Metric) -> TrendQuery {
    TrendQuery { name: "made-up".into(), gateway: gateway.into(), load: LOAD.into(), metric }
}

/// Three runs of one plan, and one run of another plan.
fn root() -> Root {
    let root = Root::new();
    for (day, us) in [(1u64, 150), (2, 160), (3, 190)] {
        let mut run = steady(us);
        run.record.started_unix_ns = (1_767_000_000 + day * 86_400) * 1_000_000_000;
        run.record.hoptax = if day < 2 { "0.1.0" } else { "0.2.0" }.into();
        run.record.contenders[1].version = Some(if day < 3 { "1.22.1" } else { "1.26.0" }.into());
        run.record.plan.seed = Some(day);
        root.put(&format!("2026010{day}T000000Z-made-up"), &run);
    }
    let mut other = Run::steady(3, 100, &[("nginx", 500)]);
    other.record.plan.name = "another".into();
    root.put("20260109T000000Z-other", &other);
    root
}

#[test]
fn a_trend_has_one_point_per_run_with_its_interval_and_what_changed() {
    let root = root();
    let store = root.analysed();
    let trend = store.trend(&query("nginx", Metric::AddedP50)).expect("asked");
    assert_eq!(trend.unit, "us");
    let estimates: Vec<f64> = trend.points.iter().map(|point| point.estimate.round()).collect();
    assert_eq!(estimates, [50.0, 60.0, 90.0]);
    assert!(trend.points.iter().all(|point| point.interval.is_some_and(|(low, high)| low <= high)));
    let changed: Vec<Vec<&str>> =
        trend.points.iter().map(|point| point.changed.iter().map(String::as_str).collect()).collect();
    assert_eq!(changed, [vec![], vec!["hoptax 0.1.0 → 0.2.0"], vec!["nginx 1.22.1 → 1.26.0"]]);
    assert_eq!(trend.points[2].version.as_deref(), Some("1.26.0"));
    let direct = store.trend(&query("direct", Metric::P50)).expect("asked");
    assert_eq!(direct.points.len(), 3);
    assert_eq!(direct.points[1].version.as_deref(), Some("0.2.0"));
    assert!(store.trend(&query("nothing", Metric::P50)).expect("asked").points.is_empty());
    assert!(store.trend(&query("direct", Metric::AddedP50)).expect("asked").points.is_empty());
}

#[test]
fn figures_are_those_of_the_report() {
    let root = root();
    let store = root.analysed();
    let run = hoptax_record::dir::Run::read(&root.path().join("20260102T000000Z-made-up")).expect("read");
    let analysis = hoptax_analysis::analyse(&run.record, &run.trials, &run.starts, &run.tails);
    let case = analysis.case("nginx", 0).expect("measured");
    let times = case.response_time.as_ref().expect("measured");
    let tax = case.tax.as_ref().expect("measured");
    for (metric, expected) in [
        (Metric::P50, times.p50.expect("measured")),
        (Metric::P99, times.p99.expect("measured")),
        (Metric::AddedP99, tax.added_p99.as_ref().expect("measured").estimate),
        (Metric::Throughput, case.throughput.as_ref().expect("measured").estimate),
    ] {
        let point = &store.trend(&query("nginx", metric)).expect("asked").points[1];
        let (low, high) = point.interval.expect("an interval");
        let near = |one: f64, other: f64| (one - other).abs() <= 1e-12 * other.abs();
        let (expected_low, expected_high) = expected.interval().expect("rounds");
        // Numbers in the index are text, and the last digit can be lost.
        assert!(
            near(point.estimate, expected.estimate) && near(low, expected_low) && near(high, expected_high),
            "{metric:?}: {point:?} {expected:?}"
        );
    }
}

#[test]
fn choices_name_what_was_measured() {
    let root = root();
    let mut store = root.store();
    assert!(store.trend_choices().expect("asked").is_empty(), "nothing was analysed yet");
    analyse_all(&mut store);
    let choices = store.trend_choices().expect("asked");
    let told: Vec<(&str, &str, u32)> =
        choices.iter().map(|choice| (&*choice.name, &*choice.gateway, choice.runs)).collect();
    assert_eq!(told[..2], [("another", "direct", 1), ("another", "nginx", 1)]);
    assert_eq!(told[2..], [("made-up", "direct", 3), ("made-up", "nginx", 3)]);
    assert!(choices[2].metrics.contains(&Metric::P50) && !choices[2].metrics.contains(&Metric::AddedP50));
    let of_nginx = [Metric::AddedP50, Metric::MemoryRssBytes];
    assert!(of_nginx.iter().all(|metric| choices[3].metrics.contains(metric)));
    assert_eq!(choices[3].load, LOAD);
}

#[test]
fn every_relevant_change_is_reported() {
    let root = Root::new();
    type Change = (&'static str, fn(&mut Run));
    let changes: [Change; 6] = [
        ("kernel Linux 6.1 → unknown", |run| run.record.environment.kernel = String::new()),
        ("host one → two", |run| {
            run.record.environment.host = "two".into();
            run.record.environment.cpu = "another".into();
        }),
        ("kernel of edge Linux 6.1 → Linux 6.2", |run| {
            run.record.hosts.get_mut("edge").expect("there").environment.kernel = "Linux 6.2".into();
        }),
        ("plan", |run| run.record.plan.targets[0].path = "/other".into()),
        ("nginx configuration", |run| {
            run.record.contenders[1].rendered.insert("nginx.conf".into(), "other".into());
        }),
        ("nginx 1.2.3 → unknown", |run| run.record.contenders[1].version = None),
    ];
    for (expected, change) in changes {
        for (day, changed) in [(1u64, false), (2, true)] {
            let mut run = steady(150);
            run.record.started_unix_ns = day * 86_400_000_000_000;
            run.record.environment.host = "one".into();
            run.record.environment.kernel = "Linux 6.1".into();
            let mut edge = RunHost::default();
            edge.environment.kernel = "Linux 6.1".into();
            run.record.hosts.insert("edge".into(), edge);
            if changed {
                change(&mut run);
            }
            root.put(&format!("2026010{day}T000000Z-made-up"), &run);
        }
        let store = root.analysed();
        let trend = store.trend(&query("nginx", Metric::P50)).expect("asked");
        assert_eq!(trend.points[1].changed, [expected]);
    }
}

#[test]
fn runs_of_starts_are_listed_and_have_trends() {
    let root = Root::new();
    for (day, ready_ms) in [(1u64, 310.0), (2, 210.0)] {
        let cold = Cold { ready_ms, ..Cold::managed() };
        let mut run = started(6, &[("nginx", Cold::native()), ("yarp", cold)]);
        run.record.plan.name = "cold".into();
        run.record.started_unix_ns = (1_767_000_000 + day * 86_400) * 1_000_000_000;
        run.record.trials_planned = 0;
        root.put(&format!("2026010{day}T000000Z-cold"), &run);
    }
    let store = root.analysed();
    let listed = all(&store);
    assert_eq!((listed[0].trials, listed[0].starts, listed[0].state), (36, true, State::Whole));
    assert!(listed[0].answer.as_ref().is_some_and(|answer| answer.starts_with("nginx ")));
    let load = listed[0].loads[0].clone();
    let query =
        |metric| TrendQuery { name: "cold".into(), gateway: "yarp".into(), load: load.clone(), metric };
    let points = store.trend(&query(Metric::Ready)).expect("asked").points;
    let ready: Vec<f64> = points.iter().map(|point| (point.estimate / 1e4).round() * 10.0).collect();
    assert_eq!(ready, [310.0, 210.0]);
    assert!(store.trend(&query(Metric::P50)).expect("asked").points.is_empty());
    let latest = store.latest().expect("asked");
    let yarp = latest.iter().find(|one| one.gateway == "yarp").expect("measured");
    let has_interval = |metric: &Metric| yarp.figure(*metric).is_some_and(|(_, interval)| interval.is_some());
    assert!(Metric::STARTS.iter().all(has_interval), "{yarp:?}");
}

/// A run with a search. The capacity of direct is 8,000/s, and the capacity of nginx is `nginx`.
fn searched(day: u64, nginx: f64) -> Run {
    let mut run = Run::with_load(vec![searched_point()]);
    run.contender("nginx", None);
    for (who, capacity) in [("direct", 8000.0), ("nginx", nginx)] {
        let parts = [0.5, 0.8, 0.97, 1.03, 1.2, 2.0, 0.95, 1.05, 0.97, 1.03];
        for (number, part) in (0..).zip(parts) {
            let us = if part < 1.0 { 1000 } else { 80_000 };
            run.push(via(who, number).all_at_us(us).step(part * capacity));
        }
    }
    run.record.plan.name = "sizes".into();
    run.record.started_unix_ns = (1_767_000_000 + day * 86_400) * 1_000_000_000;
    run
}

#[test]
fn capacities_have_trends_even_if_only_a_bound_is_known() {
    let root = Root::new();
    for (day, capacity) in [(1, 3000.0), (2, 8000.0)] {
        root.put(&format!("2026010{day}T000000Z-sizes"), &searched(day, capacity));
    }
    let store = root.analysed();
    let choices = store.trend_choices().expect("asked");
    let case = choices.iter().find(|one| one.gateway == "nginx").expect("measured");
    assert!(
        case.load.starts_with("search, 500/s to 20,000/s") && case.load.contains(", capacity at p99 < 10ms"),
        "{}",
        case.load
    );
    let points = |metric| {
        let query =
            TrendQuery { name: "sizes".into(), gateway: "nginx".into(), load: case.load.clone(), metric };
        store.trend(&query).expect("asked").points
    };
    let rates = points(Metric::Throughput);
    let bounds: Vec<Option<Bound>> = rates.iter().map(|point| point.bound).collect();
    assert_eq!(bounds, [None, Some(Bound::AtLeast)], "nginx is as fast as direct in the second run");
    assert!((rates[0].estimate / 3000.0 - 1.0).abs() < 0.1, "{rates:?}");
    assert!((rates[1].estimate / 8000.0 - 1.0).abs() < 0.1, "{rates:?}");
    assert_eq!(points(Metric::ThroughputRatio).len(), 1, "a bound has no ratio to direct");
    let latest = store.latest().expect("asked");
    let nginx = latest.iter().find(|one| one.gateway == "nginx").expect("measured");
    assert_eq!(nginx.figure(Metric::Throughput), None, "monitoring gets no bounds");
}

#[test]
fn a_gateway_that_does_not_settle_has_a_bound() {
    let root = Root::new();
    let cold = Cold { settled_s: None, ..Cold::managed() };
    let mut run = started(6, &[("yarp", cold)]);
    run.record.plan.name = "cold".into();
    run.record.trials_planned = 0;
    root.put("20260101T000000Z-cold", &run);
    let store = root.analysed();
    let load = all(&store)[0].loads[0].clone();
    let query = TrendQuery { name: "cold".into(), gateway: "yarp".into(), load, metric: Metric::Settled };
    let points = store.trend(&query).expect("asked").points;
    assert_eq!((points[0].bound, points[0].interval), (Some(Bound::AtLeast), None));
    // The load lasts 10 s.
    assert!((points[0].estimate / 1e7 - 1.0).abs() < 0.1, "{points:?}");
}
