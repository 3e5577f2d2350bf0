//! `upstream-not-multiplexed`: the gateway speaks HTTP/2 to the upstream, but without its streams: it sends
//! one request at a time on a connection.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use crate::{Case, Trial};
use hoptax_format::spec::HttpVersion;
use hoptax_plan::Gateway;
use hoptax_stats::share;

const CODE: &str = "upstream-not-multiplexed";
/// Smallest number of requests in flight per worker of the gateway. Workers usually do not share upstream
/// connections. With fewer requests in flight, a worker could have only one at a time.
const IN_FLIGHT: f64 = 4.0;
/// Smallest number of upstream requests. With fewer, two requests may by chance never have been on one
/// connection at the same time.
const FEWEST: u64 = 500;
/// From this share of requests on new connections, no connection is reused.
const ALL_NEW: f64 = 0.9;
/// From this share of HTTP/2 among the upstream requests, the gateway speaks HTTP/2. With less,
/// `protocol-downgraded` and `upstream-http-version` say so.
const MOSTLY: f64 = 0.5;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "note".into(),
        when: format!(
            "a gateway speaks HTTP/2 to the upstream with one request at a time on a connection, although at \
             least {IN_FLIGHT} requests per worker are in flight; or it opens connections for more than {} \
             of its upstream requests",
            percent(ALL_NEW)
        ),
        seen: "nginx since 1.29.4 and Apache do so.",
        advice: "Let requests share upstream connections (HAProxy: `http-reuse always`). If the gateway \
                 cannot, say so with its figures.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.gateways().filter_map(|measured| of_case(subject, measured)).collect()
}

/// Requests in flight on average.
fn in_flight(case: &Case, trials: &[Trial<'_>]) -> f64 {
    if !case.load.is_open() {
        return case.load.concurrency() as f64;
    }
    // Little's law.
    let busy: f64 = trials.iter().map(|trial| trial.completed as f64 * trial.service_time.mean()).sum();
    let measured: f64 = trials.iter().map(|trial| trial.measured_ns as f64).sum();
    share(busy, measured).unwrap_or(0.0)
}

fn of_case(subject: &Subject<'_>, (case, trials): Measured<'_>) -> Option<Finding> {
    let ledger = case.ledger.as_ref().filter(|ledger| ledger.requests >= FEWEST)?;
    let spoken = ledger.http_version.get("2").copied().unwrap_or(0);
    share(spoken as f64, ledger.requests as f64).filter(|share| *share > MOSTLY)?;
    let is_planned = subject.gateway(&case.gateway).is_some_and(Gateway::has_http2_upstream);
    // A gateway that forwards bytes passes on the clients' connections, with their single stream.
    if !is_planned && case.load.http == HttpVersion::Http2 && case.load.streams == 1 {
        return None;
    }
    let ledgers = || trials.iter().filter_map(|trial| trial.record.ledger.as_ref());
    let most_streams = ledgers().filter_map(|ledger| ledger.most_streams).max()?;
    let connections: u64 = ledgers().map(|ledger| ledger.connections).sum();
    let contender = subject.run.contenders.iter().find(|contender| contender.label == case.gateway);
    let workers = contender.and_then(|contender| contender.workers).unwrap_or(1);
    let in_flight = in_flight(case, trials);
    let per_request = share(connections as f64, ledger.requests as f64)?;
    let message = if per_request >= ALL_NEW {
        format!(
            "The gateway opened {connections} connections for {} upstream requests over HTTP/2. So almost \
             every request pays for a new connection and its settings, and none shares one.",
            ledger.requests
        )
    } else if most_streams <= 1 && in_flight >= IN_FLIGHT * f64::from(workers) {
        format!(
            "The gateway speaks HTTP/2 to the upstream, but never sent two requests on a connection at the \
             same time, although {in_flight:.0} requests were in flight. So it needs as many connections as \
             with HTTP/1.1."
        )
    } else {
        return None;
    };
    Some(Finding {
        evidence: evidence([
            ("most_streams", most_streams.into()),
            ("in_flight", in_flight.into()),
            ("workers", workers.into()),
            ("upstream_requests", ledger.requests.into()),
            ("upstream_connections", connections.into()),
        ]),
        message,
        ..about(CODE, Severity::Note, &case.case)
    })
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "of requests; of {} requests," number(FEWEST);
    METHODOLOGY "requests, {} open connections, or none share one" percent(ALL_NEW);
    METHODOLOGY "none share one although {} per worker are in flight" word(IN_FLIGHT);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{raised, texts};
    use super::*;
    use crate::fixture::{MadeTrial, Run, closed_point, features, open_point, via};
    use hoptax_plan::LoadPoint;

    /// A run whose plan requires HTTP/2 to upstreams of the gateway `envoy`.
    fn run(load: LoadPoint) -> Run {
        let mut run = Run::with_load(vec![load]);
        run.record.plan.gateways = vec![features::with_http2_upstream("envoy")];
        run
    }

    fn through(gateway: &str, version: &str, most_streams: Option<u64>) -> MadeTrial {
        let mut made = via(gateway, 0).upstream_versions(&[(version, 1000)]).upstream_connections(8);
        made.0.ledger.as_mut().expect("made with one").most_streams = most_streams;
        made
    }

    #[test]
    fn raised_by_one_request_at_a_time_and_by_one_connection_per_request() {
        let mut made = run(closed_point(32, 1));
        made.push(through("envoy", "2", Some(1)));
        // The plan need not require it: this gateway speaks HTTP/2 by itself.
        made.push(through("own", "2", Some(1)).upstream_connections(1000));
        let findings = raised(&made, CODE);
        assert_eq!(findings[0].evidence["most_streams"], 1);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn not_raised_by_shared_connections_few_requests_or_unknown_streams() {
        let mut made = run(closed_point(32, 1));
        made.push(through("envoy", "2", Some(2))).push(through("own", "1.1", Some(0)));
        assert_eq!(raised(&made, CODE), [], "shared connections");
        for load in [closed_point(3, 1), open_point(1000.0, 32, 1)] {
            let mut made = run(load);
            made.push(through("envoy", "2", Some(1)));
            assert_eq!(raised(&made, CODE), [], "few requests");
        }
        let mut made = run(closed_point(32, 1));
        made.push(through("envoy", "2", Some(1)));
        made.record.contenders.last_mut().expect("pushed").workers = Some(9);
        assert_eq!(raised(&made, CODE), [], "few requests");
        let load = LoadPoint { http: HttpVersion::Http2, ..closed_point(32, 1) };
        let mut made = run(load.clone());
        made.push(through("hop-l4", "2", Some(1))).push(through("envoy", "2", None));
        made.push(via("mine", 0).unwatched());
        assert_eq!(raised(&made, CODE), [], "no streams");
        let mut made = run(load);
        made.push(through("envoy", "2", Some(1)));
        assert_eq!(raised(&made, CODE).len(), 1);
    }
}
