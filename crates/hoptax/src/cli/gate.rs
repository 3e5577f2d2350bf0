//! `hoptax gate`.

use super::compare::{Format, read, told};
use super::exit::{BadInput, Exit};
use super::output::{columns, print};
use anyhow::Context;
use hoptax_analysis::compare::obstacles;
use hoptax_analysis::{Baseline, judge};
use hoptax_plan::{self as plan, Budget, BudgetContext};
use hoptax_report::{self as report, Measured, Model, gate};
use std::path::PathBuf;

/// Set budgets against what a run measured.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 every budget is kept; 1 nothing was measured; 2 the budget file or the command line is \
    wrong, or the baseline cannot be compared; 3 a budget was breached or could not be judged; 4 a void finding says \
    not to believe the run."
)]
pub(super) struct Args {
    /// Run directory: the one that holds run.json and trials.jsonl.
    #[arg(value_name = "RUN")]
    run: PathBuf,

    /// Budgets, a YAML list as it stands below `budget` in a plan. Default: those of the run's plan.
    #[arg(long, value_name = "FILE")]
    budget: Option<PathBuf>,

    /// A run directory that changes such as +10% are relative to.
    #[arg(long, value_name = "RUN")]
    baseline: Option<PathBuf>,

    /// Judge changes although the baseline answers a different question.
    #[arg(long, requires = "baseline")]
    force: bool,

    /// Write the verdicts to this file as JUnit XML, for CI systems.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// What to print.
    #[arg(long, value_enum, default_value = "terminal")]
    format: Format,

    /// Judge budgets even where a void finding says not to believe the run.
    #[arg(long)]
    accept_void: bool,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let measured = read(&self.run)?;
        let baseline = self.baseline.as_deref().map(read).transpose()?;
        let budgets = self.budgets(&measured, baseline.is_some())?;
        let model = self.judge(&measured, baseline.as_ref(), &budgets)?;
        // The file first: a reader of standard output that went away must not cost it.
        if let Some(path) = &self.junit {
            std::fs::write(path, report::junit(&model)).with_context(|| {
                format!("cannot write {}; choose another file with --junit", path.display())
            })?;
        }
        print(&match self.format {
            Format::Terminal => gate::terminal(&model, columns()),
            Format::Markdown => gate::markdown(&model),
            Format::Json => gate::json(&model),
        })?;
        Ok(report::Verdict::of(&model, self.accept_void).into())
    }

    fn budgets(&self, measured: &Measured, baseline: bool) -> anyhow::Result<Vec<Budget>> {
        let plan = &measured.run.record.plan;
        let budgets = match &self.budget {
            Some(path) => {
                plan::load_budget(path, &BudgetContext { plan, baseline }).map_err(BadInput::from)?
            }
            None => plan.budget.clone(),
        };
        if budgets.is_empty() {
            return Err(BadInput(format!(
                "there is nothing to gate: the plan of {} has no budget\n\
                 help: name a file with --budget, such as one with the line - {{ metric: added_p99, max: 1ms }}",
                measured.name
            ))
            .into());
        }
        Ok(budgets)
    }

    fn judge(
        &self,
        measured: &Measured,
        baseline: Option<&Measured>,
        budgets: &[Budget],
    ) -> anyhow::Result<Model> {
        let (side, mut analysis) = (measured.side(), measured.analyse());
        let there = baseline.map(|one| (one, one.side(), one.analyse()));
        if let Some((_, base, _)) = &there {
            let found = obstacles(base, &side);
            if !found.is_empty() && !self.force {
                return Err(BadInput(format!(
                    "the baseline answers a different question:\n{}\nhelp: --force judges all the same",
                    told(&found)
                ))
                .into());
            }
        }
        let baseline = there.as_ref().map(|(one, side, analysis)| Baseline {
            name: &one.name,
            side,
            cases: &analysis.cases,
        });
        analysis.budget = judge(budgets, &analysis.cases, &side, baseline.as_ref());
        let run = &measured.run;
        Ok(Model::new(&run.record, run.trials.len(), analysis, &run.unreadable))
    }
}
