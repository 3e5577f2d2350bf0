//! `upstream-not-reused`: the gateway opens new upstream connections although clients reuse theirs.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use crate::Trial;
use hoptax_stats::share;

const CODE: &str = "upstream-not-reused";
/// Limit for upstream connections ÷ upstream requests, after subtracting one connection for each client
/// connection. A pool that is large enough shows 0.0004. Above this limit, new connections change the
/// reported p99. Caddy's pool of 32 connections for 100 clients shows 0.057, and costs 18 % more CPU time and
/// 16 % of the throughput.
const NOT_REUSED: f64 = 0.01;
/// Smallest number of extra connections to report. If a gateway has few requests to forward, its pool may
/// close a smaller number of connections and open them again. For example, a rate limit let only 26 of 40,000
/// requests through in a trial, and 16 clients caused 20 upstream connections.
const FEWEST: u64 = 50;
/// Smallest number of requests per client connection for which keep-alive counts as on. With fewer requests,
/// it is reasonable for a gateway to open one upstream connection for each client connection.
const KEPT: u32 = 10;
/// From this share of requests on new connections, no pool is in effect. A pool that is too small still lends
/// its connections to some requests.
const ALL_NEW: f64 = 0.9;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "clients keep their connections, but the gateway opens more than {} new upstream connections per \
             100 upstream requests, beyond one per client connection",
            100.0 * NOT_REUSED
        ),
        seen: "One proxy without a pool looked 30 to 60 times slower than it is.",
        advice: "Give the gateway a pool of upstream connections (nginx: `keepalive` in the upstream block, \
                 with `proxy_http_version 1.1` and an empty `Connection` header). The finding names what is \
                 missing.",
    }
}

/// What keeps a gateway from reusing its upstream connections.
enum Cause {
    /// Connections over HTTP/2 carry few requests.
    ShortHttp2,
    /// Requests in HTTP/1.0 close their connection.
    OldVersion,
    /// Requests carry `Connection: close`.
    Closing,
    /// The gateway closes connections after the response although its requests do not say so.
    NoPool,
    /// Either [`Self::NoPool`] or [`Self::Closing`]. An older ledger cannot tell, because it did not count
    /// requests with `Connection: close`.
    NoPoolOrClosing,
    /// Some connections are reused.
    SmallPool,
}

impl Cause {
    /// The cause, from the ledgers and from the share of requests that were sent on a new connection.
    fn of(trials: &[Trial<'_>], share: f64) -> Self {
        let ledgers = || trials.iter().filter_map(|trial| trial.record.ledger.as_ref());
        let requests: u64 = ledgers().map(|ledger| ledger.requests).sum();
        let old: u64 = ledgers().filter_map(|ledger| ledger.http_version.get("1.0")).sum();
        let closing: Option<u64> = ledgers().map(|ledger| ledger.closing).sum();
        let most = |count: u64| 2 * count > requests;
        let new: u64 = ledgers().filter_map(|ledger| ledger.http_version.get("2")).sum();
        match closing {
            _ if most(new) => Self::ShortHttp2,
            None if most(old) => Self::OldVersion,
            Some(closing) if most(closing) && most(old) => Self::OldVersion,
            Some(closing) if most(closing) => Self::Closing,
            Some(_) if share >= ALL_NEW => Self::NoPool,
            None if share >= ALL_NEW => Self::NoPoolOrClosing,
            _ => Self::SmallPool,
        }
    }

    /// Says what the upstream saw, and what the gateway's configuration lacks.
    fn in_words(&self, clients: u64) -> String {
        match self {
            Self::ShortHttp2 => "Its connections over HTTP/2 carry few requests each".into(),
            Self::OldVersion => "Its requests use HTTP/1.0 and close the connection: HTTP/1.1 and the empty \
                                 `Connection` header are missing"
                .into(),
            Self::Closing => {
                "Its requests carry `Connection: close`: the empty `Connection` header is missing".into()
            }
            Self::NoPool => "Its requests do not ask to close the connection: the pool is missing".into(),
            Self::NoPoolOrClosing => {
                "No connection is reused: the pool is missing, or requests carry `Connection: close`".into()
            }
            Self::SmallPool => {
                format!("Some connections are reused: the pool is too small for {clients} connections")
            }
        }
    }

    fn advice(&self, clients: u64) -> String {
        let fix = match self {
            Self::ShortHttp2 => {
                "Let upstream connections over HTTP/2 live longer and carry more streams (Envoy: \
                 `max_requests_per_connection`, `max_concurrent_streams`)"
            }
            Self::OldVersion => {
                "Use HTTP/1.1 to the upstream without a `Connection` header (nginx: `proxy_http_version \
                 1.1`, `proxy_set_header Connection \"\"`), and a pool (nginx: `keepalive`)"
            }
            Self::Closing => {
                "Do not send `Connection: close` to the upstream (nginx: `proxy_set_header Connection \
                 \"\"`), and use a pool (nginx: `keepalive`)"
            }
            Self::NoPool | Self::NoPoolOrClosing => {
                "Give the gateway a pool of upstream connections (nginx: `keepalive` in the upstream block)"
            }
            Self::SmallPool => "Enlarge the pool (nginx: `keepalive`)",
        };
        let size = match self {
            Self::SmallPool => format!(" to at least {clients} connections"),
            _ => String::new(),
        };
        format!("{fix}{size}. Or publish the figures as those of a gateway without such a pool.")
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    // A WebSocket has an upstream connection of its own.
    if subject.has_websockets() {
        return Vec::new();
    }
    subject.gateways().filter_map(of_case).collect()
}

fn of_case((case, trials): Measured<'_>) -> Option<Finding> {
    if case.load.requests_per_connection.is_some_and(|limit| limit < KEPT) {
        return None;
    }
    let ledger = case.ledger.as_ref()?;
    let connections: u64 =
        trials.iter().filter_map(|trial| Some(trial.record.ledger.as_ref()?.connections)).sum();
    // A gateway without a pool opens one upstream connection for each stream of a client connection.
    let clients: u64 = trials.iter().map(|trial| trial.load.lifetime.opened).sum();
    let excess = connections.saturating_sub(clients * u64::from(case.load.streams));
    let share = share(excess as f64, ledger.requests as f64)?;
    if share <= NOT_REUSED || excess < FEWEST {
        return None;
    }
    let cause = Cause::of(trials, share);
    Some(Finding {
        evidence: evidence([
            ("upstream_requests", ledger.requests.into()),
            ("upstream_connections", connections.into()),
            ("client_connections", clients.into()),
            ("share", share.into()),
            ("limit", NOT_REUSED.into()),
        ]),
        message: format!(
            "The gateway opened {connections} connections for {} upstream requests, but clients opened only \
             {clients} connections. {} of the requests pay for a new upstream connection, but direct \
             requests do not. {}.",
            ledger.requests,
            percent(share.min(1.0)),
            cause.in_words(case.load.concurrency())
        ),
        advice: cause.advice(case.load.concurrency()),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::messages::Carrier;
    use hoptax_plan::LoadPoint;

    #[test]
    fn raised_by_one_connection_per_request() {
        let run = Run::steady(2, 100, &[("nginx", 150)]).with([via("haproxy", 0).upstream_connections(1000)]);
        let findings = raised(&run, CODE);
        insta::assert_snapshot!(texts(&findings));
        assert_eq!(findings[0].evidence["upstream_connections"], 1000);
        assert_eq!(findings[0].evidence["share"], 0.968);
    }

    #[test]
    fn names_what_is_missing() {
        let told = |requests_per_connection: u64, version: &str, closing: Option<u64>| {
            let mut run = Run::closed(64);
            let mut trial = via("nginx", 0).upstream_connections(1000 / requests_per_connection);
            trial = trial.upstream_versions(&[(version, 1000)]);
            trial.0.ledger.as_mut().expect("made with one").closing = closing;
            run.push(trial);
            texts(&raised(&run, CODE))
        };
        let cases = [
            (1, "1.0", Some(1000)),
            (1, "1.0", None),
            (1, "1.1", Some(1000)),
            (1, "1.1", Some(0)),
            (1, "1.1", None),
            (2, "1.1", Some(0)),
            (1, "2", Some(0)),
        ];
        let told = cases.map(|(reused, version, closing)| {
            format!("{reused} HTTP/{version} {closing:?}: {}", told(reused, version, closing))
        });
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn raised_by_a_pool_that_is_too_small() {
        // 57 of 1,000 requests, as with a pool of 32 connections for 100 clients. A large pool replaces
        // connections after some thousand requests.
        for (connections, expected) in [(32 + 57, 1), (32 + 4, 0)] {
            let mut run = Run::closed(32);
            for round in 0..3 {
                run.push(via("caddy", round).upstream_connections(connections));
            }
            assert_eq!(raised(&run, CODE).len(), expected, "{connections}");
        }
    }

    #[test]
    fn not_raised_by_a_pool_websockets_or_without_keep_alive_or_ledger() {
        let mut run = Run::closed(32);
        run.push(via("nginx", 0).upstream_connections(0)).push(via("hop-l4", 0).upstream_connections(32));
        // If the gateway closes client connections, it opens the same number of upstream connections.
        // `keepalive-lost` reports such connections.
        run.push(via("lossy", 0).opened(1000, 1000).upstream_connections(1000));
        assert_eq!(raised(&run, CODE), []);
        let off = LoadPoint { requests_per_connection: Some(1), ..closed_point(32, 1) };
        let run = Run::with_load(vec![off]).with([via("nginx", 0).upstream_connections(1000)]);
        assert_eq!(raised(&run, CODE), []);
        let run = Run::closed(32).with([via("mine", 0).unwatched()]);
        assert_eq!(raised(&run, CODE), [], "no ledger");
        let mut run = Run::closed(32).streams(Carrier::WebSocket, 10);
        run.push(via("nginx", 0).upstream_connections(1000));
        assert_eq!(raised(&run, CODE), [], "WebSockets");
    }
}
