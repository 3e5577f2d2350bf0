//! `rate-missed`: in an open loop fewer than 99 % of the due requests were completed in time.
//!
//! Throughput is compared with the number of requests that were due, not with the rate. With Poisson arrivals
//! the number of due requests scatters around the rate.

use super::{Finding, Rule, Severity, Subject, about, evidence, percent};
use crate::Trial;
use crate::thresholds::REACHED;
use crate::trials::counts::failures;
use hoptax_record::report::Load;
use hoptax_record::units::grouped;
use hoptax_stats::share;
use std::time::Duration;

const CODE: &str = "rate-missed";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "fewer than {} of the requests that were due in an open loop were completed in time. Failures \
             that the plan's events caused count as completed, and the streams of events and WebSockets that \
             their schedule ends too late",
            percent(REACHED)
        ),
        seen: "The response times are those of an overloaded system.",
        advice: "Lower the rate, or use more connections.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject
        .measured()
        .filter_map(|(case, trials)| {
            let rate = case.load.rate?;
            let due: u64 = trials.iter().map(|trial| trial.load.counts.scheduled).sum();
            let done: u64 = trials.iter().map(|trial| trial.load.completed_in_time).sum();
            let timeout = subject.timeout_ns();
            let broken: u64 = trials.iter().map(|trial| trial.failures_of_events(timeout)).sum();
            let seconds: f64 = trials.iter().map(Trial::seconds).sum();
            let achieved = share((done + broken) as f64, due as f64)?;
            if achieved >= REACHED - late(subject, &case.load, trials, due) {
                return None;
            }
            let unsent = case.counts.as_ref().map_or(0, |counts| counts.unsent);
            let failed = case.counts.as_ref().map_or(0, failures).saturating_sub(broken);
            let (consequence, advice) = match 2 * failed >= due.saturating_sub(done + broken) {
                // Requests that fail do not say that the system is overloaded.
                true => (
                    format!("{failed} requests failed."),
                    "Find the cause of the failures, which the finding `errors` lists.".to_owned(),
                ),
                false => words(&case.load, rate),
            };
            Some(Finding {
                evidence: evidence([
                    ("rate", rate.into()),
                    ("highest_rate", highest(&case.load, rate).into()),
                    ("throughput", (done as f64 / seconds).into()),
                    ("scheduled", due.into()),
                    ("completed_in_time", done.into()),
                    ("unsent", unsent.into()),
                    ("share", achieved.into()),
                ]),
                message: format!(
                    "{:.0} requests/s were due, and {:.0} requests/s were completed in time ({}). {unsent} \
                     requests were never sent. {consequence}",
                    due as f64 / seconds,
                    done as f64 / seconds,
                    percent(achieved)
                ),
                advice,
                ..about(CODE, Severity::Warning, &case.case)
            })
        })
        .collect()
}

/// Limits for the difference between two numbers of Poisson arrivals, in standard deviations.
const SCATTER: f64 = 3.0;

/// Share of the due streams of events and WebSockets that may end after the measured time because of their
/// schedule. 0 without such streams.
///
/// Streams that are due near its end end after it. Those of the warm-up end in their place, if the rate is
/// steady and the warm-up is not shorter than a stream. Their number differs by one in each trial, and
/// scatters with Poisson arrivals.
fn late(subject: &Subject<'_>, load: &Load, trials: &[Trial<'_>], due: u64) -> f64 {
    let length_ns = subject.longest_stream_ns();
    if length_ns == 0 {
        return 0.0;
    }
    let warmup = if load.is_steady() { subject.run.plan.warmup } else { Duration::ZERO };
    let warmup_ns = u64::try_from(warmup.as_nanos()).unwrap_or(u64::MAX);
    let measured_ns = trials.iter().map(|trial| trial.measured_ns).min().unwrap_or(0).max(1) as f64;
    let of_trial = |ns: u64| (ns as f64 / measured_ns).min(1.0);
    let due = due.max(1) as f64;
    let is_random = load.arrivals == Some("poisson");
    let scatter = if is_random { SCATTER * (2.0 * due * of_trial(length_ns)).sqrt() } else { 0.0 };
    of_trial(length_ns.saturating_sub(warmup_ns)) + (trials.len() as f64 + scatter) / due
}

/// Returns two texts. The first text says what the missed rate means for the figures. The second text says
/// what to do. With stages, the stage with the highest rate causes the overload, and its unfinished requests
/// also delay the later stages.
fn words(load: &Load, rate: f64) -> (String, String) {
    let highest = grouped(highest(load, rate));
    let (consequence, lower) = match load.is_steady() {
        true => (
            "Response times are those of an overloaded system, and grow with the length of the trial.".into(),
            "Lower the rate".into(),
        ),
        false => (
            format!(
                "The rate went up to {highest}/s, and requests that were unfinished at that rate were still \
                 waiting in later stages. Response times of all these stages are those of an overloaded \
                 system."
            ),
            format!(
                "Lower the highest rate ({highest}/s), follow it with a lower rate for long enough to catch \
                up"
            ),
        ),
    };
    let connections = match load.streams {
        1 => {
            "connections. A connection carries one request at a time, so the rate cannot exceed connections \
             ÷ response time."
        }
        _ => "connections or streams. The rate cannot exceed connections × streams ÷ response time.",
    };
    (consequence, format!("{lower}, or use more {connections}"))
}

fn highest(load: &Load, rate: f64) -> f64 {
    let ends = load.stages.iter().flatten().flat_map(|stage| [stage.from, stage.to]);
    ends.reduce(f64::max).unwrap_or(rate)
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::messages::{Carrier, ENDLESS};

    #[test]
    fn raised_below_99_per_cent_of_the_requests_that_were_due() {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
        run.push(via("nginx", 0).scheduled(1000).throughput(980));
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].evidence["share"], 0.98);
        // 950 requests are due at a rate of 1,000/s. A Poisson process can produce this number.
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
        run.push(via("nginx", 0).scheduled(950).throughput(945));
        assert_eq!(raised(&run, CODE), [], "few were due");
        let run = Run::closed(8).with([via("nginx", 0).scheduled(1000).throughput(500)]);
        assert_eq!(raised(&run, CODE), [], "a closed loop");
    }

    #[test]
    fn failures_are_no_overload() {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
        run.push(via("nginx", 0).scheduled(1000).throughput(600).errors(400));
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
    }

    #[test]
    fn of_stages_the_highest_rate_is_named() {
        let mut run = Run::with_load(vec![staged_point("100/s for 1s, ramp to 3000/s over 3s", 8)]);
        run.push(via("nginx", 0).scheduled(4750).throughput(900));
        let findings = raised(&run, CODE);
        assert_eq!(findings[0].evidence["highest_rate"], 3000.0);
        insta::assert_snapshot!(texts(&findings));
        let mut kept = Run::with_load(vec![staged_point("100/s for 1s, ramp to 3000/s over 3s", 8)]);
        kept.push(via("nginx", 0).scheduled(900).throughput(900));
        assert_eq!(raised(&kept, CODE), []);
    }

    #[test]
    fn streams_may_end_after_the_measured_time() {
        // Ten messages, 1 ms apart, take 9 ms of one second. Streams of 500 messages take half of it.
        let found = |warmup_s: u64, messages: u32, throughput: u64| {
            let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]).streams(Carrier::Events, messages);
            run.record.plan.warmup = Duration::from_secs(warmup_s);
            run.push(via("nginx", 0).scheduled(1000).throughput(throughput));
            raised(&run, CODE).len()
        };
        assert_eq!([found(0, 10, 985), found(0, 10, 975)], [0, 1]);
        assert_eq!([found(0, 500, 600), found(0, ENDLESS, 8)], [0, 0]);
        // Streams of the warm-up end in place of the last ones.
        assert_eq!([found(1, 500, 600), found(1, 500, 990)], [1, 0]);
    }
}
