//! One plan measures every pack that is installed, and the upstream's ledger bears every count out.

use super::is_built;
use crate::run::{report, run_directory, text, trials};
use crate::support::{Scratch, hoptax};
use crate::world::is_missing;
use hoptax_lab::packs::{Pack, PackSet, binary};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What set-up installs; the others take part where they are there.
const INSTALLED: [&str; 8] =
    ["apache", "caddy", "envoy", "haproxy", "nginx", "nginx-lua", "trafficserver", "varnish"];

fn plan() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/every-gateway.yaml")
}

#[test]
fn the_plan_names_every_pack() {
    let plan = std::fs::read_to_string(plan()).expect("readable");
    let packs = PackSet::load(None).expect("the packs are right");
    // A sidecar would put everybody's upstream into its namespace.
    for name in packs.iter().filter(|pack| pack.manifest().intercept.is_none()).map(Pack::name) {
        let named = plan.lines().any(|line| line.trim() == format!("- {name}"));
        assert!(named, "plans/every-gateway.yaml does not name {name}");
    }
}

#[test]
fn every_installed_gateway_is_measured_and_the_ledger_agrees() {
    // Java answers its first requests slowly, on a busy machine not one in 300 ms.
    let (warmup, time) = if is_built("spring-cloud-gateway") { ("2s", "1s") } else { ("100ms", "300ms") };
    // A machine that stands still may sleep through a short trial, but not through a long one.
    let mut slept_through = measured_and_counted(warmup, time);
    if !slept_through.is_empty() {
        slept_through = measured_and_counted("2s", "3s");
    }
    assert!(slept_through.is_empty(), "they completed nothing: {slept_through:?}");
}

/// Measures them all; tells who completed nothing in the time.
fn measured_and_counted(warmup: &str, time: &str) -> Vec<String> {
    let mut slept_through = Vec::new();
    let scratch = Scratch::new();
    let mut command = hoptax();
    command.arg("run").arg(plan()).arg("--out").arg(scratch.path()).args(["--skip-missing", "--accept-void"]);
    command.args(["--set", "trials=1", "--set", &format!("warmup={warmup}")]);
    for point in 0..2 {
        command.args(["--set", &format!("load.{point}.duration={time}")]);
    }
    let output = command.output().expect("hoptax runs");
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));

    let directory = run_directory(&scratch);
    let mut measured = BTreeSet::new();
    for trial in trials(&directory) {
        let who = trial["contender"].as_str().expect("a name").to_owned();
        if trial["failed"]["stage"] == "missing" {
            continue;
        }
        if trial["failed"]["message"].as_str().is_some_and(|message| message.starts_with("none of ")) {
            slept_through.push(who.clone());
            measured.insert(who);
            continue;
        }
        assert!(trial["failed"].is_null(), "{who}: {}", trial["failed"]);
        let lifetime = &trial["load_record"]["lifetime"];
        let (sent, completed) = (lifetime["sent"].as_u64().unwrap(), lifetime["completed"].as_u64().unwrap());
        let upstream = trial["ledger"]["requests"].as_u64().expect("counted");
        // What was under way when time was up may have reached the upstream or not; nothing was asked twice or kept.
        if completed == 0 {
            slept_through.push(who.clone());
        }
        assert!((completed..=sent).contains(&upstream), "{who}: {upstream} of {completed}..={sent}");
        measured.insert(who);
    }
    let packs = PackSet::load(None).expect("the packs are right");
    for pack in packs.iter().filter(|pack| pack.manifest().intercept.is_none()) {
        let there = binary::find(pack).is_some();
        assert_eq!(measured.contains(pack.name()), there, "{}: measured if installed", pack.name());
    }
    for pack in INSTALLED {
        assert!(is_missing(pack) || measured.contains(pack), "{pack} is measured: {measured:?}");
    }

    let report = report(&directory);
    for case in report["cases"].as_array().expect("cases") {
        let who = case["gateway"].as_str().expect("a name");
        if !measured.contains(who) {
            continue;
        }
        if !slept_through.iter().any(|one| one == who) {
            let per_request = case["ledger"]["requests_per_request"].as_f64().expect("counted");
            assert!(per_request > 0.0 && per_request <= 1.0, "{who}: {per_request}");
        }
        let findings: Vec<_> =
            case["findings"].as_array().expect("a list").iter().flat_map(|it| it.as_str()).collect();
        assert!(!findings.contains(&"amplification"), "{who}: {findings:?}");
    }
    slept_through
}
