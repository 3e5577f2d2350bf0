//! Kept runs: old run directories stay readable and give the same reports.
//!
//! Beside each run in `records/runs` are its expected reports, compressed. A refactor must not change a byte
//! of them. `records/runs/README.md` says how to replace them after an intended change.

use crate::support::hoptax;
use flate2::read::GzDecoder;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Minimum number of runs. Without this minimum, the test would pass even if there were no run to compare.
const LEAST_RUNS: usize = 11;

const FORMATS: [(&str, &str); 6] = [
    ("json", "report.json"),
    ("markdown", "report.md"),
    ("csv", "report.csv"),
    ("terminal", "report.txt"),
    ("kong", "report.data.json"),
    ("html", "report.page.json"),
];

fn runs() -> Vec<PathBuf> {
    let below = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../records/runs");
    let mut found: Vec<PathBuf> = fs::read_dir(below)
        .expect("kept runs")
        .map(|entry| entry.expect("listed").path())
        .filter(|path| path.join("run.json").is_file())
        .collect();
    found.sort();
    found
}

fn kept(path: &Path) -> Option<String> {
    let mut text = String::new();
    GzDecoder::new(File::open(path).ok()?).read_to_string(&mut text).expect("compressed text");
    Some(text)
}

/// Output of a command. If the output is a page, returns only the data that the page's script draws.
fn printed(arguments: &[&str], directories: &[&Path]) -> String {
    let output = hoptax()
        .arg(arguments[0])
        .args(directories)
        .args(&arguments[1..])
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .output()
        .expect("it runs");
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    match said.split_once(r#"<script type="application/json" id="hoptax-data">"#) {
        Some((_, rest)) => rest.split("</script>").next().unwrap_or_default().to_owned(),
        None => said,
    }
}

fn difference(now: &str, before: &str) -> String {
    let (mut now, mut before) = (now.lines(), before.lines());
    for line in 1.. {
        match (now.next(), before.next()) {
            (None, None) => break,
            (new, old) if new != old => {
                let cut = |text: Option<&str>| text.map(|text| text.chars().take(300).collect::<String>());
                return format!("line {line} was {:?} and is {:?}", cut(old), cut(new));
            }
            _ => {}
        }
    }
    "the line endings differ".to_owned()
}

#[test]
fn reports_of_kept_runs_are_unchanged() {
    let runs = runs();
    assert!(runs.len() >= LEAST_RUNS, "only {} runs below records/runs: {runs:?}", runs.len());
    let mut changed = Vec::new();
    for run in &runs {
        for (format, file) in FORMATS {
            let now = printed(&["report", "--format", format], &[run]);
            let file = run.join(format!("{file}.gz"));
            match kept(&file) {
                None => changed.push(format!("{} is missing", file.display())),
                Some(before) if before != now => {
                    changed.push(format!("{}: {}", file.display(), difference(&now, &before)));
                }
                Some(_) => {}
            }
        }
    }
    assert!(changed.is_empty(), "reports changed; see records/runs/README.md\n{}", changed.join("\n"));
}

#[test]
fn a_comparison_of_kept_runs_is_unchanged() {
    let runs = runs();
    let named = |name: &str| runs.iter().find(|run| run.ends_with(name)).expect("kept").as_path();
    let now = printed(&["compare", "--format", "json"], &[named("interrupted"), named("killed")]);
    let file = named("killed").join("compare.json.gz");
    let before = kept(&file).expect("kept");
    assert!(before == now, "{}: {}", file.display(), difference(&now, &before));
}
