//! Measures a matrix of features, from the plan to the prices. The gateways are the real nginx without
//! features, with each of two features, and with both features.

use crate::run::{case, report, run, run_directory, run_to_success, text, trials};
use crate::support::planted_pack::{argument, offering};
use crate::support::refusals::refused;
use crate::support::{Scratch, hoptax, json};

const PLAN: &str = "name: prices
gateways: [{ name: planted, features: all-pairs }]
load: [{ loop: closed, connections: 4, requests: 1000, duration: 60s }]
trials: 2
warmup: 100ms
";

const LABELS: [&str; 4] =
    ["planted", "planted.key-auth", "planted.header-rewrite", "planted.key-auth.header-rewrite"];

#[test]
fn a_matrix_is_measured_and_priced() {
    needs!("nginx");
    let (scratch, packs) = (Scratch::new(), offering("key-auth, header-rewrite", &[]));
    let output = run(&scratch, PLAN, &["--accept-void", "--packs", argument(&packs)]);
    let reported = text(&output.stdout);
    assert!(output.status.success(), "{reported}\n{}", text(&output.stderr));
    let directory = run_directory(&scratch);
    for trial in trials(&directory) {
        let (who, counts) = (&trial["contender"], &trial["load_record"]["counts"]);
        assert!(trial["failed"].is_null(), "{who}: {}", trial["failed"]);
        assert_eq!(counts["completed"], counts["ok"], "{who}: a request without its key would be refused");
    }
    let report = report(&directory);
    let rows = report["prices"]["rows"].as_array().expect("a list").clone();
    let labels: Vec<_> = rows.iter().map(|row| row["gateway"].as_str().expect("a label")).collect();
    assert_eq!(labels, LABELS[1..]);
    for row in &rows {
        assert_eq!(row["bare"], "planted");
        for figure in ["added_p50", "added_p99", "cpu_us_per_request", "throughput_ratio", "memory_rss_bytes"]
        {
            assert!(row[figure]["estimate"].is_f64(), "{figure}: {row}");
            assert!(row[figure]["low"].is_f64() && row[figure]["trials"] == 2, "{figure}: {row}");
        }
    }
    assert_eq!(rows[2]["beyond"]["alone"], serde_json::json!(LABELS[1..3]));
    // The price must be the difference between the figures of the two cases.
    let cpu = |label: &str| {
        case(&report, label)["tax"]["cpu_us_per_request"]["estimate"].as_f64().expect("watched")
    };
    let price = rows[0]["cpu_us_per_request"]["estimate"].as_f64().expect("a number");
    assert!((price - (cpu("planted.key-auth") - cpu("planted"))).abs() < 1e-6, "{price}");

    assert!(reported.contains("Price of each feature: planted"), "{reported}");
    let markdown = std::fs::read_to_string(directory.join("report.md")).expect("written");
    assert!(markdown.contains("<summary>Price of each feature"), "{markdown}");
    assert!(markdown.contains("worker\\_processes 1: "), "{markdown}");
    let page = std::fs::read_to_string(directory.join("report.html")).expect("written");
    assert!(page.contains("<code>worker_processes 1</code>"), "settings with their reasons");
}

#[test]
fn check_counts_the_cases_of_a_matrix_and_only_selects_some() {
    let (scratch, packs) = (Scratch::new(), offering("key-auth, header-rewrite", &[]));
    let plan = scratch.file("plan.yaml", PLAN);
    let check = |arguments: &[&str]| {
        let mut command = hoptax();
        command.arg("check").arg(&plan).args(["--packs", argument(&packs)]).args(arguments);
        command
    };
    let outlook = json(&mut check(&["--json"]));
    assert_eq!((&outlook["cases"], &outlook["trials"]), (&5.into(), &12.into()), "{outlook}");
    assert!(outlook["expected_s"].as_f64().expect("a time") >= 12.0 * 0.4, "{outlook}");
    let labels: Vec<_> =
        outlook["contenders"].as_array().expect("a list").iter().map(|one| one["label"].clone()).collect();
    assert_eq!(labels[1..], LABELS.map(serde_json::Value::from));

    let two = json(&mut check(&["--json", "--only", "planted,planted.key-auth"]));
    assert_eq!(two["cases"], 3, "{two}");
    insta::assert_snapshot!(refused(&mut check(&["--only", "planted.keyauth"])));
}

#[test]
fn settings_are_recorded_for_the_stock_profile_too() {
    needs!("nginx");
    let (scratch, packs) = (Scratch::new(), offering("key-auth, header-rewrite", &[]));
    let plan = "name: stock\ngateways: [planted]\nload: [{ loop: closed, connections: 2, duration: 200ms \
                }]\ntrials: 1\n\
                warmup: 0s\nprofile: stock\n";
    let directory = run_to_success(&scratch, plan, &["--accept-void", "--packs", argument(&packs)]);
    let markdown = std::fs::read_to_string(directory.join("report.md")).expect("written");
    assert!(markdown.contains("Settings are stock") && markdown.contains("error\\_log: "));
    let page = std::fs::read_to_string(directory.join("report.html")).expect("written");
    assert!(
        page.contains("Settings are stock.") && page.contains("<code>error_log</code>"),
        "settings with reasons"
    );
}
