//! `upstream-not-reused`: the gateway opens new upstream connections although clients reuse theirs.

use super::{Concerns, Finding, Measured, Rule, Severity, Subject, evidence, percent};
use hoptax_stats::share;

const CODE: &str = "upstream-not-reused";
/// Limit for upstream connections ÷ upstream requests, after subtracting one connection for each client connection. A
/// connection pool opens only a few connections during a trial. Above this limit, new connections change the reported
/// percentiles.
const NOT_REUSED: f64 = 0.1;
/// Smallest number of extra connections to report. If a gateway has few requests to forward, its pool may close a
/// smaller number of connections and open them again. For example, a rate limit let only 26 of 40,000 requests through
/// in a trial, and 16 clients caused 20 upstream connections.
const FEWEST: u64 = 50;
/// Smallest number of requests per client connection for which keep-alive counts as on. With fewer requests, it is
/// reasonable for a gateway to open one upstream connection for each client connection.
const KEPT: u32 = 10;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "clients keep their connections, but the gateway opens more than {NOT_REUSED} upstream connections per \
             upstream request. Before this comparison, hoptax subtracts the number of client connections from the \
             number of upstream connections, because one upstream connection per client connection is normal"
        ),
        seen: "The figures then show the cost of new connections, not of the gateway. One proxy without a pool of \
               upstream connections looked 30 to 60 times slower than it is.",
        advice: "Give the gateway a pool of upstream connections (nginx: `keepalive` in the upstream block, with \
                 `proxy_http_version 1.1` and an empty `Connection` header). Check whether the gateway sends \
                 `Connection: close`.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.gateways().filter_map(of_case).collect()
}

fn of_case((case, trials): Measured<'_>) -> Option<Finding> {
    if case.load.requests_per_connection.is_some_and(|limit| limit < KEPT) {
        return None;
    }
    let ledger = case.ledger.as_ref()?;
    let connections: u64 =
        trials.iter().filter_map(|trial| Some(trial.record.ledger.as_ref()?.connections)).sum();
    // A gateway without a pool opens one upstream connection for each client connection.
    let clients: u64 = trials.iter().map(|trial| trial.load.lifetime.opened).sum();
    let excess = connections.saturating_sub(clients);
    let share = share(excess as f64, ledger.requests as f64)?;
    if share <= NOT_REUSED || excess < FEWEST {
        return None;
    }
    Some(Finding {
        code: CODE,
        severity: Severity::Warning,
        concerns: Concerns::ALL,
        case: Some(case.case.clone()),
        evidence: evidence([
            ("upstream_requests", ledger.requests.into()),
            ("upstream_connections", connections.into()),
            ("client_connections", clients.into()),
            ("share", share.into()),
            ("limit", NOT_REUSED.into()),
        ]),
        message: format!(
            "The gateway opened {connections} connections for {} upstream requests, but clients opened only \
             {clients} connections. {} of the requests pay for a new upstream connection, but direct requests do \
             not.",
            ledger.requests,
            percent(share.min(1.0))
        ),
        advice:
            "Give the gateway a pool of upstream connections that is large enough for the load, and check whether \
             the gateway sends `Connection: close`. Or publish the figures as those of a gateway without a pool."
                .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::fixture::{Run, closed_point, via};
    use hoptax_plan::LoadPoint;

    #[test]
    fn raised_by_one_connection_per_request() {
        let mut run = Run::steady(2, 100, &[("nginx", 150)]);
        run.push(via("haproxy", 0).upstream_connections(1000));
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].evidence["upstream_connections"], 1000);
        assert_eq!(findings[0].evidence["share"], 0.968);
    }

    #[test]
    fn not_raised_by_a_pool_or_without_keep_alive_of_clients() {
        let mut run = Run::closed(32);
        run.push(via("nginx", 0).upstream_connections(0)).push(via("hop-l4", 0).upstream_connections(32));
        // If the gateway closes client connections, it opens the same number of upstream connections. `keepalive-lost`
        // reports such connections.
        run.push(via("lossy", 0).opened(1000, 1000).upstream_connections(1000));
        assert_eq!(raised(&run, CODE), []);
        let off = LoadPoint { requests_per_connection: Some(1), ..closed_point(32, 1) };
        let mut run = Run::with_load(vec![off]);
        run.push(via("nginx", 0).upstream_connections(1000));
        assert_eq!(raised(&run, CODE), []);
    }

    #[test]
    fn not_raised_without_a_ledger() {
        let mut run = Run::closed(32);
        run.push(via("mine", 0).unwatched());
        assert_eq!(raised(&run, CODE), []);
    }
}
