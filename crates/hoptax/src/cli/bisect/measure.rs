//! Measures one commit against the good commit, in a run of its own.

use super::super::run::polling;
use super::question::{Question, git_of};
use super::state::Measurement;
use crate::run::{Contents, LocalTraffic, Progress, Run};
use anyhow::Context as _;
use hoptax_analysis::analyse;
use hoptax_host::probe;
use hoptax_lab::builds::Builds;
use hoptax_lab::packs::PackSet;
use hoptax_lab::process::ProcessDriver;
use hoptax_load::clock;
use hoptax_load::random::Random;
use hoptax_plan::recorded::{self, Run as ReadRun};
use hoptax_plan::{Gateway, Idle, Plan};
use hoptax_record::Failure;
use hoptax_record::dir::RunDir;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Measures commits.
pub(super) struct Measurer<'a> {
    pub(super) plan: &'a Plan,
    pub(super) plan_text: &'a str,
    pub(super) packs: &'a PackSet,
    pub(super) builds: Builds,
    pub(super) question: &'a Question,
    /// Parent of the run directories.
    pub(super) directory: PathBuf,
    pub(super) interrupted: Arc<AtomicBool>,
}

/// Outcome of a measurement.
#[derive(Debug)]
pub(super) enum Measured {
    /// The commit against the good commit.
    Figures(Measurement),
    /// The commit does not build, or does not run. This is the reason.
    Impossible(String),
    /// A signal arrived.
    Interrupted,
}

/// The events of a run are not shown.
struct Quiet;

impl Progress for Quiet {}

impl Measurer<'_> {
    /// Measures the commit with this number.
    ///
    /// # Errors
    /// If the good commit cannot be measured, or nothing can be measured at all.
    pub(super) fn measure(&self, commit: usize) -> anyhow::Result<Measured> {
        let name = &self.question.commits[commit].name;
        let (good, suspect) = (self.question.at(&self.question.good), self.question.at(name));
        if let Err(failure) = self.build(&good) {
            anyhow::ensure!(self.is_interrupted(), "the good commit does not build: {}", in_words(&failure));
            return Ok(Measured::Interrupted);
        }
        if let Err(failure) = self.build(&suspect) {
            return Ok(match self.is_interrupted() {
                true => Measured::Interrupted,
                false => Measured::Impossible(in_words(&failure)),
            });
        }
        let run = self.run(&good, &suspect);
        if self.is_interrupted() {
            return Ok(Measured::Interrupted);
        }
        let run = run?;
        let failed = |gateway: &Gateway| {
            let contender = run.record.contenders.iter().find(|one| one.label == gateway.label)?;
            contender.failed.as_ref().map(in_words)
        };
        if let Some(reason) = failed(&good) {
            anyhow::bail!("the good commit cannot be measured: {reason}");
        }
        if let Some(reason) = failed(&suspect) {
            return Ok(Measured::Impossible(reason));
        }
        let died = run.trials.iter().filter(|trial| trial.contender == suspect.label);
        let died: Vec<&Failure> = died.filter_map(|trial| trial.failed.as_ref()).collect();
        let figures = self.figures(&run, name, [&good.label, &suspect.label]);
        if let (None, Some(failure)) = (&figures, died.first()) {
            return Ok(Measured::Impossible(in_words(failure)));
        }
        figures.with_context(|| {
            format!(
                "the run has no comparison in {} with an interval; see hoptax report {}",
                self.question.metric.name(),
                run.path.display()
            )
        })
    }

    fn build(&self, gateway: &Gateway) -> Result<(), Failure> {
        let Some(git) = git_of(gateway) else { return Ok(()) };
        self.builds.build(git, &self.interrupted).map(drop)
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// The figures of a run. `None` if it has none with an interval.
    fn figures(&self, run: &ReadRun, commit: &str, [good, suspect]: [&str; 2]) -> Option<Measured> {
        let analysis = analyse(&run.record, &run.trials, &run.starts);
        let metric = self.question.metric;
        let pair = analysis.pairs.iter().find(|pair| pair.metric == metric && pair.is_of(good, suspect))?;
        let difference = pair.difference_of(suspect);
        let (low, high) = difference.interval()?;
        let tax = analysis.case(good, pair.load.index)?.tax.as_ref()?;
        Some(Measured::Figures(Measurement {
            commit: commit.to_owned(),
            difference: difference.estimate,
            low,
            high,
            rounds: difference.trials,
            good: tax.get(metric)?.estimate.estimate,
            run: run.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        }))
    }

    /// Runs the plan with these two gateways.
    fn run(&self, good: &Gateway, suspect: &Gateway) -> anyhow::Result<ReadRun> {
        let mut plan = self.plan.clone();
        (plan.gateways, plan.budget) = (vec![good.clone(), suspect.clone()], Vec::new());
        // The replacements name gateways that are not measured, and a profile would not change the answer.
        (plan.replacements, plan.cpu_profile) = (Vec::new(), None);
        // Each measurement has its own order of trials, so that an order that favours one of the two does not repeat.
        let seed = Random::new(clock::unix()).next_u64() >> 32;
        plan.seed = Some(seed);
        let polling = polling(&plan)?;
        let idle = if polling.is_some() { Idle::Poll } else { Idle::Sleep };
        let mut dir = RunDir::create(&self.directory, &plan.name)?;
        let mut driver = ProcessDriver::new(&plan, self.packs.clone(), dir.path())?
            .with_interrupt(Arc::clone(&self.interrupted))
            .with_idle(&plan, idle);
        let look = |moment| Some(probe::fitness::at(moment, &self.directory));
        let run = Run {
            plan: &plan,
            plan_text: self.plan_text.to_owned(),
            command: std::env::args().collect(),
            contents: Contents::read(&plan)?,
            seed,
            cpus: driver.cpus().clone(),
            environment: probe::environment(idle),
            look: &look,
            interrupted: &self.interrupted,
        };
        let mut traffic = LocalTraffic::new()
            .context("cannot find the running hoptax program; was its file moved or removed?")?;
        run.run(&mut dir, &mut driver, &mut traffic, &mut Quiet)?;
        Ok(recorded::read(dir.path())?)
    }
}

fn in_words(failure: &Failure) -> String {
    format!("{}\n{}", failure.message, failure.detail).trim_end().to_owned()
}
