//! Draws runs for a terminal.

use hoptax_history::{Entry, Listing, State};
use hoptax_report::wrapped;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Width of the first column in the details of a run. This column contains the names of the details.
const NAMES: usize = 10;

/// Maximum width of the ID column. Longer IDs are printed whole and break the alignment.
const LONGEST_ID: usize = 36;

/// The list. Each run has one line, followed by a summary of its measurements.
pub(super) fn list(listing: &Listing, root: &Path, width: u16) -> String {
    let root = plain(&root.display().to_string());
    if listing.all == 0 {
        return format!("No runs in {root} yet. To create one: `hoptax run PLAN --out {root}`\n");
    }
    if listing.runs.is_empty() {
        return format!("No run matches ({} in {root}).\n", counted(listing.all));
    }
    let width = usize::from(width);
    let ids = listing.runs.iter().map(|run| run.id.chars().count()).max().unwrap_or(0).min(LONGEST_ID);
    let mut text: String = listing.runs.iter().map(|run| row(run, ids, width)).collect();
    let shown = listing.runs.len();
    if listing.total as usize > shown {
        text +=
            &format!("\n{shown} of {} shown; --limit {} shows all.\n", counted(listing.total), listing.total);
    }
    text
}

/// Draws the line of a run. An ID is never cut, because users copy IDs. If the tags do not fit next to the
/// ID, they go on a line below.
fn row(run: &Entry, ids: usize, width: usize) -> String {
    let trials = match trials(run) {
        trials if trials.is_empty() => trials,
        trials => format!("{trials} {}", kind(run)),
    };
    let first = format!("{:<ids$}  {:<11}  {trials:<12}", plain(&run.id), is(run));
    let tags = run.tags.join(" ");
    let fits = first.chars().count() + 2 + tags.chars().count() <= width;
    let mut text = if fits { format!("{first}  {tags}") } else { first.trim_end().to_owned() };
    text.truncate(text.trim_end().len());
    text.push('\n');
    let below = [about(run), if fits { String::new() } else { tags }];
    for part in below.iter().filter(|part| !part.is_empty()) {
        wrapped(part, width - 2).lines().for_each(|line| text += &format!("  {line}\n"));
    }
    text
}

pub(super) fn one(run: &Entry, root: &Path, width: u16) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            let value = wrapped(&plain(value), usize::from(width) - NAMES);
            for (at, part) in value.lines().enumerate() {
                text += &format!(
                    "{:<NAMES$}{}
",
                    if at == 0 { name } else { "" },
                    part.trim_start()
                );
            }
        }
    };
    line("run", &run.id);
    line("plan", &run.name);
    line("is", is(run));
    line("problem", run.problem.as_deref().unwrap_or_default());
    line("started", &run.started_unix.map(moment).unwrap_or_default());
    line("took", &run.took_s.map(duration).unwrap_or_default());
    line(kind(run), &trials(run));
    line("hoptax", &run.hoptax);
    line("gateways", &gateways(run));
    run.loads.iter().for_each(|load| line("load", load));
    line("answer", run.answer.as_deref().unwrap_or_default());
    line("tags", &run.tags.join(" "));
    for part in run.note.lines() {
        line("note", part);
    }
    if !matches!(run.state, State::Broken | State::Newer | State::Foreign) {
        text += &format!("\nhoptax report {}\n", plain(&root.join(&run.id).display().to_string()));
    }
    text
}

pub(super) fn in_short(run: &Entry) -> String {
    match trials(run) {
        trials if trials.is_empty() => format!("{} ({})", plain(&run.id), is(run)),
        trials => format!("{} ({}, {trials} {})", plain(&run.id), is(run), kind(run)),
    }
}

/// The verdict of a run, or the state of the run if there is no verdict.
fn is(run: &Entry) -> &str {
    match (run.state, &run.verdict) {
        (State::Whole, Some(verdict)) => verdict,
        (state, _) => state.name(),
    }
}

/// The unit of the numbers in [`trials`].
fn kind(run: &Entry) -> &'static str {
    if run.starts { "starts" } else { "trials" }
}

fn trials(run: &Entry) -> String {
    match run.trials_planned {
        0 => String::new(),
        planned if planned == run.trials => planned.to_string(),
        planned => format!("{}/{planned}", run.trials),
    }
}

/// Describes the measurements of the run, or says why the run cannot be read.
fn about(run: &Entry) -> String {
    match gateways(run) {
        gateways if gateways.is_empty() => plain(run.problem.as_deref().unwrap_or_default()),
        gateways => gateways,
    }
}

fn gateways(run: &Entry) -> String {
    let gateways = run.contenders.iter().filter(|one| !one.kind.is_empty());
    let names = gateways.map(|one| match &one.version {
        Some(version) => plain(&format!("{} {version}", one.label)),
        None => plain(&one.label),
    });
    names.collect::<Vec<_>>().join(", ")
}

fn counted(count: u32) -> String {
    format!("{count} {}", if count == 1 { "run" } else { "runs" })
}

/// A Unix time as `2026-09-30 17:45:01 UTC`. Empty for times before 1970 or after the year 9999.
pub(super) fn moment(unix: i64) -> String {
    let at = u64::try_from(unix).ok().and_then(|unix| UNIX_EPOCH.checked_add(Duration::from_secs(unix)));
    let last = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    let Some(at) = at.filter(|at| *at <= last) else { return String::new() };
    humantime::format_rfc3339_seconds(at).to_string().replace('T', " ").replace('Z', " UTC")
}

fn duration(seconds: f64) -> String {
    let text = |took| humantime::format_duration(took).to_string();
    Duration::try_from_secs_f64(seconds.round()).map(text).unwrap_or_default()
}

/// The text with control characters replaced, so that text from a file cannot control the terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_history::Contender;

    fn run(id: &str) -> Entry {
        let gateway = |label: &str| Contender {
            label: label.into(),
            kind: label.into(),
            version: Some("1.2.3".into()),
        };
        Entry {
            id: id.into(),
            state: State::Whole,
            problem: None,
            name: "quickstart".into(),
            started_unix: Some(1_700_000_000),
            took_s: Some(75.4),
            hoptax: "0.1.0".into(),
            contenders: ["nginx", "haproxy", "envoy", "traffic-server"].map(gateway).into(),
            loads: vec!["closed loop, 32 connections".into()],
            trials: 15,
            trials_planned: 15,
            starts: false,
            verdict: Some("believable".into()),
            over_budget: Some(false),
            answer: Some("nginx adds least.".into()),
            tags: vec!["before-tuning".into(), "x".into()],
            note: "two\nlines \u{1b}[31m".into(),
        }
    }

    fn broken() -> Entry {
        let problem = Some("run.json cannot be read: EOF while parsing \u{7}".into());
        let (trials, trials_planned) = (0, 0);
        Entry {
            state: State::Broken,
            problem,
            contenders: vec![],
            verdict: None,
            over_budget: None,
            trials,
            trials_planned,
            ..run("b\nc")
        }
    }

    #[test]
    fn a_list_fits_into_80_columns_and_shows_unreadable_runs() {
        let runs = vec![
            run("20231114T221320Z-quickstart"),
            run(&format!("20231114T221320Z-{}", "long".repeat(12))),
            broken(),
        ];
        let listing = Listing { total: 40, all: 41, pending: 0, runs };
        let text = list(&listing, Path::new("results"), 80);
        let long = |line: &&str| line.chars().count() > 80 && !line.starts_with("20231114T221320Z-longlong");
        assert_eq!(text.lines().find(long), None, "{text}");
        insta::assert_snapshot!(text);
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
        let none = Listing { total: 0, all: 3, pending: 0, runs: vec![] };
        insta::assert_snapshot!(list(&none, Path::new("results"), 80));
        let empty = Listing { all: 0, ..none };
        insta::assert_snapshot!(list(&empty, Path::new("results"), 80));
    }

    #[test]
    fn runs_of_starts_count_starts() {
        let run = Entry { starts: true, ..run("20231114T221320Z-cold") };
        let listing = Listing { total: 1, all: 1, pending: 0, runs: vec![run.clone()] };
        let texts = [list(&listing, Path::new("results"), 80), in_short(&run)];
        assert!(texts.iter().all(|text| text.contains("15 starts") && !text.contains("trials")), "{texts:?}");
        let text = one(&run, Path::new("results"), 80);
        assert!(text.contains("starts    15") && !text.contains("trials"), "{text}");
    }

    #[test]
    fn one_run_is_shown_with_all_details() {
        let text = one(&run("20231114T221320Z-quickstart"), Path::new("results"), 80);
        insta::assert_snapshot!(text);
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert_eq!([moment(-1), moment(i64::MAX), duration(f64::NAN)], [""; 3]);
    }
}
