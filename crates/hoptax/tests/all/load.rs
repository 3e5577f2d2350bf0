//! `hoptax load` against `hoptax upstream`: two processes, as in a run.

use crate::support::refusals::{refusals, refused};
use crate::support::{PATIENCE, hoptax, own_loopback, succeed, unused_address, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::{Deref, DerefMut};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

/// A child process that is killed when dropped.
pub(crate) struct KilledOnDrop(pub(crate) Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Deref for KilledOnDrop {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for KilledOnDrop {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

pub(crate) struct Upstream {
    process: KilledOnDrop,
    address: String,
    control: String,
}

impl Upstream {
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut command = hoptax();
        command.args(["upstream", "--address", &own_loopback().to_string()]);
        command.args(args).stdout(Stdio::piped());
        let mut process = KilledOnDrop(command.spawn().expect("starts"));
        let ready: Value = serde_json::from_str(&line(&mut process)).expect("one line of JSON");
        let text = |value: &Value| value.as_str().expect("an address").to_owned();
        Self { process, address: text(&ready["instances"][0]), control: text(&ready["control"]) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address.parse().expect("an address")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    pub(crate) fn requests(&self) -> u64 {
        self.ledger("requests")
    }

    /// Sum of one member of the ledger over all instances.
    pub(crate) fn ledger(&self, member: &str) -> u64 {
        let mut control = TcpStream::connect(&self.control).expect("the control socket answers");
        control.write_all(b"GET /ledger HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        control.read_to_string(&mut answer).expect("read");
        let body = answer.split("\r\n\r\n").nth(1).expect("a body");
        let ledger: Value = serde_json::from_str(body).expect("JSON");
        let instances = ledger["instances"].as_array().expect("instances");
        instances.iter().map(|instance| instance[member].as_u64().expect("a count")).sum()
    }
}

fn line(process: &mut KilledOnDrop) -> String {
    let mut out: BufReader<ChildStdout> = BufReader::new(process.0.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    line
}

pub(crate) fn load(args: &[&str]) -> Output {
    hoptax().arg("load").args(args).stdin(Stdio::null()).output().expect("runs")
}

/// Output of `hoptax load`. Fails if the load fails.
#[track_caller]
pub(crate) fn loaded(args: &[&str]) -> String {
    succeed(hoptax().arg("load").args(args))
}

/// Output of `hoptax load --json`. Fails if the load fails.
pub(crate) fn case(args: &[&str]) -> Value {
    let case = serde_json::from_str(&loaded(&[args, &["--json"]].concat())).expect("one JSON document");
    adds_up(&case);
    case
}

fn adds_up(case: &Value) {
    let counts = &case["counts"];
    let count = |name: &str| counts[name].as_u64().unwrap_or_else(|| panic!("{name} in {counts}"));
    let parts = ["completed", "timeouts", "connect_errors", "resets", "bad_responses", "unsent", "in_flight"]
        .map(count);
    assert_eq!(count("scheduled"), parts.iter().sum::<u64>(), "{counts}");
}

/// A load spec of four connections. `more` has the addresses, and the members that differ from this spec.
pub(crate) fn spec_with(more: Value) -> Value {
    let limit = 60_000_000_000_u64;
    let mut spec = json!({
        "schema": 2,
        "targets": [{
            "name": "root", "weight": 1, "method": "GET", "path": "/", "headers": [["host", "test"]], "body": ""
        }],
        "shape": {"loop": "closed"},
        "connections": 4,
        "warmup_ns": 0,
        "duration_ns": 600_000_000_000_u64,
        "requests": null,
        "timeouts": {"connect_ns": limit, "first_byte_ns": limit, "total_ns": limit},
        "workers": 1,
        "cpus": [],
        "seed": 1,
        "windows": false
    });
    let Value::Object(more) = more else { panic!("no object: {more}") };
    spec.as_object_mut().expect("an object").extend(more);
    spec
}

fn spec(upstream: &Upstream, duration: Duration) -> Value {
    spec_with(json!({
        "addresses": [upstream.address],
        "warmup_ns": 20_000_000,
        "duration_ns": duration.as_nanos() as u64,
        "windows": true
    }))
}

/// Runs a load with this spec to its end.
pub(crate) fn run_spec(spec: &Value) -> Output {
    start_generator(spec, "--spec").wait_with_output().expect("ends")
}

/// The record of a load with this spec. Fails if the load fails.
#[track_caller]
pub(crate) fn record_of(spec: &Value) -> Value {
    let output = run_spec(spec);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a record")
}

/// Starts a load with this spec. If the test panics, the kernel kills the process, because it asks for that
/// when it starts (PR_SET_PDEATHSIG, prctl(2)).
fn start_generator(spec: &Value, flag: &str) -> Child {
    let mut command = hoptax();
    command.args(["load", flag, "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("starts");
    let mut stdin = process.stdin.take().expect("piped");
    stdin.write_all(spec.to_string().as_bytes()).expect("read by the generator");
    process
}

fn interrupt(process: &Child) {
    kill_process(Pid::from_child(process), Signal::INT).expect("it runs");
}

#[test]
fn the_summary_has_the_usual_fields() {
    let upstream = Upstream::start(&["--body", "64B"]);
    for arguments in [&["-n", "500"][..], &["-n", "500", "-r", "5000/s", "--arrivals", "poisson"]] {
        let output = load(&[&[upstream.url().as_str(), "-c", "4"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("text");
        for field in [
            "Duration",
            "500 completed",
            "requests/s",
            "/s received",
            "Concurrency",
            "Availability   100.00 %",
            "µs of CPU per request",
            "mean",
            "sd",
            "shortest",
            "99.9 %",
            "longest",
            "response time",
            "connect",
            "4 requested, 4 established",
            "200: 500",
        ] {
            assert!(text.contains(field), "{field:?} is missing in\n{text}");
        }
        assert_eq!(text.contains("send lag"), arguments.contains(&"-r"), "{text}");
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(widest <= 80, "{widest} columns in\n{text}");
        assert!(output.stderr.is_empty(), "quiet when not on a terminal");
    }
}

#[test]
fn json_has_the_members_of_a_case() {
    let upstream = Upstream::start(&["--body", "64B"]);
    let case = case(&[&upstream.url(), "-r", "2000/s", "-d", "300ms", "--arrivals", "jitter"]);
    assert_eq!(case["counts"]["scheduled"], 600);
    assert_eq!(case["throughput"]["unit"], "requests/s");
    for times in ["response_time", "service_time", "send_lag"] {
        assert_eq!(case[times]["unit"], "us");
        for row in ["p50", "p90", "p95", "p99", "p99.9", "max", "mean"] {
            assert!(case[times][row]["estimate"].is_number(), "{times} {row} in {case}");
        }
    }
    for (group, member) in [
        ("connections", "opened"),
        ("connections", "reused"),
        ("connections", "per_request"),
        ("bytes", "sent"),
        ("bytes", "received"),
        ("bytes", "per_response"),
        ("cpu", "generator_us_per_request"),
        ("cpu", "generator_utilisation"),
    ] {
        assert!(case[group][member].is_number(), "{group}.{member} in {case}");
    }
    assert_eq!(case["load"]["arrivals"], "jitter");
    assert_eq!(case["interrupted"], false);
}

#[test]
fn a_spec_gives_phases_and_one_record_and_the_ledger_agrees() {
    let upstream = Upstream::start(&[]);
    let output = run_spec(&spec(&upstream, Duration::from_millis(200)));
    assert!(output.status.success());
    let [out, phases] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
    let phases: Vec<Value> =
        phases.lines().map(|line| serde_json::from_str(line).expect("a phase line")).collect();
    let names: Vec<&str> = phases.iter().filter_map(|phase| phase["phase"].as_str()).collect();
    assert_eq!(names, ["connecting", "warmup", "measuring", "draining"]);
    assert_eq!(out.lines().count(), 1);
    let record: Value = serde_json::from_str(&out).expect("a load record");
    adds_up(&record);
    assert_eq!(record["measured_ns"], 200_000_000);
    assert_eq!(record["windows"].as_array().map(Vec::len), Some(2));
    assert_eq!(phases[2]["at_ns"], record["started_ns"]);
    assert_eq!(record["lifetime"]["completed"], upstream.requests());
}

#[test]
fn a_watched_spec_also_reports_seconds() {
    let upstream = Upstream::start(&[]);
    let generator = start_generator(&spec(&upstream, Duration::from_millis(1250)), "--watched-spec");
    let output = generator.wait_with_output().expect("ends");
    assert!(output.status.success());
    let record: Value = serde_json::from_slice(&output.stdout).expect("a load record");
    let lines = String::from_utf8(output.stderr).expect("text");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let phases: Vec<&str> = lines.iter().filter_map(|line| line["phase"].as_str()).collect();
    assert_eq!(phases, ["connecting", "warmup", "measuring", "draining"]);
    let seconds: Vec<&Value> = lines.iter().filter(|line| !line["second"].is_null()).collect();
    let lengths: Vec<_> =
        seconds.iter().map(|second| second["length_ns"].as_u64().expect("a length")).collect();
    assert_eq!(lengths, [1_000_000_000, 250_000_000]);
    adds_up(&record);
    let windows = record["windows"].as_array().expect("windows");
    for member in ["sent", "completed", "ok"] {
        let of = |lines: &mut dyn Iterator<Item = &Value>| -> u64 {
            lines.map(|line| line[member].as_u64().expect("a count")).sum()
        };
        assert_eq!(of(&mut seconds.iter().copied()), of(&mut windows.iter()), "{member}");
    }
    assert!(seconds[0]["p50_ns"].as_u64() <= seconds[0]["p99_ns"].as_u64(), "{}", seconds[0]);
    assert!(seconds[0]["p50_ns"].as_u64() > Some(0), "{}", seconds[0]);
}

#[test]
fn ctrl_c_ends_it_early_and_keeps_the_data() {
    let upstream = Upstream::start(&[]);
    let mut command = hoptax();
    command.args(["load", &upstream.url(), "-d", "1h", "--json"]).stdout(Stdio::piped());
    let mut process = KilledOnDrop(command.spawn().expect("starts"));
    wait_until("requests arrive", PATIENCE, || upstream.requests() > 100);
    interrupt(&process.0);
    let mut out = String::new();
    process.0.stdout.take().expect("piped").read_to_string(&mut out).expect("text");
    assert_eq!(process.0.wait().expect("ends").code(), Some(0));
    let case: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(case["interrupted"], true);
    adds_up(&case);
    assert!(case["counts"]["completed"].as_u64() > Some(0));
}

#[test]
fn a_generator_exits_with_its_parent() {
    let upstream = Upstream::start(&[]);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("spec.json");
    std::fs::write(&file, spec(&upstream, Duration::from_secs(3600)).to_string()).expect("written");
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$0\" load --spec \"$1\" 2>/dev/null & echo $!; wait"]);
    shell.arg(env!("CARGO_BIN_EXE_hoptax")).arg(&file).stdout(Stdio::piped());
    let mut shell = KilledOnDrop(shell.spawn().expect("starts"));
    let pid: u32 = line(&mut shell).trim().parse().expect("a pid");
    wait_until("requests arrive", PATIENCE, || upstream.requests() > 100);
    shell.0.kill().expect("it runs");
    wait_until("the generator has gone", PATIENCE, || {
        // If the process has no parent that reaps it, it stays a zombie. So a zombie counts as gone.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.trim().starts_with('Z'))
    });
}

#[test]
fn the_example_of_the_reference_page_is_a_load_spec() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/load.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let example = page.split("```json").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let example: hoptax_format::spec::LoadSpec =
        serde_json::from_str(example).expect("the example is a load spec");
    assert_eq!(example.schema, hoptax_format::spec::SPEC_SCHEMA);
}

#[test]
fn wrong_arguments_are_refused_with_a_fix() {
    let lines = [
        &["127.0.0.1:80"][..],
        &["http://127.0.0.1/", "-o", "/dev/null"],
        &["http://127.0.0.1/", "--source", "192.0.2.1"],
        &["http://127.0.0.1/", "--hgrm", "/nowhere/at/all"],
        &["http://127.0.0.1/", "--hgrm", "/dev/null", "--fortio", "/dev/null"],
        &["http://127.0.0.1/", "--seed", "x"],
        &["http://127.0.0.1/", "-X", "G T"],
        &["--spec", "/dev/null"],
    ];
    insta::assert_snapshot!(refusals(&["load"], &lines));
    // This text has the limit of descriptors.
    let error = refused(hoptax().args(["load", "http://127.0.0.1:9/", "-c", "4000000000"]));
    assert!(error.contains("connections fit"), "{error}");
}

#[test]
fn failures_are_reported_with_their_cause() {
    let upstream = Upstream::start(&["--delay", "10m"]);
    let refused = format!("http://{}/", unused_address());
    for (arguments, part) in [
        (vec![refused.as_str(), "-d", "1s"], "refused"),
        (vec![&upstream.url(), "-n", "2", "-c", "2", "--timeout", "1s"], "no request completed: timeout"),
    ] {
        let output = load(&arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
}

#[test]
fn one_process_holds_fifteen_thousand_connections() {
    const CONNECTIONS: u64 = 15_000;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let connections = limit.map_or(CONNECTIONS, |limit| CONNECTIONS.min(limit.saturating_sub(200)));
    assert!(connections > 1000, "a hard limit of {limit:?} descriptors is too low to test anything");
    let upstream = Upstream::start(&["--body", "64B"]);
    let requests = 3 * connections;
    // The timeout also limits the time to connect, which can be long on a busy machine. So the timeout here
    // is long.
    let patience = ["--timeout", "60s"];
    let (count, total) = (connections.to_string(), requests.to_string());
    let case = case(&[&[upstream.url().as_str(), "-c", &count, "-n", &total], &patience[..]].concat());
    assert_eq!(case["connections"]["established"], connections);
    assert_eq!(case["counts"]["completed"], requests);
    assert_eq!(case["connections"]["opened"], 0, "no connection was reopened");
    assert_eq!(upstream.requests(), requests);
    // The limit is 2 KiB per connection, plus memory for histograms, buffers and the program.
    let memory = case["memory"]["generator_rss_bytes_max"].as_u64().expect("a number");
    assert!(memory < connections * 2048 + (24 << 20), "{memory} bytes");
}
