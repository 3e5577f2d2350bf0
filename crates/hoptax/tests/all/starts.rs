//! `start` in a plan: real starts and reloads, with a hop whose warm-up is known.

use crate::run::{run, run_directory, text};
use crate::support::{Json, PATIENCE, Scratch, hoptax, wait_until};
use hoptax_record::start::{FIRST_REQUESTS, START_WINDOW_NS};
use std::path::Path;
use std::process::Stdio;

const ROUNDS: u64 = 2;

pub(crate) fn starts(directory: &Path) -> Vec<Json> {
    let text = std::fs::read_to_string(directory.join("starts.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a start")).collect()
}

fn plan(gateways: &str) -> String {
    format!(
        "name: cold
gateways: {gateways}
start: {{ times: {ROUNDS}, for: 300ms }}
load: [{{ loop: open, rate: 500/s, connections: 4 }}]
warmup: {{ at_most: 500ms }}
budget: [{{ metric: ready, max: 60s }}]
"
    )
}

fn number(value: &Json) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a whole number"))
}

/// Checks one record of a start that was measured.
fn check(start: &Json) {
    assert!(start["failed"].is_null(), "{start:#}");
    let (kind, traffic) = (start["kind"].as_str().unwrap(), start["traffic"].as_str().unwrap());
    let ready = number(&start["ready_ns"]);
    if kind == "start" {
        assert!(number(&start["listening_ns"]) <= ready && ready < 60_000_000_000, "{start:#}");
    } else {
        assert!(start["listening_ns"].is_null(), "{start:#}");
    }
    let used = &start["at_ready"];
    assert_eq!(used.is_null(), kind == "direct", "{start:#}");
    if kind == "start" {
        assert!(number(&used["cpu_ns"]) > 0 && number(&used["rss_bytes"]) > 100_000, "{start:#}");
    }
    let times = start["response_times_ns"].as_array().expect("a list");
    if traffic == "one-by-one" {
        assert_eq!((times.len(), start["load"].is_null()), (FIRST_REQUESTS, true), "{kind}");
        assert!(times.iter().all(|time| number(time) > 0));
        assert!(start["host"]["idle"].as_f64().is_some_and(|share| (0.0..=1.0).contains(&share)));
        return;
    }
    assert!(times.is_empty());
    let load = &start["load"];
    let windows = load["windows"].as_array().expect("a list");
    let measured = number(&load["measured_ns"]);
    assert_eq!(windows.len() as u64, measured.div_ceil(START_WINDOW_NS), "{kind}");
    assert!(number(&load["scheduled"]).abs_diff(150) <= 1, "{load}");
    let answers =
        ["ok", "timeouts", "errors", "unanswered"].iter().map(|outcome| number(&load[*outcome])).sum::<u64>();
    assert_eq!(answers, number(&load["scheduled"]));
    let completed: u64 = windows.iter().map(|window| number(&window["completed"])).sum();
    assert!(completed <= number(&load["scheduled"]) && completed > 100, "{completed}");
    assert!(number(&load["after_ns"]) >= ready, "the load begins when it is ready");
    assert_eq!(load["usage"].is_null(), kind == "direct");
}

#[test]
fn starts_and_reloads_are_measured_in_every_round() {
    needs!("nginx");
    let scratch = Scratch::new();
    let hop = "{ name: hop-l7, label: cold, warming: { requests: 200, extra: 2ms, fall: step } }";
    let output = run(&scratch, &plan(&format!("[nginx, {hop}]")), &[]);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", text(&output.stderr));
    let directory = run_directory(&scratch);
    let starts = starts(&directory);
    starts.iter().for_each(check);
    for (contender, kind, expected) in [
        ("direct", "direct", ROUNDS),
        ("nginx", "start", ROUNDS),
        ("nginx", "reload", ROUNDS),
        ("cold", "start", ROUNDS),
        ("cold", "reload", 0),
    ] {
        for traffic in ["one-by-one", "load"] {
            let found = starts.iter().filter(|start| {
                start["contender"] == contender && start["kind"] == kind && start["traffic"] == traffic
            });
            assert_eq!(found.count() as u64, expected, "{contender}, {kind}, {traffic}");
        }
    }
    // The warm-up of the hop begins with each of its starts.
    let of_hop = |start: &&Json| start["contender"] == "cold" && start["traffic"] == "one-by-one";
    for start in starts.iter().filter(of_hop) {
        let times = start["response_times_ns"].as_array().expect("a list");
        let fast = |from: usize, to: usize| {
            let mut times: Vec<u64> = times[from..to].iter().map(number).collect();
            times.sort_unstable();
            times[times.len() / 2]
        };
        let (cold, warm) = (fast(0, 190), fast(210, FIRST_REQUESTS));
        assert!(cold > 2_000_000 && cold > warm + 1_500_000, "{cold} and {warm}");
    }
    assert!(!directory.join("logs/nginx.started").exists(), "it is removed with its service");
    let shown = text(&output.stderr);
    assert!(shown.contains("round 2 · nginx reload · "), "{shown}");
}

/// nginx's port then speaks nothing but HTTP/2, and neither does that of `hop-h2`.
#[test]
fn starts_are_measured_over_http2() {
    needs!("nginx");
    let scratch = Scratch::new();
    let plan = plan("[nginx, hop-h2]").replace("connections: 4 }", "connections: 4, http: 2 }");
    let output = run(&scratch, &plan, &[]);
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", text(&output.stderr));
    let starts = starts(&run_directory(&scratch));
    starts.iter().for_each(check);
    let expected = [("direct", "direct"), ("nginx", "start"), ("nginx", "reload"), ("hop-h2", "start")];
    for (contender, kind) in expected {
        let found = starts.iter().filter(|start| start["contender"] == contender && start["kind"] == kind);
        assert_eq!(found.count() as u64, 2 * ROUNDS, "{contender}, {kind}");
    }
}

#[test]
fn a_signal_keeps_the_starts_before_it() {
    let scratch = Scratch::new();
    let plan = plan("[hop-l4]");
    let path = scratch.file("plan.yaml", &plan);
    let mut hoptax = hoptax();
    hoptax.arg("run").arg(path).arg("--out").arg(scratch.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = hoptax.spawn().expect("hoptax runs");
    let directory = || {
        std::fs::read_dir(scratch.path())
            .expect("there")
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.is_dir())
    };
    wait_until("two starts are on disk", PATIENCE, || {
        directory().is_some_and(|directory| starts(&directory).len() >= 2)
    });
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    running.wait().expect("it ends");
    let directory = directory().expect("there");
    let kept = starts(&directory);
    kept.iter().for_each(check);
    assert!((2..8).contains(&kept.len()), "{}", kept.len());
    let record = std::fs::read_to_string(directory.join("run.json")).expect("there");
    let record: Json = serde_json::from_str(&record).expect("JSON");
    assert_eq!(record["ended"]["interrupted"], true);
}

#[test]
fn check_says_what_a_plan_with_starts_does() {
    let scratch = Scratch::new();
    let path = scratch.file("plan.yaml", &plan("[hop-l7]"));
    let checked = hoptax().arg("check").arg(path).output().expect("hoptax runs");
    let shown = text(&checked.stdout);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    for line in [
        "starts       2 rounds, each starts every gateway twice: for 1000 requests one after the other, and \
        for 300ms of load",
        "direct gets the same traffic",
        "warm-up      only the upstream",
        "takes about",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
}
