//! `retries-multiply`: a gateway repeats requests that the upstream refuses. So the upstream gets more
//! requests when it can serve fewer.

use super::tokens::{self, REFUSED};
use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use hoptax_stats::share;

const CODE: &str = "retries-multiply";
/// Smallest number of extra requests ÷ requests of the clients.
pub(super) const DIFFERENT: f64 = 0.01;
/// Smallest number of extra requests.
const FEWEST: u64 = 10;
/// Smallest number of refusals ÷ extra requests. Each retry follows a refusal. With fewer refusals, there is
/// another cause, and `retries-after-abort` or `amplification` is raised.
const EXPLAINED: f64 = 0.9;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "the upstream received over {} more requests to a language model than clients sent via a \
             gateway, and refused at least {} of that number with 429 or 5xx",
            percent(DIFFERENT),
            percent(EXPLAINED)
        ),
        seen: "Retries make a gateway's share of errors look better than direct's, and load an upstream \
               that is at its limit.",
        advice: "Switch the gateway's retries off, or limit them by a budget: SDKs of language models \
                 already send requests again, and two layers of retries multiply each other.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.gateways().filter_map(of_case).collect()
}

/// True if retries explain why the upstream received more requests than clients sent.
pub(super) fn is_raised(measured: Measured<'_>) -> bool {
    of_case(measured).is_some()
}

/// Requests to a language model, of a case whose upstream received more than clients sent.
pub(super) struct Extra {
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Requests that the upstream refused.
    refused: u64,
}

impl Extra {
    /// `None` if the upstream received no more, or only a few.
    pub(super) fn of((case, trials): Measured<'_>) -> Option<Self> {
        let counts = tokens::upstream(trials)?;
        let (sent, received) = (case.ledger.as_ref()?.sent, counts.requests);
        let extra = received.saturating_sub(sent);
        share(extra as f64, sent as f64).filter(|share| *share > DIFFERENT && extra >= FEWEST)?;
        Some(Self { sent, received, refused: tokens::failed(&counts, REFUSED) })
    }

    pub(super) fn per_request(&self) -> f64 {
        self.received as f64 / self.sent as f64
    }

    /// True if refusals explain the extra requests.
    pub(super) fn is_of_refusals(&self) -> bool {
        self.refused as f64 >= EXPLAINED * (self.received - self.sent) as f64
    }
}

fn of_case(measured: Measured<'_>) -> Option<Finding> {
    let case = measured.0;
    let extra = Extra::of(measured).filter(|extra| extra.is_of_refusals() && !case.is_direct())?;
    let Extra { sent, received, refused } = extra;
    Some(Finding {
        evidence: evidence([
            ("sent", sent.into()),
            ("upstream_requests", received.into()),
            ("refused", refused.into()),
            ("per_request", extra.per_request().into()),
        ]),
        message: format!(
            "The upstream refused {refused} requests with 429 or 5xx, and the gateway sent {} again: \
             {:.2} requests arrived for each that clients sent. So failures become more load, and clients \
             see fewer of them than directly.",
            received - sent,
            extra.per_request()
        ),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    /// 1,000 requests of clients. The upstream receives this number, and refuses some.
    fn trial(label: &str, requests: u64, refused: u64, seen: u64) -> MadeTrial {
        let trial = via(label, 0).server_stream_us(200, 1000).ledger_requests(requests);
        let trial = trial.tokens_us([200, 200, 1000], 10).llm(|counts| {
            counts.requests = requests;
            counts.failures.insert("rate-limit".to_owned(), refused);
        });
        trial.status(429, seen)
    }

    fn run(gateway: MadeTrial) -> Run {
        Run::closed(1).token_streams(10).with([trial("direct", 1000, 300, 300).first(), gateway])
    }

    #[test]
    fn raised_by_requests_that_are_sent_again() {
        let run = run(trial("bifrost", 1390, 417, 27));
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
        for code in ["amplification", "different-work"] {
            assert_eq!(raised(&run, code), [], "{code}");
        }
    }

    #[test]
    fn not_raised_without_retries_or_by_requests_with_another_cause() {
        assert_eq!(raised(&run(trial("nginx", 1000, 300, 300)), CODE), []);
        let mirrored = run(trial("nginx", 2000, 600, 300));
        assert_eq!(raised(&mirrored, CODE), [], "600 refusals do not explain 1,000 requests");
        assert_eq!(raised(&mirrored, "amplification").len(), 1);
    }
}
