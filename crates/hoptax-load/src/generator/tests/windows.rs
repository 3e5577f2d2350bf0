//! Windows that are reported during a trial. Each window must be reported once, in order and soon after its
//! end. The reports must not cause additional wake-ups.

use super::*;
use crate::clock;
use hoptax_format::record::{WINDOW_NS, Window};

/// Runs `spec`, and interrupts the load after window `last`. Returns the record, and each reported window
/// with the time of its report.
fn watched(spec: &LoadSpec, last: Option<u64>) -> (LoadRecord, Vec<(u64, Window, u64)>) {
    let interrupt = AtomicBool::new(false);
    let (mut reported, mut phases) = (Vec::new(), Vec::new());
    let record = run(spec, &interrupt, Watch::Windows, |progress| match progress {
        Progress::Phase(line) => phases.push(line.phase),
        Progress::Window { index, window } => {
            assert_eq!(phases.last(), Some(&Phase::Measuring), "of window {index}");
            reported.push((index, window, clock::now()));
            if last == Some(index) {
                interrupt.store(true, Ordering::Relaxed);
            }
        }
    });
    let record = record.expect("a load that can run");
    adds_up_in_windows(&record, spec.window_ns.unwrap_or(WINDOW_NS));
    assert_eq!(phases.last(), Some(&Phase::Draining));
    assert_eq!(record.interrupted, last.is_some());
    (record, reported)
}

fn completed_by_number(reported: &[(u64, Window, u64)]) -> Vec<u64> {
    let mut sums = Vec::new();
    for (index, window, _) in reported {
        let index = *index as usize;
        sums.resize(sums.len().max(index + 1), 0);
        sums[index] += window.completed;
    }
    sums
}

#[test]
fn a_worker_reports_what_it_records() {
    let server = Server::new(answer(OK, MODEST));
    for shape in [Shape::Closed, open(300.0, Arrivals::Poisson)] {
        let spec = LoadSpec { shape, warmup_ns: 30 * MILLISECOND, ..spec(&[server.address]) };
        let (record, reported) = watched(&LoadSpec { duration_ns: 350 * MILLISECOND, ..spec }, None);
        assert!(reported.iter().map(|(index, _, _)| *index).eq(0..4), "the last one is short");
        assert!(reported.iter().map(|(_, window, _)| window).eq(&record.windows));
    }
}

#[test]
fn windows_have_the_length_of_the_spec() {
    let server = Server::new(answer(OK, MODEST));
    let spec = LoadSpec { shape: open(500.0, Arrivals::Constant), ..spec(&[server.address]) };
    let spec =
        LoadSpec { duration_ns: 205 * MILLISECOND, window_ns: Some(10 * MILLISECOND), workers: 2, ..spec };
    let (record, reported) = watched(&spec, None);
    assert_eq!((record.windows.len(), reported.len()), (21, 42), "the last one is short");
    let recorded: Vec<u64> = record.windows.iter().map(|window| window.completed).collect();
    assert_eq!(completed_by_number(&reported), recorded);
    assert_eq!(recorded.iter().sum::<u64>(), record.completed_in_time);
}

#[test]
fn every_worker_reports_every_window() {
    let server = Server::new(answer(OK, MODEST));
    let (record, reported) = watched(&LoadSpec { workers: 3, ..spec(&[server.address]) }, None);
    assert_eq!(reported.len(), 9);
    for index in 0..3 {
        assert_eq!(reported.iter().filter(|(number, _, _)| *number == index).count(), 3);
    }
    let recorded: Vec<u64> = record.windows.iter().map(|window| window.completed).collect();
    assert_eq!(completed_by_number(&reported), recorded);
}

#[test]
fn a_trial_that_ends_early_reports_its_last_window() {
    let server = Server::new(answer(OK, Duration::from_millis(1)));
    let long = LoadSpec { duration_ns: 3_600_000 * MILLISECOND, ..spec(&[server.address]) };
    let (record, reported) = watched(&long, Some(1));
    assert!(reported.iter().map(|(_, window, _)| window).eq(&record.windows));
    assert!(reported.len() >= 3, "it went on until the interrupt was seen: {}", reported.len());

    let limited = LoadSpec { requests: Some(500), workers: 2, ..long };
    let (record, reported) = watched(&limited, None);
    let recorded: Vec<u64> = record.windows.iter().map(|window| window.completed).collect();
    assert_eq!(completed_by_number(&reported), recorded);
    assert_eq!(recorded.iter().sum::<u64>(), 500);
}

#[test]
fn windows_that_are_not_recorded_can_be_reported() {
    let server = Server::new(answer(OK, MODEST));
    let (record, reported) = watched(&LoadSpec { windows: false, ..spec(&[server.address]) }, None);
    assert!(record.windows.is_empty());
    assert!(reported.iter().map(|(index, _, _)| *index).eq(0..3));
    assert_eq!(completed_by_number(&reported).iter().sum::<u64>(), record.completed_in_time);
}

#[test]
fn windows_are_reported_soon_even_if_nothing_happens() {
    let server = Server::new(answer(OK, MODEST));
    let spec = LoadSpec { shape: open(2.0, Arrivals::Constant), workers: 2, ..spec(&[server.address]) };
    let spec = LoadSpec { duration_ns: 1000 * MILLISECOND, ..spec };
    retry_if_disturbed(|| {
        let (record, reported) = watched(&spec, None);
        let mut late: Vec<u64> = reported
            .iter()
            .map(|(index, _, at)| at - (record.started_ns + (index + 1) * WINDOW_NS))
            .collect();
        late.sort_unstable();
        assert_eq!(late.len(), 20);
        // The median is used, because a busy machine delays some of the reports.
        seen(late[10] <= 50 * MILLISECOND, || format!("{late:?}"))
    });
}

/// Number of times that the calling thread has been put to sleep.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("a thread has a status");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("Linux counts them").trim().parse().expect("a number")
}

#[test]
fn reporting_windows_causes_no_additional_wake_ups() {
    let server = Server::new(answer(OK, MODEST));
    let spec = LoadSpec { workers: 4, duration_ns: 1000 * MILLISECOND, ..spec(&[server.address]) };
    for watch in [Watch::Phases, Watch::Windows] {
        let (before, began) = (sleeps(), clock::now());
        run(&spec, &AtomicBool::new(false), watch, |_| {}).expect("a load");
        let (slept, took) = (sleeps() - before, clock::now() - began);
        // The starting thread may sleep once per 50 ms. In addition, it may sleep for starting, opening,
        // ending and joining each worker. If it also woke for each window, it would sleep forty more times.
        let allowed = took / LOOK + 4 * 4 + 4;
        assert!(slept <= allowed, "{watch:?}: {slept} times, {allowed} allowed");
    }
}
