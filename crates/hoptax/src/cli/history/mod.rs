//! `hoptax history`.

mod changes;
mod draw;
mod format;
mod open;
mod trend;

use super::exit::{BadInput, Exit};
use super::help;
use super::output::{columns, print};
use super::results_dir::ResultsDir;
use format::Format;
use hoptax_history::Query;
use hoptax_plan::units::nearest;
use open::{History, as_error, json};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// List, search, tag, note and remove runs; show trends of metrics
///
/// Lists the runs without a command. Give the results directory before the command, as in `hoptax history
/// ./results show ID`, or with --root. ID is the name or the path of a run directory. An index in the results
/// directory (`.hoptax-history.sqlite`) is created again if it is missing or damaged.
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
pub(super) struct Args {
    #[command(flatten)]
    results: ResultsDir,

    /// Without a command: find changes, like `hoptax history changes`
    #[arg(long)]
    changes: bool,

    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List runs, newest first
    List(List),
    /// Show one run: what was measured, whether the result can be trusted, tags and note
    Show(Show),
    /// Add tags to a run, or remove tags
    Tag(Tag),
    /// Set the note of a run; an existing note is replaced
    Note(Note),
    /// Show how a metric changed from run to run, and what else changed
    Trend(trend::Args),
    /// Find runs at which a metric changed, and whether the gateway or the machine caused it
    Changes(changes::Args),
    /// Delete a run: its directory with all files
    Delete(Delete),
    /// Delete the index, create it again from the run directories, and analyse all runs
    Rebuild,
}

#[derive(Debug, Default, clap::Args)]
struct List {
    /// Only runs with all these words in ID, plan, gateways, versions, tags or note
    words: Vec<String>,

    /// Only runs with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,

    /// Only runs with a gateway of this label or pack
    #[arg(long, value_name = "LABEL")]
    gateway: Option<String>,

    /// Maximum number of runs to list
    #[arg(long, value_name = "N", default_value_t = LIMIT, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    #[arg(long, value_enum, default_value = "terminal", help = help::FORMAT)]
    format: Format,
}

/// Maximum number of runs to list if `--limit` is not given.
const LIMIT: u32 = 30;

#[derive(Debug, clap::Args)]
struct Show {
    #[arg(value_name = "ID", help = help::RUN_ID)]
    id: String,

    #[arg(long, value_enum, default_value = "terminal", help = help::FORMAT)]
    format: Format,
}

#[derive(Debug, clap::Args)]
struct Tag {
    #[arg(value_name = "ID", help = help::RUN_ID)]
    id: String,

    /// Tags to add, such as baseline or +baseline
    #[arg(value_name = "TAG")]
    add: Vec<String>,

    /// Remove this tag; can be repeated
    #[arg(long, value_name = "TAG")]
    remove: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct Note {
    #[arg(value_name = "ID", help = help::RUN_ID)]
    id: String,

    /// Text of the note; '' removes the note, - reads it from standard input
    text: String,
}

#[derive(Debug, clap::Args)]
struct Delete {
    #[arg(value_name = "ID", help = help::RUN_ID)]
    id: String,

    /// Confirm that the run is to be deleted
    #[arg(long)]
    yes: bool,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let mut history = History::open(&self.root()?)?;
        let verb = match (self.verb, self.changes) {
            (Some(verb), false) => verb,
            (None, false) => Verb::List(List { limit: LIMIT, ..List::default() }),
            (None, true) => Verb::Changes(changes::Args::default()),
            (Some(_), true) => {
                return Err(BadInput("--changes takes no command; leave out one of the two".into()).into());
            }
        };
        match verb {
            Verb::List(list) => list.run(&mut history)?,
            Verb::Show(show) => show.run(&mut history)?,
            Verb::Tag(tag) => tag.run(&mut history)?,
            Verb::Note(note) => note.run(&mut history)?,
            Verb::Trend(trend) => trend.run(&mut history)?,
            Verb::Changes(changes) => return changes.run(&mut history),
            Verb::Delete(delete) => delete.run(&mut history)?,
            Verb::Rebuild => rebuild(&mut history)?,
        }
        Ok(Exit::Success)
    }

    /// The results directory that the user typed. If the user typed no directory, and ID is the path of a run
    /// directory, the result is the parent of that directory. Otherwise the result is `results`.
    fn root(&self) -> Result<PathBuf, BadInput> {
        if self.results.typed()?.is_none()
            && let Some(parent) = self.verb.as_ref().and_then(Verb::id).and_then(parent_of_run)
        {
            return Ok(parent);
        }
        self.results.existing().map_err(|error| match &self.verb {
            // clap parses a mistyped command as the results directory, so the error lists the commands.
            None => BadInput(format!("{}\nhelp: the commands are {}", error.0, Verb::names().join(", "))),
            Some(_) => error,
        })
    }
}

impl Verb {
    /// The ID of the run that the command reads or changes.
    fn id(&self) -> Option<&str> {
        match self {
            Self::Show(Show { id, .. })
            | Self::Tag(Tag { id, .. })
            | Self::Note(Note { id, .. })
            | Self::Delete(Delete { id, .. }) => Some(id),
            Self::List(_) | Self::Trend(_) | Self::Changes(_) | Self::Rebuild => None,
        }
    }

    fn names() -> Vec<String> {
        let command = <Self as clap::Subcommand>::augment_subcommands(clap::Command::new("history"));
        command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect()
    }
}

/// If `typed` is the path of a run directory, returns the parent of that directory. Returns `None` if `typed`
/// is a plain name.
fn parent_of_run(typed: &str) -> Option<PathBuf> {
    let path = Path::new(typed);
    let is_run = typed.contains('/') && path.join("run.json").is_file();
    path.parent().filter(|_| is_run).map(Path::to_path_buf)
}

impl List {
    fn run(self, history: &mut History) -> anyhow::Result<()> {
        if let Some(tag) = &self.tag {
            check_tag(&history.store.tags().map_err(as_error)?, tag)?;
        }
        let query = Query {
            text: self.words.join(" "),
            tag: self.tag,
            gateway: self.gateway,
            limit: self.limit,
            ..Query::default()
        };
        let found = history.store.list(&query).map_err(as_error)?;
        history.analyse(found.runs.iter())?;
        let listing = history.store.list(&query).map_err(as_error)?;
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
        None if known.is_empty() => "no run has a tag yet; add one with `hoptax history tag ID TAG`".into(),
        None => format!("the tags are {}", known.join(", ")),
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
            let tags = match run.tags.is_empty() {
                true => "it has no tags".to_owned(),
                false => format!("its tags are {}", run.tags.join(", ")),
            };
            return Err(BadInput(format!("{} has no tag `{}`; {tags}", run.id, draw::plain(absent))).into());
        }
        let kept = run.tags.iter().filter(|tag| !self.remove.contains(tag));
        let added = self.add.iter().map(|tag| tag.strip_prefix('+').unwrap_or(tag));
        let tags: Vec<String> = kept.map(String::as_str).chain(added).map(str::to_owned).collect();
        let run = history.store.annotate(&run.id, Some(&tags), None).map_err(as_error)?;
        print(&format!("{}\n", if run.tags.is_empty() { "no tags".into() } else { run.tags.join(" ") }))
    }
}

impl Note {
    fn run(self, history: &mut History) -> anyhow::Result<()> {
        let id = history.get(&self.id)?.id;
        let mut text = self.text;
        if text == "-" {
            text.clear();
            // The longest note has 10,000 characters of up to 4 bytes each. Read more bytes than that, so
            // that a longer note is rejected instead of cut.
            io::stdin().take(1 << 20).read_to_string(&mut text)?;
        }
        history.store.annotate(&id, None, Some(text.trim_end())).map_err(as_error)?;
        Ok(())
    }
}

impl Delete {
    fn run(self, history: &mut History) -> anyhow::Result<()> {
        let run = history.get(&self.id)?;
        if !self.yes {
            let run = draw::in_short(&run);
            return Err(BadInput(format!("{run} would be deleted for good; add --yes to delete it")).into());
        }
        history.store.delete(&run.id).map_err(as_error)?;
        print(&format!("deleted {}\n", draw::plain(&run.id)))
    }
}

fn rebuild(history: &mut History) -> anyhow::Result<()> {
    history.store.rebuild().map_err(as_error)?;
    let query = Query { limit: u32::MAX, ..Query::default() };
    let runs = history.store.list(&query).map_err(as_error)?.runs;
    history.analyse(runs.iter())?;
    let listing = history.store.list(&query).map_err(as_error)?;
    let analysed = listing.runs.iter().filter(|run| run.verdict.is_some()).count();
    let counted = |count: usize| format!("{count} {}", if count == 1 { "directory" } else { "directories" });
    print(&format!("{} read, {analysed} analysed\n", counted(listing.runs.len())))
}
