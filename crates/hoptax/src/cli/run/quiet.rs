//! Runs a plan on this machine without a view and without a report, as one of several runs of a command.

use super::world::{polling, shares_of};
use anyhow::Context as _;
use hoptax_format::random;
use hoptax_host::probe;
use hoptax_lab::packs::PackSet;
use hoptax_lab::process::ProcessDriver;
use hoptax_plan::{Idle, Plan};
use hoptax_record::dir::{Run as ReadRun, RunDir};
use hoptax_run::{Contents, LocalTraffic, Progress, Run};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Ignores the events of a run.
struct Quiet;

impl Progress for Quiet {}

/// Runs the plan. Draws a seed if the plan has none. Fails if the plan cannot run.
pub(in crate::cli) fn measure_quietly(
    plan: &Plan,
    plan_text: &str,
    packs: &PackSet,
    directory: &Path,
    interrupted: &Arc<AtomicBool>,
) -> anyhow::Result<ReadRun> {
    let seed = plan.seed.unwrap_or_else(|| random::from_system() >> 32);
    let plan = Plan { seed: Some(seed), ..plan.clone() };
    let polling = polling(&plan)?;
    let idle = if polling.is_some() { Idle::Poll } else { Idle::Sleep };
    let mut dir = RunDir::create(directory, &plan.name)?;
    let mut driver = ProcessDriver::new(&plan, packs.clone(), dir.path())?
        .with_interrupt(Arc::clone(interrupted))
        .with_idle(&plan, idle);
    let look = |moment| Some(probe::fitness::at(moment, directory));
    let environment = probe::environment(idle);
    let run = Run {
        plan: &plan,
        plan_text: plan_text.to_owned(),
        command: std::env::args().collect(),
        contents: Contents::read(&plan)?,
        seed,
        cpus: driver.cpus().clone(),
        shares: shares_of(&environment),
        environment,
        hosts: BTreeMap::new(),
        look: &look,
        look_at_others: &|_| BTreeMap::new(),
        interrupted,
    };
    let mut traffic = LocalTraffic::new()
        .context("cannot find the running hoptax program; was its file moved or removed?")?;
    run.run(&mut dir, &mut driver, &mut traffic, &mut Quiet)?;
    Ok(ReadRun::read(dir.path())?)
}
