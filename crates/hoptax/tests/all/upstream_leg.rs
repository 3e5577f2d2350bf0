//! HTTP/2 to the upstream: through real gateways, with planted faults, and refused where a pack cannot.

use crate::run::measured_with;
use crate::support::planted_pack::altered;
use crate::support::refusals::{accepted, refused_plans};
use crate::support::{Json, Scratch};
use crate::world::is_missing;
use std::collections::BTreeSet;

/// Packs of installed gateways that can speak HTTP/2 to upstreams, and whether requests share connections.
const PACKS: [(&str, bool); 5] =
    [("haproxy", true), ("envoy", true), ("caddy", true), ("nghttpx", true), ("apache", false)];

/// The findings about this leg. The report may contain others.
const FINDINGS: [&str; 2] = ["protocol-downgraded", "upstream-not-multiplexed"];

/// The cases of a gateway. Each must have been measured, without a failed request.
pub(crate) fn cases<'r>(report: &'r Json, gateway: &str) -> Vec<&'r Json> {
    let all = report["cases"].as_array().expect("cases").iter();
    let cases: Vec<&Json> = all.filter(|case| case["gateway"] == gateway).collect();
    assert!(!cases.is_empty(), "{gateway}");
    for case in &cases {
        assert!(case["trials"].as_u64() > Some(0), "{}: {}", case["case"], case["failed"]);
        assert_eq!(case["counts"]["scheduled"], case["counts"]["ok"], "{}: {}", case["case"], case["counts"]);
    }
    cases
}

fn versions(case: &Json) -> Vec<&str> {
    case["ledger"]["http_version"].as_object().expect("counts").keys().map(String::as_str).collect()
}

fn found(case: &Json) -> BTreeSet<&str> {
    let codes = case["findings"].as_array().expect("codes").iter().filter_map(Json::as_str);
    codes.filter(|code| FINDINGS.contains(code)).collect()
}

/// Both load points have eight requests in flight. A finding about shared connections needs 500 requests.
#[test]
fn gateways_speak_http2_to_the_upstream_if_the_plan_asks_for_it() {
    let installed: Vec<(&str, bool)> = PACKS.into_iter().filter(|(pack, _)| !is_missing(pack)).collect();
    let legs = [("", ""), ("-tls", ", features: [upstream-tls]")];
    let entry = |pack: &str, (leg, with): (&str, &str)| {
        let plain = format!("  - {{ name: {pack}, label: {pack}{leg}{with} }}\n");
        plain + &format!("  - {{ name: {pack}, label: {pack}{leg}-2, upstream_http: 2{with} }}\n")
    };
    let gateways: String = installed.iter().flat_map(|(pack, _)| legs.map(|leg| entry(pack, leg))).collect();
    let report = measured_with(
        &format!(
            "gateways:
{gateways}target: {{ method: POST, path: /, body: {{ size: 1KiB }} }}
load:
  - {{ loop: closed, connections: 8, requests: 600, duration: 60s }}
  - {{ loop: closed, connections: 2, http: 2, streams: 4, requests: 600, duration: 60s }}
trials: 1
warmup: 20ms
"
        ),
        &[],
    );
    for (pack, shares) in &installed {
        for (leg, _) in legs {
            for case in cases(&report, &format!("{pack}{leg}")) {
                assert_eq!(versions(case), ["1.1"], "{}", case["case"]);
                assert_eq!(found(case), BTreeSet::new(), "{}", case["case"]);
            }
            for case in cases(&report, &format!("{pack}{leg}-2")) {
                let name = &case["case"];
                assert_eq!(versions(case), ["2"], "{name}");
                let per_request = case["ledger"]["connections_per_request"].as_f64().expect("counted");
                assert!(per_request < 0.5, "{name}: {per_request} connections per request");
                let alone = (!shares).then_some("upstream-not-multiplexed");
                let expected: BTreeSet<&str> = alone.into_iter().collect();
                assert_eq!(found(case), expected, "{name}: {}", case["ledger"]);
            }
        }
    }
}

#[test]
fn a_version_that_is_not_spoken_and_connections_that_are_not_shared_are_found() {
    needs!("haproxy");
    let scratch = Scratch::new();
    let packs = scratch.path().join("packs");
    // The pack claims HTTP/2, but its server line has only a weight.
    let template = "haproxy.cfg.j2";
    altered(&packs, "haproxy", "downgraded", &[(template, r#"else "proto h2""#, r#"else "weight 1""#)]);
    altered(&packs, "haproxy", "lonely", &[(template, "http-reuse always", "http-reuse never")]);
    let report = measured_with(
        "gateways:
  - { name: haproxy, upstream_http: 2 }
  - { name: downgraded, upstream_http: 2 }
  - { name: lonely, upstream_http: 2 }
load: [{ loop: closed, connections: 16, requests: 500, duration: 60s }]
trials: 2
warmup: 20ms
",
        &["--packs", packs.to_str().expect("text")],
    );
    let expected: [(&str, &[&str]); 4] = [
        ("direct", &[]),
        ("haproxy", &[]),
        ("downgraded", &["protocol-downgraded"]),
        ("lonely", &["upstream-not-multiplexed"]),
    ];
    for (gateway, codes) in expected {
        for case in cases(&report, gateway) {
            let expected: BTreeSet<&str> = codes.iter().copied().collect();
            assert_eq!(found(case), expected, "{gateway}: {}", case["ledger"]);
        }
    }
}

#[test]
fn check_refuses_a_pack_that_cannot_and_shows_what_the_others_do() {
    insta::assert_snapshot!(refused_plans(&["gateways: [{ name: nginx, upstream_http: 2 }]\n"]));
    let said = accepted("gateways: [{ name: haproxy, upstream_http: 2 }]\n");
    assert!(said.contains("HTTP/2 to upstreams"), "{said}");
}
