//! gRPC calls through real gateways: without settings for gRPC in the plan, beside other requests, with
//! features, and over several upstream instances.

use crate::run::{report, run_to_success, trials};
use crate::support::refusals::{accepted, refused_plans};
use crate::support::{Json, Scratch};
use crate::upstream_leg;
use crate::world::is_missing;
use std::collections::BTreeSet;

/// Packs of gateways that pass calls and are installed wherever the tests run.
const PACKS: [&str; 7] = ["nginx", "nginx-lua", "haproxy", "envoy", "caddy", "apache", "nghttpx"];

/// Those that `grpc_streams` does not use.
const FURTHER: [&str; 4] = ["nginx-lua", "caddy", "apache", "nghttpx"];

/// The findings about calls. The report may contain others.
const FINDINGS: [&str; 3] = ["grpc-failed", "trailers-lost", "protocol-downgraded"];

fn installed() -> Vec<&'static str> {
    PACKS.into_iter().filter(|pack| !is_missing(pack)).collect()
}

/// The report and the trials of a run.
fn measured(plan: &str) -> (Json, Vec<Json>) {
    let scratch = Scratch::new();
    let directory = run_to_success(&scratch, plan, &["--accept-void"]);
    (report(&directory), trials(&directory))
}

/// The cases of a gateway. Each must have been measured, without a failed request.
fn cases<'r>(report: &'r Json, gateway: &str) -> Vec<&'r Json> {
    let cases = upstream_leg::cases(report, gateway);
    for case in &cases {
        let codes = case["findings"].as_array().expect("codes").iter().filter_map(Json::as_str);
        let found: Vec<&str> = codes.filter(|code| FINDINGS.contains(code)).collect();
        assert!(found.is_empty(), "{}: {found:?}", case["case"]);
    }
    cases
}

/// The HTTP versions that the upstream saw.
fn versions(case: &Json) -> BTreeSet<&str> {
    case["ledger"]["http_version"].as_object().expect("counts").keys().map(String::as_str).collect()
}

/// Every call must have succeeded, over HTTP/2 on both legs.
#[track_caller]
fn assert_calls_pass(report: &Json, gateways: &[&str]) {
    for gateway in gateways {
        for case in cases(report, gateway) {
            let counts = &case["counts"];
            assert_eq!(counts["grpc"], serde_json::json!({ "OK": counts["completed"] }), "{gateway}");
            assert_eq!(versions(case), BTreeSet::from(["2"]), "{gateway}");
        }
    }
}

#[test]
fn calls_pass_through_every_stock_gateway_without_a_setting() {
    let installed = installed();
    let (report, _) = measured(&format!(
        "gateways: [{}]
target: {{ grpc: {{ service: echo.Echo, method: Say, message: {{ size: 100B }} }} }}
load: [{{ loop: closed, connections: 2, http: 2, streams: 8, requests: 400, duration: 60s }}]
profile: stock
trials: 1
warmup: 20ms
",
        installed.join(", ")
    ));
    assert_calls_pass(&report, &installed);
}

/// The tests in `grpc_streams` use nginx, HAProxy and Envoy.
#[test]
fn streams_in_both_directions_pass_through_further_gateways() {
    let further: Vec<&str> = installed().into_iter().filter(|pack| FURTHER.contains(pack)).collect();
    let (report, _) = measured(&format!(
        "gateways: [{}]
target:
  grpc: {{ service: echo.Echo, method: Talk, kind: both-ways, messages: 10, every: 5ms, message: 100B }}
load: [{{ loop: closed, connections: 2, http: 2, streams: 4, duration: 200ms }}]
trials: 1
warmup: 20ms
",
        further.join(", ")
    ));
    for gateway in further {
        for case in cases(&report, gateway) {
            let messages = &case["messages"];
            assert!(messages["sent"].as_u64() > Some(0), "{gateway}: {messages}");
            assert_eq!(messages["received"], messages["sent"], "{gateway}: {messages}");
            assert_eq!(messages["lost"].as_u64(), Some(0), "{gateway}: {messages}");
        }
    }
}

/// nginx passes calls on with other directives than requests. The other gateways speak HTTP/2 to the upstream
/// for both.
#[test]
fn calls_and_other_requests_pass_through_the_same_gateway() {
    let installed = installed();
    let (report, _) = measured(&format!(
        "gateways: [{}]
target:
  - {{ name: call, grpc: {{ service: echo.Echo, method: Say, message: {{ size: 100B }} }} }}
  - {{ name: page, path: /page }}
load: [{{ loop: closed, connections: 2, http: 2, streams: 8, requests: 400, duration: 60s }}]
trials: 1
warmup: 20ms
",
        installed.join(", ")
    ));
    for gateway in &installed {
        for case in cases(&report, gateway) {
            let targets = case["targets"].as_array().expect("targets");
            assert!(targets.len() == 2, "{gateway}: {targets:?}");
            assert!(targets.iter().all(|target| target["scheduled"].as_u64() > Some(0)), "{targets:?}");
            let by_path = gateway.starts_with("nginx");
            let expected = if by_path { BTreeSet::from(["1.1", "2"]) } else { BTreeSet::from(["2"]) };
            assert_eq!(versions(case), expected, "{gateway}");
        }
    }
}

/// Before the first trial, a run proves each feature.
#[test]
fn features_work_with_calls() {
    needs!("nginx", "haproxy", "envoy");
    let entry = |pack: &str, features: &str| {
        format!("  - {{ name: {pack}, label: {pack}-{features}, features: [{features}] }}\n")
    };
    let all = [
        ("nginx", "path-rewrite"),
        ("nginx", "header-rewrite"),
        ("nginx", "request-id"),
        ("nginx", "upstream-tls"),
        ("nginx", "tls"),
        ("haproxy", "upstream-tls"),
        ("envoy", "upstream-tls"),
        ("envoy", "path-rewrite"),
    ];
    let gateways: String = all.iter().map(|(pack, features)| entry(pack, features)).collect();
    let (report, _) = measured(&format!(
        "gateways:
{gateways}target: {{ grpc: {{ service: echo.Echo, method: Say, message: {{ size: 100B }} }} }}
load: [{{ loop: closed, connections: 1, http: 2, streams: 4, requests: 100, duration: 60s }}]
trials: 1
warmup: 20ms
"
    ));
    for (pack, features) in all {
        let label = format!("{pack}-{features}");
        for case in cases(&report, &label) {
            assert_eq!(versions(case), BTreeSet::from(["2"]), "{label}");
        }
    }
}

/// All calls come over one connection. A gateway that balances calls gives each of three instances about a
/// third. `hop-l4` balances connections, so that one instance gets everything.
#[test]
fn calls_pass_through_every_equalised_gateway_which_balances_them_and_not_connections() {
    let installed = installed();
    let (report, rows) = measured(&format!(
        "upstream: {{ instances: 3 }}
gateways: [hop-l4, {}]
target: {{ grpc: {{ service: echo.Echo, method: Say, message: {{ size: 100B }} }} }}
load: [{{ loop: closed, connections: 1, http: 2, streams: 30, requests: 600, duration: 60s }}]
trials: 1
warmup: 20ms
",
        installed.join(", ")
    ));
    assert_calls_pass(&report, &installed);
    for gateway in installed.into_iter().chain(["hop-l4"]) {
        let trial = rows.iter().find(|trial| trial["contender"] == gateway).expect("a trial");
        assert!(trial["failed"].is_null(), "{gateway}: {}", trial["failed"]);
        let counts = trial["ledger"]["by_instance"].as_array().expect("counts");
        let counts: Vec<u64> = counts.iter().map(|count| count.as_u64().expect("a count")).collect();
        let (all, least): (u64, _) = (counts.iter().sum(), counts.iter().min());
        assert!(all > 0 && counts.len() == 3, "{gateway}: {counts:?}");
        if gateway == "hop-l4" {
            assert!(counts.contains(&all), "{gateway}: {counts:?}");
        } else {
            assert!(least.is_some_and(|least| 5 * least > all), "{gateway}: {counts:?}");
        }
    }
}

#[test]
fn check_refuses_gateways_that_do_not_pass_calls() {
    let plan = |gateway: &str| {
        format!(
            "gateways: [{gateway}]\ntarget: {{ grpc: {{ service: a, method: B }} }}\nload: [{{ loop: closed, \
             connections: 1, http: 2 }}]\n"
        )
    };
    insta::assert_snapshot!(refused_plans(
        &["h2o", "ocelot", "{ name: envoy, upstream_http: 1.1 }"].map(plan)
    ));
    let said = accepted(&plan("envoy"));
    assert!(said.contains("HTTP/2 to upstreams"), "{said}");
}
