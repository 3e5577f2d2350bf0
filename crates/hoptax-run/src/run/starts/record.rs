//! Records of starts. All functions are pure.

use super::super::traffic::{FirstLoaded, Loaded};
use super::super::trial::nothing_answered;
use super::order::Turn;
use hoptax_format::clock;
use hoptax_format::record::{LoadRecord, Window};
use hoptax_record::start::{StartKind, StartLoad, StartRecord, StartTraffic, StartWindow};
use hoptax_record::{Failure, Role, RoleUsage, Stage};

fn blank(turn: Turn, label: &str, kind: StartKind, began_ns: u64) -> StartRecord {
    let (round, contender, traffic) = (turn.round, label.to_owned(), turn.traffic);
    StartRecord { round, contender, kind, traffic, began_ns, ..StartRecord::default() }
}

/// The record of a start that failed before its first request.
pub(super) fn failed(turn: Turn, label: &str, kind: StartKind, failure: Failure) -> StartRecord {
    StartRecord { failed: Some(failure), ..blank(turn, label, kind, clock::now()) }
}

/// The record of a start, from its first requests.
pub(super) fn of_first(
    turn: Turn,
    label: &str,
    kind: StartKind,
    began_ns: u64,
    first: &FirstLoaded,
) -> StartRecord {
    let answers = &first.answers;
    let since = |moment: Option<u64>| moment.map(|moment| moment.saturating_sub(began_ns));
    StartRecord {
        listening_ns: since(answers.listening_ns),
        ready_ns: since(answers.ready_ns),
        wrong_answers: answers.wrong_answers,
        response_times_ns: match turn.traffic {
            StartTraffic::OneByOne => answers.response_times_ns.clone(),
            StartTraffic::Load => Vec::new(),
        },
        failed: answers.failed.as_ref().map(|why| Failure::new(Stage::Start, format!("{label}: {why}"))),
        ..blank(turn, label, kind, began_ns)
    }
}

/// Adds the results of the load to the record of a start.
pub(super) fn add_load(start: &mut StartRecord, loaded: Loaded) {
    start.host = loaded.usage.host;
    let passes = |role: &Role| *role != Role::Gateway || start.kind != StartKind::Direct;
    let others = loaded.usage.hosts.into_iter().filter(|(_, host)| host.roles.iter().any(passes));
    start.hosts = others.filter_map(|(name, host)| Some((name, host.usage?))).collect();
    let Some(record) = loaded.record else {
        start.failed = loaded.failed;
        return;
    };
    start.failed = loaded.failed.or_else(|| nothing_answered(&record));
    start.load = Some(of_load(&record, start.began_ns, loaded.usage.gateway));
}

fn of_load(record: &LoadRecord, began_ns: u64, usage: Option<RoleUsage>) -> StartLoad {
    let counts = &record.counts;
    StartLoad {
        after_ns: record.started_ns.saturating_sub(began_ns),
        measured_ns: record.measured_ns,
        scheduled: counts.scheduled,
        ok: counts.ok,
        timeouts: counts.timeouts,
        errors: counts
            .scheduled
            .saturating_sub(counts.ok + counts.timeouts + counts.in_flight + counts.unsent),
        unanswered: counts.in_flight + counts.unsent,
        windows: record.windows.iter().map(of_window).collect(),
        usage,
    }
}

fn of_window(window: &Window) -> StartWindow {
    // A histogram of this version can always be decoded.
    let times = window.response_time.as_ref().and_then(|times| times.decode().ok());
    let times = times.filter(|_| window.completed > 0);
    StartWindow {
        completed: window.completed,
        failed: window.timeouts + window.errors + window.completed.saturating_sub(window.ok),
        p50_ns: times.as_ref().map_or(0, |times| times.value_at_quantile(0.5)),
        mean_ns: times.as_ref().map_or(0, |times| times.mean() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::histogram::{self, Encoded, WINDOW_DIGITS};

    #[test]
    fn windows_count_answers_and_failures() {
        let mut times = histogram::empty(WINDOW_DIGITS);
        for time in [1_000, 1_000, 4_000] {
            times.record(time).expect("in range");
        }
        let window = Window {
            sent: 4,
            completed: 3,
            ok: 2,
            timeouts: 1,
            errors: 5,
            response_time: Some(Encoded::new(&times)),
            ..Window::default()
        };
        let kept = of_window(&window);
        assert_eq!((kept.completed, kept.failed), (3, 7));
        let near = |value: u64, expected: u64| value.abs_diff(expected) <= expected / 40;
        assert!(near(kept.p50_ns, 1_000) && near(kept.mean_ns, 2_000), "{kept:?}");
        let none = StartWindow { completed: 0, failed: 0, p50_ns: 0, mean_ns: 0 };
        assert_eq!(of_window(&Window::default()), none);
    }

    #[test]
    fn requests_without_a_right_answer_are_timeouts_errors_or_unanswered() {
        let mut record = hoptax_analysis::fixture::via("nginx", 0).0.load_record.expect("measured");
        record.started_ns = 5_000;
        (record.counts.scheduled, record.counts.ok, record.counts.timeouts) = (100, 90, 4);
        (record.counts.in_flight, record.counts.unsent) = (1, 2);
        let load = of_load(&record, 2_000, None);
        assert_eq!(
            (load.after_ns, load.ok, load.timeouts, load.errors, load.unanswered),
            (3_000, 90, 4, 3, 3)
        );
        assert_eq!(load.windows.len(), record.windows.len());
    }
}
