//! `deadline-changed`: calls reach the upstream via a gateway without their deadline, or with another one.
//!
//! Direct's calls show the deadlines that clients send. A gateway may subtract the time that a call has spent
//! in it, which is at most the longest response time.

use super::{Finding, Measured, Rule, Severity, Subject, about, duration_in_words, evidence, percent};
use crate::Trial;
use hoptax_format::clock::MILLISECOND;
use hoptax_record::Deadlines;
use hoptax_stats::share;
use std::time::Duration;

const CODE: &str = "deadline-changed";
/// Limit for the change of a deadline, and for the share of calls that lost theirs. Gateways round deadlines
/// to other units.
const CHANGED: f64 = 0.01;
/// Limit for the number of calls without deadline, in standard deviations of a count (Poisson). With several
/// targets, the share of calls with a deadline scatters.
const SCATTER: f64 = 5.0;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "more than {} of the gRPC calls via a gateway reached the upstream without their deadline, or \
             some with a longer deadline, or some with one that was shorter by more than {} and by more than \
             the longest response time",
            percent(CHANGED),
            percent(CHANGED)
        ),
        seen: "Without the deadline, an upstream keeps working on calls that clients have given up. With a \
               shorter one, it gives up calls that clients still wait for.",
        advice: "Let the gateway pass `grpc-timeout`, and compare its own time limits with the plan's \
                 `deadline`.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.pairs().filter_map(|(via, direct)| of_pair(via, direct)).collect()
}

/// Calls that clients sent, requests that the upstream received, and those with a deadline.
#[derive(Debug, Default)]
struct Calls {
    sent: u64,
    requests: u64,
    with_deadline: Option<Deadlines>,
}

impl Calls {
    fn of(trials: &[Trial<'_>]) -> Self {
        let mut all = Self::default();
        for trial in trials {
            let Some(ledger) = &trial.record.ledger else { continue };
            all.sent += trial.load.lifetime.sent;
            all.requests += ledger.requests;
            match (&mut all.with_deadline, ledger.deadlines) {
                (Some(sum), Some(more)) => sum.add(more),
                (sum, more) => *sum = sum.or(more),
            }
        }
        all
    }
}

fn of_pair((case, trials): Measured<'_>, direct: Measured<'_>) -> Option<Finding> {
    let (via, direct) = (Calls::of(trials), Calls::of(direct.1));
    let sent = direct.with_deadline?;
    let longest = trials.iter().map(|trial| trial.response_time.max()).max()?;
    let expected = share(sent.calls as f64, direct.requests as f64)?;
    // Requests of the gateway itself, such as health checks, have no deadline. Calls that fail in the gateway
    // never reach the upstream.
    let expected = expected * via.requests.min(via.sent) as f64;
    let arrived = via.with_deadline.map_or(0, |arrived| arrived.calls);
    let missing = (expected - arrived as f64).max(0.0);
    let is_clear = |lost: &f64| *lost > CHANGED && missing > SCATTER * expected.sqrt();
    let lost = share(missing, expected).filter(is_clear);

    let tolerance = |ns: u64| ((CHANGED * ns as f64) as u64).max(MILLISECOND);
    let longer = via.with_deadline.filter(|now| now.most_ns > sent.most_ns + tolerance(sent.most_ns));
    let spent = tolerance(sent.least_ns).max(longest);
    let shorter = via.with_deadline.filter(|now| now.least_ns + spent < sent.least_ns);

    let shown = |ns: u64| duration_in_words(Duration::from_nanos(ns));
    let words = [
        lost.map(|lost| {
            let lost = percent(lost);
            format!("{lost} of the calls reached the upstream without the deadline that clients had sent.")
        }),
        longer.map(|now| {
            let (before, now) = (shown(sent.most_ns), shown(now.most_ns));
            format!(
                "Deadlines of {before} reached the upstream as {now}, so it keeps working when clients have \
                 given up."
            )
        }),
        shorter.map(|now| {
            let (before, now) = (shown(sent.least_ns), shown(now.least_ns));
            let longest = shown(longest.next_multiple_of(MILLISECOND));
            format!(
                "Deadlines of {before} reached the upstream as {now}, although no call took longer than \
                 {longest}."
            )
        }),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    if words.is_empty() {
        return None;
    }
    Some(Finding {
        evidence: evidence([
            ("calls", (expected.round() as u64).into()),
            ("with_deadline", arrived.into()),
            ("sent_ns", serde_json::json!([sent.least_ns, sent.most_ns])),
            ("arrived_ns", serde_json::json!(via.with_deadline.map(|now| [now.least_ns, now.most_ns]))),
        ]),
        message: words.join(" "),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    /// Clients send a deadline of 5 s with each call.
    fn run(gateway: MadeTrial) -> Run {
        Run::closed(1).with([via("direct", 0).first().deadlines_ms(1000, 5000, 5000), gateway])
    }

    #[test]
    fn raised_by_calls_without_their_deadline() {
        let some = via("nginx", 0).deadlines_ms(600, 5000, 5000);
        for (gateway, with_deadline) in [(via("nginx", 0), 0), (some, 600)] {
            let findings = raised(&run(gateway), CODE);
            assert_eq!((findings.len(), findings[0].severity), (1, Severity::Warning));
            let evidence = &findings[0].evidence;
            let calls = (evidence["calls"].as_u64(), evidence["with_deadline"].as_u64());
            assert_eq!(calls, (Some(1000), Some(with_deadline)));
        }
    }

    #[test]
    fn each_change_is_named() {
        let findings = raised(&run(via("nginx", 0).deadlines_ms(600, 100, 6000)), CODE);
        assert_eq!(findings[0].evidence["arrived_ns"], serde_json::json!([100_000_000, 6_000_000_000_u64]));
        insta::assert_snapshot!(texts(&findings));
        let longer = raised(&run(via("nginx", 0).deadlines_ms(1000, 5000, 6000)), CODE);
        let shorter = raised(&run(via("nginx", 0).deadlines_ms(1000, 4900, 5000)), CODE);
        insta::assert_snapshot!(texts(&[longer, shorter].concat()));
    }

    #[test]
    fn not_raised_by_rounding_time_spent_health_checks_or_failures() {
        for (gateway, why) in [
            (via("nginx", 0).deadlines_ms(1000, 4960, 5040), "rounding"),
            (via("nginx", 0).all_at_us(500_000).deadlines_ms(1000, 4600, 5000), "time spent"),
            (via("nginx", 0).ledger_requests(1100).deadlines_ms(1000, 5000, 5000), "health checks"),
            (via("nginx", 0).ledger_requests(700).deadlines_ms(700, 5000, 5000), "failures"),
            (via("nginx", 0).deadlines_ms(995, 5000, 5000), "0.5 %"),
        ] {
            assert_eq!(raised(&run(gateway), CODE), [], "{why}");
        }
        let mut mix = Run::closed(1);
        mix.push(via("direct", 0).first().deadlines_ms(100, 5000, 5000));
        mix.push(via("nginx", 0).deadlines_ms(80, 5000, 5000));
        assert_eq!(raised(&mix, CODE), [], "chance explains 80 instead of 100");
    }
}
