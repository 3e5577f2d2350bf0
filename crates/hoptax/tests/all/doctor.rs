//! `hoptax doctor` as a process, and the host checks that a run stores.

use crate::support::{Json, Scratch, hoptax, json};
use std::net::TcpListener;

const PLAN: &str =
    "gateways: [hop-l7]\nload: [{ loop: closed, connections: 1, duration: 100ms }]\ntrials: 1\nwarmup: 0s\n";

fn item<'a>(items: &'a Json, name: &str) -> &'a Json {
    let found = items.as_array().expect("a list").iter().find(|item| item["name"] == name);
    found.unwrap_or_else(|| panic!("no item {name} in {items}"))
}

#[test]
fn every_item_has_a_status_and_the_exit_code_follows() {
    let scratch = Scratch::new();
    let plan = scratch.file("plan.yaml", PLAN);
    let output = hoptax().args(["doctor", "--json"]).arg(&plan).output().expect("it runs");
    let said: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    for (items, names) in [
        (&said["items"], &["cpus", "steal", "foreign-load", "timer", "perf", "gateways", "disk"][..]),
        (&said["plan"]["items"], &["connections", "source-ports", "roles", "packs", "results"][..]),
    ] {
        names.iter().for_each(|name| assert!(item(items, name)["status"].is_string()));
        for item in items.as_array().expect("a list") {
            let status = item["status"].as_str().expect("a word");
            assert!(["good", "warning", "bad", "unknown"].contains(&status), "{item}");
            assert!(status == "good" || item["message"] != "", "{item}");
        }
    }
    let all = said["items"].as_array().into_iter().chain(said["plan"]["items"].as_array()).flatten();
    let fit = all.into_iter().all(|item| item["status"] != "bad");
    assert_eq!((said["fit"].as_bool(), output.status.code()), (Some(fit), Some(i32::from(!fit))));
}

#[test]
fn an_unfit_plan_is_bad_and_an_invalid_one_is_refused() {
    let scratch = Scratch::new();
    let plan = scratch.file("plan.yaml", PLAN);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = format!("upstream.port={}", taken.local_addr().expect("bound").port());
    let output = hoptax().arg("doctor").arg(&plan).args(["--set", &port]).output();
    let output = output.expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("bad      upstream-port"), "{text}");
    // The output is not a terminal, so there are no colours.
    assert!(!text.contains('\u{1b}') && text.contains("Not fit: "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let refused = hoptax().arg("doctor").arg(scratch.path().join("nothing.yaml")).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_run_stores_the_host_checks_before_and_after() {
    let scratch = Scratch::new();
    let plan = scratch.file("plan.yaml", PLAN);
    let out = scratch.path().join("out");
    let run = hoptax().arg("run").arg(&plan).arg("--out").arg(&out).output().expect("it runs");
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    let made = std::fs::read_dir(&out).expect("a directory").next().unwrap_or_else(|| panic!("{said}"));
    let report = json(hoptax().arg("report").arg(made.expect("read").path()).args(["--format", "json"]));
    let (start, end) = (&report["host"]["at_start"], &report["host"]["at_end"]);
    assert!(start["at_unix_ns"].as_u64() < end["at_unix_ns"].as_u64(), "{start} {end}");
    for name in ["cpus", "clock-source", "descriptors", "memory"] {
        assert_eq!(item(&start["items"], name)["name"], item(&end["items"], name)["name"]);
    }
    item(&start["items"], "load-average");
}
