//! Runs the marked commands of the quick start, the guides and the concepts, from the top of each page to the
//! bottom.
//!
//! The comment `<!-- file: NAME -->` before a block writes the block to a file. The comment `<!-- command
//! -->` runs the lines of the block. The test checks that the commands work, and not what they measure. So it
//! shortens the plans, and a slow or noisy machine does not matter.

use crate::support::Scratch;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of pages that are followed at a time. Their commands mostly wait for gateways and for rates.
const AT_ONCE: usize = 3;

#[derive(Debug, PartialEq)]
enum Step {
    File { name: String, text: String },
    Type(String),
}

/// The marked blocks of a page, in order.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for part in page.split("\n<!-- ").skip(1) {
        let Some((mark, block)) = part.split_once(" -->\n```") else { continue };
        let block = block.split_once('\n').expect("a language").1;
        let text = block.split_once("```").expect("the block ends").0.to_owned();
        match mark.strip_prefix("file: ") {
            Some(name) => steps.push(Step::File { name: name.to_owned(), text }),
            None if mark == "command" => steps.push(Step::Type(text)),
            None => panic!("`<!-- {mark} -->` is neither a file nor a command"),
        }
    }
    steps
}

/// Shortens a plan to a few seconds. Plans with events or searches cannot be shortened, so such plans are
/// checked but not run.
pub(crate) fn shortened(text: &str) -> String {
    let is_plan = text.starts_with("gateways:") || text.contains("\nload:");
    if !is_plan || ["\nevents:", "search:"].iter().any(|key| text.contains(key)) {
        return text.to_owned();
    }
    let mut short = String::new();
    for line in text.lines() {
        let line = match line.split_once("duration: ") {
            Some((before, after)) => {
                let end = after.find([',', ' ', '}']).unwrap_or(after.len());
                format!("{before}duration: 300ms{}", &after[end..])
            }
            None if line.starts_with("trials:") => "trials: 2".to_owned(),
            None if line.starts_with("time:") => "time: 2s".to_owned(),
            None if line.starts_with("warmup:") => "warmup: 50ms".to_owned(),
            None => line.to_owned(),
        };
        let _ = writeln!(short, "{line}");
    }
    let warmup = if text.contains("\nwarmup:") { "" } else { "warmup: 50ms\n" };
    let is_limited = text.contains("\ntrials:") || text.contains("\ntime:");
    short + warmup + if is_limited { "" } else { "time: 2s\n" }
}

/// Limits the requests of closed loops, which would use all CPUs for the whole duration.
fn limited(plan: &str) -> String {
    let limit = |line: &str| {
        let duration = if line.contains("duration: ") { "" } else { "duration: 300ms, " };
        line.replace("loop: closed, ", &format!("loop: closed, requests: 1000, {duration}")) + "\n"
    };
    plan.lines().map(limit).collect()
}

/// Shortens the measurement of a command, as [`shortened`] does in a plan.
fn shortened_line(line: &str) -> String {
    let passes = if line.starts_with("hoptax profile ") { " --passes 1 --for 500ms" } else { "" };
    let words = line.split(' ').map(|word| if word.starts_with("time=") { "time=2s" } else { word });
    words.collect::<Vec<&str>>().join(" ") + passes
}

/// Runs one line in a directory, with the binary under test as `hoptax`.
fn run_line(line: &str, directory: &Path) -> std::process::Output {
    let exe = Path::new(env!("CARGO_BIN_EXE_hoptax"));
    let path = std::env::var("PATH").expect("a path");
    let path = format!("{}:{path}", exe.parent().expect("a directory").display());
    Command::new("sh").args(["-c", line]).current_dir(directory).env("PATH", path).output().expect("a shell")
}

/// Writes the marked files of a page and runs its marked commands, in the order of the page. Returns the
/// number of lines that were run.
fn follow(page: &Path) -> usize {
    let text = std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let scratch = Scratch::new();
    let mut lines = 0;
    for step in steps(&text) {
        match step {
            Step::File { name, text } => {
                let path = scratch.path().join(name);
                std::fs::create_dir_all(path.parent().expect("below the directory")).expect("made");
                std::fs::write(path, limited(&shortened(&text))).expect("written");
            }
            Step::Type(block) => {
                for line in block.lines().filter(|line| !line.is_empty()) {
                    let output = run_line(&shortened_line(line), scratch.path());
                    // Exit code 4 is allowed, because such a short run may be void.
                    let may_be_void = line.starts_with("hoptax run ") || line.starts_with("hoptax compare ");
                    let is_expected =
                        output.status.success() || may_be_void && output.status.code() == Some(4);
                    let said = String::from_utf8_lossy(&output.stderr);
                    assert!(is_expected, "{}: `{line}`: {}\n{said}", page.display(), output.status);
                    lines += 1;
                }
            }
        }
    }
    lines
}

/// The quick start, and the pages of the guides and concepts, except the page that another test runs.
fn pages() -> Vec<PathBuf> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut pages: Vec<PathBuf> = vec![docs.join("quick-start.md")];
    for folder in ["guides", "concepts"] {
        let entries = std::fs::read_dir(docs.join(folder)).expect("there").flatten();
        pages.extend(entries.map(|entry| entry.path()));
    }
    // The test `pack_docs` runs the commands of this page.
    pages.retain(|page| !page.ends_with("write-a-pack.md"));
    pages.sort();
    pages
}

#[test]
fn commands_on_pages_work() {
    needs!("nginx", "haproxy", "envoy");
    let pages = pages();
    let (next, lines) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    lines.fetch_add(follow(page), Ordering::Relaxed);
                }
            });
        }
    });
    assert!(lines.into_inner() >= 20);
}

#[test]
fn a_page_is_read_in_its_order() {
    let page = "# A\n\n<!-- file: a.yaml -->\n```yaml\nname: a\n```\n\n<!-- command -->\n```sh\nhoptax check \
        a.yaml\n```\n";
    let file = Step::File { name: "a.yaml".into(), text: "name: a\n".into() };
    assert_eq!(steps(page), [file, Step::Type("hoptax check a.yaml\n".into())]);
}

#[test]
fn shortening_changes_only_durations() {
    let plan = "name: a\nload:\n  - { loop: closed, connections: 1, duration: 10s }\n  - loop: open\n    \
        duration: 5s\ntrials: 5\n";
    let short = "name: a\nload:\n  - { loop: closed, connections: 1, duration: 300ms }\n  - loop: open\n    \
                 duration: 300ms\n\
                 trials: 2\nwarmup: 50ms\n";
    assert_eq!(shortened(plan), short);
    let closed = "load:\n  - { loop: closed, connections: 1 }\n";
    let short = "load:\n  - { loop: closed, requests: 1000, duration: 300ms, connections: 1 }\n";
    assert_eq!(limited(closed), short);
    assert_eq!(shortened("name: template\n"), "name: template\n");
    let line = "hoptax run a.yaml --only nginx --set time=30s";
    assert_eq!(shortened_line(line), "hoptax run a.yaml --only nginx --set time=2s");
    assert_eq!(shortened_line("hoptax profile a.yaml"), "hoptax profile a.yaml --passes 1 --for 500ms");
}
