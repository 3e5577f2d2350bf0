//! Runs with gRPC calls: through hops and gateways, and with planted faults.

use crate::http2_runs::measured_through;
use crate::run::{assert_found, case, cases, measured};
use crate::support::streams::Wrong;
use crate::support::{hoptax, json, succeed};
use crate::wire::Server;
use crate::world::is_missing;

const TARGET: &str = "target: { grpc: { service: echo.Echo, method: Say, message: { size: 100B } } }";

/// Every call must succeed, also those with large messages, and the upstream must see HTTP/2 only.
#[test]
fn calls_pass_through_hops_and_gateways() {
    let packs = ["nginx", "haproxy", "envoy"].into_iter().filter(|pack| !is_missing(pack));
    let packs: Vec<&str> = packs.collect();
    for body in ["1KiB", "300KiB"] {
        let report = measured(&format!(
            "upstream: {{ body: {body} }}
gateways: [{}]
{TARGET}
load: [{{ loop: closed, connections: 2, http: 2, streams: [1, 8], requests: 200, duration: 60s }}]
trials: 1
warmup: 20ms
",
            [&["hop-l4", "hop-h2"][..], packs.as_slice()].concat().join(", ")
        ));
        // Each gateway, and direct.
        assert_eq!(cases(&report).len(), 2 * (3 + packs.len()));
        for case in cases(&report) {
            let (name, counts) = (&case["case"], &case["counts"]);
            assert!(case["trials"].as_u64() > Some(0), "{name}: {}", case["failed"]);
            assert_eq!(counts["scheduled"], counts["ok"], "{name}: {counts}");
            assert_eq!(counts["grpc"], serde_json::json!({ "OK": counts["completed"] }), "{name}");
            assert_eq!(counts.get("trailers_lost"), None, "{name}");
            let versions: Vec<&String> =
                case["ledger"]["http_version"].as_object().expect("counts").keys().collect();
            assert_eq!(versions, ["2"], "{name}");
        }
    }
}

/// Findings that are planted here. The report may contain others.
const PLANTED: [&str; 2] = ["grpc-failed", "trailers-lost"];

#[test]
fn faults_of_servers_are_found_only_where_they_were_planted() {
    let right = Wrong::default;
    let plants: [(&str, Wrong, &[&str]); 3] = [
        ("faithful", right(), &[]),
        ("fails", Wrong { fail_every: Some(7), ..right() }, &["grpc-failed"]),
        // Calls without a status count as UNKNOWN.
        ("loses", Wrong { lose_trailers_every: Some(7), ..right() }, &["grpc-failed", "trailers-lost"]),
    ];
    let servers: Vec<(&str, Wrong)> = plants.iter().map(|(label, wrong, _)| (*label, *wrong)).collect();
    let load = "load: [{ loop: closed, connections: 2, http: 2, streams: 8, requests: 300, duration: 60s }]
trials: 2
";
    let report = measured_through(&servers, right(), &format!("{TARGET}\n{load}"));
    let none: &[&str] = &[];
    let expected = plants.iter().map(|(label, _, codes)| (*label, *codes));
    assert_found(&report, &PLANTED, expected.chain([("direct", none)]));
    let fails = case(&report, "fails");
    let statuses: Vec<&String> = fails["counts"]["grpc"].as_object().expect("counts").keys().collect();
    assert_eq!(statuses, ["OK", "UNAVAILABLE"]);
}

/// `hoptax load` directly and through the hops. Some calls fail as the upstream's settings say.
#[test]
fn a_load_of_calls_counts_their_statuses() {
    let upstream = Server::start(&["upstream", "--failures", "20%", "--body-size", "10B"]);
    let (_l4, through_l4) = Server::hop("l4", upstream.instance(0), &[]);
    let (_h2, through_h2) = Server::hop("h2", upstream.instance(0), &[]);
    for address in [upstream.instance(0), through_l4, through_h2] {
        let url = format!("http://{address}");
        let call = ["--grpc", "echo.Echo/Say", "--body-size", "100B", "--deadline", "5s"];
        let load = ["-c", "2", "--streams", "5", "-n", "2000", "--fail-above", "100%", "--json"];
        let result = json(hoptax().args(["load", &url]).args(call).args(load));
        let (counts, grpc) = (&result["counts"], &result["counts"]["grpc"]);
        let (ok, failed) = (grpc["OK"].as_u64(), grpc["UNAVAILABLE"].as_u64());
        assert_eq!(ok.zip(failed).map(|(ok, failed)| ok + failed), Some(2000), "{url}: {counts}");
        assert!((300..500).contains(&failed.expect("counted")), "{url}: {counts}");
        assert_eq!(counts["ok"].as_u64(), ok, "{url}");
        assert_eq!(counts["status"], serde_json::json!({ "200": 2000 }), "{url}");
        let expected = ["--expect-grpc", "ok,unavailable", "--fail-above", "0%"];
        let said = succeed(hoptax().args(["load", &url]).args(call).args(["-n", "200"]).args(expected));
        assert!(said.contains("gRPC status") && said.contains("UNAVAILABLE: "), "{said}");
    }
}

/// Health checks, as gateways send them, succeed although all other calls fail.
#[test]
fn health_checks_of_the_upstream_succeed() {
    let upstream = Server::start(&["upstream", "--failures", "100%"]);
    let url = format!("http://{}", upstream.instance(0));
    let load = ["-c", "1", "-n", "100", "--fail-above", "100%", "--json"];
    for (method, status) in [("grpc.health.v1.Health/Check", "OK"), ("echo.Echo/Say", "UNAVAILABLE")] {
        let result = json(hoptax().args(["load", &url, "--grpc", method]).args(load));
        assert_eq!(result["counts"]["grpc"], serde_json::json!({ status: 100 }), "{method}");
    }
}
