//! `hoptax report`, on generated run directories. `kept_runs` compares whole reports of measured runs.

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
    assert!(text.contains("nginx adds") && !text.contains('\u{1b}'));
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
    assert!(String::from_utf8_lossy(&output.stderr).contains("trials.jsonl line 9"));
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
