//! `protocol-downgraded`: the plan requires HTTP/2 on a leg, but requests arrived over HTTP/1.

use super::upstream_http_version::passes_on;
use super::{Finding, Rule, Severity, Subject, about, evidence, percent};
use crate::Case;
use hoptax_format::spec::HttpVersion;
use hoptax_plan::Gateway;
use hoptax_stats::share;
use serde_json::json;

const CODE: &str = "protocol-downgraded";
/// HTTP/1 counts only if more than this share of the upstream requests use it, because health checks may use
/// it.
const COUNTS: f64 = 0.01;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "void".into(),
        when: format!(
            "the plan requires HTTP/2 to the upstream (`upstream_http: 2`), or in the load of direct and of \
             `hop-l4` (`http: 2`), but more than {} of the upstream requests used HTTP/1",
            percent(COUNTS)
        ),
        seen: "Without agreement by ALPN, many proxies silently fall back to HTTP/1.1.",
        advice: "Switch on HTTP/2 to upstreams in the gateway's configuration, or correct the version in the \
                 plan.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(|(case, _)| of_case(subject, case)).collect()
}

fn of_case(subject: &Subject<'_>, case: &Case) -> Option<Finding> {
    let is_planned = subject.gateway(&case.gateway).is_some_and(Gateway::has_http2_upstream);
    let passes_on = case.is_direct() || passes_on(subject, &case.gateway);
    let is_required = is_planned || (passes_on && case.load.http == HttpVersion::Http2);
    if !is_required {
        return None;
    }
    let ledger = case.ledger.as_ref()?;
    let old = || ledger.http_version.iter().filter(|(version, _)| *version != "2");
    let (version, _) = old().max_by_key(|(_, count)| **count)?;
    let count: u64 = old().map(|(_, count)| count).sum();
    let share = share(count as f64, ledger.requests as f64).filter(|share| *share > COUNTS)?;
    let (required, advice) = if is_planned {
        (
            "The plan requires HTTP/2 to the upstream (`upstream_http: 2`)",
            "Switch on HTTP/2 to upstreams in the gateway's configuration, or remove `upstream_http`.",
        )
    } else {
        ("The load uses HTTP/2 (`http: 2`)", "Find out who answers in place of the upstream.")
    };
    Some(Finding {
        evidence: evidence([("http_version", json!(ledger.http_version)), ("share", share.into())]),
        message: format!(
            "{required}, but {} of the upstream requests used HTTP/{version}. So the figures are not those \
             of HTTP/2.",
            percent(share)
        ),
        advice: advice.to_owned(),
        ..about(CODE, Severity::Void, &case.case)
    })
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "HTTP/1 carries over {} of requests" percent(COUNTS);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{raised, texts};
    use super::*;
    use crate::fixture::{Run, closed_point, features, via};
    use hoptax_plan::{GatewayKind, LoadPoint};

    /// A run whose plan requires HTTP/2 to upstreams of the gateway `envoy`.
    fn run(http: HttpVersion) -> Run {
        let mut run = Run::with_load(vec![LoadPoint { http, ..closed_point(8, 1) }]);
        run.record.plan.gateways = vec![features::with_http2_upstream("envoy")];
        run
    }

    #[test]
    fn raised_on_the_leg_to_the_upstream() {
        let run = run(HttpVersion::Http11)
            .with([via("direct", 0).first(), via("envoy", 0).upstream_versions(&[("1.1", 800), ("2", 200)])]);
        let findings = raised(&run, CODE);
        assert_eq!(findings[0].evidence["share"], 0.8);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn raised_on_the_leg_of_clients_if_nobody_converts() {
        let mut run = run(HttpVersion::Http2);
        run.push(via("direct", 0).first().upstream_versions(&[("1.1", 900), ("2", 100)]));
        run.push(via("hop-l4", 0).upstream_versions(&[("1.1", 1000)]));
        // The plan does not prescribe the versions of this gateway.
        run.push(via("nginx", 0));
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
    }

    #[test]
    fn not_raised_by_http2_a_few_health_checks_or_without_a_ledger() {
        let mut run = run(HttpVersion::Http2);
        run.push(via("direct", 0).first().upstream_versions(&[("2", 1000)]));
        run.push(via("envoy", 0).upstream_versions(&[("1.1", 5), ("2", 995)]));
        assert_eq!(raised(&run, CODE), []);
        let mut unknown = self::run(HttpVersion::Http11);
        unknown.push(via("envoy", 0).unwatched());
        assert_eq!(raised(&unknown, CODE), []);
    }

    #[test]
    fn hop_h2_has_the_version_of_the_plan() {
        for (upstream, expected) in [(HttpVersion::Http11, 0), (HttpVersion::Http2, 1)] {
            let mut run = run(HttpVersion::Http2);
            run.record.plan.gateways[0].kind = GatewayKind::Http2Hop { upstream, delay: None };
            run.push(via("envoy", 0));
            assert_eq!(raised(&run, CODE).len(), expected, "{upstream:?}");
        }
    }
}
