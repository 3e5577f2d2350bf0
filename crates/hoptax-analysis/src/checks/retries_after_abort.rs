//! `retries-after-abort`: clients leave, and the gateway sends their requests again.

use super::retries_multiply::{DIFFERENT, Extra};
use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent, tokens};
use hoptax_stats::share;

const CODE: &str = "retries-after-abort";
/// Largest number of extra requests for each stream that a client left. If there are more, something else
/// causes them.
const MOST: f64 = 10.0;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "clients left streams of tokens, and the upstream received over {} more requests than clients \
             sent via a gateway, at most {MOST} for each stream that they left. It did not refuse as many, \
             and it received no more than clients sent directly",
            percent(DIFFERENT)
        ),
        seen: "Some gateways mistake a client that leaves for a failure, and send the request again although \
               nobody waits for the answer.",
        advice: "Let the gateway stop its retries when the client has left. If it has none, look for \
                 mirrored requests.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.gateways().filter_map(|measured| of_case(subject, measured)).collect()
}

/// True if requests for clients that have left explain why the upstream received more requests than clients
/// sent. Never true for direct.
pub(super) fn is_raised(subject: &Subject<'_>, measured: Measured<'_>) -> bool {
    of_case(subject, measured).is_some()
}

fn of_case(subject: &Subject<'_>, measured: Measured<'_>) -> Option<Finding> {
    let case = measured.0;
    let counts = tokens::counts(case)?;
    let left = share(counts.left as f64, (counts.left + counts.ended) as f64)?;
    let extra = Extra::of(measured).filter(|extra| !extra.is_of_refusals())?;
    let direct = subject.direct(case.load.index)?;
    let for_each = share(extra.per_request() - 1.0, left).filter(|for_each| *for_each <= MOST)?;
    if Extra::of(direct).is_some() {
        return None;
    }
    Some(Finding {
        evidence: evidence([
            ("left", counts.left.into()),
            ("sent", extra.sent.into()),
            ("upstream_requests", extra.received.into()),
            ("per_request", extra.per_request().into()),
            ("per_left_stream", for_each.into()),
        ]),
        message: format!(
            "Clients left {} of the streams, and {:.2} requests arrived at the upstream for each that they \
             sent. Directly, none arrived twice. So the gateway sends requests again for clients that have \
             left: {for_each:.1} for each of them.",
            percent(left),
            extra.per_request()
        ),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    /// 1,000 requests. Clients leave this number of streams. The upstream receives this number of requests,
    /// and refuses some.
    fn trial(label: &str, left: u64, requests: u64, refused: u64) -> MadeTrial {
        let trial = via(label, 0).server_stream_us(200, 1000).ledger_requests(requests);
        let trial = trial.tokens_us([200, 200, 1000], 10).llm(|counts| {
            counts.requests = requests;
            counts.failures.insert("rate-limit".to_owned(), refused);
        });
        trial.token_counts(|counts| (counts.left, counts.ended) = (left, 1000 - left))
    }

    fn run(left: u64, directly: u64, gateway: u64, refused: u64) -> Run {
        let direct = trial("direct", left, directly, 0).first();
        Run::closed(1).token_streams(10).with([direct, trial("litellm", left, gateway, refused)])
    }

    #[test]
    fn raised_by_requests_for_clients_that_have_left() {
        let run = run(500, 1000, 2000, 0);
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
        for code in ["amplification", "retries-multiply"] {
            assert_eq!(raised(&run, code), [], "{code}");
        }
    }

    #[test]
    fn not_raised_if_nobody_leaves_or_by_requests_with_another_cause() {
        assert_eq!(raised(&run(500, 1000, 1005, 0), CODE), [], "a few");
        for (what, run, code) in [
            ("nobody leaves", run(0, 1000, 2000, 0), "amplification"),
            ("few leave", run(20, 1000, 2000, 0), "amplification"),
            ("direct has them too", run(500, 2000, 2000, 0), "amplification"),
            ("refusals", run(500, 1000, 1300, 300), "retries-multiply"),
        ] {
            assert_eq!(raised(&run, CODE), [], "{what}");
            assert!(!raised(&run, code).is_empty(), "{what}");
        }
    }
}
