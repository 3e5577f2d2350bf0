use super::*;
use hoptax_format::histogram::Encoded;
use hoptax_format::record::PhaseLine;
use hoptax_format::spec::{Arrivals, Stage, TargetSpec};

const S: u64 = 1_000_000_000;
const START: u64 = 1_000 * S;

/// A load spec with 10 connections and this many workers.
pub(in super::super::super) fn spec(
    shape: Shape,
    workers: u32,
    seconds: u64,
    requests: Option<u64>,
) -> LoadSpec {
    let targets = vec![TargetSpec::only("GET", "/", Vec::new(), Vec::new())];
    let duration_ns = seconds * S;
    LoadSpec {
        shape,
        connections: 10,
        duration_ns,
        requests,
        workers,
        ..LoadSpec::closed(Vec::new(), targets)
    }
}

pub(in super::super) fn open(rate: Rate) -> Shape {
    Shape::Open { rate, arrivals: Arrivals::Constant }
}

pub(in super::super) fn phase(phase: Phase, at_ns: u64) -> Progress {
    Progress::Phase(PhaseLine { phase, at_ns })
}

/// A window with these response times (µs). `failed` contains a cause of failures, and the number of requests
/// that failed for this cause.
pub(in super::super) fn window(index: u64, times: &[u64], failed: Option<(Cause, u64)>) -> Progress {
    let mut histogram = empty(WINDOW_DIGITS);
    times.iter().for_each(|time| histogram.record(time * 1000).expect("in range"));
    let completed = times.len() as u64;
    let window = Window {
        sent: completed,
        completed,
        ok: completed,
        errors: failed.map_or(0, |(_, count)| count),
        causes: failed.into_iter().collect(),
        response_time: (completed > 0).then(|| Encoded::new(&histogram)),
        ..Window::default()
    };
    Progress::Window { index, window }
}

#[test]
fn a_window_counts_when_all_workers_have_reported_it() {
    let mut model = Model::new("u", &spec(Shape::Closed, 2, 10, None));
    model.update(phase(Phase::Measuring, START));
    model.update(window(0, &[100; 30], None));
    assert_eq!(model.throughput(), 0.0, "the other worker has not reported yet");
    model.update(window(0, &[200; 10], Some((Cause::ConnectRefused, 3))));
    model.update(window(1, &[100; 30], None));
    assert_eq!(model.throughput(), 400.0, "40 requests in 100 ms");
    let totals = model.totals();
    assert_eq!((totals.completed, totals.errors, totals.bad()), (70, 3, 3));
    assert_eq!(totals.causes[&Cause::ConnectRefused], 3);
    assert_eq!(model.overall().len(), 70);
}

#[test]
fn now_is_the_last_second() {
    let mut model = Model::new("u", &spec(Shape::Closed, 1, 60, None));
    model.update(phase(Phase::Measuring, START));
    assert_eq!((model.times_now(), model.throughput_now()), (None, 0.0));
    for index in 0..20 {
        let slow = if index < 10 { [9_000; 10] } else { [100; 10] };
        model.update(window(index, &slow, None));
    }
    let (now, overall) = (model.times_now().expect("some"), model.times_overall().expect("some"));
    assert!(now.max < 110_000, "{now:?}");
    assert!(overall.max >= 9_000_000 && overall.p50 < 110_000, "{overall:?}");
    assert_eq!((model.throughput_now(), model.throughput()), (100.0, 100.0));
    // After a second without responses, older windows must not be shown.
    (20..30).for_each(|index| model.update(window(index, &[], None)));
    assert_eq!(model.throughput_now(), 0.0);
    model.update(window(30, &[50], None));
    assert_eq!(model.times_now().expect("some").p50 / 1000, 50);
}

#[test]
fn history_fits_the_columns() {
    let mut model = Model::new("u", &spec(open(Rate::Fixed(200.0)), 1, 60, None));
    model.update(phase(Phase::Measuring, START));
    for index in 0..25 {
        model.update(window(index, if index % 2 == 0 { &[10; 10] } else { &[10; 30] }, None));
    }
    for columns in [1, 7, 24, 25, 100] {
        let (history, due) = model.history(columns);
        assert!(history.len() <= columns && !history.is_empty(), "{columns}: {history:?}");
        assert_eq!(due.expect("an open loop").len(), history.len());
        assert!(history.iter().all(|value| (100.0..=300.0).contains(value)), "{history:?}");
    }
    assert_eq!(model.history(25).0[..2], [100.0, 300.0]);
    assert_eq!(model.history(0).0, Vec::<f64>::new());
}

#[test]
fn progress_ends_by_time_or_by_count() {
    let mut timed = Model::new("u", &spec(Shape::Closed, 1, 10, None));
    assert_eq!(timed.progress(START).phase, None);
    timed.update(phase(Phase::Connecting, START - 2 * S));
    let connecting = timed.progress(START - S);
    assert_eq!((connecting.elapsed, connecting.share), (S, None));
    timed.update(phase(Phase::Measuring, START));
    let progress = timed.progress(START + 4 * S);
    assert_eq!((progress.left, progress.share), (Some(6 * S), Some(0.4)));
    assert_eq!(timed.progress(START + 11 * S).share, Some(1.0));
    timed.update(phase(Phase::Draining, START + 10 * S));
    assert_eq!(timed.progress(START + 11 * S).share, None);

    let mut counted = Model::new("u", &spec(Shape::Closed, 1, 365 * 24 * 3600, Some(100)));
    counted.update(phase(Phase::Measuring, START));
    assert_eq!(
        counted.progress(START),
        LoadProgress { phase: Some(Phase::Measuring), elapsed: 0, left: None, share: Some(0.0) }
    );
    counted.update(window(0, &[10; 25], None));
    let progress = counted.progress(START + S / 10);
    assert_eq!((progress.left, progress.share), (Some(3 * S / 10), Some(0.25)));

    let mut both = Model::new("u", &spec(Shape::Closed, 1, 1, Some(1_000_000)));
    both.update(phase(Phase::Measuring, START));
    both.update(window(0, &[10; 25], None));
    assert_eq!(both.progress(START + S / 2).share, Some(0.5));
}

#[test]
fn rates_follow_their_stages() {
    let stages = Rate::Stages(vec![
        Stage { from: 0.0, to: 100.0, for_ns: 10 * S },
        Stage { from: 50.0, to: 50.0, for_ns: 5 * S },
    ]);
    for (at, expected) in [(0, 0.0), (5 * S, 50.0), (10 * S, 50.0), (14 * S, 50.0), (99 * S, 50.0)] {
        assert_eq!(stages.at(at), expected, "{at}");
    }
    let mut model = Model::new("u", &spec(open(stages), 1, 15, None));
    model.update(phase(Phase::Measuring, START));
    assert_eq!(model.rate(START + S), Some(10.0));
    assert_eq!(Model::new("u", &spec(Shape::Closed, 1, 15, None)).rate(START), None);
}
