//! `keepalive-lost`: many more connections were opened than the load requires.
//!
//! Connections that replace failed ones are not counted, because `errors` reports the failures. The other new
//! connections replace connections that the other side closed although the client did not ask for this.

use super::{Concerns, Finding, Measured, Rule, Severity, Subject, evidence, percent};
use crate::counts::failures;
use hoptax_stats::share;

const CODE: &str = "keepalive-lost";
/// Limit for extra connections ÷ requests. By default, servers close a connection after 100 requests (Apache httpd) or
/// 1,000 requests (nginx), which costs almost nothing. This limit is twice Apache's share.
const LOST: f64 = 0.02;
/// Limit for extra connections ÷ requests. Above this limit, most requests need a new connection.
const MOST: f64 = 0.5;
/// Smallest number of extra connections to report. If there are fewer, the replaced connections may have been closed
/// because they were idle.
const FEWEST: u64 = 10;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!(
            "warning; void if the number of extra connections (connections above what the load requires) exceeds {} \
             of the number of requests, and direct or another gateway kept its connections",
            percent(MOST)
        ),
        when: format!(
            "the number of extra connections exceeds {} of the number of requests. Connections that replace failed \
             connections do not count as extra connections",
            percent(LOST)
        ),
        seen: "The figures then show the cost of new connections, not of the gateway. One test with ab, which \
               speaks HTTP/1.0, showed 722 requests/s for Kong and 2,760 requests/s for nginx, because Kong closed \
               each connection and nginx did not. The author withdrew the test.",
        advice: "Find out what switches keep-alive off (the gateway's settings, or HTTP/1.0), and switch keep-alive \
                 on. Or set `keepalive: off` in the plan, so that direct and all gateways open a new connection for \
                 each request.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(|measured| of_case(subject, measured)).collect()
}

/// Returns the number of connections that were opened in the measured times although the load does not require them.
/// Also returns this number ÷ the number of requests.
fn excess((case, trials): Measured<'_>) -> Option<(u64, f64)> {
    let counts = case.counts.as_ref()?;
    let opened = case.connections.as_ref()?.opened;
    // If there is a limit on requests per connection, the load requires new connections. In each trial, each connection
    // of the load may be replaced once more than this limit requires.
    let asked = case.load.requests_per_connection.map_or(0, |limit| {
        counts.sent.div_ceil(u64::from(limit.max(1))) + u64::from(case.load.connections) * trials.len() as u64
    });
    let excess = opened.saturating_sub(asked + failures(counts));
    Some((excess, share(excess as f64, counts.sent as f64)?))
}

fn is_lost((excess, share): (u64, f64)) -> bool {
    share > LOST && excess >= FEWEST
}

fn of_case(subject: &Subject<'_>, measured: Measured<'_>) -> Option<Finding> {
    let case = measured.0;
    let (extra, share) = excess(measured).filter(|lost| is_lost(*lost))?;
    let mut others = subject.measured().filter(|(other, _)| other.load.index == case.load.index);
    let kept_elsewhere = others.any(|other| excess(other).is_some_and(|lost| !is_lost(lost)));
    let connections = case.connections.as_ref()?;
    let consequence = match (kept_elsewhere, case.is_direct()) {
        (false, _) => {
            "the other contenders lost their connections too, so the load opened many new connections, unlike the \
             load in the plan"
        }
        (true, true) => {
            "the gateways kept their connections. Only direct pays for new connections, so the tax is too small"
        }
        (true, false) => {
            "other contenders kept their connections, so the difference comes from connections, not from the \
             gateway's work"
        }
    };
    Some(Finding {
        code: CODE,
        severity: if share > MOST && kept_elsewhere { Severity::Void } else { Severity::Warning },
        concerns: Concerns::ALL,
        case: Some(case.case.clone()),
        evidence: evidence([
            ("requests", case.counts.as_ref()?.sent.into()),
            ("opened", connections.opened.into()),
            ("not_asked_for", extra.into()),
            ("closed_by_peer", connections.closed_by_peer.into()),
            ("share", share.into()),
            ("limit", LOST.into()),
        ]),
        message: format!(
            "Keep-alive was not in effect: {extra} extra connections were opened, which is {} of the number of \
             requests. The other side closed {} connections. {}.",
            percent(share),
            connections.closed_by_peer,
            consequence[..1].to_uppercase() + &consequence[1..]
        ),
        advice: "Switch keep-alive on for clients in the gateway's settings. Or set `keepalive: off` in the plan, so \
                 that every contender opens a new connection for each request."
            .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::fixture::closed_point;
    use crate::fixture::{Run, via};
    use hoptax_plan::LoadPoint;

    #[test]
    fn void_if_one_contender_closes_every_connection() {
        let mut run = Run::steady(2, 100, &[("nginx", 150)]);
        run.push(via("kong", 0).opened(1000, 1000)).push(via("kong", 1).opened(1000, 1000));
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].severity, &findings[0].evidence["share"]), (Severity::Void, &1.0.into()));
        assert!(findings[0].message.contains("Other contenders kept their"), "{}", findings[0].message);
    }

    #[test]
    fn a_warning_for_some_connections_or_if_all_contenders_lose_them() {
        let mut run = Run::closed(32);
        run.push(via("direct", 0).first()).push(via("mine", 0).opened(100, 100));
        assert_eq!(raised(&run, CODE)[0].severity, Severity::Warning);
        let mut run = Run::closed(32);
        run.push(via("direct", 0).first().opened(1000, 1000)).push(via("mine", 0).opened(1000, 1000));
        let severities: Vec<Severity> = raised(&run, CODE).iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, [Severity::Warning; 2]);
    }

    #[test]
    fn not_raised_by_required_or_failed_connections() {
        let limited = |limit| LoadPoint { requests_per_connection: Some(limit), ..closed_point(32, 1) };
        for (limit, opened) in [(1, 1000), (100, 40)] {
            let mut run = Run::with_load(vec![limited(limit)]);
            run.push(via("mine", 0).opened(opened, 0));
            assert_eq!(raised(&run, CODE), [], "{limit}");
        }
        let mut run = Run::closed(32);
        // nginx closes a connection after 1,000 requests. Behind the other gateway, 50 connections broke and were
        // replaced.
        run.push(via("nginx", 0).opened(1, 1)).push(via("broken", 0).errors(50).opened(50, 0));
        assert_eq!(raised(&run, CODE), []);
    }

    #[test]
    fn raised_if_connections_end_before_the_requested_limit() {
        let load = LoadPoint { requests_per_connection: Some(100), ..closed_point(32, 1) };
        let mut run = Run::with_load(vec![load]);
        run.push(via("mine", 0).opened(500, 490));
        assert_eq!(raised(&run, CODE).len(), 1);
    }
}
