//! Tests that the options of `hoptax load` have an effect at the server: the real nginx, or the upstream with
//! its ledger.

use crate::load::{KilledOnDrop, Upstream, case, load, loaded};
use crate::support::{PATIENCE, Scratch, hoptax, wait_until};
use crate::{connections, tls};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::process::Stdio;

/// The summary of a successful load. Its lines must fit the width of a terminal.
#[track_caller]
fn summary(args: &[&str]) -> String {
    let text = loaded(args);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    text
}

/// Asserts that a load exits with `code`. It must print `part` on standard error, and nothing on standard
/// output.
#[track_caller]
fn refused(args: &[&str], code: i32, part: &str) {
    let output = load(args);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(code), &b""[..]), "{args:?}: {text}");
    assert!(text.contains(part), "{args:?}: {text}");
}

fn with<'a>(base: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [base, more].concat()
}

#[test]
fn certificates_are_verified_as_configured() {
    needs!("nginx");
    let (ours, other) = (tls::authority("authority.test"), tls::authority("other.test"));
    let nginx = tls::Nginx::start(&tls::identity(tls::NAME, Some(&ours)), "");
    let scratch = Scratch::new();
    let file = |name: &str, text: &str| scratch.file(name, text).display().to_string();
    let (ca, wrong) = (file("ca.pem", &ours.pem()), file("other.pem", &other.pem()));
    let url = format!("https://{}/", nginx.address);
    let named = ["--server-name", tls::NAME];
    let base = [url.as_str(), "-n", "60", "-c", "3"];

    let text = summary(&with(&base, &[&named[..], &["--ca", &ca, "--tls", "1.3"]].concat()));
    assert!(text.contains("TLSv1.3, TLS13_"), "{text}");
    assert!(text.contains("ALPN http/1.1") && text.contains("3 handshakes, 0 resumed"), "{text}");
    assert!(!text.contains("not checked") && text.contains("200: 60"), "{text}");
    let text = summary(&with(&base, &["-k", "--tls", "1.2", "--alpn", "none"]));
    assert!(text.contains("TLSv1.2, TLS_ECDHE_"), "{text}");
    assert!(text.contains("certificates not checked") && text.contains("200: 60"), "{text}");

    refused(&with(&base, &named), 1, "(`--ca FILE`)");
    refused(&with(&base, &[&named[..], &["--ca", &wrong]].concat()), 1, "not signed by a trusted authority");
    refused(&with(&base, &["--ca", &ca]), 1, "(`--server-name NAME`)");
    refused(&with(&base, &["--ca", &file("key.pem", "-----BEGIN PRIVATE KEY-----")]), 2, "is it the key?");
}

#[test]
fn a_client_certificate_is_sent_on_request() {
    needs!("nginx");
    let (authority, clients) = (tls::authority("authority.test"), tls::authority("clients.test"));
    let scratch = Scratch::new();
    let file = |name: &str, text: &str| scratch.file(name, text).display().to_string();
    let trusted = file("clients.pem", &clients.pem());
    let more = format!("ssl_verify_client on; ssl_client_certificate {trusted};");
    let nginx = tls::Nginx::start(&tls::identity(tls::NAME, Some(&authority)), &more);
    let (chain, key) = tls::identity("client.test", Some(&clients));
    let both = file("both.pem", &format!("{chain}{key}"));
    let (chain, key) = (file("chain.pem", &chain), file("key.pem", &key));
    let url = format!("https://{}/", nginx.address);
    let base = [url.as_str(), "-k", "-n", "40", "-c", "2"];

    assert!(summary(&with(&base, &["--cert", &chain, "--key", &key])).contains("200: 40"));
    assert!(summary(&with(&base, &["--cert", &both])).contains("200: 40"));
    // nginx accepts the connection and answers with an HTTP error.
    let text = summary(&with(&base, &["--fail-above", "100%"]));
    assert!(text.contains("400: 40") && text.contains("40 × status 400"), "{text}");
    refused(&with(&base, &["--cert", &chain]), 2, " --key");
    let (_, stranger) = tls::identity("stranger.test", None);
    let stranger = file("stranger.pem", &stranger);
    refused(&with(&base, &["--cert", &chain, "--key", &stranger]), 2, "give a matching pair");
}

#[test]
fn unix_sockets_and_sources_are_used_and_reported() {
    needs!("nginx");
    let nginx = connections::Nginx::start();
    let socket = nginx.socket();
    let text = summary(&["http://shop.test/", "--unix", &socket, "-n", "100", "-c", "4"]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("Unix socket {socket}")) && text.contains("200: 100"), "{text}");
    assert!(nginx.seen(100).iter().all(|line| line[0] == "unix:"));

    let url = format!("http://{}/", nginx.address());
    let text = summary(&[&url, "--source", "127.86.75.31,127.86.75.32", "-n", "100", "-c", "4"]);
    assert!(text.contains("from 2 addresses"), "{text}");
    let seen: BTreeSet<(String, String)> =
        nginx.seen(100).into_iter().map(|line| (line[0].clone(), line[2].clone())).collect();
    let from = |source: &str| seen.iter().filter(|(address, _)| address == source).count();
    assert_eq!(["127.86.75.31", "127.86.75.32"].map(from), [2, 2], "{seen:?}");
}

#[test]
fn the_ledger_agrees_on_how_long_connections_last() {
    for (flags, reported, least, most) in [
        (&[][..], "epoll\n", 4, 4),
        (&["--no-keepalive"], "no keep-alive", 200, 204),
        (&["--requests-per-connection", "10"], "10 requests per connection", 20, 24),
        (&["--http", "2", "--streams", "5"], "HTTP/2", 4, 4),
        (&["--http", "2", "--streams", "5", "--requests-per-connection", "10"], "HTTP/2", 20, 24),
    ] {
        let upstream = Upstream::start(&[]);
        let url = upstream.url();
        let text = summary(&[&[url.as_str(), "-n", "200", "-c", "4"], flags].concat());
        assert!(text.contains(reported) && text.contains("200: 200"), "{text}");
        assert_eq!(upstream.requests(), 200);
        let connections = upstream.ledger("connections");
        assert!((least..=most).contains(&connections), "{flags:?}: {connections}");
    }
}

#[test]
fn unmet_expectations_are_reported() {
    ["1.1", "2"].into_iter().for_each(unmet_expectations);
}

fn unmet_expectations(http: &str) {
    let upstream = Upstream::start(&["--body", "64B"]);
    let url = upstream.url();
    for (flags, reported) in [
        (["--expect-status", "201,4xx"], "status 200 is not 201, 400 to 499"),
        (["--expect-body", "absent"], "body does not contain \"absent\""),
        (["--expect-body-equals", "ok"], "body is not \"ok\""),
        (["--expect-length", "1KiB"], "body is 64 bytes long, not 1024"),
        (["--expect-header", "x-none"], "no header x-none"),
    ] {
        let limited = [&[url.as_str(), "-n", "30", "-c", "2", "--http", http], &flags[..]].concat();
        assert_eq!(load(&limited).status.code(), Some(3), "no response is a success");
        let args = [&limited[..], &["--fail-above", "100%"]].concat();
        let text = summary(&args);
        assert!(text.contains("Not a success  30") && text.contains(&format!("30 × {reported}")), "{text}");
        let counts = case(&args)["counts"].clone();
        assert_eq!((&counts["completed"], &counts["ok"]), (&30.into(), &0.into()));
        assert_eq!(counts["failed_checks"], serde_json::json!({ reported: 30 }));
    }
    let text = summary(&[&url, "-n", "30", "--expect-status", "2xx", "--expect-length", "64B"]);
    assert!(!text.contains("Not a success"), "{text}");
}

#[test]
fn a_second_signal_ends_it_at_once_without_a_report() {
    let upstream = Upstream::start(&[]);
    let mut command = hoptax();
    command.args(["load", &upstream.url(), "-d", "1h"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = KilledOnDrop(command.spawn().expect("starts"));
    wait_until("requests arrive", PATIENCE, || upstream.requests() > 100);
    let pid = Pid::from_child(&process.0);
    // The process is stopped while the signals are sent. So it cannot act between the two signals, even on a
    // busy machine.
    for signal in [Signal::STOP, Signal::INT, Signal::TERM, Signal::CONT] {
        kill_process(pid, signal).expect("it runs");
    }
    let status = process.0.wait().expect("ends");
    // The kernel decides which signal is delivered first.
    assert!(matches!(status.code(), Some(130 | 143)), "{status}");
    let report = std::io::read_to_string(process.0.stdout.take().expect("piped")).expect("text");
    assert_eq!(report, "");
}
