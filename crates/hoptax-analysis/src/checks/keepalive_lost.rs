//! `keepalive-lost`: many more connections were opened than the load requires.
//!
//! Connections that replace failed ones are not counted, because `errors` reports the failures. The other new
//! connections replace connections that the other side closed although the client did not ask for this. If
//! the other side closes each connection after its first answer without saying so, every second request of a
//! connection fails. These failures are part of this finding.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use crate::Case;
use crate::trials::counts::failures;
use hoptax_format::spec::{HttpVersion, Retry, is_idempotent};
use hoptax_stats::share;

const CODE: &str = "keepalive-lost";
/// Limit for extra connections ÷ requests. By default, servers close a connection after 100 requests (Apache
/// httpd) or 1,000 requests (nginx), which costs almost nothing. This limit is twice Apache's share.
pub(super) const LOST: f64 = 0.02;
/// Limit for extra connections ÷ requests. Above this limit, most requests need a new connection.
const MOST: f64 = 0.5;
/// Limit for connections that ended after their first answer ÷ extra connections. From this limit on, the
/// finding says that each connection ended like this. The limit is below 1 because connections also end at
/// the edges of the measured time.
const EACH: f64 = 0.9;
/// Smallest number of extra connections to report. If there are fewer, the replaced connections may have been
/// closed because they were idle.
const FEWEST: u64 = 10;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!(
            "warning; void above {}, if direct or another gateway kept its connections",
            percent(MOST)
        ),
        when: format!(
            "the connections beyond those that the load requires exceed {} of the number of requests. \
             Connections that replace failed ones do not count, unless the other side closed these after \
             their first answer without announcing it",
            percent(LOST)
        ),
        seen: "The figures then show the cost of new connections. In a test with ab (HTTP/1.0), Kong closed \
               each connection: 722 requests/s, and nginx 2,760.",
        advice: "Find out what switches keep-alive off (the gateway's settings, or HTTP/1.0). Or set \
                 `keepalive: off` in the plan, for direct and all gateways.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(|measured| of_case(subject, measured)).collect()
}

/// Connections of a case that were opened in the measured times although the load does not require them.
struct Lost {
    extra: u64,
    /// `extra` ÷ the number of requests.
    share: f64,
    /// Number of connections that the other side closed after their first answer, without announcing this.
    after_first: u64,
    /// Number of requests without a byte of an answer on a reused connection that the other side closed.
    on_reuse: u64,
}

impl Lost {
    fn of(subject: &Subject<'_>, (case, trials): Measured<'_>) -> Option<Self> {
        let counts = case.counts.as_ref()?;
        let opened = case.connections.as_ref()?.opened;
        let after_first = trials.iter().map(|trial| trial.load.connections.closed_after_first).sum();
        let on_reuse: u64 = trials.iter().map(|trial| trial.load.connections.closed_on_reuse).sum();
        // If there is a limit on requests per connection, the load requires new connections. In each trial,
        // each connection of the load may be replaced once more than this limit requires.
        let per_connection = match subject.has_websockets() && case.load.http != HttpVersion::Http2 {
            // The connection of a WebSocket is never used again.
            true => Some(1),
            false => case.load.requests_per_connection,
        };
        let asked = per_connection.map_or(0, |limit| {
            counts.sent.div_ceil(u64::from(limit.max(1)))
                + u64::from(case.load.connections) * trials.len() as u64
        });
        // Requests that failed because their connection ended after its first answer. Keep-alive was lost
        // before they failed. So their replaced connections count as extra connections, and the requests
        // themselves do not count.
        let failed_by_close = on_reuse.saturating_sub(counts.retried).min(after_first);
        let other_failures = failures(counts).saturating_sub(failed_by_close);
        let extra = opened.saturating_sub(asked + other_failures);
        let share = share(extra as f64, counts.sent.saturating_sub(failed_by_close) as f64)?;
        Some(Self { extra, share, after_first, on_reuse })
    }

    fn matters(&self) -> bool {
        self.share > LOST && self.extra >= FEWEST
    }

    fn is_unannounced(&self) -> bool {
        self.after_first as f64 >= EACH * self.extra as f64
    }

    fn describe(&self, case: &Case, retried: u64) -> String {
        let Self { extra, share, after_first, on_reuse } = *self;
        let (announcing, not_kept) = match case.load.http {
            HttpVersion::Http2 => ("sending GOAWAY", "Connections were not kept"),
            HttpVersion::Http10 | HttpVersion::Http11 => {
                ("saying `Connection: close`", "Keep-alive was not in effect")
            }
        };
        if self.is_unannounced() {
            return format!(
                "{} closes each connection after its first answer without {announcing}: {after_first} \
                 connections ended in this way. {on_reuse} requests were on a reused connection when it was \
                 closed, before a byte of their answer arrived. {retried} of these requests were sent \
                 again, and the others failed.",
                if case.is_direct() { "The upstream" } else { "The gateway" },
            );
        }
        let closed = case.connections.as_ref().map_or(0, |connections| connections.closed_by_peer);
        format!(
            "{not_kept}: {extra} extra connections were opened, which is {} of the number of requests. The \
             other side closed {closed} connections.",
            percent(share)
        )
    }

    /// `can_retry` is true if a target has a method that can be sent again.
    fn advice(&self, case: &Case, can_retry: bool) -> String {
        let again = match (self.is_unannounced() && can_retry, case.load.retry) {
            (true, Retry::Off) => {
                " Or set `retry: idle-close` in the plan, so that requests on such connections are sent \
                 again, as HTTP clients do."
            }
            _ => "",
        };
        let advice = match case.load.http {
            HttpVersion::Http2 => {
                "Allow more requests per client connection in the gateway's settings (nginx: \
                 `keepalive_requests`). Or set `keepalive` in the plan to the number that it allows, so that \
                 every contender opens as many connections."
            }
            HttpVersion::Http10 | HttpVersion::Http11 => {
                "Switch keep-alive on for clients in the gateway's settings. Or set `keepalive: off` in the \
                 plan, so that every contender opens a new connection for each request."
            }
        };
        format!("{advice}{again}")
    }
}

/// Describes which other contenders lost their connections too.
fn compared(case: &Case, kept_elsewhere: bool) -> &'static str {
    match (kept_elsewhere, case.is_direct()) {
        (false, _) => {
            "The other contenders lost their connections too, so the load opened many new connections, \
             unlike the load in the plan"
        }
        (true, true) => {
            "The gateways kept their connections. Only direct pays for new connections, so the tax is too \
            small"
        }
        (true, false) => {
            "Other contenders kept their connections, so the difference comes from connections, not from the \
             gateway's work"
        }
    }
}

fn of_case(subject: &Subject<'_>, measured: Measured<'_>) -> Option<Finding> {
    let case = measured.0;
    let lost = Lost::of(subject, measured).filter(Lost::matters)?;
    let mut others = subject.measured().filter(|(other, _)| other.load.index == case.load.index);
    let kept_elsewhere = others.any(|other| Lost::of(subject, other).is_some_and(|lost| !lost.matters()));
    let (counts, connections) = (case.counts.as_ref()?, case.connections.as_ref()?);
    let can_retry = subject.run.plan.targets.iter().any(|target| is_idempotent(&target.method));
    let mut evidence = evidence([
        ("requests", counts.sent.into()),
        ("opened", connections.opened.into()),
        ("not_asked_for", lost.extra.into()),
        ("closed_by_peer", connections.closed_by_peer.into()),
        ("share", lost.share.into()),
        ("limit", LOST.into()),
    ]);
    if lost.is_unannounced() {
        evidence.extend([
            ("closed_after_first", lost.after_first.into()),
            ("closed_on_reuse", lost.on_reuse.into()),
            ("retried", counts.retried.into()),
        ]);
    }
    let severity = if lost.share > MOST && kept_elsewhere { Severity::Void } else { Severity::Warning };
    Some(Finding {
        evidence,
        message: format!("{} {}.", lost.describe(case, counts.retried), compared(case, kept_elsewhere)),
        advice: lost.advice(case, can_retry),
        ..about(CODE, severity, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::messages::Carrier;
    use hoptax_plan::LoadPoint;

    #[test]
    fn void_if_one_contender_closes_every_connection() {
        let mut run = Run::steady(2, 100, &[("nginx", 150)]);
        run.push(via("kong", 0).opened(1000, 1000)).push(via("kong", 1).opened(1000, 1000));
        let findings = raised(&run, CODE);
        assert_eq!(findings[0].evidence["share"], 1.0);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn a_warning_for_some_connections_before_a_limit_or_if_all_contenders_lose_them() {
        let run = Run::closed(32).with([via("direct", 0).first(), via("mine", 0).opened(100, 100)]);
        assert_eq!(raised(&run, CODE)[0].severity, Severity::Warning);
        let mut run = Run::closed(32);
        run.push(via("direct", 0).first().opened(1000, 1000)).push(via("mine", 0).opened(1000, 1000));
        let severities: Vec<Severity> = raised(&run, CODE).iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, [Severity::Warning; 2]);
        let load = LoadPoint { requests_per_connection: Some(100), ..closed_point(32, 1) };
        let run = Run::with_load(vec![load]).with([via("mine", 0).opened(500, 490)]);
        assert_eq!(raised(&run, CODE).len(), 1);
    }

    #[test]
    fn not_raised_by_required_or_failed_connections_or_websockets() {
        let limited = |limit| LoadPoint { requests_per_connection: Some(limit), ..closed_point(32, 1) };
        for (limit, opened) in [(1, 1000), (100, 40)] {
            let run = Run::with_load(vec![limited(limit)]).with([via("mine", 0).opened(opened, 0)]);
            assert_eq!(raised(&run, CODE), [], "{limit}");
        }
        let mut run = Run::closed(32);
        // nginx closes a connection after 1,000 requests. Behind the other gateway, 50 connections broke and
        // were replaced.
        run.push(via("nginx", 0).opened(1, 1)).push(via("broken", 0).errors(50).opened(50, 0));
        assert_eq!(raised(&run, CODE), []);
        let mut run = Run::closed(32).streams(Carrier::WebSocket, 10);
        run.push(via("direct", 0).first().opened(1000, 0)).push(via("nginx", 0).opened(1000, 1000));
        assert_eq!(raised(&run, CODE), [], "WebSockets");
    }

    /// A trial in which the other side closes each connection after its first answer. Of `lost` requests on
    /// such connections, `retried` are sent again.
    fn closing(contender: &str, round: u32, lost: u64, retried: u64) -> MadeTrial {
        let opened = if retried > 0 { lost } else { 1000 };
        via(contender, round)
            .opened(opened, opened)
            .closed_after_first(opened, lost)
            .retried(retried)
            .errors(lost - retried)
    }

    #[test]
    fn names_connections_that_end_after_their_first_answer() {
        let mut run = Run::steady(2, 100, &[("nginx", 150)]);
        run.push(closing("kong", 0, 1000, 0)).push(closing("kong", 1, 1000, 0));
        let findings = raised(&run, CODE);
        let evidence = &findings[0].evidence;
        assert_eq!(evidence["share"], 1.0);
        assert_eq!(evidence["closed_after_first"], 2000);
        assert_eq!(evidence["closed_on_reuse"], 2000);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn names_them_too_if_the_requests_are_sent_again() {
        let load = LoadPoint { retry: Retry::IdleClose, ..closed_point(32, 1) };
        let run = Run::with_load(vec![load]).with([via("direct", 0).first(), closing("kong", 0, 990, 990)]);
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1);
        let Finding { evidence, message, advice, .. } = &findings[0];
        assert_eq!((&evidence["retried"], findings[0].severity), (&990.into(), Severity::Void));
        insta::assert_snapshot!(message);
        assert!(!advice.contains("retry"), "{advice}");

        let mut run = Run::closed(32).with([via("direct", 0).first(), closing("kong", 0, 1000, 0)]);
        run.record.plan.targets[0].method = "POST".into();
        let findings = raised(&run, CODE);
        assert!(!findings[0].advice.contains("retry"), "a POST is never sent again: {}", findings[0].advice);
    }

    #[test]
    fn connections_that_end_later_are_not_said_to_end_after_their_first_answer() {
        let mut run = Run::closed(32);
        run.push(via("direct", 0).first()).push(via("mine", 0).opened(100, 100).closed_after_first(10, 2));
        insta::assert_snapshot!(raised(&run, CODE)[0].message);
        // A restart closes connections too, some of them after their first answer. The failures explain these
        // connections.
        let run = Run::closed(32).with([via("mine", 0).errors(50).opened(50, 50).closed_after_first(3, 50)]);
        assert_eq!(raised(&run, CODE), []);
    }

    #[test]
    fn words_of_http1_are_not_used_for_http2() {
        let load = LoadPoint { http: HttpVersion::Http2, streams: 4, ..closed_point(8, 1) };
        let mut run = Run::with_load(vec![load]);
        run.push(via("direct", 0).first()).push(via("mine", 0).opened(100, 100));
        run.push(closing("abrupt", 0, 1000, 0));
        let said = texts(&raised(&run, CODE));
        assert!(!said.contains("Connection: close") && !said.contains("Keep-alive"), "{said}");
        insta::assert_snapshot!(said);
    }
}
