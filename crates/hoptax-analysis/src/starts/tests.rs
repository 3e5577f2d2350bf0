//! Tests of the figures of starts.

use super::*;
use crate::fixture::Run;
use crate::fixture::starts::{Cold, fail, sample, started};

fn of(run: &Run, label: &str, kind: StartKind) -> Starts {
    let all = run.analyse().starts;
    all.into_iter().find(|one| one.figures.contender == label && one.figures.kind == kind).expect("measured")
}

fn is_near(median: Option<StartMedian>, expected: f64) -> bool {
    let Some(StartMedian { estimate: Some(value), low: Some(low), high: Some(high), .. }) = median else {
        return false;
    };
    low <= value && value <= high && (value / expected - 1.0).abs() < 0.03
}

#[test]
fn figures_are_medians_over_starts_with_intervals() {
    let starts = of(&sample(), "yarp", StartKind::Start);
    let figures = &starts.figures;
    assert_eq!((figures.measured, figures.failed, &figures.failure), (40, 0, &None));
    assert!(is_near(figures.listening_ms, 279.0), "{figures:?}");
    assert!(is_near(figures.ready_ms, 310.0), "{figures:?}");
    assert!(is_near(figures.requests.first_us, 93e3), "{figures:?}");
    assert!(is_near(figures.requests.thousandth_us, 100.0), "{figures:?}");
    assert!(is_near(figures.ready_cpu_ms, 155.0), "{figures:?}");
    assert_eq!(figures.ready_cpu_ms.map(|one| one.starts), Some(20));
    let load = figures.load.as_ref().expect("measured");
    assert_eq!((load.starts, load.unsettled, load.scheduled), (20, 0, 200_000));
    assert!(is_near(load.settled_s, 4.31), "{load:?}");
    assert!(is_near(load.settled_requests, 4000.0), "{load:?}");
    // 4,000 requests were each 0.8 ms later.
    assert!(is_near(load.later_request_s, 3.2), "{load:?}");
    assert!(is_near(load.settled_p50_us, 100.0), "{load:?}");
    // 20 ms in each of 40 windows of 100 ms, after the 155 ms until it was ready.
    assert!(is_near(load.settled_cpu_ms, 955.0), "{load:?}");
    let rss = load.settled_rss_bytes.and_then(|one| one.estimate).expect("known") / f64::from(1 << 20);
    assert!((50.0..=53.0).contains(&rss), "{rss} MiB");
    assert!(is_near(starts.measured(Metric::Settled), 4.31e6), "µs");
}

#[test]
fn direct_and_reloads_have_the_figures_that_exist_for_them() {
    let run = sample();
    let direct = of(&run, "direct", StartKind::Direct).figures;
    assert_eq!((direct.listening_ms, direct.ready_ms, direct.ready_cpu_ms), (None, None, None));
    assert!(direct.requests.first_us.is_some() && direct.load.is_some());
    assert_eq!(direct.load.expect("measured").settled_cpu_ms, None);
    let reload = of(&run, "yarp", StartKind::Reload).figures;
    assert!(reload.listening_ms.is_none() && is_near(reload.ready_ms, 1.0), "{reload:?}");
    let names: Vec<String> = run.analyse().starts.iter().map(Starts::case).collect();
    assert_eq!(names, ["direct", "nginx, start", "yarp, start", "yarp, reload"]);
}

#[test]
fn starts_that_had_not_settled_are_only_bounds() {
    let cold = Cold { settled_s: None, ..Cold::managed() };
    let figures = of(&started(20, &[("ocelot", cold)]), "ocelot", StartKind::Start).figures;
    let load = figures.load.expect("measured");
    let settled = load.settled_s.expect("bounds");
    assert_eq!((load.unsettled, settled.estimate, settled.low, settled.high), (20, None, None, None));
    assert_eq!((settled.more_than, settled.starts), (Some(10.0), 20));
    let later = load.later_request_s.expect("bounds");
    assert!(later.estimate.is_none() && later.more_than.is_some_and(|bound| bound > 0.0), "{later:?}");
    // If six of twenty starts do not settle, the upper end of the interval is unknown, but the median is
    // known.
    let mut run = started(20, &[("yarp", Cold::managed())]);
    let slow = started(20, &[("yarp", cold)]);
    for (one, other) in run.starts.iter_mut().zip(&slow.starts).filter(|(one, _)| one.round < 6) {
        *one = other.clone();
    }
    let settled =
        of(&run, "yarp", StartKind::Start).figures.load.and_then(|load| load.settled_s).expect("known");
    assert!(settled.estimate.is_some() && settled.low.is_some(), "{settled:?}");
    assert_eq!((settled.high, settled.more_than), (None, Some(10.0)));
}

#[test]
fn few_starts_have_no_interval_and_failed_ones_are_counted_apart() {
    let figures = of(&started(5, &[("nginx", Cold::native())]), "nginx", StartKind::Start).figures;
    let ready = figures.ready_ms.expect("measured");
    assert!(ready.estimate.is_some() && !ready.has_interval(), "{ready:?}");
    assert_eq!((ready.low, ready.high, ready.more_than), (None, None, None));
    let mut run = started(6, &[("nginx", Cold::native())]);
    let first = run.starts.iter_mut().find(|start| start.contender == "nginx").expect("measured");
    fail(first, "nginx did not listen within 10 s");
    let figures = of(&run, "nginx", StartKind::Start).figures;
    assert_eq!((figures.measured, figures.failed), (11, 1));
    assert_eq!(figures.failure.as_deref(), Some("nginx did not listen within 10 s"));
    assert_eq!(figures.ready_ms.map(|one| one.starts), Some(5));
}

#[test]
fn the_curve_shows_when_it_becomes_fast() {
    let figures = of(&sample(), "yarp", StartKind::Start).figures;
    let curve = figures.load.expect("measured").curve;
    assert!(curve.windows(2).all(|pair| pair[0].since_start_s < pair[1].since_start_s));
    let at = |s: f64| {
        let distance = |point: &&hoptax_record::report::CurvePoint| (point.since_start_s / s).ln().abs();
        curve.iter().min_by(|a, b| distance(a).total_cmp(&distance(b))).expect("points").p50_us
    };
    assert!(curve[0].since_start_s > 0.3 && curve.len() < 40, "{curve:?}");
    assert_eq!((at(1.0), at(3.0), at(6.0)), (900.0, 900.0, 100.0));
}

#[test]
fn a_run_of_starts_has_no_cases() {
    let analysis = sample().analyse();
    assert!(analysis.cases.is_empty() && analysis.pairs.is_empty() && analysis.prices.is_empty());
    assert_eq!(Run::steady(2, 100, &[("nginx", 150)]).analyse().starts, []);
}
