//! `hoptax run`: from a plan to a report.

mod progress;

use super::Exit;
use super::plan_source::{Only, PlanSource, fits};
use super::report::{for_terminal, model_of};
use crate::lab::packs::{PackSet, binary};
use crate::lab::process::ProcessDriver;
use crate::plan::{GatewayKind, Plan};
use crate::probe;
use crate::record::dir::{Run as ReadRun, RunDir};
use crate::record::{DIRECT, TrialRecord};
use crate::report;
use crate::run::{Contents, LocalTraffic, Outcome, Run};
use anyhow::Context;
use hoptax_load::clock;
use hoptax_load::random::Random;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::BTreeMap;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Measure what a plan names and report the tax of every hop.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 measured; 1 could not run; 2 the plan or the command line is wrong; \
    3 a budget was breached; 4 measured, but a void finding says not to believe it.")]
pub(super) struct Args {
    #[command(flatten)]
    source: PlanSource,
    #[command(flatten)]
    only: Only,
    /// Where run directories are made.
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
    /// Leave out gateways that are not installed, instead of refusing to start.
    #[arg(long)]
    skip_missing: bool,
    /// Exit 0 even where a void finding says not to believe the run.
    #[arg(long)]
    accept_void: bool,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let (mut plan, plan_text) = self.source.load()?;
        self.only.apply(&mut plan)?;
        let packs = PackSet::load(self.source.packs.as_deref())?;
        // Drawn here, so that the upstream's delays and failures hang on the recorded seed too.
        let seed = *plan.seed.get_or_insert_with(|| Random::new(clock::unix()).next_u64() >> 32);
        for warning in fits(&plan, &packs)? {
            eprintln!("warning: {warning}");
        }
        if !self.skip_missing {
            all_installed(&plan, &packs)?;
        }
        let mut dir = RunDir::create(&self.out, &plan.name)?;
        let interrupted = watch_signals().context("cannot watch for signals")?;
        let mut driver =
            ProcessDriver::new(&plan, packs, dir.path())?.with_interrupt(Arc::clone(&interrupted));
        let look = |moment| Some(probe::fitness::at(moment, &self.out));
        let run = Run {
            plan: &plan,
            plan_text,
            command: std::env::args().collect(),
            contents: Contents::read(&plan)?,
            seed,
            generator_cpus: driver.cpus().generator.clone(),
            environment: probe::environment(),
            look: &look,
            interrupted: &interrupted,
        };
        let mut traffic = LocalTraffic::new().context("cannot find the hoptax program itself")?;
        let mut progress = progress::Bar::new(&plan);
        let outcome = run.run(&mut dir, &mut driver, &mut traffic, &mut progress);
        progress.finish();
        let path = dir.path().display();
        let outcome = outcome.with_context(|| {
            format!("the run ended early, and what was measured is kept: see it with `hoptax report {path}`")
        })?;
        self.report(&dir, &outcome)
    }

    /// Analyses what is on disk, writes the reports beside it, and prints the table.
    fn report(&self, dir: &RunDir, outcome: &Outcome) -> anyhow::Result<Exit> {
        let run = ReadRun::read(dir.path())?;
        if run.trials.is_empty() {
            let path = dir.path().display();
            eprintln!("error: nothing was measured; logs and rendered configurations are in {path}");
            return Ok(Exit::Failed);
        }
        let model = model_of(&run);
        let text = for_terminal(&model, true);
        // The table first: it needs no room on the disk, and a reader that went away must not cost the files.
        let shown = writeln!(std::io::stdout(), "{text}");
        let html = report::html(&model).context("cannot draw the HTML report")?;
        dir.write_file("report.html", html.as_bytes())?;
        dir.write_file("report.md", report::markdown(&model).as_bytes())?;
        let told = writeln!(std::io::stdout(), "Report: {}", dir.path().join("report.html").display());
        match shown.and(told) {
            // How the run went stands, whether or not its table was read to the end.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            printed => printed.context("cannot print the report, which is in the run directory")?,
        }
        if outcome.measured == 0 || outcome.ended.failed.is_some() {
            return Ok(Exit::Failed);
        }
        if no_gateway_measured(&run) {
            eprintln!("error: no gateway could be measured, only direct");
            return Ok(Exit::Failed);
        }
        Ok(match report::verdict(&model) {
            Exit::Void if self.accept_void && model.over_budget() => Exit::OverBudget,
            Exit::Void if self.accept_void => Exit::Success,
            exit => exit,
        })
    }
}

/// Whether the plan names gateways and not one trial of them came out well, though the run went to its end.
fn no_gateway_measured(run: &ReadRun) -> bool {
    let interrupted = run.record.ended.as_ref().is_none_or(|ended| ended.interrupted);
    let measured = |trial: &TrialRecord| trial.contender != DIRECT && trial.failed.is_none();
    !interrupted && run.record.contenders.len() > 1 && !run.trials.iter().any(measured)
}

/// Sets a flag at the first signal, so that what was measured is reported; the second one ends us at once.
fn watch_signals() -> std::io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: at the first signal the flag is not set yet, so only the second one shuts down.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

fn all_installed(plan: &Plan, packs: &PackSet) -> anyhow::Result<()> {
    let mut missing: BTreeMap<&str, String> = BTreeMap::new();
    for gateway in &plan.gateways {
        let GatewayKind::Pack { pack, driver, .. } = &gateway.kind else { continue };
        let Some(pack) = packs.get(pack) else { continue };
        let ways = binary::missing(pack, driver);
        if !ways.is_empty() {
            missing.insert(pack.name(), ways.join("\n    "));
        }
    }
    let missing: Vec<String> = missing.iter().map(|(name, how)| format!("  {name}\n    {how}")).collect();
    anyhow::ensure!(
        missing.is_empty(),
        "not installed:\n{}\nhelp: install what is missing, or leave it out with --skip-missing",
        missing.join("\n")
    );
    Ok(())
}

/// Whether progress is drawn: only where somebody watches.
fn watched() -> bool {
    std::io::stderr().is_terminal()
}
