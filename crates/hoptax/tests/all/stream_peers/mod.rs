//! Server-sent events and WebSockets of `hoptax upstream` and `hoptax load`, with clients and servers that
//! others wrote: the package `websockets`, `http.server` and blocking sockets of Python, in
//! `stream_peers/peer.py`. The test `llm` uses them for streams of tokens.

use crate::http2_upstream::program;
use crate::load::run_spec;
use crate::support::messages::{assert_intact, count};
use crate::support::{Json, hoptax, json, own_loopback, retry_if_disturbed};
use crate::wire::Server;
use hoptax_format::clock::SECOND;
use hoptax_format::histogram::Encoded;
use hoptax_format::messages::{Carrier, StreamKind, StreamSpec};
use hoptax_format::record::LoadRecord;
use hoptax_format::spec::{LoadSpec, TargetSpec, Timeouts};
use hoptax_lab::concurrent::concurrently;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The Python that has the package `websockets`.
const WITH_WEBSOCKETS: &str = "python3-websockets";

/// A command that runs the script. `None` if the test is skipped, because the Python is missing.
pub(crate) fn script(python: &str) -> Option<Command> {
    let mut command = Command::new(program(python)?);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/stream_peers/peer.py"));
    Some(command)
}

/// Runs checks of the script's client against a server.
fn ask(address: SocketAddr, checks: &[&str]) {
    let Some(script) = script(WITH_WEBSOCKETS) else { return };
    ask_with(script, address, checks);
}

pub(crate) fn ask_with(mut script: Command, address: SocketAddr, checks: &[&str]) {
    let output = script.arg("ask").arg(address.to_string()).args(checks).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{address}, after {text:?}: {errors}");
    assert_eq!(text.lines().collect::<Vec<_>>(), checks);
}

/// Runs checks directly and through hops.
fn all_ways(upstream: &Server, checks: &[&str]) {
    let direct = upstream.instance(0);
    let (_l4, through_l4) = Server::hop("l4", direct, &[]);
    let (_l7, through_l7) = Server::hop("l7", direct, &[]);
    for address in [direct, through_l4, through_l7] {
        ask(address, checks);
    }
}

#[test]
fn a_client_gets_its_messages_back() {
    let upstream = Server::start(&["upstream"]);
    all_ways(&upstream, &["echo", "fragments", "ping", "close_codes", "plain"]);
}

#[test]
fn a_client_compresses_messages() {
    let upstream = Server::start(&["upstream", "--websocket-compression"]);
    all_ways(&upstream, &["deflate", "echo"]);
}

#[test]
fn a_client_receives_what_the_upstream_pushes() {
    let pushes = ["--websocket", "/feed=push,20,5ms", "--websocket", "/all=fan-out,endless,5ms"];
    let upstream = Server::start(&[&["upstream"][..], &pushes].concat());
    all_ways(&upstream, &["push", "fan_out"]);
}

/// The script as a server. It ends with its standard input, so also when the test is killed.
struct Peer {
    child: Child,
    address: SocketAddr,
}

impl Peer {
    fn start(mut command: Command) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("the script starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
        let port: u16 = line.trim().parse().expect("the script prints its port");
        Self { child, address: SocketAddr::from((own_loopback(), port)) }
    }

    /// A server of WebSockets. `compression` is `none` or `deflate`.
    fn of_websockets(compression: &str) -> Option<Self> {
        let mut command = script(WITH_WEBSOCKETS)?;
        command.args(["serve", &own_loopback().to_string(), compression]);
        Some(Self::start(command))
    }

    fn of_events() -> Option<Self> {
        let mut command = script("python3")?;
        command.args(["events", &own_loopback().to_string()]);
        Some(Self::start(command))
    }

    /// Sends this many requests to a path.
    fn load(&self, scheme: &str, path: &str, requests: u64, more: &[&str]) -> Json {
        let url = format!("{scheme}://{}/{path}", self.address);
        let mut command = hoptax();
        command.args(["load", &url, "-n", &requests.to_string(), "-c", "4", "--timeout", "60s"]);
        json(command.args(["--fail-above", "100%", "--json"]).args(more))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn assert_ok(name: &str, result: &Json, ok: u64) {
    assert_eq!(result["counts"]["ok"].as_u64(), Some(ok), "{name}: {}", result["counts"]);
}

/// Requires that WebSockets succeeded, each with this many messages and answers, and that none was lost.
#[track_caller]
fn assert_answered(name: &str, result: &Json, websockets: u64, each: u64) {
    assert_ok(name, result, websockets);
    let passed = ["sent", "received"].map(|what| count(result, what));
    assert_eq!(passed, [websockets * each; 2], "{name}: {}", result["messages"]);
    assert_intact(name, result);
}

#[test]
fn a_server_answers_messages() {
    let Some(peer) = Peer::of_websockets("none") else { return };
    for (name, more) in [
        ("closed loop", &["--messages", "20"][..]),
        ("paced", &["--messages", "20", "--every", "5ms"]),
        ("a text as content", &["--messages", "20", "-b", "hello"]),
        ("compression that the server refuses", &["--messages", "20", "--websocket-compression"]),
    ] {
        let result = peer.load("ws", "echo", 40, more);
        assert_answered(name, &result, 40, 20);
        assert_eq!(count(&result, "compressed"), 0, "{name}");
    }
    let large = ["--messages", "5", "--body-size", "300KiB"];
    assert_answered("large messages", &peer.load("ws", "echo", 8, &large), 8, 5);
}

#[test]
fn pings_of_a_server_are_answered() {
    let Some(peer) = Peer::of_websockets("none") else { return };
    // The server sends no answer before its ping has one.
    let result = peer.load("ws", "ping", 20, &["--messages", "10"]);
    assert_answered("pings", &result, 20, 10);
    assert_eq!(count(&result, "pings"), 20 * 10);
}

/// Messages of 64 KiB with the same letter, which compression makes far shorter.
#[test]
fn a_server_compresses_its_answers() {
    let Some(peer) = Peer::of_websockets("deflate") else { return };
    let messages = ["--messages", "10", "--body-size", "64KiB"];
    for (offers, compressed) in [(false, 0), (true, 20)] {
        let offer = if offers { &["--websocket-compression"][..] } else { &[] };
        let result = peer.load("ws", "echo", 20, &[&messages[..], offer].concat());
        assert_answered("compression", &result, 20, 10);
        assert_eq!(count(&result, "compressed"), compressed, "{}", result["messages"]);
        let received = result["bytes"]["received"].as_u64().expect("a number") / (20 * 10);
        let is_right = if offers { received < 2 * 1024 } else { received > 64 * 1024 };
        assert!(is_right, "offered: {offers}, {received} bytes per answer");
    }
}

/// The server ends each WebSocket after three of twenty answers.
#[test]
fn a_server_ends_websockets_early() {
    let Some(peer) = Peer::of_websockets("none") else { return };
    let each = ["--messages", "20"];
    for (path, ok, cut) in [("close", 8, 0), ("error", 0, 0), ("cut", 0, 8)] {
        let result = peer.load("ws", path, 8, &each);
        assert_ok(path, &result, ok);
        let of = ["received", "lost", "cut", "refused"].map(|what| count(&result, what));
        // Only WebSockets that end well can lose messages.
        assert_eq!(of, [8 * 3, ok * 17, cut, 0], "{path}: {}", result["messages"]);
    }
}

/// Each response has twenty events. What the server writes differs.
#[test]
fn a_server_writes_events_in_many_ways() {
    let Some(peer) = Peer::of_events() else { return };
    let number = ["--events", "--messages", "20"];
    let ways = [
        ("lf", 0),
        ("crlf", 0),
        ("cr", 0),
        ("bom", 0),
        ("multiline", 0),
        ("split", 0),
        ("split-crlf", 0),
        ("closed", 0),
        ("foreign", 0),
        ("comments", 40),
    ];
    concurrently(2, &ways, |&(path, comments)| {
        for more in [&number[..], &number[..1]] {
            let result = peer.load("http", path, 12, more);
            assert_ok(path, &result, 12);
            assert_intact(path, &result);
            let of = ["sent", "received", "comments"].map(|what| count(&result, what));
            assert_eq!(of, [12, 12 * 20, 12 * comments], "{path}: {}", result["messages"]);
        }
    });
}

/// The record of a load that sends this many requests, one after another.
pub(crate) fn record(address: SocketAddr, target: TargetSpec, requests: u64) -> LoadRecord {
    let spec = LoadSpec {
        requests: Some(requests),
        duration_ns: 60 * SECOND,
        timeouts: Timeouts::all(60 * SECOND),
        ..LoadSpec::closed(vec![address.into()], vec![target])
    };
    let output = run_spec(&serde_json::to_value(spec).expect("a spec"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a record")
}

/// Median of recorded times, µs.
pub(crate) fn median(times: &Encoded) -> f64 {
    times.decode().expect("our own").value_at_quantile(0.5) as f64 / 1e3
}

/// Median age of events, µs, as hoptax measures it on one connection.
fn age_by_hoptax(address: SocketAddr, events: u32, every_ns: u64) -> f64 {
    let stream = StreamSpec {
        carrier: Carrier::Events,
        same_clock: true,
        ..StreamSpec::grpc(StreamKind::ServerStream, events, every_ns)
    };
    let headers = [("host", "upstream"), ("accept", "text/event-stream")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let target = TargetSpec { stream: Some(stream), ..TargetSpec::only("GET", "/", headers, Vec::new()) };
    let messages = record(address, target, 1).messages.expect("a load with events records them");
    let counts = messages.counts;
    assert_eq!((counts.received, counts.lost), (u64::from(events), 0), "{counts:?}");
    let ages = &messages.histograms.age;
    assert_eq!(ages.decode().expect("our own").len(), u64::from(events));
    median(ages)
}

/// The same, as a blocking socket in Python measures it.
fn age_by_python(address: SocketAddr, events: u32) -> Option<f64> {
    let mut script = script("python3")?;
    let found = json(script.arg("ages").arg(address.to_string()).arg(events.to_string()));
    assert_eq!(found["events"].as_u64(), Some(u64::from(events)));
    found["p50"].as_f64()
}

/// Both are later than the event was due by the wake-ups of the upstream and of the client. `benches/ages.py`
/// compares them exactly.
#[test]
fn ages_of_events_are_those_of_a_blocking_socket() {
    let (events, every_ns) = (200, 5_000_000);
    let upstream = Server::start(&["upstream", "--events", "200,5ms"]);
    retry_if_disturbed(|| {
        let ours = age_by_hoptax(upstream.instance(0), events, every_ns);
        let Some(theirs) = age_by_python(upstream.instance(0), events) else { return Ok(()) };
        let is_plausible = ours > 0.0 && theirs > 0.0 && (ours - theirs).abs() < 500.0;
        is_plausible.then_some(()).ok_or(format!("{ours} µs, and {theirs} µs of the blocking socket"))
    });
}
