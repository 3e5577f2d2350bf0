//! Tests of trends.

use super::*;
use crate::TrendQuery;
use hoptax_analysis::fixture::starts::{Cold, started};
use hoptax_plan::Metric;

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
    let mut store = root.store();
    analyse_all(&mut store);
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
    let mut store = root.store();
    analyse_all(&mut store);
    let run = hoptax_plan::recorded::read(&root.path().join("20260102T000000Z-made-up")).expect("read");
    let analysis = hoptax_analysis::analyse(&run.record, &run.trials, &run.starts);
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
        assert_eq!((point.estimate, point.interval), (expected.estimate, expected.interval()), "{metric:?}");
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
    assert_eq!(
        told,
        [
            ("another", "direct", 1),
            ("another", "nginx", 1),
            ("made-up", "direct", 3),
            ("made-up", "nginx", 3)
        ]
    );
    assert!(choices[2].metrics.contains(&Metric::P50) && !choices[2].metrics.contains(&Metric::AddedP50));
    assert!(
        choices[3].metrics.contains(&Metric::AddedP50)
            && choices[3].metrics.contains(&Metric::MemoryRssBytes)
    );
    assert_eq!(choices[3].load, LOAD);
}

#[test]
fn every_relevant_change_is_reported() {
    let root = Root::new();
    type Change = (&'static str, fn(&mut Run));
    let changes: [Change; 5] = [
        ("kernel Linux 6.1 → unknown", |run| run.record.environment.kernel = String::new()),
        ("host one → two", |run| {
            run.record.environment.host = "two".into();
            run.record.environment.cpu = "another".into();
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
            if changed {
                change(&mut run);
            }
            root.put(&format!("2026010{day}T000000Z-made-up"), &run);
        }
        let mut store = root.store();
        analyse_all(&mut store);
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
    let mut store = root.store();
    analyse_all(&mut store);
    let listed = all(&store);
    assert_eq!((listed[0].trials, listed[0].state), (36, State::Whole));
    assert!(listed[0].answer.as_ref().is_some_and(|answer| answer.starts_with("nginx is ready first: ")));
    let load = listed[0].loads[0].clone();
    let query =
        |metric| TrendQuery { name: "cold".into(), gateway: "yarp".into(), load: load.clone(), metric };
    let ready: Vec<f64> = store
        .trend(&query(Metric::Ready))
        .expect("asked")
        .points
        .iter()
        .map(|point| (point.estimate / 1e4).round() * 10.0)
        .collect();
    assert_eq!(ready, [310.0, 210.0]);
    assert!(store.trend(&query(Metric::P50)).expect("asked").points.is_empty());
    let latest = store.latest().expect("asked");
    let yarp = latest.iter().find(|one| one.gateway == "yarp").expect("measured");
    let has_interval = |metric: &Metric| yarp.figure(*metric).is_some_and(|(_, interval)| interval.is_some());
    assert!(Metric::STARTS.iter().all(has_interval), "{yarp:?}");
}
