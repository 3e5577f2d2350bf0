//! gRPC of `hoptax upstream`, `hoptax hop h2` and `hoptax load`, with a client and a server that others
//! wrote: Google's `grpcio` for Python, in `grpc_peers/peer.py`.

use crate::http2_upstream::program;
use crate::load::KilledOnDrop;
use crate::stream_peers;
use crate::support::{Json, PATIENCE, hoptax, json, own_loopback, wait_until};
use crate::wire::Server;
use hoptax_servers::ledger;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// A command that runs the script. `None` if the test is skipped, because grpcio is missing.
fn script() -> Option<Command> {
    let mut command = Command::new(program("python3-grpcio")?);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/grpc_peers/peer.py"));
    Some(command)
}

/// Runs checks of the script's client against a server.
fn ask(address: SocketAddr, checks: &[&str]) {
    let Some(script) = script() else { return };
    stream_peers::ask_with(script, address, checks);
}

fn upstream(more: &[&str]) -> Server {
    let mut arguments =
        vec!["upstream", "--body-text", "hello from the upstream", "--header", "x-own: header"];
    for method in [
        "/echo.Echo/Watch=server-stream,20,5ms",
        "/echo.Echo/Burst=server-stream,5000",
        "/echo.Echo/Slow=server-stream,3600,1s",
        "/echo.Echo/Send=client-stream,20",
        "/echo.Echo/Chat=both-ways",
    ] {
        arguments.extend(["--grpc-stream", method]);
    }
    for answer in [
        "{ path: /echo.Echo/Large, body: 4MiB }",
        "{ path: /echo.Echo/Missing, status: 404 }",
        "{ path: /echo.Echo/Closed, status: 403 }",
    ] {
        arguments.extend(["--answer", answer]);
    }
    arguments.extend(more);
    Server::start(&arguments)
}

/// Runs checks directly and through a hop.
fn both(upstream: &Server, checks: &[&str]) {
    let (_hop, through_hop) = Server::hop("h2", upstream.instance(0), &[]);
    for address in [upstream.instance(0), through_hop] {
        ask(address, checks);
    }
}

#[test]
fn a_client_calls_the_upstream() {
    both(&upstream(&[]), &["unary", "server_stream", "client_stream", "both_ways", "large"]);
}

#[test]
fn a_client_understands_statuses() {
    both(&upstream(&[]), &["statuses"]);
    both(&upstream(&["--grpc-status", "not-found"]), &["own_status"]);
}

#[test]
fn a_client_finds_health_and_reflection() {
    both(&upstream(&[]), &["health", "reflection"]);
}

#[test]
fn a_client_ends_calls_early() {
    skip_if!(script().is_none());
    let counts = |upstream: &Server| ledger::fetch(upstream.control()).expect("a ledger").instances.remove(0);
    let own = upstream(&[]);
    both(&own, &["deadline"]);
    // The script's own limit is a minute, and grpcio rounds up.
    let deadlines = counts(&own).deadlines.expect("counted");
    let longest = deadlines.values().map(|found| found.most_ns / 1_000_000_000).max();
    assert!(longest.is_some_and(|seconds| (30..=61).contains(&seconds)), "{deadlines:?}");

    let own = upstream(&[]);
    both(&own, &["cancel"]);
    let all = Some(2 * 3);
    wait_until("the upstream counts the cancelled calls", PATIENCE, || counts(&own).cancels == all);
}

/// The script as a server. It ends with its standard input, so also when the test is killed.
struct Peer {
    _child: KilledOnDrop,
    url: String,
}

impl Peer {
    /// `compression` of the answers is `off` or `gzip`.
    fn start(compression: &str) -> Option<Self> {
        let mut command = script()?;
        command.args(["serve", &own_loopback().to_string(), compression]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the script starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
        let port: u16 = line.trim().parse().expect("the script prints its port");
        Some(Self { _child: KilledOnDrop(child), url: format!("http://{}:{port}", own_loopback()) })
    }

    /// Calls a method this many times.
    fn load(&self, method: &str, calls: u64, more: &[&str]) -> Json {
        let mut command = hoptax();
        command.args(["load", &self.url, "--grpc", &format!("echo.Echo/{method}")]);
        command.args(["-n", &calls.to_string(), "-c", "2", "--streams", "4", "--timeout", "60s"]);
        json(command.args(["--fail-above", "100%", "--json"]).args(more))
    }
}

/// Requires that all calls ended with one of these statuses, which calls have in turn.
#[track_caller]
fn assert_statuses(result: &Json, calls: u64, statuses: &[&str]) {
    let each = calls / statuses.len() as u64;
    let expected: BTreeMap<&str, u64> = statuses.iter().map(|status| (*status, each)).collect();
    let counts = &result["counts"];
    assert_eq!(counts["grpc"], serde_json::json!(expected), "{counts}");
    assert_eq!(counts["ok"], serde_json::json!(expected.get("OK").unwrap_or(&0)), "{counts}");
}

/// Requires these numbers of messages, and that none was lost or changed its place.
#[track_caller]
fn assert_messages(result: &Json, sent: u64, received: u64) {
    let messages = &result["messages"];
    let of = ["sent", "received", "lost", "repeated", "reordered", "unnumbered"].map(|what| &messages[what]);
    assert_eq!(of.map(Json::as_u64), [sent, received, 0, 0, 0, 0].map(Some), "{messages}");
}

#[test]
fn a_server_answers_calls() {
    let Some(peer) = Peer::start("off") else { return };
    let result = peer.load("Say", 1000, &["-b", "hello", "--expect-body", "hello"]);
    assert_statuses(&result, 1000, &["OK"]);
    // The body is the prefix and the message.
    let result = peer.load("Say", 40, &["--body-size", "1MiB"]);
    assert_statuses(&result, 40, &["OK"]);
    assert_eq!(result["bytes"]["body"].as_u64(), Some(40 * (5 + (1 << 20))), "{}", result["bytes"]);
}

#[test]
fn a_server_sends_and_receives_streams() {
    let Some(peer) = Peer::start("off") else { return };
    let paced = ["--messages", "20", "--every", "5ms"];
    for (method, kind, [sent, received]) in [
        ("Watch", "server-stream", [1, 20]),
        ("Send", "client-stream", [20, 1]),
        ("Chat", "both-ways", [20, 20]),
    ] {
        for pace in [&paced[..], &paced[..2]] {
            let result = peer.load(method, 32, &[&["--grpc-kind", kind, "-b", "hello"][..], pace].concat());
            assert_statuses(&result, 32, &["OK"]);
            assert_messages(&result, 32 * sent, 32 * received);
        }
    }
    // Messages that are larger than a window.
    let large = ["--grpc-kind", "both-ways", "--messages", "5", "--body-size", "300KiB"];
    let result = peer.load("Chat", 16, &large);
    assert_statuses(&result, 16, &["OK"]);
    assert_messages(&result, 16 * 5, 16 * 5);
}

#[test]
fn a_server_ends_calls_with_any_status() {
    let Some(peer) = Peer::start("off") else { return };
    let statuses = "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS \
         PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED \
         INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED";
    let statuses: Vec<&str> = statuses.split(' ').collect();
    assert_statuses(&peer.load("Fail", 340, &["-b", "hello"]), 340, &statuses);
    assert_statuses(&peer.load("Missing", 40, &["-b", "hello"]), 40, &["UNIMPLEMENTED"]);
    let result = peer.load("Late", 16, &["-b", "hello", "--deadline", "200ms"]);
    assert_statuses(&result, 16, &["DEADLINE_EXCEEDED"]);
    // Streams that fail lose no messages.
    let stream = ["--grpc-kind", "server-stream", "--messages", "20", "-b", "hello"];
    let result = peer.load("Break", 40, &stream);
    assert_statuses(&result, 40, &["DATA_LOSS"]);
    assert_messages(&result, 40, 40 * 3);
    let result = peer.load("Missing", 40, &stream);
    assert_statuses(&result, 40, &["UNIMPLEMENTED"]);
    assert_messages(&result, 40, 0);
}

/// Messages of 64 KiB with the same letter, which gzip makes far shorter.
#[test]
fn a_server_understands_compression() {
    let call = ["--body-size", "64KiB", "--grpc-compression", "gzip"];
    for (compression, answer) in [("off", 64 * 1024..65 * 1024), ("gzip", 1..1024)] {
        let Some(peer) = Peer::start(compression) else { return };
        let result = peer.load("Say", 40, &call);
        assert_statuses(&result, 40, &["OK"]);
        let [sent, received] = ["sent", "body"].map(|what| result["bytes"][what].as_u64().expect("a number"));
        let is_right = sent / 40 < 1024 && answer.contains(&(received / 40));
        assert!(is_right, "answers with compression {compression}: {}", result["bytes"]);
    }
}
