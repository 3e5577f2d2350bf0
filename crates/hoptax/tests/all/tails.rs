//! `hoptax profile --tail` with real processes and the real `perf`: who makes the tail is planted.

use crate::load::KilledOnDrop;
use crate::run::{report, run_directory, text};
use crate::support::{Json, Scratch, hoptax, retry_if_disturbed, skip};
use hoptax_host::profile::Profiler;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// One pass of each case, and as few trials as possible. What is planted takes tens of milliseconds,
/// because the hypervisor of a busy machine takes some.
const REST: &str = "load: [{ loop: open, rate: 500/s, connections: 64, duration: 300ms }]
trials: 1
warmup: 50ms
tail: { passes: 1, for: 2s }
";

/// Largest share of the time without a cause.
const MOST_UNKNOWN: f64 = 0.1;

/// True if this machine cannot record switches. The calling test must then be left out.
#[track_caller]
fn cannot_record() -> bool {
    match Profiler::find().and_then(|profiler| profiler.can_record_switches()) {
        Ok(()) => false,
        Err(error) => {
            skip(format!("no record of switches: {error}"));
            true
        }
    }
}

/// Runs a plan, and returns its run directory and its report.
fn run(scratch: &Scratch, plan: &str) -> (std::path::PathBuf, Json) {
    let path = scratch.file("plan.yaml", plan);
    let output =
        hoptax().arg("run").arg(path).arg("--out").arg(scratch.path()).output().expect("hoptax runs");
    let is_measured = matches!(output.status.code(), Some(0 | 4));
    assert!(is_measured, "{}\n{}", text(&output.stdout), text(&output.stderr));
    let directory = run_directory(scratch);
    let report = report(&directory);
    (directory, report)
}

/// Checks that a contender's main cause is this one.
fn check(report: &Json, contender: &str, (kind, role, holder): (&str, &str, &str)) -> Result<(), String> {
    let all = report["slow"].as_array().ok_or("no slow requests")?;
    let one = all.iter().find(|one| one["contender"] == contender).ok_or("no such contender")?;
    assert_eq!(one["failed"], 0, "{one:#}");
    let causes = one["causes"].as_array().ok_or("no causes")?;
    let first = causes.first().ok_or("no cause")?;
    let words = |name: &str| first[name].as_str().unwrap_or_default();
    let share = |cause: &Json| cause["share"]["estimate"].as_f64().unwrap_or_default();
    let found = (words("kind"), words("role"), words("holder"));
    if found != (kind, role, holder) || share(first) < 0.5 {
        return Err(format!("{contender}: {found:?}, {}", one["sentence"]));
    }
    let unknown = causes.iter().find(|cause| cause["kind"] == "unknown").map_or(0.0, share);
    if unknown > MOST_UNKNOWN {
        return Err(format!("{contender}: {unknown} unknown, {}", one["sentence"]));
    }
    Ok(())
}

#[test]
fn a_gateway_that_sleeps_and_one_that_blocks_are_told_apart() {
    skip_if!(cannot_record());
    // Of the requests beyond p99 through `blocks`, few keep the CPU. The others wait behind them. The rate is
    // higher here, so that each pass has about three requests that keep it.
    let plan = "gateways:
  - { name: hop-l7, label: sleeps, delay: { in: 30ms, share: 2% } }
  - { name: hop-l7, label: blocks, delay: { in: 60ms, share: 0.2%, how: spin } }
";
    retry_if_disturbed(|| {
        let scratch = Scratch::new();
        let rest = REST.replace("500/s", "800/s").replace("passes: 1", "passes: 2");
        let (directory, report) = run(&scratch, &format!("{plan}{rest}"));
        for one in report["slow"].as_array().expect("slow requests") {
            assert_eq!(one["passes"], 2, "{one:#}");
        }
        check(&report, "sleeps", ("asleep", "gateway", ""))?;
        check(&report, "blocks", ("neighbour", "gateway", ""))?;
        let trace = std::fs::read_to_string(directory.join("tail-sleeps-1.json")).expect("a trace");
        assert!(trace.contains("the gateway slept") && trace.contains("\"traceEvents\""), "{trace}");
        let page = std::fs::read_to_string(directory.join("report.html")).expect("a page");
        assert!(page.contains("\"Slow request 1."));
        Ok(())
    });
}

#[test]
fn a_slow_upstream_is_the_cause_with_and_without_a_gateway() {
    skip_if!(cannot_record());
    let plan = "upstream: { delay: \"choice(98% 0ms, 2% 30ms)\" }
gateways: [hop-l7]
";
    retry_if_disturbed(|| {
        let (_, report) = run(&Scratch::new(), &format!("{plan}{REST}"));
        check(&report, "direct", ("asleep", "upstream", ""))?;
        check(&report, "hop-l7", ("asleep", "upstream", ""))
    });
}

/// The connections have many requests in flight each, and only some of these are delayed.
#[test]
fn a_gateway_that_sleeps_is_the_cause_over_http2_too() {
    skip_if!(cannot_record());
    let plan = "gateways: [{ name: hop-h2, delay: { in: 30ms, share: 2% } }]
";
    let load = REST.replace("connections: 64", "connections: 4, http: 2, streams: 16");
    retry_if_disturbed(|| {
        let (_, report) = run(&Scratch::new(), &format!("{plan}{load}"));
        check(&report, "hop-h2", ("asleep", "gateway", ""))
    });
}

/// Has a CPU for 30 ms, five times a second, before all other programs.
const DISTURBER: &str = "#!/usr/bin/python3
import os, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
os.sched_setaffinity(0, {1})
last = time.monotonic() + 200
while time.monotonic() < last:
    time.sleep(0.170)
    end = time.monotonic() + 0.030
    while time.monotonic() < end:
        pass
";

fn start_disturber(scratch: &Scratch) -> KilledOnDrop {
    let path = scratch.file("disturber", DISTURBER);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
    KilledOnDrop(Command::new(path).stdin(Stdio::null()).spawn().expect("it starts"))
}

#[test]
fn a_program_that_takes_the_gateways_cpu_is_named() {
    skip_if!(cannot_record());
    if std::thread::available_parallelism().map_or(1, usize::from) < 2
        || !Path::new("/usr/bin/python3").exists()
    {
        return skip("the disturber needs a second CPU and Python");
    }
    let plan = "gateways: [hop-l7]
cpus: { generator: \"0\", upstream: \"0\", gateway: \"1\" }
";
    retry_if_disturbed(|| {
        let scratch = Scratch::new();
        let mut disturber = start_disturber(&scratch);
        let (_, report) = run(&scratch, &format!("{plan}{REST}"));
        assert!(disturber.0.try_wait().expect("ours").is_none(), "the disturber has ended");
        let findings = report["findings"].as_array().expect("findings");
        let found = findings.iter().find(|one| one["code"] == "tail-of-the-machine");
        check(&report, "hop-l7", ("waiting", "", "disturber"))?;
        let advice = found.and_then(|one| one["advice"].as_str()).unwrap_or_default();
        assert!(advice.contains("Stop disturber"), "{findings:#?}");
        Ok(())
    });
}

#[test]
fn what_cannot_be_recorded_is_an_error_before_the_run() {
    let scratch = Scratch::new();
    let refused = |plan: &str, path: &str| {
        let file = scratch.file("plan.yaml", &format!("{plan}{REST}"));
        let mut hoptax = hoptax();
        hoptax.arg("run").arg(file).arg("--out").arg(scratch.path().join("out"));
        let output = hoptax.env("PATH", path).output().expect("hoptax runs");
        assert!(!scratch.path().join("out").exists(), "nothing has begun");
        (output.status.code(), text(&output.stderr))
    };
    let (code, words) =
        refused("upstream: { url: \"http://127.0.0.1:1\" }\ngateways: [hop-l7]\n", "/usr/bin:/bin");
    assert_eq!(code, Some(2));
    assert!(words.contains("built-in upstream"), "{words}");
    let has_perf = ["/usr/local/sbin/perf", "/usr/sbin/perf", "/sbin/perf"];
    if !has_perf.iter().any(|perf| Path::new(perf).exists()) {
        let (code, words) = refused("gateways: [hop-l7]\n", "/nowhere");
        assert_eq!(code, Some(1));
        assert!(words.contains("perf"), "{words}");
    }
}
