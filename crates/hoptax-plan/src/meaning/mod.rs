//! Converts the raw YAML types to a plan. Applies units, defaults and sweeps, and performs all checks that need no
//! running service.
//!
//! After an error, reading continues with a placeholder for the wrong value, so that all errors are reported at once. A
//! plan is returned only if there was no error.

mod body;
mod budget;
mod connections;
mod events;
mod expect;
mod features;
mod gateways;
mod hop_delay;
mod load;
mod rates;
mod reader;
mod retry;
mod running;
mod search;
mod target;
mod templates;
mod trials;
mod upstream;
mod warmup;

use super::error::{Fault, Sources};
use super::raw::{Placed, RawBudget, RawIdle, RawPlan, RawTarget, Sweep};
use super::{AccessLog, Budget, BudgetContext, Context, Plan, Profile, Running, Targets, Upstream};
use reader::Reader;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Checks and converts a whole plan. `stem` is the name of the plan's file without its extension.
pub(crate) fn understand(
    raw: RawPlan,
    stem: &str,
    context: &Context,
    sources: &Sources<'_>,
) -> Result<Plan, Vec<Fault>> {
    let mut reader = Reader { context, sources, faults: Vec::new(), files: BTreeMap::new() };
    let name = reader.name(raw.name, stem);
    let upstream = upstream::read(&mut reader, raw.upstream);
    let gateways = gateways::read(&mut reader, raw.gateways, &upstream.value);
    let targets = target::read(&mut reader, raw.target, &upstream.value);
    // Without `trials`, a plan has short trials and short warmups by default. A plan with events does not, because an
    // event happens at a fixed time within a trial, and a short trial could end before it.
    let typed = trials::Typed::latest(raw.trials, raw.time, raw.precision);
    let timed = typed.trials.is_none() && raw.events.as_ref().is_none_or(Vec::is_empty);
    let load = load::read(&mut reader, raw.load, &upstream, &targets, timed);
    let trials = trials::read(&mut reader, typed, timed);
    let (warmup, until_settled) = warmup::read(&mut reader, raw.warmup, timed);
    let pause = reader.time(raw.pause, Duration::ZERO);
    let timeout = connections::timeouts(&mut reader, raw.timeout, &upstream);
    let sources =
        connections::sources(&mut reader, raw.sources.unwrap_or_default(), &upstream.value, &gateways);
    let cpus = reader.cpus(raw.cpus);
    let events = events::read(&mut reader, raw.events.unwrap_or_default(), &upstream.value, &gateways, &load);
    let setting = budget::Setting { gateways: &gateways, load: &load, baseline: false };
    let budget = budget::read(&mut reader, raw.budget.unwrap_or_default(), &setting);
    if !reader.faults.is_empty() {
        return Err(reader.faults);
    }
    Ok(Plan {
        name,
        upstream: upstream.value,
        gateways,
        targets,
        files: reader.files,
        load,
        trials,
        warmup,
        until_settled,
        pause,
        timeout,
        sources,
        profile: raw.profile.unwrap_or(Profile::Equalised),
        access_log: raw.access_log.unwrap_or(AccessLog::Off),
        path_split: raw.path_split.unwrap_or_default(),
        cpus,
        idle: raw.idle.and_then(RawIdle::fixed),
        isolate: raw.isolate.unwrap_or(false),
        seed: raw.seed,
        events,
        budget,
    })
}

/// Checks and converts a list of targets that does not belong to a plan. The upstream is unknown in this case.
pub(crate) fn understand_targets(
    raw: Sweep<RawTarget>,
    context: &Context,
    sources: &Sources<'_>,
) -> Result<Targets, Vec<Fault>> {
    let mut reader = Reader { context, sources, faults: Vec::new(), files: BTreeMap::new() };
    let elsewhere = Upstream::Running(Running::default());
    let targets = target::list(&mut reader, raw, &elsewhere);
    match reader.faults.is_empty() {
        true => Ok(Targets { targets, files: reader.files }),
        false => Err(reader.faults),
    }
}

pub(crate) fn understand_budget(
    raw: Vec<Placed<RawBudget>>,
    context: &BudgetContext<'_>,
    sources: &Sources<'_>,
) -> Result<Vec<Budget>, Vec<Fault>> {
    let nothing = Context { cpus: 0, known: Vec::new(), directory: PathBuf::new() };
    let mut reader = Reader { context: &nothing, sources, faults: Vec::new(), files: BTreeMap::new() };
    let BudgetContext { plan, baseline } = *context;
    let setting = budget::Setting { gateways: &plan.gateways, load: &plan.load, baseline };
    let budget = budget::read(&mut reader, raw, &setting);
    if reader.faults.is_empty() { Ok(budget) } else { Err(reader.faults) }
}
