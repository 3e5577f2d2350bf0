//! `hoptax history`.

mod draw;
mod open;
mod trend;

use super::exit::{BadInput, Exit};
use super::output::{columns, print};
use hoptax_history::Query;
use hoptax_plan::units::nearest;
use open::{History, json, told};
use std::io::{self, Read as _};
use std::path::PathBuf;

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
