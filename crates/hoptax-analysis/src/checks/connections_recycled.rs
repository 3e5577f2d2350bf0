//! `connections-recycled`: the gateway ends connections after some requests, and direct does not.

use super::{Concerns, Figures, Finding, Measured, Rule, Severity, Subject, evidence};
use hoptax_record::units::grouped;
use hoptax_stats::share;

const CODE: &str = "connections-recycled";
/// Limit for GOAWAY frames ÷ requests.
const RECYCLED: f64 = 1e-4;
/// Smallest number of GOAWAY frames. Fewer can be those of a single reload.
const FEWEST: u64 = 5;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "a gateway ends connections of HTTP/2 (GOAWAY) more often than once in {} requests, and direct \
             does not",
            grouped((1.0 / RECYCLED).round())
        ),
        seen: "nginx ends each connection after 1,000 requests by default. A load generator counted 1.5 % of \
               its requests as errors, until it sent them again: p99 rose from 1.8 to 4.5 ms.",
        advice: "Raise the number of requests per connection (nginx: `keepalive_requests`), or report this \
                 as a cost of the gateway.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.pairs().filter_map(|(via, direct)| of_pair(via, direct)).collect()
}

/// GOAWAY frames, requests sent again, and requests, in trials without events. ENHANCE_YOUR_CALM has its own
/// finding.
fn counts((_, trials): Measured<'_>) -> Option<(u64, u64, u64)> {
    let mut sum: Option<(u64, u64, u64)> = None;
    for trial in trials.iter().filter(|trial| trial.record.events.is_empty()) {
        let http2 = trial.load.http2.as_ref()?;
        let (goaways, again, sent) = sum.unwrap_or_default();
        let usual = http2.goaways.saturating_sub(http2.calmed);
        sum = Some((goaways + usual, again + http2.unprocessed, sent + trial.load.lifetime.sent));
    }
    sum
}

fn of_pair(via: Measured<'_>, direct: Measured<'_>) -> Option<Finding> {
    let (goaways, again, sent) = counts(via)?;
    let is_often = |goaways: u64, sent: u64| {
        goaways >= FEWEST && share(goaways as f64, sent as f64).is_some_and(|share| share > RECYCLED)
    };
    let of_direct = counts(direct).is_some_and(|(goaways, _, sent)| is_often(goaways, sent));
    if !is_often(goaways, sent) || of_direct {
        return None;
    }
    Some(Finding {
        code: CODE,
        severity: Severity::Warning,
        concerns: Concerns::only(Figures::Tails),
        case: Some(via.0.case.clone()),
        evidence: evidence([
            ("goaways", goaways.into()),
            ("sent", sent.into()),
            ("sent_again", again.into()),
            ("requests_per_goaway", (sent as f64 / goaways as f64).into()),
        ]),
        message: format!(
            "The gateway ended a connection (GOAWAY) once in {} requests, and direct did not. Requests then \
             wait for another connection, and {again} requests that the gateway had not processed were sent \
             again. They are among the slowest.",
            grouped((sent as f64 / goaways as f64).round())
        ),
        advice: "Raise the number of requests per connection (nginx: `keepalive_requests`), or report this \
                 as a cost of the gateway."
            .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{raised, texts};
    use super::*;
    use crate::fixture::{MadeTrial, Run, via};
    use hoptax_format::record::Http2Tally;

    fn ended(trial: MadeTrial, goaways: u64) -> MadeTrial {
        trial.http2(Http2Tally { goaways, unprocessed: goaways / 2, ..Http2Tally::default() })
    }

    #[test]
    fn raised_if_only_the_gateway_ends_connections() {
        let mut run = Run::closed(1);
        run.push(ended(via("direct", 0), 0).first());
        run.push(ended(via("nginx", 0), 3)).push(ended(via("nginx", 1), 3));
        let findings = raised(&run, CODE);
        assert_eq!((findings.len(), findings[0].severity), (1, Severity::Warning));
        assert_eq!(findings[0].evidence["sent_again"], 2);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn not_raised_if_direct_does_so_too_or_connections_ended_once() {
        let mut run = Run::closed(1);
        run.push(ended(via("direct", 0), 6).first());
        run.push(ended(via("nginx", 0), 6)).push(ended(via("haproxy", 0), 4)).push(via("older", 0));
        assert_eq!(raised(&run, CODE), []);
    }
}
