//! Converts plans to and from their form on disk (`record::plan`), and reads runs.
//!
//! Reading can fail, because features are stored as words. A newer hoptax may have written a word that this
//! version does not know.

mod gateway;
mod host;
mod load;
mod shared;
mod upstream;

pub use shared::UnknownWord;

use super::{Budget, Event, Gateway, Host, LoadPoint, Plan, Target, Trials};
use hoptax_record::dir::{self, DirError, RUN};
use hoptax_record::{self as record, plan as kept};
use shared::to_disk_all;
use std::path::Path;

/// The content of `run.json`, with a converted plan.
pub type RunRecord = record::RunRecord<Plan, LoadPoint>;
/// A run directory with a converted plan.
pub type Run = dir::Run<Plan, LoadPoint>;

/// Reads a run directory. The run may have been killed before its end. If the run had a time limit, some of
/// its trials are [set aside](record::mark_aside).
///
/// # Errors
/// If there is no `run.json`, or it was not written by hoptax, or it was written by a newer version.
pub fn read(path: &Path) -> Result<Run, DirError> {
    let dir::Run { path, record, mut trials, starts, profiles, unreadable } = dir::Run::read(path)?;
    let record = understood(record, &path)?;
    if record.plan.trials.time_only().is_some() {
        record::mark_aside(&mut trials, record.plan.until_settled.is_some());
    }
    Ok(Run { path, record, trials, starts, profiles, unreadable })
}

/// Reads only the `run.json` of a run directory.
///
/// # Errors
/// If there is no `run.json`, or it was not written by hoptax, or it was written by a newer version.
pub fn read_run(path: &Path) -> Result<RunRecord, DirError> {
    understood(dir::read_run(path)?, path)
}

fn understood(record: record::RunRecord, directory: &Path) -> Result<RunRecord, DirError> {
    let (plan, load) = (Plan::try_from(record.plan.clone()), record.load.clone());
    let plan = plan.map_err(|word| DirError::foreign(&directory.join(RUN), &word))?;
    Ok(record.with_plan(plan, load.into_iter().map(LoadPoint::from).collect()))
}

/// Converts a record to its form on disk.
pub fn to_disk(record: &RunRecord) -> record::RunRecord {
    let load = record.load.iter().map(kept::LoadPoint::from).collect();
    record.clone().with_plan(kept::Plan::from(&record.plan), load)
}

impl From<&Plan> for kept::Plan {
    fn from(plan: &Plan) -> Self {
        Self {
            name: plan.name.clone(),
            upstream: (&plan.upstream).into(),
            gateways: to_disk_all(&plan.gateways),
            replacements: plan.replacements.clone(),
            targets: to_disk_all(&plan.targets),
            imported: plan.imported.clone(),
            files: plan.files.clone(),
            load: to_disk_all(&plan.load),
            trials: match plan.trials {
                Trials::Fixed(rounds) => kept::Trials::Fixed(rounds),
                Trials::Auto(auto) => kept::Trials::Auto(auto),
            },
            start: plan.start,
            warmup: plan.warmup,
            until_settled: plan.until_settled,
            pause: plan.pause,
            timeout: plan.timeout,
            sources: plan.sources.clone(),
            profile: plan.profile,
            access_log: plan.access_log,
            path_split: plan.path_split,
            cpu_profile: plan.cpu_profile,
            cpus: plan.cpus.clone(),
            idle: plan.idle,
            isolate: plan.isolate,
            seed: plan.seed,
            events: to_disk_all(&plan.events),
            budget: to_disk_all(&plan.budget),
            hosts: to_disk_all(&plan.hosts),
            roles: plan.roles.clone(),
        }
    }
}

impl TryFrom<kept::Plan> for Plan {
    type Error = UnknownWord;

    fn try_from(plan: kept::Plan) -> Result<Self, UnknownWord> {
        Ok(Self {
            name: plan.name,
            upstream: plan.upstream.into(),
            gateways: plan.gateways.into_iter().map(Gateway::try_from).collect::<Result<_, _>>()?,
            replacements: plan.replacements,
            targets: plan.targets.into_iter().map(Target::from).collect(),
            imported: plan.imported,
            files: plan.files,
            secrets: Vec::new(),
            load: plan.load.into_iter().map(LoadPoint::from).collect(),
            trials: match plan.trials {
                kept::Trials::Fixed(rounds) => Trials::Fixed(rounds),
                kept::Trials::Auto(auto) => Trials::Auto(auto),
            },
            start: plan.start,
            warmup: plan.warmup,
            until_settled: plan.until_settled,
            pause: plan.pause,
            timeout: plan.timeout,
            sources: plan.sources,
            profile: plan.profile,
            access_log: plan.access_log,
            path_split: plan.path_split,
            cpu_profile: plan.cpu_profile,
            cpus: plan.cpus,
            idle: plan.idle,
            isolate: plan.isolate,
            seed: plan.seed,
            events: plan.events.into_iter().map(Event::from).collect(),
            budget: plan.budget.into_iter().map(Budget::from).collect(),
            hosts: plan.hosts.into_iter().map(Host::from).collect(),
            roles: plan.roles,
        })
    }
}
