//! `hoptax history`.

mod draw;
mod trend;

use super::report::{columns, print};
use super::{BadInput, Exit};
use crate::history::{Entry, HistoryError, Query, Store};
use crate::plan::units::nearest;
use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// List, search, tag, annotate and remove the runs below a directory, and show how their figures went over time.
///
/// The run directories are all that counts. A small index beside them (`.hoptax-history.sqlite`) makes this quick; it is made anew
/// whenever it is missing or cannot be used. ID is the name of a run directory.
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true, arg_required_else_help = true)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,

    /// Directory that holds the run directories.
    #[arg(long, global = true, value_name = "DIR", default_value = "results")]
    root: PathBuf,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List runs, the newest first.
    List(List),
    /// Show one run: what it measured, whether to believe it, tags and note.
    Show(Show),
    /// Add tags to a run, and take tags off it.
    Tag(Tag),
    /// Write a note about a run, in place of the one that it has.
    Note(Note),
    /// Show how a metric went from run to run, and what changed between them.
    Trend(trend::Args),
    /// Remove a run: its directory with everything in it.
    Delete(Delete),
    /// Throw the index away, make it anew of the run directories, and analyse them all.
    Rebuild,
}

#[derive(Debug, clap::Args)]
struct List {
    /// Words that all must occur: in the id, the plan's name, a gateway, a version, a tag or the note.
    words: Vec<String>,

    /// Only runs with this tag.
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,

    /// Only runs with a gateway of this label or pack.
    #[arg(long, value_name = "NAME")]
    gateway: Option<String>,

    /// How many at most.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// What to print.
    #[arg(long, value_enum, default_value = "terminal")]
    format: Format,
}

#[derive(Debug, clap::Args)]
struct Show {
    /// The run.
    id: String,

    /// What to print.
    #[arg(long, value_enum, default_value = "terminal")]
    format: Format,
}

#[derive(Debug, clap::Args)]
struct Tag {
    /// The run.
    id: String,

    /// Tags to add, as `baseline` or `+baseline`.
    #[arg(value_name = "TAG")]
    add: Vec<String>,

    /// Tag to take off.
    #[arg(long, value_name = "TAG")]
    remove: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct Note {
    /// The run.
    id: String,

    /// The note; an empty one takes it away, `-` reads it from standard input.
    text: String,
}

#[derive(Debug, clap::Args)]
struct Delete {
    /// The run.
    id: String,

    /// Really remove it.
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For a terminal.
    Terminal,
    /// For programs.
    Json,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let mut history = History::open(&self.root)?;
        match self.verb {
            Verb::List(list) => list.run(&mut history)?,
            Verb::Show(show) => show.run(&mut history)?,
            Verb::Tag(tag) => tag.run(&mut history)?,
            Verb::Note(note) => note.run(&mut history)?,
            Verb::Trend(trend) => trend.run(&mut history)?,
            Verb::Delete(delete) => delete.run(&mut history)?,
            Verb::Rebuild => rebuild(&mut history)?,
        }
        Ok(Exit::Success)
    }
}

/// A store, and where it lies.
struct History {
    root: PathBuf,
    store: Store,
}

impl History {
    fn open(root: &Path) -> anyhow::Result<Self> {
        let mut store = Store::open(root).map_err(told)?;
        store.refresh().map_err(told)?;
        Ok(Self { root: root.to_path_buf(), store })
    }

    /// The id that was meant by what was typed, which may be the path of the run directory.
    fn id(&self, typed: &str) -> String {
        let path = Path::new(typed.trim_end_matches('/'));
        let lies_here =
            || path.parent()?.canonicalize().ok()?.eq(&self.root.canonicalize().ok()?).then_some(());
        match path.file_name().and_then(|name| name.to_str()) {
            Some(name) if typed.contains('/') && lies_here().is_some() => name.to_owned(),
            _ => typed.to_owned(),
        }
    }

    /// One run, which is there.
    fn get(&self, typed: &str) -> anyhow::Result<Entry> {
        let id = self.id(typed);
        self.store.get(&id).map_err(told)?.ok_or_else(|| told(self.store.unknown(&id)))
    }

    /// Analyses these runs, as far as they were not.
    fn analyse<'e>(&mut self, runs: impl Iterator<Item = &'e Entry>) -> anyhow::Result<()> {
        let new: Vec<&Entry> = runs.filter(|run| run.verdict.is_none()).collect();
        let begun = Instant::now();
        let mut is_shown = false;
        for (done, run) in new.iter().enumerate() {
            // Who has waited for a second wants to know for what.
            if io::stderr().is_terminal() && begun.elapsed().as_secs() >= 1 {
                eprint!("\ranalysing run {} of {} …", done + 1, new.len());
                is_shown = true;
            }
            self.store.analyse(&run.id).map_err(told)?;
        }
        if is_shown {
            eprint!("\r\u{1b}[K");
        }
        Ok(())
    }
}

/// An error of the history: whoever typed can mend most of them.
fn told(error: HistoryError) -> anyhow::Error {
    match error {
        HistoryError::Change { .. } | HistoryError::Index(_) => error.into(),
        _ => BadInput(error.to_string()).into(),
    }
}

fn json<T: serde::Serialize>(value: &T) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

impl List {
    fn run(self, history: &mut History) -> anyhow::Result<()> {
        if let Some(tag) = &self.tag {
            check_tag(&history.store.tags().map_err(told)?, tag)?;
        }
        let query = Query {
            text: self.words.join(" "),
            tag: self.tag,
            gateway: self.gateway,
            limit: self.limit,
            ..Query::default()
        };
        let found = history.store.list(&query).map_err(told)?;
        history.analyse(found.runs.iter())?;
        let listing = history.store.list(&query).map_err(told)?;
        match self.format {
            Format::Json => print(&json(&listing)?),
            Format::Terminal => print(&draw::list(&listing, &history.root, columns())),
        }
    }
}

fn check_tag(known: &[String], tag: &str) -> Result<(), BadInput> {
    if known.iter().any(|one| one == tag) {
        return Ok(());
    }
    let help = match nearest(tag, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "no run has a tag: `hoptax history tag ID +TAG` gives it one".into(),
        None => format!("there are {}", known.join(", ")),
    };
    Err(BadInput(format!("no run has the tag `{}`; {help}", draw::plain(tag))))
}

impl Show {
    fn run(self, history: &mut History) -> anyhow::Result<()> {
        let run = history.get(&self.id)?;
        history.analyse(std::iter::once(&run))?;
        let run = history.get(&run.id)?;
        match self.format {
            Format::Json => print(&json(&run)?),
            Format::Terminal => print(&draw::one(&run, &history.root, columns())),
        }
    }
}

impl Tag {
    fn run(self, history: &mut History) -> anyhow::Result<()> {
        let run = history.get(&self.id)?;
        if let Some(absent) = self.remove.iter().find(|tag| !run.tags.contains(tag)) {
            let has = if run.tags.is_empty() { "no tags".into() } else { run.tags.join(", ") };
            return Err(
                BadInput(format!("{} has no tag `{}`; it has {has}", run.id, draw::plain(absent))).into()
            );
        }
        let kept = run.tags.iter().filter(|tag| !self.remove.contains(tag));
        let added = self.add.iter().map(|tag| tag.strip_prefix('+').unwrap_or(tag));
        let tags: Vec<String> = kept.map(String::as_str).chain(added).map(str::to_owned).collect();
        let run = history.store.annotate(&run.id, Some(&tags), None).map_err(told)?;
        print(&format!("{}\n", if run.tags.is_empty() { "no tags".into() } else { run.tags.join(" ") }))
    }
}

impl Note {
    fn run(self, history: &mut History) -> anyhow::Result<()> {
        let id = history.get(&self.id)?.id;
        let mut text = self.text;
        if text == "-" {
            text.clear();
            // One character more than the longest note may take is enough to refuse it.
            io::stdin().take(1 << 20).read_to_string(&mut text)?;
        }
        history.store.annotate(&id, None, Some(text.trim_end())).map_err(told)?;
        Ok(())
    }
}

impl Delete {
    fn run(self, history: &mut History) -> anyhow::Result<()> {
        let run = history.get(&self.id)?;
        if !self.yes {
            let told = draw::in_short(&run);
            return Err(BadInput(format!("{told} would be removed for good; --yes does it")).into());
        }
        history.store.delete(&run.id).map_err(told)?;
        print(&format!("removed {}\n", draw::plain(&run.id)))
    }
}

fn rebuild(history: &mut History) -> anyhow::Result<()> {
    history.store.rebuild().map_err(told)?;
    let query = Query { limit: u32::MAX, ..Query::default() };
    let runs = history.store.list(&query).map_err(told)?.runs;
    history.analyse(runs.iter())?;
    let listing = history.store.list(&query).map_err(told)?;
    let analysed = listing.runs.iter().filter(|run| run.verdict.is_some()).count();
    let counted = |count: usize| format!("{count} {}", if count == 1 { "directory" } else { "directories" });
    print(&format!("{} read, {analysed} of them analysed\n", counted(listing.runs.len())))
}
