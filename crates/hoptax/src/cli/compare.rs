//! `hoptax compare`.

use super::exit::{BadInput, Exit};
use super::output::{columns, print, write_file};
use super::{help, run_ref};
use hoptax_analysis::compare::{Comparison, LEAST_CHANGE, Obstacle, Verdict};
use hoptax_plan::units;
use hoptax_report::{Measured, NotCompared, compared, comparison};
use std::path::{Path, PathBuf};

/// Compare two runs, or two gateways of one run, case by case
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 compared; 2 the runs cannot be compared, or wrong command line; \
    3 worse, with --fail-on worse; 4 a `void` finding.")]
pub(super) struct Args {
    /// First (older) run: its directory, a plan's name, or `latest`
    #[arg(value_name = "A")]
    a: PathBuf,

    /// Second (newer) run. Without B, --labels names two gateways of A to compare
    #[arg(value_name = "B")]
    b: Option<PathBuf>,

    /// Compare gateway X of run A with gateway Y of run B (or A), such as main,pr [default: every gateway
    /// that both runs have]
    #[arg(long, value_name = "X,Y", value_parser = labels)]
    labels: Option<(String, String)>,

    #[arg(long, value_enum, default_value = "terminal", help = help::FORMAT)]
    format: Format,

    /// With --format terminal: also show rows without a distinguishable difference
    #[arg(long)]
    all: bool,

    #[arg(long, help = help::COMPARE_ANYWAY)]
    force: bool,

    /// Smallest change to report, as a share of the value in A, such as 0.01 or 1%
    #[arg(long, value_name = "SHARE", default_value_t = LEAST_CHANGE, value_parser = share)]
    least: f64,

    /// Exit 3 if the comparison has this verdict
    #[arg(long, value_enum, value_name = "VERDICT")]
    fail_on: Option<FailOn>,

    #[arg(long, help = help::ACCEPT_VOID)]
    accept_void: bool,

    #[arg(short, long, value_name = "FILE", help = help::OUTPUT)]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Text for a terminal
    Terminal,
    /// Markdown for a pull request
    Markdown,
    /// JSON for programs
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// Some figures are worse, even if others are better
    Worse,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let a = run_ref::find(&self.a);
        let first = read(&a)?;
        let second = match self.b.as_deref().map(run_ref::find) {
            Some(path) if !same_place(&path, &a) => Some(read(&path)?),
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

/// Reads a run directory, and prints a note for each unreadable line. Fails with [`BadInput`] if the path is
/// not a run directory.
pub(super) fn read(path: &Path) -> anyhow::Result<Measured> {
    let measured = Measured::read(path).map_err(|error| BadInput(error.to_string()))?;
    for line in &measured.run.unreadable {
        eprintln!("note: {}: skipped {line}", measured.name);
    }
    Ok(measured)
}

/// Describes the differences that prevent a comparison. Each difference has advice.
pub(super) fn differences(obstacles: &[Obstacle]) -> String {
    let one = |Obstacle { what, a, b, advice }: &Obstacle| {
        format!("  {what}\n    first:  {a}\n    second: {b}\n    help:   {advice}")
    };
    obstacles.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn refused(refusal: &NotCompared) -> BadInput {
    BadInput(match refusal {
        NotCompared::Alone { labels, .. } => {
            format!("{refusal} by --labels X,Y\nhelp: its gateways are {}", labels.join(", "))
        }
        NotCompared::NoLabel { help, .. } => format!("{refusal}\nhelp: {help}"),
        NotCompared::Obstacles(obstacles) => {
            format!("{refusal}:\n{}\nhelp: --force compares them anyway", differences(obstacles))
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
        _ => Err("expected two labels separated by a comma, such as main,pr".into()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    units::share(text).map_err(|error| format!("{}; {}", error.message, error.help))
}
