//! `hoptax run` from plan to report, with real gateways. Results must agree with the ledger and with the
//! gateways' own counts. However a run ends, no result may be lost and no process may keep running.

use crate::support::server::{Response, Server};
use crate::support::{
    Json, PATIENCE, Scratch, hoptax, json, retry_if_disturbed, retry_only_after_stall, wait_until,
};
use crate::wire::Server as Process;
use hoptax_format::histogram::Encoded;
use hoptax_host::tree::{descendants, is_alive};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) fn run(scratch: &Scratch, plan: &str, arguments: &[&str]) -> Output {
    let path = scratch.file("plan.yaml", plan);
    command(scratch, &path).args(arguments).output().expect("hoptax runs")
}

/// A command that runs a plan file.
fn command(scratch: &Scratch, plan: &Path) -> Command {
    let mut command = hoptax();
    command.arg("run").arg(plan).arg("--out").arg(scratch.path());
    command
}

/// Like [`run`], for a run that must succeed. Returns the run's directory.
pub(crate) fn run_to_success(scratch: &Scratch, plan: &str, arguments: &[&str]) -> PathBuf {
    let output = run(scratch, plan, arguments);
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    run_directory(scratch)
}

/// Minimum length of a stall that can leave a trial without any response. The shortest trials last 300 ms. If
/// a trial has no response and there was no such stall, the engine hung.
pub(crate) const STALL: Duration = Duration::from_millis(100);

/// Like [`run`], but repeats the run if the machine stalled and a trial ended without any response. Also
/// returns the run's directory.
pub(crate) fn run_without_stall(scratch: &Scratch, plan: &str, arguments: &[&str]) -> (Output, PathBuf) {
    repeat_if_stalled(|| {
        let output = run(scratch, plan, arguments);
        assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
        (output, run_directory(scratch))
    })
}

/// Returns the result of a run. Repeats it if the machine stalled during a trial.
fn repeat_if_stalled(mut attempt: impl FnMut() -> (Output, PathBuf)) -> (Output, PathBuf) {
    retry_only_after_stall(STALL, || {
        let (output, directory) = attempt();
        match trials_without_response(&trials(&directory)) {
            0 => Ok((output, directory)),
            trials => Err(format!("nothing was answered in {trials} of the trials")),
        }
    })
}

/// Number of trials that ended without a response and without a failure.
pub(crate) fn trials_without_response(trials: &[Json]) -> usize {
    let nothing = |trial: &&Json| {
        let printed = trial["failed"]["message"].as_str().unwrap_or_default();
        printed.starts_with("none of ")
            && printed.ends_with(": 0 timeouts, 0 connect errors, 0 resets, 0 bad responses")
    };
    trials.iter().filter(nothing).count()
}

pub(crate) fn run_directory(scratch: &Scratch) -> PathBuf {
    let is_run = |path: &PathBuf| path.join("run.json").is_file();
    let directories = std::fs::read_dir(scratch.path()).expect("there").flatten().map(|entry| entry.path());
    directories.filter(is_run).max().expect("a run directory")
}

pub(crate) fn trials(directory: &Path) -> Vec<Json> {
    let text = std::fs::read_to_string(directory.join("trials.jsonl")).expect("there");
    text.lines().map(|line| serde_json::from_str(line).expect("a trial")).collect()
}

pub(crate) fn report(directory: &Path) -> Json {
    json(hoptax().arg("report").arg(directory).args(["--format", "json"]))
}

/// The report of a plan, which runs in a directory of its own. Its result may be void.
pub(crate) fn measured(plan: &str) -> Json {
    measured_with(plan, &[])
}

/// Like [`measured`], with more arguments.
pub(crate) fn measured_with(plan: &str, arguments: &[&str]) -> Json {
    let arguments = [&["--accept-void"][..], arguments].concat();
    let scratch = Scratch::new();
    report(&run_to_success(&scratch, plan, &arguments))
}

pub(crate) fn cases(report: &Json) -> &[Json] {
    report["cases"].as_array().expect("cases")
}

/// The first case of a gateway.
pub(crate) fn case<'a>(report: &'a Json, gateway: &str) -> &'a Json {
    let case = cases(report).iter().find(|case| case["gateway"] == gateway);
    case.unwrap_or_else(|| panic!("no case of {gateway}"))
}

/// Those of these findings that the cases of a gateway have. Each of its cases must have been measured.
pub(crate) fn found(report: &Json, gateway: &str, of: &[&str]) -> BTreeSet<String> {
    // A gateway without a case has no findings either.
    case(report, gateway);
    let codes = cases(report).iter().filter(|case| case["gateway"] == gateway).flat_map(|case| {
        assert!(case["trials"].as_u64() > Some(0), "{gateway}: {}", case["failed"]);
        case["findings"].as_array().expect("codes")
    });
    codes.filter_map(Json::as_str).filter(|code| of.contains(code)).map(str::to_owned).collect()
}

/// Fails unless each of these gateways has exactly these findings, among the findings `of`.
#[track_caller]
pub(crate) fn assert_found<'a>(
    report: &Json,
    of: &[&str],
    expected: impl IntoIterator<Item = (&'a str, &'a [&'a str])>,
) {
    for (gateway, codes) in expected {
        let codes: BTreeSet<String> = codes.iter().map(|code| (*code).to_owned()).collect();
        assert_eq!(found(report, gateway, of), codes, "{gateway}: {}", report["findings"]);
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Closed and open loops through common gateways, both hops and direct. The generator and the upstream must
/// count the same number of requests, except for requests in flight.
#[test]
fn requests_through_every_gateway_are_in_the_ledger() {
    let scratch = Scratch::new();
    let output = run(
        &scratch,
        "gateways: [hop-l4, hop-l7, nginx, haproxy, envoy]
load:
  - { loop: closed, connections: 8, requests: 1000, duration: 60s }
  - { loop: open, rate: 600/s, connections: 4, requests: 150, duration: 60s }
trials: 1
warmup: 50ms
upstream: { instances: 2, body: 1KiB }
",
        &["--accept-void"],
    );
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    let directory = run_directory(&scratch);
    let trials = trials(&directory);
    assert_eq!(trials.len(), 2 * 7);
    for trial in &trials {
        let (who, load) = (&trial["contender"], &trial["load_record"]);
        assert!(trial["failed"].is_null(), "{who}: {}", trial["failed"]);
        let lifetime = &load["lifetime"];
        let (sent, completed) = (lifetime["sent"].as_u64().unwrap(), lifetime["completed"].as_u64().unwrap());
        let upstream = trial["ledger"]["requests"].as_u64().unwrap();
        assert!(completed > 0, "{who}: no request completed");
        assert!((completed..=sent).contains(&upstream), "{who}: {upstream} of {completed}..={sent}");
        let counts = &load["counts"];
        let count = |name: &str| counts[name].as_u64().unwrap();
        let outcomes =
            ["completed", "timeouts", "connect_errors", "resets", "bad_responses", "unsent", "in_flight"];
        assert_eq!(count("scheduled"), outcomes.iter().map(|name| count(name)).sum::<u64>(), "{who}");
        assert_eq!(trial["ledger"]["http_version"]["1.1"].as_u64(), Some(upstream), "{who}");
        if who != "direct" {
            assert!(trial["gateway"]["cpu_ns"].as_u64().unwrap() > 0, "{who} used CPU");
            assert!(trial["gateway"]["rss_bytes_max"].as_u64().unwrap() > 1_000_000, "{who} used memory");
        }
        assert!(trial["upstream"]["cpu_ns"].as_u64().unwrap() > 0, "{who}");
        let windows = load["windows"].as_array().unwrap();
        let in_windows: u64 = windows.iter().map(|window| window["completed"].as_u64().unwrap()).sum();
        assert_eq!(in_windows, load["completed_in_time"].as_u64().unwrap(), "{who}");
    }
    for name in ["report.html", "report.md"] {
        assert!(directory.join(name).metadata().expect(name).len() > 500, "{name}");
    }
    assert!(text(&output.stdout).contains("report.html"), "the report's path is printed");
    let report = report(&directory);
    assert_eq!(report["cases"].as_array().unwrap().len(), 2 * 6);
    let nginx = report["contenders"].as_array().unwrap().iter().find(|it| it["label"] == "nginx").unwrap();
    assert!(nginx["version"].as_str().unwrap().starts_with(char::is_numeric), "{nginx}");
}

#[test]
fn nginx_logs_every_request() {
    let scratch = Scratch::new();
    let directory = run_to_success(
        &scratch,
        "gateways: [nginx]
load: [{ loop: closed, connections: 4, requests: 500, duration: 30s }]
trials: 1
warmup: 100ms
access_log: file
",
        &["--accept-void"],
    );
    let sent: u64 = trials(&directory)
        .iter()
        .filter(|trial| trial["contender"] == "nginx")
        .map(|trial| trial["load_record"]["lifetime"]["sent"].as_u64().unwrap())
        .sum();
    let log = find(&directory, "access.log").expect("an access log was asked for");
    let logged = std::fs::read_to_string(log).expect("readable").lines().count() as u64;
    // Verification adds one request. The readiness check adds none, because it uses the admin port, which has
    // no log.
    assert!((sent..=sent + 3).contains(&logged), "{logged} lines for {sent} requests");
}

fn find(below: &Path, name: &str) -> Option<PathBuf> {
    for entry in std::fs::read_dir(below).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = find(&path, name) {
                return Some(found);
            }
        } else if path.file_name().is_some_and(|it| it == name) {
            return Some(path);
        }
    }
    None
}

/// A plan with a run that is longer than any test.
const LONG: &str = "gateways: [hop-l4, nginx]
load: [{ loop: open, rate: 500/s, connections: 2, duration: 100ms }]
trials: 800
warmup: 50ms
";

/// Starts a long run and waits until a few trials are on disk.
#[allow(clippy::zombie_processes, reason = "a test that panics has failed; the others wait for it")]
fn begin_long_run(scratch: &Scratch) -> (Child, PathBuf) {
    let path = scratch.file("plan.yaml", LONG);
    let child = command(scratch, &path)
        // On a busy machine, a run with few trials may be void. This test accepts void results.
        .arg("--accept-void")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("hoptax runs");
    wait_until("trials are recorded", PATIENCE, || {
        let recorded = std::fs::read_dir(scratch.path())
            .expect("there")
            .flatten()
            .find_map(|entry| std::fs::read_to_string(entry.path().join("trials.jsonl")).ok());
        recorded.is_some_and(|text| text.lines().count() >= 4)
    });
    (child, run_directory(scratch))
}

/// Waits until none of these processes exists any more.
pub(crate) fn wait_until_gone(pids: &BTreeSet<u32>) {
    wait_until(&format!("processes {pids:?} have exited"), PATIENCE, || {
        !pids.iter().any(|pid| is_alive(*pid))
    });
}

pub(crate) fn send(signal: &str, pid: u32) {
    let status = Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill runs");
    assert!(status.success());
}

#[test]
fn a_signal_ends_the_run_with_a_report() {
    let scratch = Scratch::new();
    let (child, directory) = begin_long_run(&scratch);
    let started = descendants(child.id());
    assert!(started.len() >= 4, "upstream, hop, nginx, generator and guards: {started:?}");
    send("-INT", child.id());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{:?} {}", output.status, text(&output.stderr));
    wait_until_gone(&started);
    let report = report(&directory);
    assert_eq!(report["interrupted"], true);
    assert!(text(&output.stdout).to_lowercase().contains("interrupted"), "{}", text(&output.stdout));
    assert!(directory.join("report.html").is_file());
    assert_eq!(times_of_starts(&directory), [""; 0]);
}

/// Names of the files in the directory of logs that are not logs, but contain the times at which services
/// started.
fn times_of_starts(directory: &Path) -> Vec<String> {
    let files = std::fs::read_dir(directory.join("logs")).expect("logs").flatten();
    let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".started") || name.ends_with(".new")).collect()
}

#[test]
fn a_killed_run_leaves_no_process_and_keeps_finished_trials() {
    let scratch = Scratch::new();
    let (mut child, directory) = begin_long_run(&scratch);
    let started = descendants(child.id());
    send("-KILL", child.id());
    child.wait().expect("it is dead");
    wait_until_gone(&started);
    let report = report(&directory);
    assert_eq!(report["interrupted"], true, "a run that never ended was interrupted");
    let measured: u64 =
        report["cases"].as_array().unwrap().iter().map(|case| case["trials"].as_u64().unwrap()).sum();
    assert!(measured >= 3, "ended trials are readable: {measured}");
    assert_eq!(times_of_starts(&directory), [""; 0], "the guards removed them");
}

/// Finds a descendant of the process `below` by its command line.
fn find_process(below: u32, wanted: &str) -> u32 {
    *descendants(below)
        .iter()
        .find(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = text(&line).replace('\0', " ");
            line.contains(wanted) && !line.contains(" guard ")
        })
        .unwrap_or_else(|| panic!("no process {wanted:?}"))
}

#[test]
fn a_killed_gateway_is_started_again_and_the_run_continues() {
    let scratch = Scratch::new();
    let (child, directory) = begin_long_run(&scratch);
    let began = trials(&directory).len();
    send("-KILL", find_process(child.id(), "nginx: master"));
    wait_for_trials(&directory, |trials| {
        let of = trials[began..].iter().filter(|trial| trial["contender"] == "nginx");
        of.filter(|trial| trial["failed"].is_null()).count() >= 3
    });
    send("-INT", child.id());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{:?}\n{}", output.status, text(&output.stdout));
    let report = report(&directory);
    let findings = report["findings"].as_array().expect("a list");
    let died = findings.iter().find(|finding| finding["code"] == "gateway-died").expect("found");
    assert_eq!((&died["evidence"]["gateway"], &died["evidence"]["deaths"]), (&"nginx".into(), &1.into()));
    assert!(text(&output.stdout).contains("nginx died: once"), "{}", text(&output.stdout));
}

#[test]
fn a_killed_upstream_ends_the_run_and_keeps_the_data() {
    let scratch = Scratch::new();
    let (child, directory) = begin_long_run(&scratch);
    let started = descendants(child.id());
    send("-KILL", find_process(child.id(), "hoptax upstream "));
    let output = child.wait_with_output().expect("it ends by itself");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("upstream"), "{}", text(&output.stderr));
    wait_until_gone(&started);
    assert!(report(&directory)["cases"].as_array().is_some_and(|cases| !cases.is_empty()));
}

fn wait_for_trials(directory: &Path, enough: impl Fn(&[Json]) -> bool) {
    wait_until("enough trials are recorded", PATIENCE, || {
        let text = std::fs::read_to_string(directory.join("trials.jsonl")).expect("there");
        let trials: Vec<Json> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        enough(&trials)
    });
}

/// The smallest median of all windows of 100 ms that have at least ten responses, in µs. Other processes
/// affect this median least.
fn quietest_median_us(directory: &Path) -> f64 {
    let trials = trials(directory);
    let windows = trials.iter().filter_map(|trial| trial["load_record"]["windows"].as_array()).flatten();
    let full = windows.filter(|window| window["completed"].as_u64() >= Some(10));
    let median = |window: &Json| {
        let times: Encoded = serde_json::from_value(window["response_time"].clone()).expect("a histogram");
        times.decode().expect("a histogram").value_at_quantile(0.5) as f64 / 1000.0
    };
    full.map(median).fold(f64::INFINITY, f64::min)
}

/// The upstream delays each response by exactly 2 ms, so the service time is 2 ms plus the round trip. The
/// kernel's timers may be 50 µs late, and other tests run at the same time. To measure the accuracy on a
/// quiet machine, use `benches/rate-accuracy.py`.
#[test]
fn a_known_delay_is_measured_exactly() {
    let p50 = |delay: &str| {
        let scratch = Scratch::new();
        let plan = format!(
            "gateways: []
load: [{{ loop: closed, connections: 1, duration: 700ms }}]
trials: 1
warmup: 100ms
upstream: {{ delay: {delay} }}
"
        );
        let directory = run_to_success(&scratch, &plan, &["--accept-void"]);
        let printed = report(&directory)["cases"][0]["service_time"]["p50"]["estimate"].as_f64();
        let (printed, quietest) = (printed.expect("a median"), quietest_median_us(&directory));
        assert!(printed >= 0.98 * quietest, "{printed} µs in all and {quietest} µs in its quietest part");
        (printed, quietest)
    };
    retry_if_disturbed(|| {
        let ((_, bare), (printed, delayed)) = (p50("0ms"), p50("2ms"));
        let is_exact = (-50.0..250.0).contains(&(delayed - bare - 2_000.0)) && printed < 1.25 * delayed;
        let seen = format!("2 ms became {delayed} µs (in all {printed} µs) over a round trip of {bare} µs");
        is_exact.then_some(()).ok_or(seen)
    });
}

#[test]
fn an_external_gateway_and_a_running_upstream_are_measured_and_not_stopped() {
    let scratch = Scratch::new();
    let upstream = Process::start(&["upstream", "--instances", "1", "--body", "64B", "--delay", "2ms"]);
    let address = upstream.instance(0);
    let (hop, listen) = Process::hop("l7", address, &[]);
    let plan = format!(
        "upstream: {{ url: \"http://{address}\" }}
gateways:
  - {{ name: external, label: mine, url: \"http://{listen}\", pid: {} }}
load: [{{ loop: closed, connections: 2, duration: 500ms }}]
trials: 1
warmup: 50ms
",
        hop.pid()
    );
    let directory = run_to_success(&scratch, &plan, &["--accept-void"]);
    assert!(is_alive(upstream.pid()) && is_alive(hop.pid()), "running services are not stopped");
    let report = report(&directory);
    let mine = case(&report, "mine");
    let cpu = &mine["cpu"]["gateway_us_per_request"];
    assert!(cpu["estimate"].as_f64().or(cpu.as_f64()).unwrap() > 0.0, "{mine}");
    assert!(mine["ledger"].is_null(), "an external upstream has no ledger");
}

#[test]
fn an_exceeded_budget_exits_with_3() {
    // With one trial, the interval may be very wide, so the value itself is compared with the limit.
    let plan = |limit: &str| {
        format!(
            "gateways: [hop-l7]
upstream: {{ delay: 1ms }}
load: [{{ loop: closed, connections: 1, duration: 300ms }}]
trials: 1
warmup: 50ms
budget: [{{ gateway: hop-l7, metric: cpu_us_per_request, max: {limit} }}]
"
        )
    };
    let scratch = Scratch::new();
    let output = run(&scratch, &plan("1s"), &["--accept-void"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // On a stalled machine, the only trial may have no result, and then no limit is exceeded.
    let output = retry_if_disturbed(|| {
        let output = run(&scratch, &plan("1ns"), &["--accept-void"]);
        if output.status.code() == Some(3) { Ok(output) } else { Err(text(&output.stdout)) }
    });
    assert!(text(&output.stdout).contains("cpu_us_per_request"), "{}", text(&output.stdout));
}

#[test]
fn invalid_plans_are_refused_before_anything_starts() {
    let scratch = Scratch::new();
    let load = "load: [{ loop: closed, connections: 1, duration: 300ms }]\n";
    let cases = [
        ("name: x\ngateways: [ngimx]\n", 2, "nginx"),
        (
            "name: x\ngateways: [hop-l4]\nload: [{ loop: closed, connections: 900000, duration: 1s }]\n",
            2,
            "descriptors",
        ),
    ];
    for (plan, code, word) in cases {
        let plan = if plan.contains("load:") { plan.to_owned() } else { format!("{plan}{load}") };
        let output = run(&scratch, &plan, &[]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(word), "{said}");
    }
    let left = std::fs::read_dir(scratch.path()).expect("there").flatten();
    assert_eq!(left.filter(|entry| entry.path().is_dir()).count(), 0, "no run directory was made");

    let plan = scratch.file("fine.yaml", &format!("name: x\ngateways: [hop-l4]\n{load}"));
    let output = hoptax().arg("run").arg(plan).args(["--out", "/proc/nowhere"]).output().expect("runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/proc/nowhere"), "{}", text(&output.stderr));
}

#[test]
fn a_run_without_a_measured_gateway_fails() {
    let scratch = Scratch::new();
    // No process listens on port 1.
    let free = "127.0.0.1:1";
    let plan = format!(
        "gateways: [{{ name: external, label: absent, url: \"http://{free}\" }}]
load: [{{ loop: closed, connections: 1, duration: 1s }}]
trials: 1
warmup: 0s
"
    );
    let output = run(&scratch, &plan, &["--accept-void"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("nothing answers at") && said.contains("nothing was measured"), "{said}");
    assert_eq!(trials(&run_directory(&scratch)).len(), 0, "direct alone has no result");
}

/// Creates packs whose program does not exist. Returns their directory.
fn absent_packs(scratch: &Scratch, names: &[&str]) -> String {
    let packs = scratch.path().join("packs");
    for name in names {
        let manifest = format!(
            "name: {name}
summary: A gateway that nobody has.
binary: hoptax-test-absent-gateway
version: {{ command: [\"{{{{ binary }}}}\", -v], pattern: '(\\d+)' }}
start: [\"{{{{ binary }}}}\"]
ready: {{ path: / }}
install: {{ debian: apt-get install {name} }}
access_log: stdout
"
        );
        std::fs::create_dir_all(packs.join(name)).expect("made");
        std::fs::write(packs.join(name).join("gateway.yaml"), manifest).expect("written");
    }
    packs.to_str().expect("plain").to_owned()
}

#[test]
fn a_missing_gateway_is_named_with_how_to_install_it() {
    let scratch = Scratch::new();
    let packs = absent_packs(&scratch, &["absent"]);
    let plan = "gateways: [absent, hop-l4]
load: [{ loop: closed, connections: 1, duration: 300ms }]
trials: 1
warmup: 0ms
";
    let output = run(&scratch, plan, &["--packs", &packs]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    for word in
        ["nobody has run the pack absent", "apt-get install absent", "--skip-missing", "PATH", "`external`"]
    {
        assert!(said.contains(word), "{said}");
    }
    let arguments = ["--packs", &packs, "--skip-missing", "--accept-void"];
    let report = report(&run_to_success(&scratch, plan, &arguments));
    let failed = |label: &str| {
        let contenders = report["contenders"].as_array().unwrap();
        !contenders.iter().find(|it| it["label"] == label).unwrap()["failed"].is_null()
    };
    assert!(failed("absent") && !failed("hop-l4"), "{}", report["contenders"]);
}

/// The program of the pack `absent` does not exist, so the hop replaces it without `--skip-missing`.
#[test]
fn a_missing_gateway_is_replaced_and_the_report_says_what_cannot_be_compared() {
    let scratch = Scratch::new();
    let packs = absent_packs(&scratch, &["absent", "gone"]);
    let plan = |replacement: &str| {
        format!(
            "gateways:
  - absent
  - {{ name: {replacement}, instead_of: absent, not_comparable: its plugins }}
load: [{{ loop: closed, connections: 1, duration: 300ms }}]
trials: 1
warmup: 0ms
"
        )
    };
    let output = run(&scratch, &plan("gone"), &["--packs", &packs]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    for word in ["neither absent nor gone", "apt-get install absent", "apt-get install gone"] {
        assert!(said.contains(word), "{said}");
    }
    let output = run(&scratch, &plan("hop-l4"), &["--packs", &packs, "--accept-void"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("note: absent ") && said.contains("hop-l4 replaces it"), "{said}");
    let printed = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let note = "hop-l4 replaces it. What cannot be compared: its plugins.";
    assert!(printed.contains(note), "{printed}");
    let report = report(&run_directory(&scratch));
    let labels: Vec<_> = report["contenders"].as_array().unwrap().iter().map(|one| &one["label"]).collect();
    assert_eq!(labels, ["direct", "hop-l4"]);
    assert_eq!(report["replacements"][0]["instead_of"], "absent", "{}", report["replacements"]);
    assert!(report["notes"].to_string().contains(note), "{}", report["notes"]);
}

/// An external gateway returns other content than the upstream.
#[test]
fn a_gateway_with_different_answers_is_reported_with_both() {
    let nobody = Server::start(|_| Response::new(404, "nobody").last());
    let address = nobody.address;
    let scratch = Scratch::new();
    let plan = format!(
        "gateways: [hop-l4, {{ name: external, label: wrong, url: \"http://{address}\" }}]
load: [{{ loop: closed, connections: 1, duration: 300ms }}]
trials: 1
warmup: 0ms
"
    );
    let report = report(&run_to_success(&scratch, &plan, &["--accept-void"]));
    let wrong = report["contenders"].as_array().unwrap().iter().find(|it| it["label"] == "wrong").unwrap();
    let failed = wrong["failed"].to_string();
    assert!(failed.contains("404") && failed.contains("200") && failed.contains("verify"), "{failed}");
    assert!(failed.contains("upstream, 127.0.0.1:"), "{failed}");
}

/// The gateway never becomes ready. A signal arrives while hoptax waits for the gateway.
#[test]
fn a_signal_during_the_start_ends_the_run_at_once() {
    let scratch = Scratch::new();
    let pack = scratch.path().join("packs/mute");
    std::fs::create_dir_all(&pack).expect("made");
    let manifest = "name: mute
summary: Runs and never listens.
binary: sh
version: { command: [\"{{ binary }}\", -c, echo version 1.0], pattern: 'version (\\S+)' }
start: [\"{{ binary }}\", -c, \"echo up; exec sleep 600\"]
ready: { path: /, timeout: 1h }
access_log: stdout
";
    std::fs::write(pack.join("gateway.yaml"), manifest).expect("written");
    let plan = "gateways: [mute]
load: [{ loop: closed, connections: 1, duration: 200ms }]
";
    let path = scratch.file("plan.yaml", plan);
    let mut command = command(&scratch, &path);
    command.arg("--packs").arg(scratch.path().join("packs")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("hoptax runs");
    wait_until("the gateway has started", PATIENCE, || {
        let log = find(scratch.path(), "stdout.log");
        log.is_some_and(|log| std::fs::read_to_string(log).is_ok_and(|text| text.contains("up")))
    });
    let started = descendants(child.id());
    send("-INT", child.id());
    let asked = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert!(asked.elapsed() < PATIENCE, "it did wait for the gateway");
    assert_eq!(output.status.code(), Some(1), "nothing was measured: {}", text(&output.stderr));
    assert!(text(&output.stderr).contains("nothing was measured"), "{}", text(&output.stderr));
    wait_until_gone(&started);
}
