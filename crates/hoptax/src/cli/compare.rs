//! `hoptax compare`.

use super::exit::{BadInput, Exit};
use super::output::{columns, print, write_file};
use hoptax_analysis::compare::{Comparison, LEAST_CHANGE, Obstacle, Verdict};
use hoptax_plan::units;
use hoptax_report::{Measured, NotCompared, compared, comparison};
use std::path::{Path, PathBuf};

/// Compare two runs, or two gateways of one run, case by case.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 compared; 2 they cannot be compared; 3 worse, where --fail-on worse asks for it; \
    4 compared, but a void finding says not to believe it."
)]
pub(super) struct Args {
    /// Run directory: what was before.
    #[arg(value_name = "A")]
    a: PathBuf,

    /// Run directory: what is now. Without it, two gateways of A are compared, named by --labels.
    #[arg(value_name = "B")]
    b: Option<PathBuf>,

    /// The gateway of A and the gateway of B (or of A) to compare, as in `main,pr`; without it, each gateway that both have.
    #[arg(long, value_name = "X,Y", value_parser = labels)]
    labels: Option<(String, String)>,

    /// What to print.
    #[arg(long, value_enum, default_value = "terminal")]
    format: Format,

    /// Show every row, also those that cannot be told apart (terminal).
    #[arg(long)]
    all: bool,

    /// Compare what answers different questions all the same.
    #[arg(long)]
    force: bool,

    /// Smallest change worth telling, as a share of the first's figure.
    #[arg(long, value_name = "SHARE", default_value_t = LEAST_CHANGE, value_parser = share)]
    least: f64,

    /// Exit 3 where the verdict is this.
    #[arg(long, value_enum, value_name = "VERDICT")]
    fail_on: Option<FailOn>,

    /// Do not exit 4 where a void finding says not to believe a case.
    #[arg(long)]
    accept_void: bool,

    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Tables and sentences for a terminal.
    Terminal,
    /// For a pull request.
    Markdown,
    /// For programs.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// Worse, at least in some ways.
    Worse,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let first = read(&self.a)?;
        let second = match &self.b {
            Some(path) if !same_place(path, &self.a) => Some(read(path)?),
            _ => None,
        };
        let labels = self.labels.as_ref().map(|(one, two)| (one.as_str(), two.as_str()));
        let comparison = compared(&first, second.as_ref(), labels, self.least, self.force)
            .map_err(|refusal| refused(&refusal))?;
        let text = match self.format {
            Format::Terminal => comparison::terminal(&comparison, columns(), self.all),
            Format::Markdown => comparison::markdown(&comparison),
            Format::Json => comparison::json(&comparison),
        };
        match &self.output {
            Some(path) => write_file(path, &text)?,
            None => print(&text)?,
        }
        Ok(self.verdict(&comparison))
    }

    fn verdict(&self, comparison: &Comparison) -> Exit {
        if !comparison.void.is_empty() && !self.accept_void {
            Exit::Void
        } else if self.fail_on.is_some() && matches!(comparison.verdict, Verdict::Worse | Verdict::Mixed) {
            Exit::OverBudget
        } else {
            Exit::Success
        }
    }
}

/// Reads a run directory; what cannot be read of it is said.
///
/// # Errors
/// [`BadInput`] if it is none.
pub(super) fn read(path: &Path) -> anyhow::Result<Measured> {
    let measured = Measured::read(path).map_err(|error| BadInput(error.to_string()))?;
    for line in &measured.run.unreadable {
        eprintln!("note: {}: skipped {line}", measured.name);
    }
    Ok(measured)
}

/// What forbids a comparison, each difference with how to mend it.
pub(super) fn told(obstacles: &[Obstacle]) -> String {
    let one = |Obstacle { what, a, b, advice }: &Obstacle| {
        format!("  {what}\n    one:   {a}\n    other: {b}\n    help:  {advice}")
    };
    obstacles.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn refused(refusal: &NotCompared) -> BadInput {
    BadInput(match refusal {
        NotCompared::Alone { labels, .. } => {
            format!("{refusal} by --labels X,Y\nhelp: it has {}", labels.join(", "))
        }
        NotCompared::NoLabel { help, .. } => format!("{refusal}\nhelp: {help}"),
        NotCompared::Obstacles(obstacles) => {
            format!("{refusal}:\n{}\nhelp: --force compares them all the same", told(obstacles))
        }
        NotCompared::Itself(_) | NotCompared::NothingInCommon(_) => refusal.to_string(),
    })
}

fn same_place(a: &Path, b: &Path) -> bool {
    a.canonicalize().ok().is_some_and(|a| b.canonicalize().ok().is_some_and(|b| a == b))
}

fn labels(text: &str) -> Result<(String, String), String> {
    match text.split_once(',').map(|(one, two)| (one.trim(), two.trim())) {
        Some((one, two)) if !one.is_empty() && !two.is_empty() && !two.contains(',') => {
            Ok((one.into(), two.into()))
        }
        _ => Err("name two labels with a comma between them, as in main,pr".into()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    units::share(text).map_err(|error| format!("{}; {}", error.message, error.help))
}
