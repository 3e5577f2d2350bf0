//! Runs over HTTP/2: through real gateways, and with planted faults.

use crate::findings::two_ports;
use crate::run::{assert_found, case, cases, measured, run, text};
use crate::support::nginx::Nginx;
use crate::support::streams::{StreamServer, Wrong};
use crate::support::{Json, Scratch, hoptax, retry_if_disturbed, succeed};
use crate::world::is_missing;
use std::collections::BTreeSet;
use std::time::Duration;

/// Every request must be answered, with the streams that the plan asks for, and the upstream must see HTTP/2
/// from direct and HTTP/1.1 from the gateways.
#[track_caller]
fn is_clean(report: &Json, forwards_bytes: &[&str]) {
    for case in cases(report) {
        let name = &case["case"];
        assert!(case["trials"].as_u64() > Some(0), "{name}: {}", case["failed"]);
        let counts = &case["counts"];
        assert_eq!(counts["scheduled"], counts["ok"], "{name}: {counts}");
        let streams = case["load"].get("streams").and_then(Json::as_u64).unwrap_or(1);
        assert_eq!(case["http2"]["most_streams"].as_u64(), Some(streams), "{name}: {}", case["http2"]);
        let gateway = case["gateway"].as_str().expect("a name");
        let passes_on = gateway == "direct" || forwards_bytes.contains(&gateway);
        let versions: Vec<&String> =
            case["ledger"]["http_version"].as_object().expect("counts").keys().collect();
        assert_eq!(versions, [if passes_on { "2" } else { "1.1" }], "{name}");
    }
}

#[test]
fn gateways_are_measured_over_http2() {
    let report = measured(
        "gateways:
  - hop-l4
  - hop-h2
  - { name: hop-h2, label: down, upstream_http: 1.1 }
  - nginx
  - haproxy
  - envoy
  - h2o
load: [{ loop: closed, connections: 2, http: 2, streams: [1, 8], requests: 400, duration: 60s }]
trials: 1
warmup: 20ms
",
    );
    assert_eq!(cases(&report).len(), 16);
    is_clean(&report, &["hop-l4", "hop-h2"]);
}

#[test]
fn known_delays_of_hop_h2_are_found() {
    let versions = ["1.1", "2"];
    let gateways: String = versions
        .iter()
        .map(|version| {
            let hop = format!("name: hop-h2, upstream_http: {version}");
            let delay = "delay: { in: 4ms, out: 3ms }";
            format!(
                "  - {{ {hop}, label: bare-{version} }}\n  - {{ {hop}, label: slow-{version}, {delay} }}\n"
            )
        })
        .collect();
    let plan = format!(
        "gateways:
{gateways}load: [{{ loop: open, rate: 200/s, connections: 2, http: 2, streams: 4, duration: 400ms }}]
trials: 2
warmup: 20ms
"
    );
    retry_if_disturbed(|| {
        let report = measured(&plan);
        let median = |gateway: String| {
            case(&report, &gateway)["response_time"]["p50"]["estimate"].as_f64().expect("measured")
        };
        for version in versions {
            let added = median(format!("slow-{version}")) - median(format!("bare-{version}"));
            if !(6_900.0..8_000.0).contains(&added) {
                return Err(format!("HTTP/{version}: {added} µs"));
            }
        }
        Ok(())
    });
}

/// HTTP/1.1 and HTTP/2 of one gateway are load points of one run.
#[test]
fn gateways_are_measured_with_tls_over_both_versions() {
    let report = measured(
        "gateways:
  - { name: nginx, features: [tls, key-auth] }
  - { name: haproxy, features: [tls, key-auth] }
  - { name: envoy, features: [tls, key-auth] }
  - { name: h2o, features: [tls, key-auth] }
load: [{ loop: open, rate: 500/s, connections: 2, http: [1.1, 2], streams: [1, 4], duration: 150ms }]
trials: 1
warmup: 20ms
",
    );
    let mut versions = BTreeSet::new();
    for case in cases(&report) {
        let (name, counts) = (&case["case"], &case["counts"]);
        assert!(case["trials"].as_u64() > Some(0), "{name}: {}", case["failed"]);
        // A connection of HTTP/1.1 that answers slowly leaves the last requests unsent.
        assert_eq!(counts["sent"], counts["ok"], "{name}: {counts}");
        assert!(counts["ok"].as_u64() > Some(0), "{name}: {counts}");
        let version = case["load"]["http"].as_str().expect("a version");
        versions.insert((version, case["load"].get("streams").and_then(Json::as_u64).unwrap_or(1)));
        if version == "2" && case["gateway"] != "direct" {
            let alpn = case["tls"]["alpn"].as_object().expect("counts");
            assert_eq!(alpn.keys().collect::<Vec<_>>(), ["h2"], "{name}");
        }
    }
    assert_eq!(versions, BTreeSet::from([("1.1", 1), ("2", 1), ("2", 4)]));
}

/// The other installed gateways, with more streams than most of them allow by default. Only nginx-lua has no
/// HTTP/1 on a port with HTTP/2, and Varnish has no TLS.
#[test]
fn further_gateways_are_measured_over_http2() {
    let installed: Vec<&str> = ["apache", "caddy", "varnish", "trafficserver", "nghttpx", "nginx-lua"]
        .into_iter()
        .filter(|pack| !is_missing(pack))
        .collect();
    let plain = installed.iter().map(|pack| format!("  - {{ name: {pack} }}\n"));
    let over_tls = installed
        .iter()
        .filter(|pack| **pack != "varnish")
        .map(|pack| format!("  - {{ name: {pack}, label: {pack}-tls, features: [tls] }}\n"));
    let gateways: String = plain.chain(over_tls).collect();
    let report = measured(&format!(
        "gateways:
{gateways}target: {{ method: POST, path: /, body: {{ size: 1KiB }} }}
load: [{{ loop: closed, connections: 2, http: 2, streams: 150, requests: 1500, duration: 60s }}]
trials: 1
warmup: 50ms
"
    ));
    is_clean(&report, &[]);
}

/// Findings that are planted here. The report may contain others.
const PLANTED: [&str; 7] = [
    "abuse-guard",
    "connections-recycled",
    "head-of-line",
    "streams-capped",
    "streams-refused",
    "window-stalled",
    "workers-starved",
];

fn found(report: &Json, gateway: &str) -> BTreeSet<String> {
    crate::run::found(report, gateway, &PLANTED)
}

/// Runs a plan in which these servers take the place of gateways. `rest` contains the load.
pub(crate) fn measured_through(servers: &[(&str, Wrong)], upstream: Wrong, rest: &str) -> Json {
    let upstream = StreamServer::start(upstream);
    let servers: Vec<(&str, StreamServer)> =
        servers.iter().map(|(label, wrong)| (*label, StreamServer::start(*wrong))).collect();
    let gateways: String = servers
        .iter()
        .map(|(label, server)| {
            format!("  - {{ name: external, label: {label}, url: \"{}\" }}\n", server.url())
        })
        .collect();
    let url = upstream.url();
    measured(&format!(
        "name: planted\nupstream: {{ url: \"{url}\" }}\ngateways:\n{gateways}warmup: 0s\n{rest}"
    ))
}

/// The evidence of a finding about a gateway.
fn evidence<'a>(report: &'a Json, code: &str, gateway: &str) -> &'a Json {
    let findings = report["findings"].as_array().expect("findings");
    let is_of = |finding: &&Json| {
        let case = finding["case"].as_str().unwrap_or_default();
        finding["code"] == code && case.starts_with(&format!("{gateway},"))
    };
    let found = findings.iter().find(is_of);
    &found.unwrap_or_else(|| panic!("{code} of {gateway}: {findings:?}"))["evidence"]
}

#[test]
fn faults_of_servers_are_found_only_where_they_were_planted() {
    let right = Wrong::default;
    let recycles = Wrong { go_away_after: Some(100), ..right() };
    let plants: [(&str, Wrong, &[&str]); 6] = [
        ("faithful", right(), &[]),
        ("capped", Wrong { streams: Some(4), ..right() }, &["streams-capped"]),
        ("refuses", Wrong { refuse_every: Some(7), ..right() }, &["streams-refused"]),
        ("recycles", recycles, &["connections-recycled"]),
        ("annoyed", Wrong { is_annoyed: true, ..recycles }, &["abuse-guard"]),
        ("narrow", Wrong { window: Some((4096, Duration::from_millis(1))), ..right() }, &["window-stalled"]),
    ];
    let servers: Vec<(&str, Wrong)> = plants.iter().map(|(label, wrong, _)| (*label, *wrong)).collect();
    let report = measured_through(
        &servers,
        right(),
        "target: { method: PUT, path: /, body: { size: 16KiB } }
load: [{ loop: closed, connections: 2, http: 2, streams: 8, requests: 800, duration: 500ms }]
trials: 2
",
    );
    let none: &[&str] = &[];
    let expected = plants.iter().map(|(label, _, codes)| (*label, *codes));
    assert_found(&report, &PLANTED, expected.chain([("direct", none)]));
}

/// Every twentieth response is slow. One server sends the others meanwhile, and one makes them wait.
fn slow() -> Wrong {
    Wrong { slow_every: Some((20, Duration::from_millis(10))), ..Wrong::default() }
}

#[test]
fn responses_that_wait_for_a_slow_one_are_found() {
    let servers = [("overtakes", slow()), ("orderly", Wrong { in_order: true, ..slow() })];
    let load = "load: [{ loop: closed, connections: 1, http: 2, streams: 8, duration: 350ms }]\ntrials: 3\n";
    let report = measured_through(&servers, slow(), load);
    assert_eq!(found(&report, "orderly"), BTreeSet::from(["head-of-line".to_owned()]));
    assert_eq!(found(&report, "overtakes"), BTreeSet::new());
    let evidence = evidence(&report, "head-of-line", "orderly");
    let share = |name: &str| evidence[name].as_f64().unwrap_or_else(|| panic!("{name}: {evidence}"));
    assert!((0.03..=0.05).contains(&share("overtaken_of_direct")), "{evidence}");
    assert!(share("overtaken") < 0.001, "{evidence}");
}

/// The same number of requests in flight, on one connection and on eight. Of ten responses on one connection,
/// eight wait, so the difference is found at the median.
#[test]
fn streams_that_wait_for_each_other_are_found_at_equal_loads() {
    let slow = Wrong { slow_every: Some((10, Duration::from_millis(20))), ..Wrong::default() };
    let servers = [("orderly", Wrong { in_order: true, ..slow })];
    let load = "load:
  - { loop: closed, connections: 1, http: 2, streams: 8, duration: 250ms }
  - { loop: closed, connections: 8, http: 2, duration: 250ms }
trials: 4
";
    let report = measured_through(&servers, slow, load);
    let evidence = evidence(&report, "head-of-line", "orderly");
    let difference = evidence["differences"]["p50"]["us"].as_f64().unwrap_or_else(|| panic!("{evidence}"));
    assert!((10_000.0..60_000.0).contains(&difference), "{evidence}");
    assert_eq!(evidence["compared_with"], "orderly, closed loop, 8 connections, HTTP/2");
}

/// One connection is served by one of nginx's four workers.
#[test]
fn workers_without_a_connection_are_found() {
    let report = measured(
        "gateways: [{ name: nginx, workers: 4 }, { name: nginx, label: single, workers: 1 }]
load: [{ loop: closed, connections: 1, http: 2, streams: 32, duration: 500ms }]
trials: 2
warmup: 100ms
",
    );
    assert_eq!(found(&report, "nginx"), BTreeSet::from(["workers-starved".to_owned()]));
    assert_eq!(found(&report, "single"), BTreeSet::new());
    assert_eq!(evidence(&report, "workers-starved", "nginx")["idle_workers"], 3);
}

/// A server without HTTP/2 is an error that says so.
#[test]
fn a_service_without_http2_is_named() {
    let upstream = StreamServer::start(Wrong::default());
    let http1 = crate::support::server::Server::start(|_| crate::support::server::Response::text("ok"));
    let plan = format!(
        "upstream: {{ url: \"{}\" }}
gateways: [{{ name: external, label: old, url: \"http://{}\" }}]
load: [{{ loop: closed, connections: 1, http: 2, duration: 100ms }}]
trials: 1
",
        upstream.url(),
        http1.address
    );
    let scratch = Scratch::new();
    let output = run(&scratch, &plan, &["--accept-void"]);
    let said = text(&output.stderr) + &text(&output.stdout);
    assert!(said.contains("over HTTP/2"), "{said}");

    let load = hoptax()
        .args(["load", &format!("http://{}/", http1.address), "--http", "2", "-d", "200ms", "-c", "1"])
        .output()
        .expect("it runs");
    let said = text(&load.stdout) + &text(&load.stderr);
    assert!(said.contains("HTTP/2: "), "{said}");
}

/// nginx sends GOAWAY after 1,000 requests on a connection, and ignores those that are on their way.
#[test]
fn no_request_is_lost_when_nginx_sends_goaway() {
    needs!("nginx");
    let [address, _] = two_ports();
    let server = format!("server {{ listen {address} http2; location / {{ return 200 hello; }} }}");
    let _nginx = Nginx::start(address, &format!("access_log off; keepalive_requests 1000; {server}"));
    let url = format!("http://{address}/");
    let arguments = ["load", &url, "--http", "2", "--streams", "16", "-c", "2", "-n", "20000", "--json"];
    let case: Json = serde_json::from_str(&succeed(hoptax().args(arguments))).expect("JSON");
    let (counts, http2) = (&case["counts"], &case["http2"]);
    assert_eq!((&counts["scheduled"], &counts["ok"]), (&20_000.into(), &20_000.into()), "{counts}");
    let goaways = http2["goaways"].as_u64().expect("a count");
    assert!((18..=21).contains(&goaways), "{http2}");
    assert!(http2["unprocessed"].as_u64() > Some(0), "{http2}");
    assert_eq!(http2["unprocessed"], counts["retried"], "{counts}");
}
