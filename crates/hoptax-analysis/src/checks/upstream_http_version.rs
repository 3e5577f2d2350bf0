//! `upstream-http-version`: contenders use different HTTP versions for requests to the upstream.

use super::{Finding, Rule, Severity, Subject, about, evidence, percent};
use crate::Case;
use hoptax_format::spec::HttpVersion;
use hoptax_plan::Gateway;
use hoptax_stats::share;
use serde_json::json;
use std::collections::BTreeMap;

const CODE: &str = "upstream-http-version";
/// A version counts only if more than this share of the upstream requests use it, because health checks may
/// use a different version.
const COUNTS: f64 = 0.01;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "more than {} of a gateway's upstream requests use another HTTP version than direct (with \
             HTTP/1.0 and HTTP/2: than most gateways)",
            percent(COUNTS)
        ),
        seen: "When one proxy changed its default from HTTP/1.0 to HTTP/1.1, rankings reversed.",
        advice: "Set the same HTTP version for upstream requests in every gateway (nginx: \
            `proxy_http_version`).",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let loads = 0..subject.run.load.len();
    loads.flat_map(|load| of_load(subject, load)).collect()
}

fn of_load(subject: &Subject<'_>, load: usize) -> Vec<Finding> {
    let Some(spoken) = subject.run.load.get(load).map(|point| point.http) else { return Vec::new() };
    let gateways: Vec<&Case> = subject
        .gateways()
        .map(|(case, _)| case)
        .filter(|case| case.load.index == load && !passes_on(subject, &case.gateway))
        .filter(|case| !is_planned(subject, &case.gateway))
        .collect();
    // If clients use HTTP/1.0 or HTTP/2, gateways still choose their own version for upstream requests. In
    // that case, gateways are compared with each other instead of with direct.
    let expected = match spoken {
        HttpVersion::Http10 | HttpVersion::Http2 => commonest(gateways.iter().filter_map(|case| main(case))),
        HttpVersion::Http11 => subject.direct(load).and_then(|(case, _)| main(case)),
    };
    let Some(expected) = expected else { return Vec::new() };
    gateways.into_iter().filter_map(|case| finding(case, &expected)).collect()
}

/// True if the gateway forwards the clients' bytes unchanged.
pub(super) fn passes_on(subject: &Subject<'_>, label: &str) -> bool {
    subject.run.contenders.iter().any(|contender| contender.label == label && contender.kind == "hop-l4")
}

/// True if the plan requires HTTP/2 to upstreams of this gateway. `protocol-downgraded` then checks it.
fn is_planned(subject: &Subject<'_>, label: &str) -> bool {
    subject.gateway(label).is_some_and(Gateway::has_http2_upstream)
}

/// The version that most upstream requests used.
fn main(case: &Case) -> Option<String> {
    let versions = &case.ledger.as_ref()?.http_version;
    versions.iter().max_by_key(|(_, count)| **count).map(|(version, _)| version.clone())
}

/// The most frequent version. If several versions are equally frequent, takes the newest.
fn commonest(versions: impl Iterator<Item = String>) -> Option<String> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for version in versions {
        *counts.entry(version).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(version, _)| version)
}

fn finding(case: &Case, expected: &str) -> Option<Finding> {
    let ledger = case.ledger.as_ref()?;
    let others = ledger.http_version.iter().filter(|(version, _)| *version != expected);
    let (version, _) = others.clone().max_by_key(|(_, count)| **count)?;
    let count: u64 = others.map(|(_, count)| count).sum();
    let share = share(count as f64, ledger.requests as f64).filter(|share| *share > COUNTS)?;
    Some(Finding {
        evidence: evidence([
            ("http_version", json!(ledger.http_version)),
            ("expected", expected.into()),
            ("share", share.into()),
        ]),
        message: format!(
            "{} of the upstream requests used HTTP/{version} instead of HTTP/{expected}. These versions \
             handle connections and bodies differently, so the gateway is not the only cause of a \
             difference.",
            percent(share)
        ),
        advice: match expected {
            "2" => "Set HTTP/2 for upstream requests (in the plan: `upstream_http: 2`).".to_owned(),
            _ => format!("Set HTTP/{expected} for upstream requests (nginx: `proxy_http_version`)."),
        },
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{raised, texts};
    use super::*;
    use crate::fixture::{Run, closed_point, features, via};
    use hoptax_plan::LoadPoint;

    #[test]
    fn raised_by_a_gateway_with_another_version_than_direct() {
        let mut run = Run::steady(2, 100, &[("haproxy", 150)]);
        run.push(via("nginx", 0).upstream_versions(&[("1.0", 1000)]));
        run.push(via("half", 0).upstream_versions(&[("1.0", 400), ("1.1", 600)]));
        let findings = raised(&run, CODE);
        insta::assert_snapshot!(texts(&findings));
        assert_eq!(findings[0].evidence["expected"], "1.1");
        assert_eq!(findings[1].evidence["share"], 0.4);
    }

    #[test]
    fn with_clients_of_1_0_gateways_are_compared_with_each_other() {
        let mut run = Run::with_load(vec![LoadPoint { http: HttpVersion::Http10, ..closed_point(8, 1) }]);
        run.push(via("direct", 0).first().upstream_versions(&[("1.0", 1000)]));
        run.push(via("haproxy", 0)).push(via("nginx", 0));
        assert_eq!(raised(&run, CODE), [], "each uses 1.1 towards the upstream");
        run.push(via("old", 0).upstream_versions(&[("1.0", 1000)]));
        assert_eq!(raised(&run, CODE).len(), 1);
    }

    #[test]
    fn the_advice_for_http2_is_a_key_of_the_plan() {
        let mut run = Run::with_load(vec![LoadPoint { http: HttpVersion::Http2, ..closed_point(8, 1) }]);
        run.push(via("direct", 0).first().upstream_versions(&[("2", 1000)]));
        for gateway in ["one", "two"] {
            run.push(via(gateway, 0).upstream_versions(&[("2", 1000)]));
        }
        run.push(via("nginx", 0));
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].advice.contains("`upstream_http: 2`"), "{findings:?}");
    }

    #[test]
    fn not_raised_by_a_version_of_the_plan_health_checks_or_without_a_ledger() {
        let mut run = Run::steady(2, 100, &[("nginx", 150)]);
        run.record.plan.gateways = vec![features::with_http2_upstream("haproxy")];
        run.push(via("haproxy", 0).upstream_versions(&[("2", 1000)]));
        assert_eq!(raised(&run, CODE), []);
        run.record.plan.gateways.clear();
        assert_eq!(raised(&run, CODE).len(), 1);
        let mut run = Run::steady(2, 100, &[("haproxy", 150)]);
        run.push(via("nginx", 0).upstream_versions(&[("1.0", 5), ("1.1", 995)]))
            .push(via("mine", 0).unwatched());
        assert_eq!(raised(&run, CODE), [], "health checks");
    }
}
