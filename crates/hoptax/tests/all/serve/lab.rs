//! A generated history, a server for it, and a simple client.

use crate::report::fixture::Run;
use crate::support::{Json, PATIENCE, Scratch, wait_until};
use hoptax_analysis::Severity;
use hoptax_history::live::{self, Board, Second, Stage, State, Trial, TrialPhase};
use hoptax_history::serve::{Access, Options, Server};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

/// Start of the first run in Unix seconds: 2026-11-01.
const FIRST: u64 = 1_793_491_200;
const DAY: u64 = 86_400;

/// Writes a run with this id to a history. The run starts `day` days after the first run.
pub(super) fn put(root: &Path, id: &str, day: u64, mut run: Run, version: &str) {
    run.record.started_unix_ns = (FIRST + day * DAY) * 1_000_000_000;
    if let Some(ended) = &mut run.record.ended {
        ended.unix_ns = run.record.started_unix_ns + 60_000_000_000;
    }
    for one in run.record.contenders.iter_mut().filter(|one| one.label == "nginx") {
        one.version = Some(version.into());
    }
    let directory = root.join(id);
    std::fs::create_dir_all(&directory).expect("writable");
    // hoptax itself waits for the disk after each trial, which takes most of the time.
    let write = |name: &str, text: String| std::fs::write(directory.join(name), text).expect("writable");
    let line = |json: serde_json::Result<String>| json.expect("JSON") + "\n";
    write("run.json", line(serde_json::to_string(&run.record)));
    write("trials.jsonl", run.trials.iter().map(|trial| line(serde_json::to_string(trial))).collect());
    if !run.starts.is_empty() {
        write("starts.jsonl", run.starts.iter().map(|start| line(serde_json::to_string(start))).collect());
    }
}

/// A run of direct, nginx and haproxy. `name` is the name of its plan.
pub(super) fn run(name: &str, nginx_us: u64) -> Run {
    let mut run = Run::steady(4, 100, &[("nginx", nginx_us), ("haproxy", 170)]);
    run.record.plan.name = name.into();
    // A slower gateway also uses more CPU.
    for trial in run.trials.iter_mut().filter(|trial| trial.contender == "nginx") {
        trial.gateway.as_mut().expect("watched").cpu_ns = nginx_us * 100_000;
    }
    run
}

/// Five runs of one plan, two runs of another plan, and a directory that cannot be read as a run.
pub(super) fn history() -> Scratch {
    let scratch = Scratch::new();
    let root = scratch.path();
    for (day, (us, version)) in
        [(150, "1.24"), (151, "1.24"), (152, "1.26"), (190, "1.26"), (150, "1.26")].iter().enumerate()
    {
        put(root, &format!("2026110{}T000000Z-nightly", day + 1), day as u64, run("nightly", *us), version);
    }
    for day in [10, 11] {
        let mut other = run("<b>other</b>", 150);
        other.record.plan.targets[0].path = "/other".into();
        put(root, &format!("202611{}T000000Z-other", day + 1), day, other, "1.26");
    }
    for (id, text) in
        [("20261201T000000Z-broken", "{\"schema\": 3,"), ("20261202T000000Z-newer", "{\"schema\": 99}")]
    {
        std::fs::create_dir(root.join(id)).expect("made");
        std::fs::write(root.join(id).join("run.json"), text).expect("written");
    }
    scratch
}

/// Eight runs of one plan. From the fifth on, nginx has a new version and is slower.
pub(super) fn changed_history() -> Scratch {
    let scratch = Scratch::new();
    for day in 0..8 {
        let (us, version) = if day < 4 { (150, "1.24") } else { (190, "1.26") };
        let id = format!("2026110{}T000000Z-nightly", day + 1);
        put(scratch.path(), &id, day, run("nightly", us + day % 2), version);
    }
    scratch
}

/// The token of [`served`], which [`request`] and the browser send.
pub(super) const TOKEN: &str = "0123456789abcdef";

/// Starts a server for a history, with [`TOKEN`]. The kernel chooses the port.
pub(super) fn served(root: &Path, live: Option<Board>) -> Server {
    Server::start(options(root, live, Access::Token(TOKEN.into()))).expect("it listens")
}

/// [`history`] with its server, and the server's address.
pub(super) fn served_history() -> (Scratch, Server, SocketAddr) {
    let history = history();
    let server = served(history.path(), None);
    let to = server.address();
    (history, server, to)
}

/// Options of a server on a free port of loopback.
pub(super) fn options(root: &Path, live: Option<Board>, access: Access) -> Options {
    Options {
        address: "127.0.0.1:0".parse().expect("an address"),
        access,
        root: root.into(),
        live,
        keep_off: Vec::new(),
        exe: env!("CARGO_BIN_EXE_hoptax").into(),
    }
}

/// State of a run that is still measuring.
pub(super) fn current_state() -> State {
    let second = |rate| Second { rate, failed: 0.0, p50_us: Some(180.0), p99_us: Some(900.0) };
    State {
        schema: live::SCHEMA,
        run: "20261105T000000Z-nightly".into(),
        name: "nightly".into(),
        stage: Stage::Measuring,
        doing: String::new(),
        trials_done: 3,
        trials_planned: 20,
        starts: false,
        open_ended: false,
        round: "1/4".into(),
        elapsed_s: 31.0,
        left_s: 170.0,
        trial: Some(Trial {
            number: 4,
            gateway: "nginx".into(),
            load: "closed loop, 32 connections".into(),
            phase: TrialPhase::Measuring,
            elapsed_s: 3.2,
            duration_s: 10.0,
            due: None,
            by_round: false,
            seconds: vec![second(8_000.0), second(8_100.0), second(7_900.0)],
        }),
        rounds: Vec::new(),
        cpu: vec![live::Role { role: "gateway".into(), cpus: 0.93, memory_bytes: 9 << 20 }],
        steal: Some(0.02),
        cases: vec![live::LiveCase {
            gateway: "direct".into(),
            load: "closed loop, 32 connections".into(),
            trials: 2,
            rate: Some(21_000.0),
            p50_us: Some(90.0),
            p99_us: Some(300.0),
            added_p50_us: None,
            added_p50_half_width_us: None,
        }],
        findings: vec![live::Finding {
            severity: Severity::Warning,
            code: "host-noisy".into(),
            case: None,
            message: "The hypervisor took 2 %.".into(),
        }],
        failures: vec![live::Failure { label: "envoy".into(), message: "envoy is not installed".into() }],
    }
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(super) fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// Sends bytes on their own connection and reads until the server closes it.
pub(super) fn exchange(to: SocketAddr, bytes: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(to).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    // A server that refuses a large request may close the connection before the client has sent all of it.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|part| part == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    Answer { status, head, body: answer[end..].to_vec() }
}

/// Sends a request. Without a header for credentials, it sends [`TOKEN`].
pub(super) fn request(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        text.push_str(&format!("Host: {to}\r\n"));
    }
    let names = || headers.iter().map(|(name, _)| name.to_ascii_lowercase());
    if !names().any(|name| name == "authorization" || name == "cookie") {
        text.push_str(&format!("Authorization: Bearer {TOKEN}\r\n"));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    exchange(to, format!("{text}\r\n{body}").as_bytes())
}

pub(super) fn get(to: SocketAddr, path: &str) -> Answer {
    request(to, "GET", path, &[], "")
}

/// Analyses every run, with its own server. A server that also shows a current run would postpone the
/// analysis.
pub(super) fn analyse(root: &Path) {
    analysed(served(root, None).address());
}

/// Waits until every run has been analysed.
pub(super) fn analysed(to: SocketAddr) {
    wait_until("every run is analysed", PATIENCE, || get(to, "/api/v1/runs").json()["pending"] == 0);
}
