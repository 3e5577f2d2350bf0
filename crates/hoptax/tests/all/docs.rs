//! Tests that every `hoptax …` command in README and docs uses existing commands and options, and that every
//! link has a target.

use crate::report::fixture::{MadeTrial, Run, via};
use crate::report::on_disk;
use crate::support::{hoptax, json, succeed};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// README, the documents next to it, and everything below `docs/`, `plans/`, `gateways/` and `examples/`.
fn pages() -> Vec<(PathBuf, String)> {
    let mut pages = Vec::new();
    let mut to_visit = ["docs", "plans", "gateways", "examples"].map(|folder| root().join(folder)).to_vec();
    let top = std::fs::read_dir(root()).expect("there").flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = top.filter(|path| path.is_file()).collect();
    while let Some(folder) = to_visit.pop() {
        for path in std::fs::read_dir(folder).expect("there").flatten().map(|entry| entry.path()) {
            if path.is_dir() { to_visit.push(path) } else { files.push(path) }
        }
    }
    for path in files.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "md")) {
        let text = std::fs::read_to_string(&path).expect("text");
        pages.push((path, text));
    }
    pages
}

/// The hoptax commands in a page's code blocks, without prompts and comments.
fn commands(page: &str) -> Vec<String> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if let Some(command) = line.trim().trim_start_matches("$ ").strip_prefix("hoptax ")
            && inside
        {
            found.push(command.split(" #").next().unwrap_or_default().trim().to_owned());
        }
    }
    found
}

fn help(verb: &str) -> String {
    succeed(hoptax().args(verb.split(' ')).arg("--help"))
}

/// The command name: the first word, and the command below it. Below `history`, it may follow a directory.
fn verb(command: &str) -> String {
    let mut words = command.split_whitespace();
    let verb = words.next().expect("a verb");
    let own: &[&str] = match verb {
        "generate" => &["completions", "man", "reference", "schema"],
        "history" => &["list", "show", "tag", "note", "trend", "changes", "delete", "rebuild"],
        "hosts" => &["bandwidth", "down"],
        _ => &[],
    };
    match words.find(|word| own.contains(word)) {
        Some(own) => format!("{verb} {own}"),
        None => verb.to_owned(),
    }
}

#[test]
fn every_command_shown_is_valid() {
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let mut seen = 0;
    for (path, text) in pages() {
        for command in commands(&text) {
            let verb = verb(&command);
            let help = helps.entry(verb.clone()).or_insert_with(|| help(&verb));
            for option in command.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2) {
                let option = option.split('=').next().expect("a first part");
                assert!(help.contains(option), "{}: `hoptax {command}`: no {option}", path.display());
            }
            seen += 1;
        }
    }
    assert!(seen >= 10, "README and docs show commands: {seen}");
}

#[test]
fn every_link_has_a_target() {
    let mut seen = 0;
    for (path, text) in pages() {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().expect("a first part");
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let full = path.parent().expect("a folder").join(target);
            assert!(full.exists(), "{}: there is no {target}", path.display());
            seen += 1;
        }
    }
    assert!(seen >= 10, "README links to the other documents: {seen}");
}

#[test]
fn every_page_is_in_the_index() {
    let index = std::fs::read_to_string(root().join("docs/README.md")).expect("docs/README.md");
    let docs = root().join("docs");
    for (path, _) in pages().iter().filter(|(path, _)| path.parent() != Some(docs.as_path())) {
        let Ok(page) = path.strip_prefix(&docs) else { continue };
        // Skip the pages of gateways, because these pages have their own index, which is generated.
        if page.starts_with("gateways") && !page.ends_with("README.md") {
            continue;
        }
        assert!(
            index.contains(&format!("]({})", page.display())),
            "docs/README.md does not lead to {page:?}"
        );
    }
}

/// `make docs` generates the page of the command line from the help texts.
#[test]
fn the_page_of_the_command_line_is_up_to_date() {
    let made = succeed(hoptax().args(["generate", "reference"]));
    let kept = std::fs::read_to_string(root().join("docs/reference/cli.md")).expect("docs/reference/cli.md");
    assert!(made == kept, "docs/reference/cli.md is not what `make docs` makes");
}

/// The quick start quotes a table. The figures must equal the figures of the kept run that the page links to.
#[test]
fn quoted_figures_are_those_of_the_kept_run() {
    let text = read("docs/quick-start.md");
    let (_, quoted) = text.split_once("```text\nOpen loop, 1,000/s").expect("a table");
    let (table, after) = quoted.split_once("```").expect("its end");
    let path =
        after.split("records/").nth(1).and_then(|rest| rest.split(')').next()).expect("a link to the run");
    let kept = read(&format!("records/{path}"));
    let is_heading = |line: &&str| line.starts_with('#');
    let is_quoted = |line: &&str| {
        line.starts_with('#') && line.to_lowercase().contains("open loop, 1,000/s, constant, 32 connections")
    };
    let kept = kept.lines().skip_while(|line| !is_quoted(line)).skip(1);
    let kept: Vec<&str> = kept.take_while(|line| !is_heading(line)).collect();
    let is_number = |text: &&str| text.starts_with(|letter: char| letter.is_ascii_digit());
    let apart = |letter: char| !(letter.is_ascii_digit() || matches!(letter, '.' | ','));
    let (mut seen, mut row_of) = (0, "");
    for row in table.lines().skip(3).take_while(|row| !row.is_empty()) {
        // A row takes two lines. The second line begins with blanks and contains the ends of the intervals.
        row_of = row.split(' ').next().filter(|name| !name.is_empty()).unwrap_or(row_of);
        let theirs = kept.iter().find(|line| line.starts_with(&format!("| {row_of} |"))).expect("a row");
        let figures: Vec<&str> = theirs.split(apart).collect();
        for figure in row.trim_start_matches(row_of).split(apart).filter(is_number) {
            assert!(figures.contains(&figure), "{row_of} has no {figure} in the kept run");
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen} figures");
}

fn read(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).expect("a page")
}

fn results(arguments: &[&std::ffi::OsStr]) -> std::process::Output {
    std::process::Command::new(root().join("scripts/results.py"))
        .args(arguments)
        .env("HOPTAX", env!("CARGO_BIN_EXE_hoptax"))
        .output()
        .expect("python3 is there")
}

/// `make docs` generates the page of results from the records. README quotes rows of it.
#[test]
fn the_page_of_results_is_up_to_date() {
    let checked = results(&["--check".as_ref()]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let page = read("docs/results.md");
    let mut figures = 0;
    for cell in page.lines().filter(|line| line.starts_with("| ")).flat_map(|line| line.split('|')) {
        if ["µs", "ms", "%", " k "].iter().any(|unit| cell.contains(unit)) {
            assert!(cell.contains('(') && cell.contains(')'), "no interval: {cell}");
            figures += 1;
        }
    }
    assert!(figures > 60, "{figures}");
    let readme = read("README.md");
    let (found, _) = readme.split_once("**What it cannot do**").expect("README says what hoptax cannot do");
    let rows: Vec<&str> = found.lines().filter(|line| line.contains("µs (")).collect();
    assert!(rows.len() >= 3, "README says what hoptax found: {rows:?}");
    for row in rows {
        assert!(page.contains(row), "docs/results.md has no row {row}");
    }
}

/// A record can be a run directory. Its section has the figures that `hoptax report` shows.
#[test]
fn the_page_of_results_reads_run_directories() {
    let scratch = tempfile::tempdir().expect("a directory");
    let (records, page) = (scratch.path().join("records"), scratch.path().join("results.md"));
    let run = records.join("2026-11-27-vm-lab/hosts");
    std::fs::create_dir_all(&run).expect("made");
    for file in ["run.json", "trials.jsonl"] {
        std::fs::copy(root().join("records/runs/hosts").join(file), run.join(file)).expect("copied");
    }
    let made = results(&["--records".as_ref(), records.as_os_str(), "--page".as_ref(), page.as_os_str()]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let page = std::fs::read_to_string(page).expect("it is written");
    let report = succeed(hoptax().arg("report").arg(&run).args(["--format", "markdown"]));
    let row = report.lines().find(|line| line.starts_with("| hop-l7 |")).expect("a row of the hop");
    let added = row.split('|').nth(5).expect("the added p50").trim();
    assert!(added.starts_with('+') && added.ends_with(')'), "{added}");
    for words in [
        added,
        "Open loop, 400/s, constant, 4 connections. Direct: ",
        "Open loop, 400/s, constant, 4 connections, from edge. Direct: ",
        "Rented virtual machine: ",
        "[raw data](records/2026-11-27-vm-lab/hosts/trials.jsonl)",
    ] {
        assert!(page.contains(words), "`{words}` in:\n{page}");
    }
}

/// A way to add messages to a trial. It receives the time that the answer is about, µs.
type Stream = fn(MadeTrial, u64) -> MadeTrial;

/// The page compares gateways in the measure of the report's answer.
#[test]
fn the_page_of_results_has_the_measure_of_the_answer() {
    let kinds: [(Stream, &str); 4] = [
        (|trial, us| trial.all_at_us(us), "| gateway | added p50 |"),
        (|trial, us| trial.both_ways_us(us, 1000), "| gateway | added p50 of messages |"),
        (|trial, us| trial.server_stream_us(us, 1000), "| gateway | added p50 of ages |"),
        (
            |trial, us| trial.server_stream_us(100, 1000).first_message_us(us).tokens_us([us, us, 1000], 10),
            "| gateway | added p50 to first content |",
        ),
    ];
    for (stream, heading) in kinds {
        let is_of_tokens = heading.contains("content");
        let mut run = Run::closed(4);
        if is_of_tokens {
            run = run.token_streams(10);
        }
        for round in 0..4 {
            let of = |who: &str, call_us: u64, us: u64| {
                stream(via(who, round).all_at_us(call_us), us + u64::from(round % 2))
            };
            run.push(of("direct", 900, 100).first()).push(of("direct", 900, 100).last());
            run.push(of("a", 1800, 150)).push(of("b", 1400, 290));
        }
        let (below, dir) = on_disk(&run);
        let page = below.path().join("results.md");
        let records = below.path().as_os_str();
        let made = results(&["--records".as_ref(), records, "--page".as_ref(), page.as_os_str()]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let page = std::fs::read_to_string(page).expect("it is written");
        let report = json(hoptax().arg("report").arg(&dir).args(["--format", "json"]));
        let answer = report["answer"].as_str().expect("two gateways");
        let (_, figure) = answer.split_once(": ").expect("a figure");
        let (figure, _) = figure.split_once(')').expect("an interval");
        let row = page.lines().find(|line| line.starts_with("| a ")).expect("a row");
        assert!(row.contains(&format!("| +{figure}) |")), "{answer}: {row}");
        assert!(page.contains(heading), "{heading}: {page}");
    }
}

/// The site's table of contents must list every page of `docs/` once. The site must have all files that pages
/// link to.
#[test]
fn every_page_is_in_the_site() {
    let sources = tempfile::tempdir().expect("a directory");
    let site = root().join("scripts/site.py");
    succeed(std::process::Command::new(site).arg("--sources").arg(sources.path()));
    let contents = std::fs::read_to_string(sources.path().join("SUMMARY.md")).expect("a table of contents");
    for (path, _) in pages().iter().filter(|(path, _)| path.starts_with(root().join("docs"))) {
        let page = path.strip_prefix(root()).expect("below the root");
        let link = format!("]({})", page.display());
        assert_eq!(contents.matches(&link).count(), 1, "{page:?} in the table of contents:\n{contents}");
    }
    for target in contents.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        assert!(
            sources.path().join(target).is_file(),
            "{target} is in the table of contents and not in the site"
        );
    }
    for file in ["plans/ci.yaml", "docs/site.css", "book.toml"] {
        assert!(sources.path().join(file).is_file(), "{file} is missing");
    }
}

#[test]
fn every_linked_heading_exists() {
    let pages: BTreeMap<PathBuf, String> = pages().into_iter().collect();
    for (path, text) in &pages {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some((file, heading)) = target.split_once('#').filter(|_| !target.contains("://")) else {
                continue;
            };
            let full =
                if file.is_empty() { path.clone() } else { path.parent().expect("a folder").join(file) };
            let Some(there) = full.canonicalize().ok().and_then(|full| pages.get(&full)) else { continue };
            let found =
                there.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == heading);
            assert!(found, "{}: there is no heading for {target}", path.display());
        }
    }
}

/// The anchor that GitHub generates for a heading.
fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter(kept)
        .collect::<String>()
        .replace(' ', "-")
}
