//! `hoptax report`.

use super::Exit;
use crate::analysis::analyse;
use crate::record::dir;
use crate::report::{self, Model};
use anyhow::Context;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Columns of a report that is not written to a terminal, or to one that does not tell its width.
const WIDTH: u16 = 80;
/// Columns beyond which lines are hard to read.
const WIDEST: u16 = 120;

/// Make a report from a run directory, also of a run that was interrupted or killed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Run directory: the one that holds run.json and trials.jsonl.
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// What to make.
    #[arg(long, value_enum, default_value = "terminal")]
    format: Format,

    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Tables and sentences for a terminal.
    Terminal,
    /// For a pull request.
    Markdown,
    /// One self-contained page with charts.
    Html,
    /// The stable interface for programs.
    Json,
    /// One line per case and per capacity, for spreadsheets.
    Csv,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let run = dir::Run::read(&self.dir)?;
        for line in &run.unreadable {
            eprintln!("note: skipped {line}");
        }
        let model = model_of(&run);
        let text = match self.format {
            Format::Terminal => for_terminal(&model, self.output.is_none()),
            Format::Markdown => report::markdown(&model),
            Format::Html => report::html(&model).context("cannot draw the HTML report")?,
            Format::Json => report::json(&model),
            Format::Csv => report::csv(&model),
        };
        match &self.output {
            Some(path) => write_file(path, &text)?,
            None => print(&text)?,
        }
        Ok(Exit::Success)
    }
}

/// Everything that a run directory tells.
pub(super) fn model_of(run: &dir::Run) -> Model {
    let analysis = analyse(&run.record, &run.trials);
    Model::new(&run.record, run.trials.len(), analysis, &run.unreadable)
}

/// Tables and sentences, in colour where standard output is a terminal that wants it.
pub(super) fn for_terminal(model: &Model, to_stdout: bool) -> String {
    let colour = to_stdout && io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    report::terminal(model, columns(), colour)
}

/// Columns of the terminal that standard output is, within what is readable.
pub(super) fn columns() -> u16 {
    let told = rustix::termios::tcgetwinsize(io::stdout()).map_or(WIDTH, |size| size.ws_col);
    if told == 0 { WIDTH } else { told.clamp(WIDTH, WIDEST) }
}

pub(super) fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text)
        .with_context(|| format!("cannot write {}; choose another file with --output", path.display()))
}

/// Prints; a reader that has seen enough (`| head`) is no error.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write the report to standard output"),
    }
}
