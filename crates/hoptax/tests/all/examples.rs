//! Real runs of plans with every option of requests and connections, and of the example plans in `plans/`.

use crate::run::{STALL, report, run_directory, run_without_stall, text, trials};
use crate::starts::starts;
use crate::support::{Json, Scratch, hoptax, retry_only_after_stall, skip};
use crate::world::is_missing;
use std::path::{Path, PathBuf};

/// Sends a mix with templates, expectations and stages through a gateway. The report must show each target.
/// Each request has its own connection, and the upstream's ledger must confirm this.
#[test]
fn a_mix_in_stages_is_reported_per_target() {
    let scratch = Scratch::new();
    scratch.file("ids.txt", "one\ntwo\n");
    let plan = r#"name: mix
upstream: { body: { text: hello } }
gateways: [hop-l7, hop-l4]
target:
  - { name: read, weight: 3, path: "/{{line ids.txt}}/{{random 1 9}}", expect: { body: { equals: hello } } }
  - { name: write, method: POST, path: /w, body: { text: "{{seq}} {{uuid}}" }, expect: { status: 2xx } }
load:
  - { loop: open, rate: [200/s for 300ms, ramp to 600/s over 500ms], connections: 8 }
  - { loop: closed, connections: 2, keepalive: off, duration: 500ms }
trials: 1
warmup: 100ms
"#;
    let (_, directory) = run_without_stall(&scratch, plan, &["--accept-void"]);
    for trial in trials(&directory) {
        assert!(trial["failed"].is_null(), "{trial}");
        let counts = &trial["load_record"]["counts"];
        let count = |name: &str| counts[name].as_u64().unwrap();
        if trial["load"] == 0 {
            // The first stage has 60 requests and the second has 200.
            assert!(count("scheduled").abs_diff(260) <= 1, "{counts}");
        } else {
            let ledger = &trial["ledger"];
            let (connections, requests) =
                (ledger["connections"].as_u64().unwrap(), ledger["requests"].as_u64().unwrap());
            // `hop-l7` reuses its upstream connections, because it parses requests. All other contenders need
            // one upstream connection per request.
            if trial["contender"] != "hop-l7" {
                assert!(connections >= requests, "{ledger}");
            }
        }
        assert_eq!(count("ok"), count("completed"), "{counts}");
        assert_eq!(counts["failed_checks"], serde_json::json!({}), "{counts}");
    }
    let report = report(&directory);
    for case in report["cases"].as_array().unwrap() {
        let [read, write] = case["targets"].as_array().unwrap().as_slice() else { panic!("two: {case}") };
        let of = |target: &Json| target["scheduled"].as_u64().unwrap() as f64;
        // Targets are drawn at random, so the counts may be off by up to five standard deviations.
        let drawn = of(read) + of(write);
        let error = (of(read) / drawn - 0.75).abs();
        assert!(drawn > 0.0 && error < 5.0 * (0.75 * 0.25 / drawn).sqrt(), "{case}");
        assert_eq!((&read["failed"], &write["failed"]), (&0.into(), &0.into()), "{case}");
    }
    let staged = &report["cases"][0]["load"];
    assert_eq!((&staged["stages"][1]["to"], &staged["duration_s"]), (&600.0.into(), &0.8.into()), "{staged}");
}

/// Gateways of each example plan that are run: at least one for each feature of the plan. If a plan has none
/// here, all its gateways are run. Other tests run every gateway with each of these features.
const GATEWAYS: &[(&str, &str)] = &[
    ("capacity", "nginx"),
    ("cold-start", "nginx"),
    ("events", "nginx,envoy"),
    ("grpc", "nginx"),
    ("grpc-streams", "nginx"),
    ("http2", "haproxy"),
    ("http2-matrix", "nghttpx,nghttpx-h2"),
    ("istio-sidecar", "sidecar-tuned"),
    ("kong-suite", "nginx.key-auth,haproxy.500x4-routes,envoy.10x10-routes"),
    ("kong-suite-changes", "haproxy"),
    ("kong-suite-scrape", "envoy,envoy.scraped"),
    ("llm", "nginx"),
    ("llm-abort", "nginx"),
    ("llm-features", "nginx"),
    ("llm-head-of-line", "nginx"),
    ("llm-pause", "nginx"),
    ("llm-retries", "nginx"),
    ("llm-streams", "nginx"),
    ("llm-translation", "nginx"),
    ("mix", "haproxy"),
    ("price-of-features", "nginx,nginx.gzip"),
    ("quickstart", "hop-l7,nginx"),
    ("sse", "nginx"),
    ("websocket", "haproxy"),
];

/// Settings of plans with long streams, or with low rates. They keep the plan's kind of traffic.
const SHORTER: &[(&str, &[&str])] = &[
    ("capacity", &["load.0.search.to=4000/s", "load.0.search.bounds=[10ms, 100ms]"]),
    ("llm-pause", &["upstream.llm.tokens=100", "target.llm.pause.time=300ms"]),
    ("llm-streams", &["upstream.llm.gap=5ms"]),
    ("sse", &["upstream.events.gap=10ms"]),
];

/// Number of tests that share the example plans.
const PARTS: usize = 5;

#[test]
fn every_first_example_plan_of_five_runs() {
    plans_run(0);
}

#[test]
fn every_second_example_plan_of_five_runs() {
    plans_run(1);
}

#[test]
fn every_third_example_plan_of_five_runs() {
    plans_run(2);
}

#[test]
fn every_fourth_example_plan_of_five_runs() {
    plans_run(3);
}

#[test]
fn every_fifth_example_plan_of_five_runs() {
    plans_run(4);
}

/// Runs one of [`PARTS`] parts of the example plans.
fn plans_run(part: usize) {
    let plans = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
    let entries = std::fs::read_dir(plans).expect("there").flatten();
    let mut plans: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    plans.retain(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    plans.sort();
    let mut seen = 0;
    for path in plans.into_iter().skip(part).step_by(PARTS) {
        if path.ends_with("istio-sidecar.yaml") && !crate::sidecar::can_intercept() {
            continue;
        }
        if crate::kubernetes_lab::fake_lab_for(&path).is_some() {
            let plan = path.file_name().expect("a name").display();
            skip(format!("{plan} needs a Kubernetes API server"));
            continue;
        }
        // Skip this plan, because its gateways are not installed everywhere. `features_extra` runs this plan.
        if path.ends_with("every-gateway.yaml") {
            continue;
        }
        let text_of_plan = std::fs::read_to_string(&path).expect("readable");
        // Kong is rarely installed, and then these plans need the gateway that replaces it.
        if text_of_plan.contains("instead_of: kong") && is_missing("nginx-lua") {
            continue;
        }
        let scratch = Scratch::new();
        let mut command = hoptax();
        command.arg("run").arg(&path).arg("--out").arg(scratch.path()).arg("--accept-void");
        let is_plan = |plan: &str| path.file_stem().is_some_and(|name| name == plan);
        let chosen = GATEWAYS.iter().find(|(plan, _)| is_plan(plan));
        command.args(chosen.iter().flat_map(|(_, gateways)| ["--only", *gateways]));
        // Remove the budgets, because a run with one round of 200 ms cannot meet them.
        let measures_starts = text_of_plan.lines().any(|line| line.starts_with("start: "));
        let short: &[&str] = match measures_starts {
            true => &["start.times=1", "start.for=300ms"],
            false => &["trials=1", "warmup=30ms"],
        };
        for set in short.iter().chain(&["pause=0s", "budget=[]"]) {
            command.args(["--set", set]);
        }
        // Budgets contain `loop:` too, but only load points begin with `loop:`.
        let is_point = |line: &&str| line.starts_with("  - { loop: ") || line.starts_with("  - loop: ");
        let points = text_of_plan.lines().filter(is_point).count();
        if points == 0 && !measures_starts {
            // The load of a plan with features has trials of 10 s here.
            let load = "load=[{ loop: closed, connections: 4, requests: 150, duration: 60s }]";
            command.args(["--set", load]);
        }
        for point in 0..points {
            // Limit the number of requests instead of the duration, because on a stalled machine a short
            // trial may have no response.
            let short = match point {
                // Here the stages define the duration.
                0 if text_of_plan.contains("ramp to") => {
                    vec!["rate=[200/s for 200ms, ramp to 600/s over 200ms]"]
                }
                0 if text_of_plan.contains("search:") => {
                    vec!["duration=300ms", "search.precision=50%", "search.confirm=300ms"]
                }
                _ if measures_starts => vec![],
                // Each request lasts as long as its pause.
                _ if text_of_plan.contains(" pause: {") => vec!["requests=8", "duration=60s"],
                _ if text_of_plan.contains("rate: 5/s") => {
                    vec!["rate=20/s", "requests=10", "duration=60s"]
                }
                _ if text_of_plan.contains("rate: 100/s") => vec!["requests=30", "duration=60s"],
                _ => vec!["requests=150", "duration=60s"],
            };
            for short in short {
                command.args(["--set", &format!("load.{point}.{short}")]);
            }
        }
        let events = text_of_plan.lines().filter(|line| line.starts_with("  - { at: ")).count();
        for event in 0..events {
            command.args(["--set", &format!("events.{event}.at={}ms", 20 * (event + 1))]);
        }
        if text_of_plan.contains("15000") || path.ends_with("llm-streams.yaml") {
            // Every gateway and hop supports 200 connections, even while other tests run.
            command.args(["--set", "load.0.connections=200"]);
        }
        if path.ends_with("istio-sidecar.yaml") {
            // Measure only one point of each sweep in this plan.
            command.args(["--set", "load.0.connections=8", "--set", "load.1.connections=8"]);
        }
        let shorter = SHORTER.iter().filter(|(plan, _)| is_plan(plan)).flat_map(|(_, sets)| *sets);
        command.args(shorter.flat_map(|set| ["--set", *set]));
        let name = path.display();
        retry_only_after_stall(STALL, || {
            let output = command.output().expect("hoptax runs");
            if !output.status.success() {
                return Err(format!("{name}: {}\n{}", text(&output.stdout), text(&output.stderr)));
            }
            let directory = run_directory(&scratch);
            let rows = if measures_starts { starts(&directory) } else { trials(&directory) };
            assert!(!rows.is_empty(), "{name}");
            match rows.iter().find(|row| !row["failed"].is_null()) {
                Some(row) => Err(format!("{name}: {row}")),
                None => Ok(()),
            }
        });
        seen += 1;
    }
    assert!(seen >= 3, "{seen} plans");
}
