//! `hoptax gate`.

use super::compare::{Format, differences, read};
use super::exit::{BadInput, Exit, OnInconclusive};
use super::output::{columns, print};
use super::{help, run_ref};
use anyhow::Context;
use hoptax_analysis::compare::obstacles;
use hoptax_analysis::{Baseline, judge, not_everywhere};
use hoptax_plan::{self as plan, Budget, BudgetContext};
use hoptax_report::{self as report, Measured, Model, gate};
use std::path::PathBuf;

/// Check a run against budgets, and exit 3 if one is exceeded
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 every budget holds; 1 nothing was measured; 2 wrong budget file, \
    command line or baseline; 3 a budget is exceeded or was not measured; 4 a `void` finding; 5 a budget is \
    inconclusive.")]
pub(super) struct Args {
    #[arg(value_name = "DIR", help = help::RUN_DIR)]
    run: PathBuf,

    /// Budgets: a YAML list like the value of `budget` in a plan [default: the budgets in the run's plan]
    #[arg(long, value_name = "FILE")]
    budget: Option<PathBuf>,

    /// Run to compare with, for relative budgets such as +10%
    #[arg(long, value_name = "DIR")]
    baseline: Option<PathBuf>,

    #[arg(long, requires = "baseline", help = help::COMPARE_ANYWAY)]
    force: bool,

    /// Also write the verdicts to this file as JUnit XML, for CI systems
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Format of the verdicts
    #[arg(long, value_enum, default_value = "terminal")]
    format: Format,

    #[arg(long, help = help::ACCEPT_VOID)]
    accept_void: bool,

    #[arg(long, value_enum, value_name = "OUTCOME", default_value = "fail", help = help::INCONCLUSIVE)]
    inconclusive: OnInconclusive,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let measured = read(&run_ref::find(&self.run))?;
        let baseline = self.baseline.as_deref().map(|typed| read(&run_ref::find(typed))).transpose()?;
        let budgets = self.budgets(&measured, baseline.is_some())?;
        let model = self.judge(&measured, baseline.as_ref(), &budgets)?;
        // Write the file before printing, so that the file is written even if standard output is a closed
        // pipe.
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
        Ok(Exit::of(report::Verdict::of(&model, self.accept_void), self.inconclusive))
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
                "no budget to check: the plan of {} has none\n\
                 help: name a file with --budget; a budget is a line such as - {{ metric: added_p99, max: \
                 1ms }}",
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
                    "the baseline measured different things:\n{}\nhelp: --force compares them anyway",
                    differences(&found)
                ))
                .into());
            }
        }
        let baseline = there.as_ref().map(|(one, side, analysis)| Baseline {
            name: &one.name,
            side,
            cases: &analysis.cases,
            starts: &analysis.starts,
        });
        analysis.budget = judge(budgets, (&analysis.cases, &analysis.starts), &side, baseline.as_ref());
        analysis.unchecked = not_everywhere(budgets, side.run);
        let run = &measured.run;
        Ok(Model::new(&run.record, run.trials.len(), analysis, &run.unreadable))
    }
}
