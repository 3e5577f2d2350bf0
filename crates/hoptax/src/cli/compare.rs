//! `hoptax compare`.

use super::report::{columns, print, write_file};
use super::{BadInput, Exit};
use crate::analysis::compare::{Comparison, LEAST_CHANGE, Obstacle, Refusal, Subject, Verdict, compare};
use crate::analysis::{Analysis, Side, analyse};
use crate::plan::units;
use crate::record::dir::Run;
use crate::report::comparison;
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
        let first = Measured::read(&self.a)?;
        let second = match &self.b {
            Some(path) if !same_place(path, &self.a) => Some(Measured::read(path)?),
            _ => None,
        };
        let comparison = self.compare(&first, second.as_ref())?;
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

    fn compare(&self, first: &Measured, second: Option<&Measured>) -> anyhow::Result<Comparison> {
        let other = second.unwrap_or(first);
        if second.is_none() && self.labels.is_none() {
            return Err(BadInput(format!(
                "nothing to compare {} with: name a second run, or two of its gateways by --labels X,Y\n\
                 help: it has {}",
                first.name,
                first.labels().join(", ")
            ))
            .into());
        }
        if let Some((one, two)) = &self.labels {
            first.check_label(one)?;
            other.check_label(two)?;
            if second.is_none() && one == two {
                return Err(BadInput(format!("{one} would be compared with itself: name two labels")).into());
            }
        }
        let (side_a, analysis_a) = (first.side(), first.analyse());
        // Within one run both are the same side: that is what pairs their rounds.
        let own = second.map(|second| (second.side(), second.analyse()));
        let (side_b, analysis_b) = own.as_ref().map_or((&side_a, &analysis_a), |(side, one)| (side, one));
        let labels = self.labels.as_ref().map(|(one, two)| (one.as_str(), two.as_str()));
        let a = Subject {
            name: &first.name,
            side: &side_a,
            analysis: &analysis_a,
            label: labels.map(|labels| labels.0),
        };
        let b = Subject {
            name: &other.name,
            side: side_b,
            analysis: analysis_b,
            label: labels.map(|labels| labels.1),
        };
        compare(&a, &b, self.least, self.force).map_err(|refusal| refused(&refusal).into())
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

/// A run directory that was read, under the name that it has in messages.
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) run: Run,
}

impl Measured {
    /// Reads a run directory; what cannot be read of it is said.
    ///
    /// # Errors
    /// [`BadInput`] if it is none.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let run = Run::read(path).map_err(|error| BadInput(error.to_string()))?;
        let place = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let name = place
            .file_name()
            .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into());
        for line in &run.unreadable {
            eprintln!("note: {name}: skipped {line}");
        }
        Ok(Self { name, run })
    }

    pub(super) fn side(&self) -> Side<'_> {
        Side::read(&self.run.record, &self.run.trials)
    }

    pub(super) fn analyse(&self) -> Analysis {
        analyse(&self.run.record, &self.run.trials)
    }

    fn labels(&self) -> Vec<&str> {
        self.run.record.contenders.iter().map(|one| one.label.as_str()).collect()
    }

    fn check_label(&self, label: &str) -> Result<(), BadInput> {
        let known = self.labels();
        if known.contains(&label) {
            return Ok(());
        }
        let help = match units::nearest(label, known.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("it has {}", known.join(", ")),
        };
        Err(BadInput(format!("{} has no gateway labelled {label}\nhelp: {help}", self.name)))
    }
}

/// What forbids a comparison, each difference with how to mend it.
pub(super) fn told(obstacles: &[Obstacle]) -> String {
    let one = |Obstacle { what, a, b, advice }: &Obstacle| {
        format!("  {what}\n    one:   {a}\n    other: {b}\n    help:  {advice}")
    };
    obstacles.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn refused(refusal: &Refusal) -> BadInput {
    BadInput(match refusal {
        Refusal::Obstacles(obstacles) => format!(
            "these runs answer different questions:\n{}\nhelp: --force compares them all the same",
            told(obstacles)
        ),
        Refusal::NothingInCommon(why) => format!("they cannot be compared: {why}"),
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
