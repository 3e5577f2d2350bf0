//! What separate runs show about their scatter: `hoptax calibrate --from`, and runs that learn from earlier
//! runs of the same plan.

use crate::report::fixture::{Run, via};
use crate::run::text;
use crate::support::{Json, Scratch, hoptax};
use hoptax_record::RunRecord;
use hoptax_record::dir::read_run;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

const PLAN: &str = "\
name: nightly
gateways: [{ name: hop-l7, label: edge }]
load: [{ loop: closed, connections: 32, requests: 1000, duration: 30s }]
warmup: 50ms
trials: 1
idle: sleep
";

/// Trials in which the gateway takes this long, and which other processes disturb or not.
fn trials(edge_us: u64, is_disturbed: bool) -> Run {
    let mut run = Run::closed(32);
    for round in 0..10 {
        let jitter = u64::from(round % 2);
        run.direct(round, 5_000, 5_000 + jitter);
        run.push(via("edge", round).all_at_us(edge_us + jitter));
    }
    if is_disturbed {
        run.trials.iter_mut().for_each(|trial| trial.host.foreign = 0.9);
    }
    run
}

fn put(directory: &Path, record: &RunRecord, run: &Run) {
    fs::create_dir_all(directory).expect("made");
    let lines = run.trials.iter().map(|trial| serde_json::to_string(trial).expect("JSON") + "\n");
    fs::write(directory.join("trials.jsonl"), lines.collect::<String>()).expect("written");
    fs::write(directory.join("run.json"), serde_json::to_string(record).expect("JSON")).expect("written");
}

fn calibrate_from(scratch: &Scratch) -> Output {
    let home = scratch.path().join("home");
    let mut command = hoptax();
    command.arg("calibrate").arg("--from").arg(scratch.path().join("results")).env("HOPTAX_HOME", home);
    command.output().expect("it runs")
}

#[test]
fn disturbed_runs_teach_calibrate_nothing() {
    let scratch = Scratch::new();
    let add = |number: u64, is_disturbed| {
        let run = trials(10_000 + 100 * (number % 2), is_disturbed);
        let directory = scratch.path().join(format!("results/2026010{number}T000000Z-nightly"));
        put(&directory, &run.record, &run);
    };
    (1..=3).for_each(|number| add(number, false));
    (4..=6).for_each(|number| add(number, true));
    let refused = calibrate_from(&scratch);
    assert_eq!(refused.status.code(), Some(1));
    let place = scratch.path().display().to_string();
    insta::assert_snapshot!(text(&refused.stderr).replace(&place, "PLACE"));
    assert!(!scratch.path().join("home/scatter.json").exists());
    add(7, false);
    let kept = calibrate_from(&scratch);
    let printed = text(&kept.stdout);
    assert!(kept.status.success() && printed.contains("From 4 runs of 7"), "{printed}{}", text(&kept.stderr));
}

/// A directory with results, and a home of its own.
struct Site {
    scratch: Scratch,
}

impl Site {
    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Runs the plan, moves the run's directory away, and returns the record and the JSON report.
    fn run(&self) -> (RunRecord, Json) {
        let plan = self.scratch.file("plan.yaml", PLAN);
        let mut command = hoptax();
        command.arg("run").arg(plan).args(["--accept-void", "--no-live", "--out"]).arg(self.path("results"));
        let output = command.env("HOPTAX_HOME", self.path("home")).output().expect("it runs");
        assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
        assert!(!text(&output.stderr).contains("scatter"), "{}", text(&output.stderr));
        let results = fs::read_dir(self.path("results")).expect("there").flatten();
        let last = results.map(|entry| entry.path()).filter(|path| path.join("report.html").exists()).max();
        let (last, moved) = (last.expect("a report"), self.path("moved"));
        let _ = fs::remove_dir_all(&moved);
        fs::rename(last, &moved).expect("moved");
        let report = crate::run::report(&moved);
        (read_run(&moved).expect("a record"), report)
    }

    /// Adds an earlier run with the settings of a measured one.
    fn add_night(&self, day: u64, measured: &RunRecord) {
        let run = trials(10_000 + 50 * (day % 2), false);
        let mut record = measured.clone();
        record.started_unix_ns = (1_767_225_600 + (day - 1) * 86_400) * 1_000_000_000;
        (record.host_at_start, record.host_at_end) = (None, None);
        put(&self.path(&format!("results/202601{day:02}T000000Z-nightly")), &record, &run);
    }
}

#[test]
fn a_run_learns_from_eight_earlier_runs_of_its_plan() {
    let site = Site { scratch: Scratch::new() };
    let (measured, report) = site.run();
    assert_eq!(report.get("scatter"), None);
    (1..=7).for_each(|day| site.add_night(day, &measured));
    let (_, report) = site.run();
    assert_eq!(report.get("scatter"), None, "seven are too few");
    assert!(!site.path("home/scatter.json").exists());
    site.add_night(8, &measured);
    let (_, report) = site.run();
    let origin = serde_json::json!({
        "kind": "history", "plan": "nightly", "since": "2026-01-01", "date": "2026-01-08", "runs": 8
    });
    assert_eq!(report["scatter"]["origin"], origin, "{}", report["scatter"]);
    assert!(report["scatter"]["times"].as_f64().is_some_and(|times| times < 0.05), "{report}");
    let kept = fs::read_to_string(site.path("home/scatter.json")).expect("kept");
    assert!(kept.contains("\"history\"") && kept.contains("2026-01-08"), "{kept}");
    let page = fs::read_to_string(site.path("moved/report.md")).expect("a report");
    assert!(page.contains("8 earlier runs"), "{page}");
    fs::remove_dir_all(site.path("results")).expect("there");
    let (_, report) = site.run();
    assert_eq!(report["scatter"]["origin"], origin, "the machine keeps it");
    fs::remove_file(site.path("home/scatter.json")).expect("there");
    let (_, report) = site.run();
    assert_eq!(report.get("scatter"), None, "and forgets it");
}
