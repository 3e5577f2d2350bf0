//! Output files of `hoptax load`, and its summary of a load with some failed requests.

use crate::load::{Upstream, load, loaded};
use crate::support::{Scratch, retry_if_disturbed};
use serde_json::Value;

#[test]
fn csv_has_one_row_per_window_and_they_add_up() {
    let upstream = Upstream::start(&["--body-size", "64B"]);
    let text = loaded(&[&upstream.url(), "-r", "2000/s", "-d", "350ms", "--csv"]);
    let mut rows = csv(&text);
    let header = rows.remove(0);
    assert_eq!(rows.len(), 4, "{text}");
    let column = |name: &str| header.iter().position(|column| column == name).expect(name);
    let sum = |name: &str| rows.iter().map(|row| row[column(name)].parse::<u64>().expect(name)).sum::<u64>();
    assert!(sum("sent") <= 700 && sum("completed") <= 700 && sum("completed") > 0, "{text}");
    assert_eq!(sum("ok"), sum("completed"));
    let starts: Vec<&str> = rows.iter().map(|row| row[column("start_s")].as_str()).collect();
    assert_eq!(starts, ["0.0", "0.1", "0.2", "0.3"]);
    assert_eq!(rows[3][column("length_s")], "0.050");
    assert!(rows.iter().all(|row| row.len() == header.len()), "{text}");
}

fn csv(text: &str) -> Vec<Vec<String>> {
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn files_are_written_beside_the_summary() {
    let upstream = Upstream::start(&["--body", "64B"]);
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path().join(name).display().to_string();
    // The new output must completely replace an older, longer file.
    scratch.file("out.json", &"x".repeat(100_000));
    let (json, hgrm, fortio) = (path("out.json"), path("out.hgrm"), path("fortio.json"));
    let url = upstream.url();
    let text = loaded(&[&url, "-n", "300", "--json", "-o", &json, "--hgrm", &hgrm, "--fortio", &fortio]);
    assert!(text.contains("300 completed"), "the summary is on the screen: {text}");
    let read = |file: &str| std::fs::read_to_string(file).expect("written");
    let case: Value = serde_json::from_str(&read(&json)).expect("one JSON document");
    assert_eq!((&case["counts"]["completed"], &case["url"]), (&300.into(), &url.clone().into()));
    let last = read(&hgrm).lines().rfind(|line| !line.starts_with('#')).map(str::to_owned);
    let last = last.expect("rows");
    assert!(last.ends_with("1.000000000000        300"), "{last}");
    let fortio: Value = serde_json::from_str(&read(&fortio)).expect("JSON");
    assert_eq!(fortio["RunType"], "HTTP");
    assert_eq!((&fortio["URL"], &fortio["RetCodes"]["200"]), (&url.into(), &300.into()));
    let times = &fortio["DurationHistogram"];
    let buckets = times["Data"].as_array().expect("buckets");
    let counts: u64 = buckets.iter().filter_map(|bucket| bucket["Count"].as_u64()).sum();
    assert_eq!((counts, times["Count"].as_u64()), (300, Some(300)));
    let p50 = case["response_time"]["p50"]["estimate"].as_f64().expect("a number");
    let theirs = times["Percentiles"].as_array().expect("some")[0]["Value"].as_f64().expect("a number");
    assert!((theirs * 1e6 - p50).abs() < 0.01 * p50, "{theirs} s against {p50} µs");
}

#[test]
fn failures_are_reported_with_advice() {
    let upstream = Upstream::start(&["--status", "503"]);
    let output = load(&[&upstream.url(), "-n", "50"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("503: 50") && text.contains("Not a success  50"), "{text}");
    assert!(text.contains("Availability   100.00 % answered, 0.00 % successful"), "{text}");
    let slow = Upstream::start(&["--delay", "20ms"]);
    let text = retry_if_disturbed(|| {
        let text = loaded(&[&slow.url(), "-c", "1", "-r", "500/s", "-d", "400ms"]);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let parts = ["! ", "requests/s were due", "requests in flight: use more connections (-c 1"];
        let advises = parts.iter().all(|part| words.contains(part));
        if advises { Ok(text) } else { Err(text) }
    });
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn stages_are_shown_one_by_one() {
    let upstream = Upstream::start(&["--body", "64B"]);
    let rate = "500/s for 200ms, ramp to 1000/s over 300ms";
    let text = loaded(&[&upstream.url(), "-r", rate, "--http", "2", "--streams", "4"]);
    assert!(text.contains("2 stages") && text.contains("Duration       0.500 s"), "{text}");
    let row = |name: &str| {
        text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {text}"))
    };
    assert!(row("500/s for 200ms").contains("/s"), "{text}");
    row("ramp from 500/s to 1000/s over 300ms");
    let case = loaded(&[&upstream.url(), "-r", rate, "--json"]);
    let case: Value = serde_json::from_str(&case).expect("JSON");
    assert_eq!(case["load"]["stages"].as_array().map(Vec::len), Some(2));
    // The plan is 500/s for 0.2 s, and then 750/s on average for 0.3 s. That is 325 requests.
    let scheduled = case["counts"]["scheduled"].as_u64().expect("a count");
    assert!((324..=326).contains(&scheduled), "{scheduled}");
}

#[test]
fn a_body_may_come_from_standard_input() {
    use std::io::Write as _;
    let upstream = Upstream::start(&[]);
    let mut command = crate::support::hoptax();
    command.args(["load", &upstream.url(), "-n", "20", "-b", "@-", "--json"]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut process = command.spawn().expect("starts");
    process.stdin.take().expect("piped").write_all(&[b'x'; 1000]).expect("read");
    let output = process.wait_with_output().expect("ends");
    let case: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(case["counts"]["ok"], 20);
    assert!(case["bytes"]["sent"].as_u64() > Some(20_000), "{case}");
}
