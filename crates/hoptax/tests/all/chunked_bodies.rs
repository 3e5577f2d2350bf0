//! Request bodies in chunks, with and without pauses: from `load` and from a plan, through the hops and real
//! gateways. curl, the gateways' logs and the upstream's ledger are the second opinions.

use crate::findings::two_ports;
use crate::load::{Upstream, case};
use crate::origin::Origin;
use crate::run::measured;
use crate::support::nginx::Nginx;
use crate::support::{PATIENCE, Scratch, wait_until};
use crate::wire::Server;
use hoptax_lab::concurrent::concurrently;
use std::process::Command;

const CHUNKS: [&str; 5] = ["--chunked", "--chunk-size", "1KiB", "--chunk-pause", "1ms"];

/// A text of 10,000 bytes.
fn text() -> String {
    (0..1000).map(|line| format!("line {line:04}\n")).collect()
}

#[test]
fn a_body_arrives_as_curl_sends_it() {
    let (origin, scratch) = (Origin::start(), Scratch::new());
    let file = format!("@{}", scratch.file("body", &text()).display());
    let url = format!("http://{}/echo", origin.address);
    let curl = Command::new("curl")
        .args(["-s", "-H", "Transfer-Encoding: chunked", "--data-binary", &file, &url])
        .output()
        .expect("curl runs");
    assert_eq!(String::from_utf8_lossy(&curl.stdout), text());
    let framing = |head: &str| {
        let head = head.to_ascii_lowercase();
        (head.contains("\r\ntransfer-encoding: chunked\r\n"), head.contains("content-length"))
    };
    assert_eq!(framing(&origin.heads().pop().expect("curl's")), (true, false));

    let (_hop, hop) = Server::hop("l7", origin.address, &[]);
    for address in [origin.address, hop] {
        let url = format!("http://{address}/echo");
        for options in [&CHUNKS[..1], &CHUNKS[..]] {
            let request = [url.as_str(), "-b", &file, "--expect-body-equals", &file, "-n", "6", "-c", "2"];
            let case = case(&[&request[..], options].concat());
            assert_eq!(
                (&case["counts"]["ok"], &case["connections"]["reused"]),
                (&6.into(), &4.into()),
                "{case}"
            );
            assert_eq!(framing(&origin.heads().pop().expect("ours")), (true, false));
        }
    }
}

/// The framing of the chunks is on the wire, but does not belong to the body.
#[test]
fn bytes_on_the_wire_include_the_framing() {
    let upstream = Upstream::start(&["--body", "1B"]);
    let sent = |options: &[&str]| {
        let url = upstream.url();
        let before = (upstream.requests(), upstream.ledger("bytes_in"));
        let case = case(&[&[url.as_str(), "--body-size", "10000B", "-n", "10", "-c", "2"], options].concat());
        let bytes = case["bytes"]["sent"].as_u64().expect("a count");
        assert_eq!(upstream.requests() - before.0, 10);
        assert_eq!(upstream.ledger("bytes_in") - before.1, bytes, "{case}");
        bytes / 10
    };
    let counted = sent(&[]);
    // Nine chunks of 1 KiB, one of 784 bytes, and the last chunk; and another header.
    let framing = 9 * "400\r\n\r\n".len() + "310\r\n\r\n".len() + "0\r\n\r\n".len();
    let header = "transfer-encoding: chunked".len() - "content-length: 10000".len();
    assert_eq!(sent(&CHUNKS[..3]), counted + (framing + header) as u64);
    assert_eq!(sent(&CHUNKS), counted + (framing + header) as u64);
}

#[test]
fn gateways_are_measured_with_bodies_in_chunks() {
    needs!("nginx", "haproxy", "caddy");
    let with_pauses = ("{ chunk_size: 16KiB, pause: 2ms }", 6000.0);
    concurrently(2, &[("true", 0.0), with_pauses], |(chunked, pauses_us)| chunks_pass(chunked, *pauses_us));
}

/// Runs a plan with bodies in chunks. The pauses of a body take `pauses_us` in total.
fn chunks_pass(chunked: &str, pauses_us: f64) {
    let report = measured(&format!(
        "gateways: [hop-l4, hop-l7, nginx, haproxy, caddy]
target: {{ method: POST, path: /, body: {{ size: 64KiB, chunked: {chunked} }}, expect: {{ status: 200 }} }}
load: [{{ loop: closed, connections: 2, requests: 40, duration: 60s }}]
trials: 1
warmup: 0s
timeout: 30s
"
    ));
    let cases = report["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 6, "direct too");
    for case in cases {
        let counts = &case["counts"];
        let ok = counts["ok"].as_u64().expect("a count");
        assert!(ok >= 40 && counts["scheduled"] == ok, "{}: {counts}", case["gateway"]);
        let requests = &case["ledger"]["requests_per_request"];
        assert!((requests.as_f64().expect("a number") - 1.0).abs() < 0.05, "{case}");
        let time = case["response_time"]["p50"]["estimate"].as_f64().expect("a time");
        assert!(time >= pauses_us, "{}: {time} us", case["gateway"]);
        let sent = case["bytes"]["sent"].as_u64().expect("a count");
        assert!(sent > ok * (64 << 10) && sent < ok * (65 << 10), "{}: {sent}", case["gateway"]);
    }
}

/// A server may refuse a body before it has read all of it.
#[test]
fn an_early_refusal_is_an_answer() {
    needs!("nginx");
    let scratch = Scratch::new();
    let log = scratch.path().join("access.log").display().to_string();
    let [address, _] = two_ports();
    let _nginx = Nginx::start(
        address,
        &format!(
            "access_log {log}; client_max_body_size 10k; keepalive_requests 100000;
             server {{ listen {address}; location / {{ proxy_pass http://127.0.0.1:9; }} }}"
        ),
    );
    let url = format!("http://{address}/");
    let mut refused = 0;
    for options in [&[][..], &CHUNKS[..1], &["--chunked", "--chunk-size", "64KiB", "--chunk-pause", "1ms"]] {
        let request = [url.as_str(), "--body-size", "8MiB", "-n", "20", "-c", "2", "--expect-status", "413"];
        let case = case(&[&request[..], options].concat());
        assert_eq!(case["counts"]["ok"], 20, "{options:?}: {}", case["counts"]);
        refused += 20;
        wait_until("nginx has logged its refusals", PATIENCE, || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            text.lines().filter(|line| line.contains("\" 413 ")).count() >= refused
        });
    }
}
