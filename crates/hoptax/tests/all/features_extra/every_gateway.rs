//! One plan measures every installed pack, and the upstream's ledger confirms all counts.

use crate::run::{report, run_directory, text, trials};
use crate::support::{Scratch, hoptax};

use crate::world::is_missing;
use hoptax_lab::packs::{Pack, binary};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Packs that the set-up always installs. Other packs are measured if they are installed.
const INSTALLED: [&str; 10] = [
    "apache",
    "caddy",
    "envoy",
    "h2o",
    "haproxy",
    "nghttpx",
    "nginx",
    "nginx-lua",
    "trafficserver",
    "varnish",
];

fn plan() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/every-gateway.yaml")
}

/// Sidecars are left out, because a sidecar would move the upstream of all gateways into its namespace.
/// Gateways for language models pass no other requests.
fn is_in_the_plan(pack: &&Pack) -> bool {
    pack.manifest().intercept.is_none() && pack.manifest().llm.is_none()
}

#[test]
fn the_plan_names_every_pack() {
    let plan = std::fs::read_to_string(plan()).expect("readable");
    let packs = crate::world::packs();
    for name in packs.iter().filter(is_in_the_plan).map(Pack::name) {
        let named = plan.lines().any(|line| line.trim() == format!("- {name}"));
        assert!(named, "plans/every-gateway.yaml does not name {name}");
    }
}

#[test]
fn every_installed_gateway_is_measured_and_the_ledger_agrees() {
    let scratch = Scratch::new();
    let mut command = hoptax();
    command.arg("run").arg(plan()).arg("--out").arg(scratch.path()).args(["--skip-missing", "--accept-void"]);
    // Limits the number of requests instead of the duration, because Java needs a long time to answer its
    // first request.
    command.args(["--set", "trials=1", "--set", "warmup=0s", "--set", "timeout=60s"]);
    command.args(["--set", "load.1.rate=1000/s"]);
    for point in 0..2 {
        for set in ["requests=100", "duration=60s"] {
            command.args(["--set", &format!("load.{point}.{set}")]);
        }
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
        assert!(trial["failed"].is_null(), "{who}: {}", trial["failed"]);
        let lifetime = &trial["load_record"]["lifetime"];
        let (sent, completed) = (lifetime["sent"].as_u64().unwrap(), lifetime["completed"].as_u64().unwrap());
        let upstream = trial["ledger"]["requests"].as_u64().expect("counted");
        // Requests that are in flight at the end may or may not have reached the upstream. No request may be
        // duplicated or cached.
        assert!(completed >= 100, "{who}: {completed}");
        assert!((completed..=sent).contains(&upstream), "{who}: {upstream} of {completed}..={sent}");
        measured.insert(who);
    }
    let packs = crate::world::packs();
    for pack in packs.iter().filter(is_in_the_plan) {
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
        let per_request = case["ledger"]["requests_per_request"].as_f64().expect("counted");
        assert!(per_request > 0.0 && per_request <= 1.0, "{who}: {per_request}");
        let findings: Vec<_> =
            case["findings"].as_array().expect("a list").iter().flat_map(|it| it.as_str()).collect();
        assert!(!findings.contains(&"amplification"), "{who}: {findings:?}");
    }
}
