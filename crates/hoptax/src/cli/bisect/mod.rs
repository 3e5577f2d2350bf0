//! `hoptax bisect`: finds the commit that moved a figure.
//!
//! Each step measures one commit against the good commit, in the same rounds of a separate run, and writes
//! the result to disk. [`steps`] decides from all results so far which commit comes next, so an interrupted
//! search continues where it stopped.

mod draw;
mod measure;
mod question;
mod state;
mod steps;

use super::exit::{BadInput, Exit};
use super::help;
use super::output::print;
use super::plan_source::{PlanSource, fits};
use super::run::watch_signals;
use anyhow::Context as _;
use hoptax_lab::builds::Builds;
use hoptax_plan::{Metric, Trials, units};
use measure::{Measured, Measurer};
use question::{Least, Question};
use state::{State, states};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use steps::{Situation, Step};

/// Find the commit that changed a figure, by measuring commits
///
/// Measures commits until one is 95 % certain. The plan needs one gateway with `git`, and one load point.
/// Commits that do not build are skipped. After Ctrl-C, the same command continues.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 found the commit; 1 found none, was interrupted or could \
    not run; 2 wrong plan or command line.")]
pub(super) struct Args {
    #[command(flatten)]
    source: PlanSource,
    /// A commit before the change: a branch, a tag or a commit
    #[arg(long, value_name = "REF")]
    good: String,
    /// A commit with the change: a branch, a tag or a commit
    #[arg(long, value_name = "REF")]
    bad: String,
    /// Metric: added_p50 to added_p99, throughput_ratio, cpu_us_per_request [default: that of the report's
    /// answer]
    #[arg(long, value_name = "METRIC", value_parser = question::metric)]
    metric: Option<Metric>,
    /// Smallest change to look for: a share of the good commit's figure, or a time such as 20us
    #[arg(long, value_name = "CHANGE", default_value = "3%", value_parser = question::least)]
    min: Least,
    /// Label of the gateway, if several have `git`
    #[arg(long, value_name = "LABEL")]
    gateway: Option<String>,
    /// Longest time for the rounds of a measurement, in a plan without `trials`
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::duration)]
    time: Duration,
    /// Directory for the measurements and the state of the search
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
    /// Forget earlier measurements of the same search
    #[arg(long)]
    again: bool,
    /// Also use runs with `void` findings
    #[arg(long)]
    accept_void: bool,
    #[arg(long, help = help::JSON)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let (mut plan, plan_text) = self.source.load()?;
        let packs = self.source.packs()?;
        if !plan.is_local() {
            let message = "a bisect builds and measures commits on this machine only; remove `roles` and \
                `from` from the plan";
            return Err(BadInput(message.into()).into());
        }
        for warning in fits(&mut plan, &packs)? {
            eprintln!("warning: {warning}");
        }
        if let Trials::Auto(auto) = &mut plan.trials {
            auto.at_most = auto.at_most.min(self.time);
        }
        let metric = self.metric.unwrap_or_else(|| question::usual_metric(&plan));
        question::same_unit(self.min, metric).map_err(BadInput)?;
        let question = Question::new(&plan, self.gateway.as_deref(), [&self.good, &self.bad], metric)
            .map_err(BadInput)?;
        let mut state = State::open(&self.out, &plan.name, &question, self.again)?;
        let interrupted = watch_signals().context("cannot install signal handlers")?;
        let measurer = Measurer {
            plan: &plan,
            plan_text: &plan_text,
            packs: &packs,
            builds: Builds::of_user().map_err(|failure| BadInput(failure.message))?,
            question: &question,
            directory: state.directory().to_owned(),
            accept_void: self.accept_void,
            interrupted: Arc::clone(&interrupted),
        };
        eprint!("{}", draw::begin(&question, &state));
        loop {
            let situation = situation(&question, &state, self.min);
            let commit = match situation.next() {
                Step::Measure(commit) => commit,
                end => return self.end(&question, &state, &situation, end),
            };
            eprintln!("{}", draw::about_to(&question, state.measurements().len(), commit));
            match measurer.measure(commit)? {
                Measured::Figures(measurement) => state.add(measurement)?,
                Measured::Impossible(reason) if commit + 1 == question.commits.len() => {
                    return Err(BadInput(format!("the bad commit cannot be measured: {reason}")).into());
                }
                Measured::Impossible(reason) => {
                    eprintln!("{}", draw::skipped(&question, commit, &reason));
                    state.skip(&question.commits[commit].name, &reason)?;
                    continue;
                }
                Measured::Interrupted => {
                    eprintln!("interrupted; the same command continues the search");
                    return Ok(Exit::Failed);
                }
            }
            eprint!("{}", draw::after(&question, &state, &self::situation(&question, &state, self.min)));
        }
    }

    /// Prints the result.
    fn end(
        &self,
        question: &Question,
        state: &State,
        situation: &Situation,
        step: Step,
    ) -> anyhow::Result<Exit> {
        let text = match self.json {
            true => format!(
                "{}\n",
                serde_json::to_string_pretty(&draw::document(question, state, situation, &step))?
            ),
            false => draw::end(question, state, situation, &step, self.min),
        };
        print(&text)?;
        Ok(if matches!(step, Step::Found { .. }) { Exit::Success } else { Exit::Failed })
    }
}

/// A start shifts the figure of a process for its whole life, because its speed depends on where its code and
/// its memory are (docs/concepts/trials-and-intervals.md). This is the standard deviation of these shifts, as
/// a share of the figure. The intervals of a run do not contain it if each gateway starts once per run. With
/// it, a small change is measured in several runs.
const OF_STARTS: f64 = 0.01;

/// Everything that the next step depends on.
fn situation(question: &Question, state: &State, least: Least) -> Situation {
    let number = |name: &str| question.commits.iter().position(|commit| commit.name == name);
    let measured =
        state.measurements().iter().zip(states(state.measurements())).filter_map(|(one, place)| {
            // Two processes start for each measurement. With `isolate`, each of their trials has a process of
            // its own.
            let of_starts = if question.isolated { 0.0 } else { OF_STARTS * 2.0_f64.sqrt() * one.good.abs() };
            one.weighed(number(&one.commit)?, place, of_starts)
        });
    Situation {
        commits: question.commits.len(),
        measured: measured.collect(),
        earlier: state.earlier(),
        skipped: state.skipped().iter().filter_map(|one| number(&one.commit)).collect(),
        least: least.of(state.measurements().first().map(|one| one.good)),
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "plus {} of the figure for each start" percent(OF_STARTS);
}
