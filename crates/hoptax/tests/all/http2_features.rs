//! Runs and loads over HTTP/2 with everything that plans can have: mixes, templates, stages, features,
//! sockets, events and profiles. Tests of other files use both versions: see `requests`, `load_flags`,
//! `path`, `capacity`, `starts` and `hosts`.

use crate::findings::two_ports;
use crate::load::case;
use crate::profiles::cannot_profile;
use crate::run::{report, run_directory, run_to_success, run_without_stall, text, trials};
use crate::support::nginx::Nginx;
use crate::support::{Json, Scratch, hoptax};
use crate::tls;
use crate::world::is_missing;
use std::collections::BTreeMap;

fn count(value: &Json, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

/// True if one of the gateways is not installed.
fn lacks(packs: &[&str]) -> bool {
    packs.iter().copied().map(is_missing).collect::<Vec<_>>().contains(&true)
}

/// Every request of a trial must be answered as expected.
#[track_caller]
fn all_ok(trial: &Json) {
    assert!(trial["failed"].is_null(), "{}: {}", trial["contender"], trial["failed"]);
    let counts = &trial["load_record"]["counts"];
    assert_eq!(counts["scheduled"], counts["ok"], "{}: {counts}", trial["contender"]);
}

/// The upstream's echo shows that values of templates arrive. A connection carries at most 20 requests.
#[test]
fn mixes_templates_stages_and_recycled_connections() {
    skip_if!(lacks(&["nginx", "haproxy"]));
    let plan = r#"upstream: { instances: 2 }
gateways: [hop-h2, nginx, haproxy]
target:
  - name: order
    weight: 3
    method: POST
    path: "/.hoptax/echo?n={{seq}}"
    headers: { x-number: "n{{seq}}" }
    body: { text: '{"n":"{{seq}}"}' }
    expect: { varies: true, body: { contains: ['"x-number"', '"POST"'] } }
  - { name: item, path: "/items/{{random 1 3}}" }
load:
  - { loop: open, rate: [200/s for 200ms, ramp to 600/s over 200ms], connections: 2, http: 2, streams: 4 }
  - { loop: closed, connections: 2, http: 2, streams: 4, keepalive: 20, requests: 400, duration: 60s }
trials: 1
warmup: 20ms
"#;
    let scratch = Scratch::new();
    let directory = run_to_success(&scratch, plan, &["--accept-void"]);
    let mut completed: BTreeMap<String, u64> = BTreeMap::new();
    for trial in &trials(&directory) {
        all_ok(trial);
        let (who, load) = (trial["contender"].as_str().expect("a label"), &trial["load_record"]);
        for target in load["targets"].as_array().expect("targets") {
            let name = target["name"].as_str().expect("a name");
            *completed.entry(name.to_owned()).or_default() += count(target, "completed");
        }
        if trial["load"] == 0 {
            // 200/s for 0.2 s, and then 400/s on average for 0.2 s.
            let scheduled = count(&load["counts"], "scheduled");
            assert!((119..=121).contains(&scheduled), "{who}: {scheduled}");
        } else {
            let lifetime = &load["lifetime"];
            assert!(20 * count(lifetime, "opened") >= count(lifetime, "completed"), "{who}: {lifetime}");
        }
        let versions = trial["ledger"]["http_version"].as_object().expect("counts");
        let version = if ["direct", "hop-h2"].contains(&who) { "2" } else { "1.1" };
        assert_eq!(versions.keys().collect::<Vec<_>>(), [version], "{who}");
    }
    let share = completed["order"] as f64 / (completed["order"] + completed["item"]) as f64;
    assert!((0.7..0.8).contains(&share), "{completed:?}");
}

/// The upstream listens on Unix sockets.
#[test]
fn client_certificates_the_proxy_protocol_and_unix_sockets() {
    skip_if!(lacks(&["nginx", "haproxy", "envoy"]));
    let plan = "upstream: { listen: unix }
gateways:
  - hop-l4
  - hop-h2
  - { name: nginx, label: nginx-tls, features: [tls, mtls] }
  - { name: haproxy, label: haproxy-tls, features: [tls, mtls] }
  - { name: nginx, features: [proxy-protocol] }
  - { name: haproxy, features: [{ proxy-protocol: v1 }] }
  - { name: envoy, features: [proxy-protocol] }
load: [{ loop: closed, connections: 2, http: 2, streams: 4, requests: 200, duration: 60s }]
trials: 1
warmup: 20ms
";
    let scratch = Scratch::new();
    let directory = run_to_success(&scratch, plan, &["--accept-void"]);
    let trials = trials(&directory);
    assert_eq!(trials.len(), 7 + 2);
    for trial in &trials {
        all_ok(trial);
        let (who, load) = (trial["contender"].as_str().expect("a label"), &trial["load_record"]);
        assert_eq!(count(&load["http2"], "most_streams"), 4, "{who}");
        let alpn = load["tls"]["alpn"].as_object().map(|counts| counts.keys().cloned().collect::<Vec<_>>());
        assert_eq!(alpn, who.ends_with("-tls").then(|| vec!["h2".to_owned()]), "{who}");
    }
}

/// nginx without TLS speaks only HTTP/2 on this port. Requests to the new route must speak it too.
#[test]
fn events_under_load() {
    needs!("nginx");
    let plan = "upstream: { instances: 2 }
gateways: [{ name: nginx, features: [{ routes: 3 }] }]
load: [{ loop: open, rate: 200/s, connections: 2, http: 2, streams: 4, duration: 1500ms }]
trials: 1
warmup: 100ms
events:
  - { at: 100ms, do: change-route }
  - { at: 250ms, do: restart-upstream, instance: 1, down: 100ms }
  - { at: 400ms, do: restart-gateway }
";
    let scratch = Scratch::new();
    let (_, directory) = run_without_stall(&scratch, plan, &["--accept-void"]);
    for trial in &trials(&directory) {
        let who = trial["contender"].as_str().expect("a label");
        assert!(trial["failed"].is_null(), "{who}: {}", trial["failed"]);
        let events = trial["events"].as_array().expect("events");
        assert_eq!(events.len(), if who == "direct" { 1 } else { 3 }, "{who}: {events:?}");
        assert!(events.iter().all(|event| event["failed"].is_null()), "{who}: {events:?}");
        assert_eq!(events[0]["new_route"].is_null(), who == "direct", "{who}: {events:?}");
        let windows = trial["load_record"]["windows"].as_array().expect("windows");
        let last = windows.iter().rposition(|window| window["ok"].as_u64() > Some(0)).expect("answered");
        let begun = count(&events[events.len() - 1], "at_ns");
        assert!(last as u64 > begun / 100_000_000, "{who} answers again: {last}");
    }
}

#[test]
fn a_gateway_is_profiled() {
    needs!("nginx");
    skip_if!(cannot_profile());
    let scratch = Scratch::new();
    let plan = "gateways: [nginx]
load: [{ loop: open, rate: 500/s, connections: 2, http: 2, streams: 4, duration: 300ms }]
trials: 1
warmup: 50ms
";
    let mut command = hoptax();
    command.arg("profile").arg(scratch.file("plan.yaml", plan)).args(["--passes", "1", "--for", "500ms"]);
    command.arg("--out").arg(scratch.path()).env("TMPDIR", scratch.path());
    let output = command.output().expect("it runs");
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", text(&output.stderr));
    let directory = run_directory(&scratch);
    let document = report(&directory);
    let profiles = document["profiles"].as_array().expect("profiles");
    assert!(!profiles.is_empty() && profiles.iter().all(|one| one["failed"] == 0), "{profiles:#?}");
    let folded = std::fs::read_to_string(directory.join("profile-nginx-1-cpu.folded")).expect("stacks");
    assert!(!folded.is_empty());
}

/// nginx answers with the server name and the result of the client certificate.
#[test]
fn load_sends_server_name_and_client_certificate() {
    needs!("nginx");
    let (servers, clients) = (tls::authority("servers.test"), tls::authority("clients.test"));
    let scratch = Scratch::new();
    let file = |name: &str, text: &str| scratch.file(name, text).display().to_string();
    let (certificate, key) = tls::identity(tls::NAME, Some(&servers));
    let (own, own_key) = tls::identity("client.test", Some(&clients));
    let own = file("own.pem", &(own + &own_key));
    let [address, _] = two_ports();
    let server = format!(
        "server {{ listen {address} ssl http2; server_name {}; ssl_certificate {}; ssl_certificate_key {};
         ssl_client_certificate {}; ssl_verify_client on;
         location / {{ return 200 \"$ssl_server_name $ssl_client_verify $server_protocol\"; }} }}",
        tls::NAME,
        file("certificate.pem", &certificate),
        file("key.pem", &key),
        file("clients.pem", &clients.pem())
    );
    let _nginx = Nginx::start(address, &format!("access_log off; {server}"));
    let (url, host) = (format!("https://{address}/"), format!("host: {}", tls::NAME));
    let ca = file("servers.pem", &servers.pem());
    let trust = ["--server-name", tls::NAME, "--ca", &ca, "--cert", &own, "-H", &host];
    let answer = format!("{} SUCCESS HTTP/2.0", tls::NAME);
    let size = ["-n", "80", "-c", "2", "--http", "2", "--streams", "4", "--expect-body-equals", &answer];
    let case = case(&[&[url.as_str()][..], &trust, &size].concat());
    assert_eq!(case["counts"]["ok"], 80, "{}", case["counts"]);
    assert_eq!(case["tls"]["alpn"], serde_json::json!({ "h2": 2 }));
}

/// nginx closes connections that are idle for 10 ms.
#[test]
fn idle_connections_that_a_server_closes_cost_no_request() {
    needs!("nginx");
    let [address, _] = two_ports();
    let server = format!("server {{ listen {address} http2; location / {{ return 200 hello; }} }}");
    let _nginx = Nginx::start(address, &format!("access_log off; keepalive_timeout 10ms; {server}"));
    let url = format!("http://{address}/");
    let load = ["-r", "20/s", "-n", "15", "-c", "1", "--http", "2", "--retry", "idle-close"];
    let case = case(&[&[url.as_str()][..], &load].concat());
    assert_eq!(case["counts"]["ok"], 15, "{}", case["counts"]);
    assert!(count(&case["connections"], "opened") >= 5, "{}", case["connections"]);
}
