//! HTTP/2 of `hoptax upstream` and `hoptax hop h2`, with clients that others wrote: curl, nghttp, h2load and
//! h2spec.

use crate::support::{hoptax, refusals, skip, succeed};
use crate::tls;
use crate::wire::{Client, Server};
use hoptax_host::programs;
use hoptax_servers::ledger::{self, InstanceCounts};
use hoptax_wire::http2::{Block, Config, Connection, RequestParts, Sections, Step, request_fields};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let found = programs::find_in(name, &programs::search_path());
    let may_lack = std::env::var_os("HOPTAX_ALLOW_MISSING").is_some() || name == "h2spec";
    assert!(found.is_some() || may_lack, "{name} is not installed; run `scripts/setup.sh test`");
    if found.is_none() {
        skip(format!("{name} is not installed"));
    }
    found
}

fn counts(upstream: &Server) -> InstanceCounts {
    ledger::fetch(upstream.control()).expect("a ledger").instances.remove(0)
}

#[test]
fn curl_chooses_the_protocol() {
    let Some(curl) = program("curl") else { return };
    let identity = tls::identity(tls::NAME, None);
    let mut command = hoptax();
    command.args(["upstream", "--tls", "--status", "203"]);
    command.env("HOPTAX_UPSTREAM_IDENTITY", identity.0 + &identity.1);
    let upstream = Server::spawn(&mut command);
    let plain = format!("http://{}/.hoptax/echo", upstream.instance(0));
    let address = upstream.ready["tls_instances"][0].as_str().expect("an address").to_owned();
    let over_tls = format!("https://{address}/.hoptax/echo");
    for (url, options, expected) in [
        (&plain, &["--http2-prior-knowledge"][..], "HTTP/2"),
        (&plain, &["--http1.1"], "HTTP/1.1"),
        // The header `upgrade: h2c` is ignored.
        (&plain, &["--http2"], "HTTP/1.1"),
        (&over_tls, &["--insecure", "--http2"], "HTTP/2"),
        (&over_tls, &["--insecure", "--http1.1"], "HTTP/1.1"),
        (&over_tls, &["--insecure", "--no-alpn"], "HTTP/1.1"),
    ] {
        let text = succeed(Command::new(&curl).arg("--silent").args(options).arg(url));
        let echo: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(echo["protocol"], expected, "{options:?} {url}");
        assert_eq!(echo["tls"].is_null(), url == &plain);
        let host = url.split('/').nth(2).expect("a host");
        assert_eq!(echo["headers"][0], serde_json::json!(["host", host]));
    }
    let versions = counts(&upstream).http_version;
    assert_eq!(versions, [("1.1".to_owned(), 4), ("2".to_owned(), 2)].into());
}

#[test]
fn h2load_and_nghttp_are_answered() {
    let (Some(h2load), Some(nghttp)) = (program("h2load"), program("nghttp")) else { return };
    let upstream = Server::start(&["upstream", "--body-size", "100KiB", "--delay", "uniform(0ms, 2ms)"]);
    let url = format!("http://{}/", upstream.instance(0));
    let text = succeed(Command::new(h2load).args(["-n2000", "-c4", "-m30", "-t1", &url]));
    assert!(text.contains("2000 succeeded, 0 failed"), "{text}");
    let seen = counts(&upstream);
    assert_eq!((seen.requests, seen.streams, seen.most_streams), (2000, Some(2000), Some(30)));
    assert_eq!((seen.http_version["2"], seen.cancels), (2000, Some(0)));

    let large = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(large.path(), crate::wire::sample(300_000)).expect("written");
    for options in [&["-w10", "-W10"][..], &["-b200", "--continuation"], &["--no-content-length"]] {
        let mut command = Command::new(&nghttp);
        command.args(options).arg("--data").arg(large.path());
        let text = succeed(command.arg(format!("{url}.hoptax/echo")));
        let echo: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(echo["body_bytes"], 300_000, "{options:?}");
    }
}

#[test]
fn h2load_and_curl_pass_through_a_hop() {
    let (Some(h2load), Some(curl)) = (program("h2load"), program("curl")) else { return };
    let upstream = Server::start(&["upstream", "--body-size", "20KiB"]);
    for version in ["2", "1.1"] {
        let before = counts(&upstream);
        let options = ["--upstream-http", version, "--delay-in", "1ms"];
        let (_hop, address) = Server::hop("h2", upstream.instance(0), &options);
        let url = format!("http://{address}/");
        let text = succeed(Command::new(&h2load).args(["-n1000", "-c4", "-m25", "-t1", &url]));
        assert!(text.contains("1000 succeeded, 0 failed"), "{text}");
        let echo = succeed(
            Command::new(&curl)
                .args(["--silent", "--http2-prior-knowledge", "--data", "abc"])
                .arg(format!("{url}.hoptax/echo")),
        );
        let echo: serde_json::Value = serde_json::from_str(&echo).expect("JSON");
        assert_eq!(
            (echo["protocol"].as_str(), echo["body_bytes"].as_u64()),
            (Some(&*format!("HTTP/{version}")), Some(3))
        );
        let after = counts(&upstream);
        let of = |counts: &InstanceCounts| counts.http_version.get(version).copied().unwrap_or(0);
        assert_eq!(of(&after) - of(&before), 1001);
    }
    let wrong = ["hop", "l7", "--upstream", "127.0.0.1:1", "--upstream-http", "2"];
    refusals::refused(hoptax().args(wrong));
}

/// Cases of h2spec that fail, with the reason.
const H2SPEC_FAILS: [(&str, &str); 3] = [
    ("Sends invalid connection preface", "the port also speaks HTTP/1, which answers 400"),
    ("Sends HEADERS frame that depend on itself", "RFC 9113 has no priorities"),
    ("Sends PRIORITY frame that depend on itself", "RFC 9113 has no priorities"),
];

#[test]
fn h2spec_finds_nothing() {
    let Some(h2spec) = program("h2spec") else { return };
    let upstream = Server::start(&["upstream"]);
    let address = upstream.instance(0);
    let (host, port) = (format!("--host={}", address.ip()), format!("--port={}", address.port()));
    let output = Command::new(h2spec).args([host, port]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let summary = text.lines().find(|line| line.contains(" tests, ")).unwrap_or_else(|| panic!("{text}"));
    let failed = format!("{} failed", H2SPEC_FAILS.len());
    assert!(summary.ends_with(&failed) && summary.starts_with("14"), "{text}");
    for (case, _) in H2SPEC_FAILS {
        assert!(text.contains(case), "{case} no longer fails");
    }
}

#[test]
fn a_slow_reader_of_streams_takes_no_memory() {
    let upstream = Server::start(&["upstream", "--body", "1MiB"]);
    let mut client = Client::connect(upstream.instance(0));
    let before = upstream.memory();
    let mut output = Vec::new();
    let config = Config { streams: 200, window: 1 << 30, connection_window: 1 << 30, ..Config::default() };
    let mut connection = Connection::client(config, &mut output);
    let parts =
        RequestParts { method: "GET", scheme: "http", authority: "a", path: "/", content_length: None };
    let get = Block::plain(&request_fields(parts, []).expect("valid"));
    client.send(&output);
    output.clear();
    let (mut sections, mut input, mut bytes) = (Sections::new(), Vec::new(), [0; 65_536]);
    let (mut begun, mut received, mut ended) = (0, 0, 0);
    while ended < 200 {
        // The upstream could send these 200 MiB at once. The client reads them slowly.
        while connection.peer_settings_known() && begun < 200 {
            connection.request(begun, false, &get, &[], true, &mut output).expect("a free stream");
            begun += 1;
        }
        client.stream.write_all(&output).expect("sent");
        output.clear();
        let count = client.stream.read(&mut bytes).expect("data");
        assert!(count > 0, "the connection has ended");
        let grown = upstream.memory().saturating_sub(before);
        assert!(grown < 32 << 20, "{grown} bytes for one slow reader");
        input.extend_from_slice(&bytes[..count]);
        let mut at = 0;
        loop {
            let found = connection.advance(&input[at..], &mut sections, &mut output);
            let (consumed, step) = found.expect("the upstream keeps to the protocol");
            match step {
                Step::NeedMore => {
                    at += consumed;
                    break;
                }
                Step::Body { data, end, .. } => {
                    received += data.len();
                    ended += u32::from(end);
                }
                _ => {}
            }
            at += consumed;
        }
        input.drain(..at);
    }
    assert_eq!(received, 200 << 20);
}
