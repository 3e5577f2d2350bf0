//! `hoptax history`, on directories of generated runs.

use crate::report::fixture::Run;
use crate::support::{Json, Scratch, hoptax, json, refusals, succeed};
use std::fs;
use std::path::Path;
use std::process::Command;

const FIRST: &str = "20260101T000000Z-nightly";
const SECOND: &str = "20260102T000000Z-nightly";
const THIRD: &str = "20260103T000000Z-nightly";

fn put(root: &Path, id: &str, run: &Run) {
    let dir = root.join(id);
    fs::create_dir_all(&dir).expect("made");
    let lines = run.trials.iter().map(|trial| serde_json::to_string(trial).expect("JSON") + "\n");
    fs::write(dir.join("trials.jsonl"), lines.collect::<String>()).expect("written");
    fs::write(dir.join("run.json"), serde_json::to_string(&run.record).expect("JSON")).expect("written");
}

/// A run of nginx and haproxy on this day.
fn nightly(day: u64, nginx_us: u64, version: &str) -> Run {
    let mut run = Run::steady(3, 100, &[("nginx", nginx_us), ("haproxy", 140)]);
    run.record.plan.name = "nightly".into();
    run.record.started_unix_ns = (1_767_225_600 + (day - 1) * 86_400) * 1_000_000_000;
    run.record.contenders[1].version = Some(version.into());
    run
}

/// Three nightly runs. nginx has a new version in the third run.
fn nights() -> Scratch {
    let root = Scratch::new();
    put(root.path(), FIRST, &nightly(1, 150, "1.22.1"));
    put(root.path(), SECOND, &nightly(2, 151, "1.22.1"));
    put(root.path(), THIRD, &nightly(3, 180, "1.26.0"));
    root
}

fn history(root: &Scratch, arguments: &[&str]) -> Command {
    let mut command = hoptax();
    command.arg("history").args(arguments).arg("--root").arg(root.path()).env("COLUMNS", "80");
    command
}

fn said(root: &Scratch, arguments: &[&str]) -> String {
    succeed(&mut history(root, arguments))
}

/// Each of these command lines with its error, for a snapshot.
fn refusals(root: &Scratch, lines: &[&[&str]]) -> String {
    let place = root.path().display().to_string();
    let shown = |line: &&[&str]| format!("{}\n=> {}", line.join(" "), refused(root, line));
    lines.iter().map(shown).collect::<String>().replace(&place, "ROOT")
}

fn refused(root: &Scratch, arguments: &[&str]) -> String {
    refusals::refused(&mut history(root, arguments))
}

fn ids(listing: &Json) -> Vec<&str> {
    listing["runs"].as_array().expect("a list").iter().map(|run| run["id"].as_str().expect("an id")).collect()
}

#[test]
fn runs_are_listed_searched_and_shown() {
    let root = nights();
    let list = said(&root, &["list"]);
    for part in [FIRST, SECOND, THIRD, "nginx 1.26.0", "12/20"] {
        assert!(list.contains(part), "{part}:\n{list}");
    }
    assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
    let listing = json(&mut history(&root, &["list", "--format", "json"]));
    assert_eq!(ids(&listing), [THIRD, SECOND, FIRST]);
    assert_eq!((&listing["all"], &listing["pending"]), (&3.into(), &0.into()));
    assert!(
        listing["runs"][0]["answer"].as_str().is_some_and(|answer| answer.contains("haproxy")),
        "{listing}"
    );
    assert_eq!(ids(&json(&mut history(&root, &["list", "NGINX", "1.26", "--format", "json"]))), [THIRD]);
    assert!(said(&root, &["list", "--limit", "1"]).contains("--limit 3 shows all"));
    let show = said(&root, &["show", THIRD]);
    for part in [
        "nightly",
        "2026-01-03 00:00:00 UTC",
        "nginx 1.26.0",
        "closed loop, 32 connections",
        "hoptax report ",
    ] {
        assert!(show.contains(part), "{part}:\n{show}");
    }
    let by_path = root.path().join(FIRST);
    assert!(said(&root, &["show", &format!("{}/", by_path.display())]).contains("nginx 1.22.1"));
    assert_eq!(said(&root, &["show", "nightly"]), show, "the newest run of the plan");
    assert_eq!(said(&root, &["show", "latest"]), show);
    insta::assert_snapshot!(refusals(&root, &[&["show", "nigh"], &["show", "../etc"]]));
}

#[test]
fn tags_and_notes_are_written_and_outlive_the_index() {
    let root = nights();
    assert_eq!(said(&root, &["tag", FIRST, "+baseline", "+before/tuning"]), "baseline before/tuning\n");
    assert_eq!(said(&root, &["tag", FIRST, "--remove", "before/tuning", "x"]), "baseline x\n");
    assert_eq!(said(&root, &["tag", FIRST, "--remove", "x"]), "baseline\n");
    said(&root, &["note", FIRST, "quiet machine, new kernel"]);
    let listing = json(&mut history(&root, &["list", "--tag", "baseline", "--format", "json"]));
    assert_eq!(ids(&listing), [FIRST]);
    fs::remove_file(root.path().join(".hoptax-history.sqlite")).expect("there");
    assert!(said(&root, &["list", "new kernel"]).contains(FIRST));
    assert!(said(&root, &["show", FIRST]).contains("quiet machine"));
    said(&root, &["note", FIRST, ""]);
    assert!(!said(&root, &["show", FIRST]).contains("quiet machine"));
    let long = "x".repeat(10_001);
    let lines = [
        &["tag", FIRST, "+a b"][..],
        &["tag", FIRST, "--remove", "absent"],
        &["list", "--tag", "basline"],
        &["note", FIRST, &long],
    ];
    insta::assert_snapshot!(refusals(&root, &lines).replace(&long, "LONG"));
}

#[test]
fn a_trend_is_drawn_with_what_changed() {
    let root = nights();
    let asked = ["trend", "nightly", "--gateway", "nginx"];
    let trend = said(&root, &asked);
    assert!(trend.contains("added_p50 of nginx"), "{trend}");
    let lines: Vec<&str> = trend.lines().collect();
    let third = lines.iter().position(|line| line.starts_with(THIRD)).expect("a line");
    assert_eq!(lines[third - 1].trim(), "changed: nginx 1.22.1 → 1.26.0", "{trend}");
    assert!(lines[third].contains("80.1 µs (") && lines[third].contains('●'), "{trend}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{trend}");
    let as_json = json(history(&root, &asked).args(["--format", "json"]));
    assert_eq!(as_json["points"].as_array().expect("points").len(), 3);
    assert_eq!((&as_json["unit"], &as_json["points"][2]["version"]), (&"us".into(), &"1.26.0".into()));
    let csv = said(&root, &[&asked[..], &["--metric", "p99", "--format", "csv"]].concat());
    assert_eq!(csv.lines().count(), 4, "{csv}");
    assert!(
        csv.starts_with("run,started,estimate,low,high,unit,version,verdict,changed,bound,change\n"),
        "{csv}"
    );
    let told = refusals(
        &root,
        &[
            &["trend", "nihgtly"][..],
            &["trend", "nightly"],
            &["trend", "nightly", "--gateway", "ngnix"],
            &["trend", "nightly", "--gateway", "nginx", "--load", "64"],
            &["trend", "nightly", "--gateway", "nginx", "--metric", "added_p55"],
            &["trend", "nightly", "--gateway", "direct", "--metric", "added_p50"],
        ],
    );
    insta::assert_snapshot!(told);
}

/// Ten nightly runs. From the sixth on, nginx has a new version and is slower.
fn ten_nights() -> Scratch {
    let root = Scratch::new();
    for day in 1..=10 {
        let (us, version) = if day < 6 { (150, "1.22.1") } else { (190, "1.26.0") };
        put(root.path(), &format!("202601{day:02}T000000Z-nightly"), &nightly(day, us + day % 2, version));
    }
    root
}

#[test]
fn changes_are_found_with_their_runs_versions_and_cause() {
    let root = ten_nights();
    let text = said(&root, &["changes", "nightly"]);
    insta::assert_snapshot!(text);
    assert!(!text.contains("haproxy") && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_eq!(said(&root, &["--changes"]), text);
    let found = json(&mut history(&root, &["changes", "--metric", "added_p50", "--format", "json"]));
    assert_eq!(found["cases"], 3, "{found}");
    let changes = found["changes"].as_array().expect("a list");
    assert_eq!(changes.len(), 1, "{found}");
    assert_eq!((&changes[0]["metric"], &changes[0]["cause"]), (&"added_p50".into(), &"gateway".into()));
    assert_eq!((&changes[0]["worse"], &changes[0]["runs_since"]), (&true.into(), &5.into()));
    let trend = said(&root, &["trend", "nightly", "--gateway", "nginx"]);
    assert!(trend.contains("  new level: ") && trend.contains("worse: the gateway"), "{trend}");
    let csv = said(&root, &["trend", "nightly", "--gateway", "nginx", "--format", "csv"]);
    assert_eq!(csv.matches("worse: the gateway").count(), 1, "{csv}");
}

#[test]
fn a_nightly_job_fails_only_for_a_recent_change_of_the_gateway() {
    let root = ten_nights();
    let status = |arguments: &[&str]| {
        let all = [&["changes", "nightly", "--fail-on", "worse"][..], arguments].concat();
        history(&root, &all).output().expect("runs").status.code()
    };
    assert_eq!(status(&[]), Some(3));
    assert_eq!(status(&["--last", "5"]), Some(3));
    assert_eq!(status(&["--last", "4"]), Some(0), "the change is five runs old");
    assert_eq!(status(&["--gateway", "haproxy"]), Some(0));
    let lines = [
        &["changes", "nihgtly"][..],
        &["changes", "--gateway", "ngnix"],
        &["changes", "--load", "64 connections"],
        &["changes", "--metric", "added_p55"],
        &["--changes", "list"],
    ];
    let told = said(&root, &["changes", "--gateway", "haproxy"]) + &refusals(&root, &lines);
    insta::assert_snapshot!(told);
}

#[test]
fn a_run_is_deleted_only_with_yes() {
    let root = nights();
    let unsure = refusals(&root, &[&["delete", SECOND]]);
    assert!(root.path().join(SECOND).exists());
    assert_eq!(said(&root, &["delete", SECOND, "--yes"]), format!("deleted {SECOND}\n"));
    assert!(!root.path().join(SECOND).exists());
    let empty = "20260104T000000Z-empty";
    fs::create_dir(root.path().join(empty)).expect("made");
    let others = refusals(&root, &[&["delete", SECOND, "--yes"], &["delete", empty, "--yes"]]);
    insta::assert_snapshot!(unsure + &others);
}

#[test]
fn an_empty_directory_has_no_runs() {
    let root = Scratch::new();
    assert!(said(&root, &["list"]).contains("No runs in"));
}

#[test]
fn the_results_directory_is_an_argument_or_an_option() {
    let root = nights();
    let path = root.path().to_str().expect("text");
    let printed = |arguments: &[&str]| succeed(hoptax().arg("history").args(arguments));
    let list = printed(&[path, "list"]);
    assert!(list.contains(FIRST) && list.contains(THIRD), "{list}");
    for arguments in [&[path][..], &["--root", path], &["--root", path, "list"], &["list", "--root", path]] {
        assert_eq!(printed(arguments), list, "{arguments:?}");
    }
    assert_eq!(printed(&[path, "tag", FIRST, "kept"]), "kept\n");
    assert!(printed(&[path, "rebuild"]).starts_with("3 directories read"));
    let by_path = root.path().join(SECOND);
    assert!(printed(&["show", by_path.to_str().expect("text")]).contains("nginx 1.22.1"));
    let lines = [
        &[path, "list", "--root", path][..],
        &[path, "--root", path],
        &["/nowhere", "list"],
        &["list", "--root", "/nowhere/at/all"],
        &["lst"],
    ];
    insta::assert_snapshot!(refusals::refusals(&["history"], &lines).replace(path, "ROOT"));
}
