//! `errors`: more than 0.1 % of the requests failed or timed out.

use super::{Finding, Rule, Severity, Subject, about, evidence, percent, tokens};
use crate::causes;
use crate::thresholds::{DOUBTFUL, MOST};
use crate::trials::counts::failures;
use hoptax_format::record::Counts;
use hoptax_stats::share;
use std::cmp::Reverse;

const CODE: &str = "errors";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!("warning; void above {} of the requests", percent(MOST)),
        when: format!(
            "more than {} of the requests failed or timed out, apart from failures caused by the plan's \
             events and streams of tokens that its upstream breaks off",
            percent(DOUBTFUL)
        ),
        seen: "Percentiles describe mainly the requests that succeeded.",
        advice: "Read the gateway's log in the run directory. Lower the connections or the rate until the \
                 errors stop, or report the error share.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let of_starts = subject.of_starts.iter().filter_map(of_starts);
    subject
        .measured()
        .filter_map(|(case, trials)| {
            let counts = case.counts.as_ref()?;
            let timeout = subject.timeout_ns();
            // Failures that the plan's events caused are reported with the events.
            let beside: u64 = trials.iter().map(|trial| trial.failures_beside_events(timeout)).sum();
            // Streams that the upstream breaks off as the plan says are no fault of a gateway.
            let broken = tokens::upstream(trials).map_or(0, |counts| tokens::failed(&counts, tokens::BROKEN));
            let beside = beside.saturating_sub(broken);
            let share = share(beside as f64, counts.scheduled as f64).filter(|share| *share > DOUBTFUL)?;
            Some(Finding {
                evidence: evidence([
                    ("scheduled", counts.scheduled.into()),
                    ("failed", failures(counts).into()),
                    ("timeouts", counts.timeouts.into()),
                    ("connect_errors", counts.connect_errors.into()),
                    ("resets", counts.resets.into()),
                    ("bad_responses", counts.bad_responses.into()),
                    ("causes", serde_json::json!(counts.causes)),
                    ("share", share.into()),
                ]),
                message: format!(
                    "{} of the requests failed: {}. Percentiles count a timeout as a response at the time \
                     limit, and leave out all other failures. So percentiles describe mainly the requests \
                     that succeeded.",
                    percent(share),
                    causes_by_count(counts).join(", ")
                ),
                ..about(CODE, if share > MOST { Severity::Void } else { Severity::Warning }, &case.case)
            })
        })
        .chain(of_starts)
        .collect()
}

/// The finding about the load after starts.
fn of_starts(starts: &crate::Starts) -> Option<Finding> {
    let load = starts.figures.load.as_ref()?;
    let failed = load.timeouts + load.errors;
    let share = share(failed as f64, load.scheduled as f64).filter(|share| *share > DOUBTFUL)?;
    Some(Finding {
        evidence: evidence([
            ("scheduled", load.scheduled.into()),
            ("failed", failed.into()),
            ("timeouts", load.timeouts.into()),
            ("share", share.into()),
        ]),
        message: format!(
            "{} of the requests after its starts failed: {} timed out, {} failed in another way or got a \
             wrong answer. The figures show how late the other requests were answered.",
            percent(share),
            load.timeouts,
            load.errors
        ),
        advice: "Read the gateway's log in the run directory. A gateway that answers before it can serve \
                 needs a check of its readiness in front of it."
            .into(),
        ..about(CODE, if share > MOST { Severity::Void } else { Severity::Warning }, &starts.case())
    })
}

/// Number of failed requests for each cause, most frequent first. Records of older runs contain only the kind
/// of failure.
fn causes_by_count(counts: &Counts) -> Vec<String> {
    let mut causes: Vec<(&str, u64)> =
        counts.causes.iter().map(|(cause, count)| (causes::words(*cause), *count)).collect();
    causes.sort_by_key(|(_, count)| Reverse(*count));
    if causes.is_empty() {
        causes = vec![
            ("timed out", counts.timeouts),
            ("could not connect", counts.connect_errors),
            ("were cut off", counts.resets),
            ("got no valid response", counts.bad_responses),
        ];
    }
    causes.retain(|(_, count)| *count > 0);
    causes.into_iter().map(|(words, count)| format!("{count} {words}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::record::Cause;

    #[test]
    fn raised_by_two_in_a_thousand() {
        let run = Run::closed(1).with([via("nginx", 0).errors(2)]);
        let findings = raised(&run, CODE);
        assert_eq!(findings[0].evidence["resets"], 2);
        insta::assert_snapshot!(texts(&findings));
        assert_eq!(findings[0].evidence["causes"], serde_json::json!({ "reset-before-response": 2 }));
    }

    #[test]
    fn names_every_cause_most_frequent_first() {
        let counts = Counts {
            causes: [(Cause::PortsExhausted, 3), (Cause::ReadTimeout, 40), (Cause::TlsCertificate, 5)].into(),
            timeouts: 40,
            connect_errors: 8,
            ..Counts::default()
        };
        let older = Counts { timeouts: 40, connect_errors: 8, ..Counts::default() };
        insta::assert_snapshot!([counts, older].map(|one| causes_by_count(&one).join("\n")).join("\n"));
    }

    #[test]
    fn raised_by_requests_that_failed_after_starts() {
        use crate::fixture::starts::{Cold, started};
        let mut run = started(6, &[("nginx", Cold::native())]);
        assert_eq!(raised(&run, CODE), []);
        for load in run.starts.iter_mut().filter(|start| start.contender == "nginx") {
            load.load.iter_mut().for_each(|load| (load.timeouts, load.errors) = (20, 4));
        }
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
    }

    #[test]
    fn not_raised_by_streams_that_the_upstream_breaks_off() {
        for (failed, expected) in [(100, 0), (150, 1)] {
            let mut run = Run::closed(1).token_streams(10);
            let trial = via("nginx", 0).server_stream_us(200, 1000).tokens_us([200, 200, 1000], 10);
            let trial = trial.llm(|counts| {
                counts.failures.insert("cut".to_owned(), 100);
            });
            run.push(trial.failures(Cause::ClosedInResponse, failed));
            assert_eq!(raised(&run, CODE).len(), expected, "{failed}");
        }
    }

    #[test]
    fn void_when_most_failed_and_not_raised_by_one_in_a_thousand() {
        let run = Run::closed(1).with([via("nginx", 0).nothing_completed()]);
        assert_eq!(raised(&run, CODE)[0].severity, Severity::Void);
        let run = Run::closed(1).with([via("nginx", 0).errors(1), via("haproxy", 0)]);
        assert_eq!(raised(&run, CODE), []);
    }
}
