//! Texts about a run in progress, for the screen and for plain lines.

use crate::cli::load::figures::{short, time};
use hoptax_format::histogram::Encoded;
use hoptax_history::live::{Finding, State, Trial, TrialPhase};
use hoptax_record::profile::{PassKind, PassRecord};
use hoptax_record::start::{StartKind, StartRecord};
use hoptax_record::{Failure, TrialRecord};

/// `75 s`, `12 min`, `2 h 5 min`.
pub(super) fn span(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    let minutes = (seconds + 30) / 60;
    match seconds {
        0..90 => format!("{seconds} s"),
        90..5_400 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// `75 s left`, or `at least 75 s left` if more rounds or search steps may follow.
pub(super) fn left(state: &State) -> String {
    time_left(state.left_s, state.open_ended)
}

fn time_left(left_s: f64, open_ended: bool) -> String {
    match open_ended {
        true if left_s < 0.5 => "longer than estimated".to_owned(),
        true => format!("at least {} left", span(left_s)),
        false => format!("{} left", span(left_s)),
    }
}

/// `12/42`, or `12` if the total number is not known.
pub(super) fn number(state: &State, number: u32) -> String {
    if state.open_ended { number.to_string() } else { format!("{number}/{}", state.trials_planned) }
}

/// Microseconds in a readable unit, or `-`.
pub(super) fn microseconds(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |us| time(us * 1e3))
}

/// The time that a gateway added, with its sign.
pub(super) fn added(value: Option<f64>) -> String {
    match value {
        None => String::new(),
        Some(us) if us < 0.0 => format!("-{}", time(-us * 1e3)),
        Some(us) => format!("+{}", time(us * 1e3)),
    }
}

/// Half of the width of an interval: `±6.1 µs`. Empty if there is no interval.
pub(super) fn half_width(value: Option<f64>) -> String {
    value.map_or_else(String::new, |us| format!("±{}", time(us * 1e3)))
}

pub(super) fn phase(trial: &Trial) -> String {
    match trial.phase {
        TrialPhase::Starting => "starting".to_owned(),
        TrialPhase::Connecting => "connecting".to_owned(),
        TrialPhase::Warmup => "warming up".to_owned(),
        TrialPhase::Measuring if trial.by_round => "measuring".to_owned(),
        TrialPhase::Measuring => format!("measuring {:.0} of {} s", trial.elapsed_s, trial.duration_s),
        TrialPhase::Draining => "draining".to_owned(),
    }
}

/// What the percentiles of a trial are about: empty for responses, otherwise ages or messages of streams.
fn of_messages(record: &TrialRecord) -> &'static str {
    let messages = record.load_record.as_ref().and_then(|load| load.messages.as_ref());
    messages.map_or("", |messages| {
        let times = &messages.histograms;
        let named = [(&times.response_time, "messages: "), (&times.age, "age: ")];
        let is_known = |times: &Encoded| times.decode().is_ok_and(|times| !times.is_empty());
        named.iter().find(|(times, _)| is_known(times)).map_or("", |(_, name)| name)
    })
}

/// One line for a trial that has ended. `figures` contains its rate (requests/s). If there were responses, it
/// also contains p50 and p99 (µs).
pub(super) fn trial_line(
    state: &State,
    record: &TrialRecord,
    figures: Option<(f64, Option<[f64; 2]>)>,
) -> String {
    let trial = number(state, state.trials_done);
    let round = match record.step {
        Some(_) => String::new(),
        None => format!(" round {} ·", state.round),
    };
    let load = state.trial.as_ref().map(|trial| trial.load.as_str()).unwrap_or_default();
    let outcome = match figures {
        None => "failed".to_owned(),
        Some((rate, None)) => format!("{}/s", short(rate)),
        Some((rate, Some([p50, p99]))) => {
            let [p50, p99] = [p50, p99].map(|us| microseconds(Some(us)));
            format!("{}/s · {}p50 {p50} · p99 {p99}", short(rate), of_messages(record))
        }
    };
    format!("[{trial}]{round} {} · {load} · {outcome} · {}", record.contender, left(state))
}

/// One line for a start that has ended: when the gateway was ready, and the result of the traffic after it.
pub(super) fn start_line(state: &State, record: &StartRecord) -> String {
    let number = number(state, state.trials_done);
    let what = match record.kind {
        StartKind::Direct => "direct".to_owned(),
        StartKind::Start => format!("{} start", record.contender),
        StartKind::Reload => format!("{} reload", record.contender),
    };
    let mut parts = Vec::new();
    if record.failed.is_some() {
        parts.push("failed".to_owned());
    } else {
        let ready = record.ready_ns.filter(|_| record.kind != StartKind::Direct);
        parts.extend(ready.map(|ready| format!("ready after {}", time(ready as f64))));
        if let Some(first) = record.response_times_ns.first() {
            parts.push(format!("first request {}", time(*first as f64)));
        }
        if let Some(load) = &record.load {
            parts.push(format!("load: {} of {} requests answered", load.ok, load.scheduled));
        }
    }
    format!("[{number}] round {} · {what} · {} · {}", record.round + 1, parts.join(" · "), left(state))
}

/// One line for a profiling pass that has ended.
pub(super) fn pass_line(pass: &PassRecord) -> String {
    let what = match pass.kind {
        PassKind::Cpu => "CPU",
        PassKind::Waiting => "waiting",
    };
    let (round, load) = (pass.round + 1, pass.load + 1);
    format!("profile round {round} · {} · load {load} · {what} · {} samples", pass.contender, pass.samples)
}

/// A failure, with the last output of the service.
pub(super) fn failure(label: &str, failure: &Failure) -> String {
    let mut text = format!("{label}: {}", failure.message);
    for line in failure.detail.lines() {
        text.push_str("\n    ");
        text.push_str(line);
    }
    text
}

pub(super) fn finding(finding: &Finding) -> String {
    let of = finding.case.as_ref().map(|case| format!("{case}: ")).unwrap_or_default();
    format!("{} {}: {of}{}", finding.severity.name(), finding.code, finding.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_spans_are_less_precise() {
        let texts = [-3.0, 0.4, 89.4, 89.6, 150.0, 5_399.0, 7_530.0].map(span);
        assert_eq!(texts, ["0 s", "0 s", "89 s", "2 min", "3 min", "90 min", "2 h 6 min"]);
    }

    #[test]
    fn added_time_has_a_sign() {
        assert_eq!([Some(12.34), Some(-1_500.0), None].map(added), ["+12.3 µs", "-1.50 ms", ""]);
        assert_eq!(microseconds(None), "-");
        assert_eq!([Some(6.1), Some(1_500.0), None].map(half_width), ["±6.1 µs", "±1.50 ms", ""]);
    }

    #[test]
    fn a_search_beyond_its_estimate_does_not_say_zero() {
        assert_eq!(time_left(0.0, true), "longer than estimated");
        assert_eq!([time_left(12.0, true), time_left(0.0, false)], ["at least 12 s left", "0 s left"]);
    }
}
