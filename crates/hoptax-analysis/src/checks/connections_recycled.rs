//! `connections-recycled`: the gateway ends connections after some requests, and direct does not.

use super::keepalive_lost::LOST;
use super::{Concerns, Figures, Finding, Measured, Rule, Severity, Subject, about, evidence};
use hoptax_format::spec::HttpVersion;
use hoptax_record::units::grouped;
use hoptax_stats::share;

const CODE: &str = "connections-recycled";
/// Limit for ended connections ÷ requests.
const RECYCLED: f64 = 1e-4;
/// Smallest number of ended connections. A single reload can end fewer.
const FEWEST: u64 = 5;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning; a note if no request was on such a connection".into(),
        when: format!(
            "a gateway ends connections (GOAWAY, `Connection: close`) more often than once in {} requests, \
             and direct does not. With HTTP/1, `keepalive-lost` is raised instead if there are many",
            grouped((1.0 / RECYCLED).round())
        ),
        seen: "nginx ends each connection after 1,000 requests by default. A load generator counted 1.5 % of \
               its requests as errors; with retries, p99 rose from 1.8 to 4.5 ms.",
        advice: "Raise the number of requests per connection (nginx: `keepalive_requests`), or report this \
                 as a cost of the gateway.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    // Over HTTP/1, a connection ends with its WebSocket.
    let has_websockets = subject.has_websockets();
    let pairs = subject.pairs().filter(|(via, _)| !has_websockets || via.0.load.http == HttpVersion::Http2);
    pairs.filter_map(|(via, direct)| of_pair(via, direct)).collect()
}

/// Connections that the server ended, in trials without events.
#[derive(Debug, Clone, Copy, Default)]
struct Ended {
    connections: u64,
    /// Requests on these connections that the server had not processed.
    unprocessed: u64,
    requests: u64,
    is_http2: bool,
}

impl Ended {
    fn of((_, trials): Measured<'_>) -> Self {
        let mut sum = Self::default();
        for trial in trials.iter().filter(|trial| trial.record.events.is_empty()) {
            let load = trial.load;
            let (connections, unprocessed, requests) = match &load.http2 {
                // ENHANCE_YOUR_CALM has its own finding.
                Some(http2) => {
                    (http2.goaways.saturating_sub(http2.calmed), http2.unprocessed, load.lifetime.sent)
                }
                // The finding `errors` covers connections whose request failed.
                None => (
                    load.connections.closed_by_peer.saturating_sub(load.counts.resets),
                    load.connections.closed_on_reuse,
                    load.counts.sent,
                ),
            };
            sum.connections += connections;
            sum.unprocessed += unprocessed;
            sum.requests += requests;
            sum.is_http2 |= load.http2.is_some();
        }
        sum
    }

    fn is_often(&self) -> bool {
        let share = share(self.connections as f64, self.requests as f64);
        let is_lost = !self.is_http2 && share.is_some_and(|share| share > LOST);
        self.connections >= FEWEST && share.is_some_and(|share| share > RECYCLED) && !is_lost
    }
}

fn of_pair(via: Measured<'_>, direct: Measured<'_>) -> Option<Finding> {
    let ended = Ended::of(via);
    if !ended.is_often() || Ended::of(direct).is_often() {
        return None;
    }
    let Ended { connections, unprocessed, requests, is_http2 } = ended;
    let each = requests as f64 / connections as f64;
    let how = if is_http2 { " (GOAWAY)" } else { "" };
    let effect = match (is_http2, unprocessed) {
        (true, _) => format!(
            "and {unprocessed} requests that the gateway had not processed were sent again. They are among \
             the slowest."
        ),
        (false, 0) => "and no request was lost.".to_owned(),
        (false, _) => {
            format!("and {unprocessed} requests were on such a connection. They failed or were sent again.")
        }
    };
    Some(Finding {
        concerns: Concerns::only(Figures::Tails),
        evidence: evidence([
            ("ended", connections.into()),
            ("sent", requests.into()),
            ("unprocessed", unprocessed.into()),
            ("requests_per_connection", each.into()),
        ]),
        message: format!(
            "The gateway ended a connection{how} once in {} requests, and direct did not. Requests then wait \
             for another connection, {effect}",
            grouped(each.round())
        ),
        ..about(CODE, if unprocessed > 0 { Severity::Warning } else { Severity::Note }, &via.0.case)
    })
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "recycled from {} ended connections" word(FEWEST);
    METHODOLOGY "and {} per 10,000 requests" word((RECYCLED * 1e4).round());
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::messages::Carrier;
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
        assert_eq!(findings[0].evidence["unprocessed"], 2);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn raised_over_http1_as_a_note_unless_requests_are_lost() {
        let mut run = Run::closed(32);
        run.push(via("direct", 0).first()).push(via("nginx", 0).opened(10, 10));
        run.push(via("races", 0).opened(10, 10).closed_after_first(0, 2).retried(2));
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
    }

    #[test]
    fn not_raised_by_other_ends_of_connections() {
        let mut run = Run::closed(32);
        run.push(via("direct", 0).first()).push(via("broken", 0).errors(10).opened(10, 10));
        run.push(via("closes", 0).opened(1000, 1000)).push(via("once", 0).opened(4, 4));
        assert_eq!(raised(&run, CODE), [], "HTTP/1");
        let mut run = Run::closed(1);
        run.push(ended(via("direct", 0), 6).first());
        run.push(ended(via("nginx", 0), 6)).push(ended(via("haproxy", 0), 4)).push(via("older", 0));
        assert_eq!(raised(&run, CODE), [], "as direct, or once");
        let mut run = Run::closed(32).streams(Carrier::WebSocket, 10);
        run.push(via("direct", 0).first()).push(via("nginx", 0).opened(10, 10));
        assert_eq!(raised(&run, CODE), [], "WebSockets");
    }
}
