//! `hoptax report`, on generated run directories.

use crate::support::hoptax;
use fixture::{Run, failure, sample, via};
use hoptax_record::Stage;
use hoptax_record::dir::RunDir;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

pub(crate) use hoptax_analysis::fixture;

pub(crate) fn on_disk(run: &Run) -> (TempDir, PathBuf) {
    let below = TempDir::new().expect("a directory");
    let mut dir = RunDir::create(below.path(), "made-up").expect("writable");
    dir.write_run(&run.record).expect("writable");
    for trial in &run.trials {
        dir.append(trial).expect("writable");
    }
    let path = dir.path().to_path_buf();
    (below, path)
}

fn report(dir: &Path, arguments: &[&str]) -> Output {
    hoptax().arg("report").arg(dir).args(arguments).output().expect("the binary runs")
}

fn json(dir: &Path) -> Value {
    let output = report(dir, &["--format", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn json_has_every_documented_member() {
    let (_below, dir) = on_disk(&sample());
    let report = json(&dir);
    for name in ["schema", "name", "interrupted", "environment", "noise_floor", "cases", "findings"] {
        assert!(report.get(name).is_some(), "`{name}` is missing");
    }
    assert_eq!((&report["schema"], &report["interrupted"]), (&1.into(), &false.into()));
    let cases = report["cases"].as_array().expect("a list");
    let case = cases.iter().find(|case| case["gateway"] == "nginx").expect("measured");
    for (member, names) in [
        ("load", &["loop", "connections", "rate", "stages", "arrivals", "duration_s"][..]),
        ("load", &["requests", "requests_per_connection", "retry", "http"]),
        ("first_byte", &["p50", "p99", "max", "unit"]),
        ("connect", &["p50", "p99", "max", "unit"]),
        ("throughput", &["estimate", "low", "high", "unit"]),
        ("response_time", &["p50", "p90", "p95", "p99", "p99.9", "max", "mean", "unit"]),
        ("service_time", &["p50", "p90", "p95", "p99", "p99.9", "max", "mean", "unit"]),
        ("send_lag", &["p50", "p99", "max", "unit"]),
        (
            "counts",
            &["scheduled", "sent", "completed", "ok", "status", "timeouts", "connect_errors", "resets"],
        ),
        ("counts", &["retried", "bad_responses", "unsent", "in_flight", "causes", "failed_checks", "errors"]),
        ("connections", &["opened", "reused", "per_request"]),
        ("bytes", &["sent", "received", "per_response"]),
        ("cpu", &["gateway_us_per_request", "generator_us_per_request", "upstream_us_per_request"]),
        ("cpu", &["generator_utilisation"]),
        ("memory", &["gateway_rss_bytes_max", "gateway_pss_bytes_max"]),
        ("ledger", &["requests_per_request", "connections_per_request", "http_version", "by_instance"]),
        ("tax", &["added_p50", "added_p90", "added_p95", "added_p99", "throughput_ratio"]),
        ("tax", &["cpu_us_per_request", "extra_upstream_requests"]),
    ] {
        for name in names {
            assert!(case[member].get(name).is_some(), "`{member}.{name}` is missing: {case}");
        }
    }
    for name in ["estimate", "low", "high", "distinguishable"] {
        assert!(case["tax"]["added_p50"].get(name).is_some(), "`tax.added_p50.{name}` is missing");
    }
    assert!(case.get("trials").is_some() && case.get("path").is_some() && case["findings"].is_array());
    let finding = &report["findings"][0];
    for name in ["code", "severity", "case", "evidence", "message", "advice"] {
        assert!(finding.get(name).is_some(), "`findings[].{name}` is missing");
    }
    let failed = cases.iter().find(|case| case["gateway"] == "envoy").expect("a row");
    for name in ["stage", "message", "detail"] {
        assert!(failed["failed"].get(name).is_some(), "`failed.{name}` is missing");
    }
}

#[test]
fn json_has_targets_handshakes_and_causes() {
    let mut run = Run::mix(&[("read", 3), ("write", 1)]);
    for round in 0..2 {
        let trial =
            |who: &str| via(who, round).target("read", 750, 100).target("write", 250, 400).tls(9, 4, 800);
        run.push(trial("direct").first()).push(trial("direct").last());
        run.push(trial("nginx").errors(3).failed_check("status 503", 2));
    }
    let (_below, dir) = on_disk(&run);
    let report = json(&dir);
    let nginx = report["cases"].as_array().expect("a list").iter().find(|case| case["gateway"] == "nginx");
    let nginx = nginx.expect("measured");
    let read = &nginx["targets"][0];
    assert_eq!(
        (&read["name"], &read["share"], &read["scheduled"]),
        (&"read".into(), &0.75.into(), &1500.into())
    );
    for name in ["completed", "ok", "failed", "response_time", "service_time", "added_p50", "added_p99"] {
        assert!(!read[name].is_null(), "`targets[].{name}` is missing: {read}");
    }
    for name in ["handshakes", "resumed", "versions", "cipher_suites", "alpn"] {
        assert!(nginx["tls"].get(name).is_some(), "`tls.{name}` is missing: {nginx}");
    }
    assert_eq!(
        (&nginx["tls"]["handshakes"], &nginx["tls"]["handshake"]["samples"]),
        (&18.into(), &18.into())
    );
    assert_eq!(nginx["counts"]["causes"], serde_json::json!({ "reset-before-response": 6 }));
    assert_eq!(nginx["counts"]["failed_checks"], serde_json::json!({ "status 503": 4 }));
}

#[test]
fn every_format_is_made_and_written_to_a_file() {
    let (below, dir) = on_disk(&sample());
    for (format, part) in [
        ("terminal", "nginx adds"),
        ("markdown", "| nginx |"),
        ("html", "<svg "),
        ("json", "\"noise_floor\""),
        ("csv", "gateway,load,"),
    ] {
        let file = below.path().join(format);
        let output = report(&dir, &["--format", format, "-o", file.to_str().expect("UTF-8")]);
        assert!(output.status.success(), "{format}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout.is_empty(), "{format} must be printed, not written to a file");
        let text = fs::read_to_string(file).expect("written");
        assert!(text.contains(part), "{format} lacks `{part}`");
    }
}

#[test]
fn the_terminal_is_the_default_and_a_pipe_gets_no_colours() {
    let (_below, dir) = on_disk(&sample());
    let text = String::from_utf8(report(&dir, &[]).stdout).expect("UTF-8");
    assert!(text.contains("what does each hop cost?") && !text.contains('\u{1b}'));
}

#[test]
fn a_killed_run_with_an_incomplete_line_is_reported() {
    let mut run = Run::steady(3, 100, &[("nginx", 150)]);
    run.record.ended = None;
    let (_below, dir) = on_disk(&run);
    let trials = dir.join("trials.jsonl");
    let whole = fs::read_to_string(&trials).expect("written");
    fs::write(&trials, &whole[..whole.len() - 200]).expect("writable");

    let output = report(&dir, &["--format", "json"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("skipped trials.jsonl line 9"));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["interrupted"], true);
    assert_eq!(report["trials_recorded"], 8);
    assert!(report["notes"].to_string().contains("Skipped"));
}

#[test]
fn nothing_completed_gives_null_and_never_nan() {
    let mut run = Run::closed(1);
    run.direct(0, 100, 100);
    run.push(via("nginx", 0).nothing_completed());
    run.contender("envoy", Some(failure(Stage::Verify, "answered 404 where direct answered 200")));
    let (_below, dir) = on_disk(&run);
    let report = json(&dir);
    let case = report["cases"].as_array().expect("a list").iter().find(|case| case["gateway"] == "nginx");
    let case = case.expect("measured");
    assert_eq!(case["throughput"]["estimate"], 0.0);
    assert_eq!(case["response_time"]["p50"], Value::Null);
    assert_eq!(case["cpu"]["gateway_us_per_request"], Value::Null);
    assert_eq!(case["tax"]["added_p50"], Value::Null);
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let (below, dir) = on_disk(&Run::steady(2, 100, &[]));
    let file = below.path().join("no").join("such");
    let output = report(&dir, &["-o", file.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no/such"));
}

/// Adds steal to the records of a run, as if the run had been measured on a virtual machine.
#[test]
fn windows_with_steal_are_left_out_and_older_records_have_no_steal() {
    let windows = |usual_us: u64| -> Vec<Vec<u64>> {
        (0..10).map(|window| vec![if window == 4 { 50_000 } else { usual_us + window }; 50]).collect()
    };
    let mut run = Run::closed(8);
    for round in 0..3 {
        run.push(via("direct", round).first().windows_us(&windows(400)));
        run.push(via("direct", round).last().windows_us(&windows(400)));
        run.push(via("nginx", round).windows_us(&windows(900)));
    }
    let (_below, dir) = on_disk(&run);
    let quiet = |dir: &Path| {
        let report = json(dir);
        let cases = report["cases"].as_array().expect("a list").clone();
        cases.into_iter().find(|case| case["gateway"] == "nginx").expect("measured")["quiet"].clone()
    };
    assert_eq!(quiet(&dir), Value::Null, "steal is unknown");

    let trials = dir.join("trials.jsonl");
    let text = fs::read_to_string(&trials).expect("written");
    let stolen: String = text
        .lines()
        .map(|line| {
            let mut trial: Value = serde_json::from_str(line).expect("JSON");
            let taken: Vec<u64> = (0..14).map(|window| if window == 6 { 30_000_000 } else { 0 }).collect();
            trial["host"]["stolen"] =
                serde_json::json!({ "before": 2, "after": 2, "ns_by_cpu": { "1": taken } });
            format!("{trial}\n")
        })
        .collect();
    fs::write(&trials, stolen).expect("writable");
    let reported = quiet(&dir);
    assert_eq!(
        (&reported["windows"], &reported["left_out"], &reported["trials"]),
        (&30.into(), &9.into(), &3.into())
    );
    let p99 = reported["response_time"]["p99"]["estimate"].as_f64().expect("present");
    assert!((p99 / 909.0 - 1.0).abs() < 0.008, "{reported}");
    let added = reported["tax"]["added_p50"]["estimate"].as_f64().expect("present");
    assert!((added - 500.0).abs() < 0.016 * 900.0, "{reported}");
    assert!(report_of(&dir, "terminal").contains("· quiet: leaves out windows"));
}

/// A run of record version 1. It has one target and one timeout. Its records have no causes, failed checks,
/// targets or TLS.
#[test]
fn a_run_of_an_older_version_still_reads() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../records/runs/schema-1");
    let report = json(&dir);
    assert_eq!((&report["target"], &report["trials_recorded"]), (&"GET /".into(), &6.into()));
    assert_eq!(report["notes"], Value::Array(vec![]));
    let cases = report["cases"].as_array().expect("a list");
    let nginx = cases.iter().find(|case| case["gateway"] == "nginx").expect("measured");
    assert_eq!((&nginx["trials"], &nginx["load"]["http"]), (&2.into(), &"1.1".into()));
    assert!(nginx["tax"]["added_p50"]["estimate"].as_f64().expect("measured") > 0.0, "{nginx}");
    assert!(nginx["connect"]["p50"]["estimate"].as_f64().expect("measured") > 0.0, "{nginx}");
    assert_eq!((&nginx["tls"], &nginx["targets"]), (&Value::Null, &Value::Array(vec![])));
    assert_eq!(nginx["counts"]["causes"], serde_json::json!({}));
    for format in ["terminal", "markdown", "html", "csv"] {
        let output = report_of(&dir, format);
        assert!(output.contains("nginx"), "{format}: {output}");
    }
}

fn report_of(dir: &Path, format: &str) -> String {
    let output = report(dir, &["--format", format]);
    assert!(output.status.success(), "{format}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}
