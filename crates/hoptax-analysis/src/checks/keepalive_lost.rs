//! `keepalive-lost`: far more connections were opened than the load asks for.
//!
//! A connection that failed has to be replaced and is told by `errors`; what is left is connections that the other side
//! closed although it was not asked to.

use super::{Finding, Measured, Rule, Severity, Subject, evidence, percent};
use crate::counts::failures;
use hoptax_stats::share;

const CODE: &str = "keepalive-lost";
/// Connections opened per request beyond those asked for. Servers end connections after 100 requests (Apache httpd) or 1,000
/// (nginx) by default, which costs next to nothing; above twice the former it is another load.
const LOST: f64 = 0.02;
/// Above this share most requests pay for a connection.
const MOST: f64 = 0.5;
/// Fewer connections than this may have been idle for too long.
const FEWEST: u64 = 10;

/// In words.
pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!(
            "warning; void above {} where another contender kept its connections",
            percent(MOST)
        ),
        when: format!(
            "beyond the connections that the load asks for, and those that failed, one was opened for more than {} of \
             the requests",
            percent(LOST)
        ),
        seen: "ab speaks HTTP/1.0. Kong closed each connection after its answer, nginx behind it did not: 722 requests \
               per second against 2,760 said nothing about Kong, and its author took the comparison back.",
        advice: "Switch keep-alive on where it was lost (the gateway's own settings, or HTTP/1.0), or ask for \
                 `keepalive: off`, which direct and gateways then share.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(|measured| of_case(subject, measured)).collect()
}

/// Connections opened in the measured times beyond those asked for, and their share of the requests.
fn excess((case, trials): Measured<'_>) -> Option<(u64, f64)> {
    let counts = case.counts.as_ref()?;
    let opened = case.connections.as_ref()?.opened;
    // A limit on requests per connection may end one more connection of each slot within the measured time.
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
            "so does every other contender: this is a load of new connections, and not the one asked for"
        }
        (true, true) => {
            "the gateways kept theirs: direct pays for connections that they do not, and the tax is too small"
        }
        (true, false) => {
            "others kept theirs: the difference is that of connections, and not of the gateway's work"
        }
    };
    Some(Finding {
        code: CODE,
        severity: if share > MOST && kept_elsewhere { Severity::Void } else { Severity::Warning },
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
            "{extra} connections were opened that nobody asked for, one for {} of the requests ({} were closed by the \
             other side): keep-alive was not in effect. {}.",
            percent(share),
            connections.closed_by_peer,
            consequence[..1].to_uppercase() + &consequence[1..]
        ),
        advice: "Switch keep-alive on for clients in the gateway's settings, or ask for `keepalive: off`, so that every \
                 contender gets the same."
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
    fn void_where_one_side_closes_every_connection() {
        let mut run = Run::steady(2, 100, &[("nginx", 150)]);
        run.push(via("kong", 0).opened(1000, 1000)).push(via("kong", 1).opened(1000, 1000));
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].severity, &findings[0].evidence["share"]), (Severity::Void, &1.0.into()));
        assert!(findings[0].message.contains("Others kept theirs"), "{}", findings[0].message);
    }

    #[test]
    fn a_warning_in_part_and_where_all_lose_it() {
        let mut run = Run::closed(32);
        run.push(via("direct", 0).first()).push(via("mine", 0).opened(100, 100));
        assert_eq!(raised(&run, CODE)[0].severity, Severity::Warning);
        let mut run = Run::closed(32);
        run.push(via("direct", 0).first().opened(1000, 1000)).push(via("mine", 0).opened(1000, 1000));
        let severities: Vec<Severity> = raised(&run, CODE).iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, [Severity::Warning; 2]);
    }

    #[test]
    fn not_raised_by_connections_that_were_asked_for_or_failed() {
        let limited = |limit| LoadPoint { requests_per_connection: Some(limit), ..closed_point(32, 1) };
        for (limit, opened) in [(1, 1000), (100, 40)] {
            let mut run = Run::with_load(vec![limited(limit)]);
            run.push(via("mine", 0).opened(opened, 0));
            assert_eq!(raised(&run, CODE), [], "{limit}");
        }
        let mut run = Run::closed(32);
        // nginx ends a connection after its thousandth request; 50 others broke and were replaced.
        run.push(via("nginx", 0).opened(1, 1)).push(via("broken", 0).errors(50).opened(50, 0));
        assert_eq!(raised(&run, CODE), []);
    }

    #[test]
    fn raised_where_the_limit_asked_for_is_not_reached() {
        let load = LoadPoint { requests_per_connection: Some(100), ..closed_point(32, 1) };
        let mut run = Run::with_load(vec![load]);
        run.push(via("mine", 0).opened(500, 490));
        assert_eq!(raised(&run, CODE).len(), 1);
    }
}
