//! Learns from earlier runs of a plan how much separate runs scatter on this machine, as `hoptax calibrate`
//! does. The index keeps the figures of each run, so that each run is analysed once.

use super::basis::{Basis, digest_of_plan};
use super::columns::json;
use super::scan::{self, Found};
use super::{HistoryError, State, Store};
use hoptax_analysis::{RunFigures, learn};
use hoptax_plan::{GatewayKind, Plan};
use hoptax_record::dir::Run;
use hoptax_record::{Environment, Machine, Origin, RunRecord, Shares, digest};
use rusqlite::{Connection, Error, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Minimum number of runs. Nobody asked for this calibration, so it needs twice as many runs as one that the
/// user requests.
const LEAST: usize = 8;
/// Maximum number of runs, so that little has to be read. Simulated intervals cover as well with 12 runs.
const MOST: usize = 40;
/// Maximum number of runs that are analysed before a run starts, so that the run starts within seconds. The
/// next run starts with the figures of these runs, and analyses as many others.
const AT_ONCE: usize = 12;
/// In place of the sample of a run that was not analysed yet.
const UNREAD: &str = "";

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "or from the newest {} to" number(LEAST);
    METHODOLOGY "to {} runs of the plan and versions" number(MOST);
}

/// What one run shows about scatter.
#[derive(Debug, Serialize, Deserialize)]
struct Sample {
    /// Digest of the plan and the machine.
    plan: String,
    /// Digest of everything else that changes figures: versions, configurations and idle CPUs.
    setup: String,
    started_unix_ns: u64,
    figures: RunFigures,
}

/// The shares of scatter that earlier runs of this plan on this machine show, and the number of these runs.
/// `root` is the directory with the run directories. `None` if fewer than eight runs count.
///
/// # Errors
/// If the directory cannot be read, or another process locks the index for too long.
pub fn learned_shares(
    root: &Path,
    plan: &Plan,
    environment: &Environment,
) -> Result<Option<(Shares, u32)>, HistoryError> {
    // hoptax does not start external gateways, so runs do not show how their processes differ.
    let is_external = plan.gateways.iter().any(|one| matches!(one.kind, GatewayKind::External { .. }));
    if is_external || plan.start.is_some() || !plan.is_local() {
        return Ok(None);
    }
    let found = scan::of_plan(root, &plan.name, MOST)?;
    if found.len() < LEAST {
        return Ok(None);
    }
    let store = Store::open(root)?;
    store.refresh_some(&found)?;
    let wanted = plan_on(&as_read(plan), environment);
    let samples = store.samples(&found)?.into_iter().filter(|sample| sample.plan == wanted);
    Ok(shares(&plan.name, samples))
}

/// The plan as it is read from a record. Numbers may differ in their last digit.
fn as_read(plan: &Plan) -> Plan {
    let text = serde_json::to_string(plan).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_else(|_| plan.clone())
}

fn plan_on(plan: &Plan, environment: &Environment) -> String {
    let machine = serde_json::to_string(&Machine::of(environment)).unwrap_or_default();
    digest(&format!("{} {machine}", digest_of_plan(plan)))
}

fn setup(record: &RunRecord) -> String {
    let versions: Vec<_> = record.contenders.iter().map(|one| (&one.label, &one.version)).collect();
    let gateways = Basis::of(record).gateways;
    let Environment { idle, governor, .. } = &record.environment;
    digest(&format!("{} {versions:?} {gateways:?} {idle:?} {governor:?}", record.hoptax))
}

/// The shares that the runs of the most common setup show.
fn shares(plan: &str, samples: impl Iterator<Item = Sample>) -> Option<(Shares, u32)> {
    let mut by_setup: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
    for sample in samples {
        by_setup.entry(sample.setup.clone()).or_default().push(sample);
    }
    let samples = by_setup.into_values().max_by_key(|runs| (runs.len(), runs[0].started_unix_ns))?;
    let (started, figures): (Vec<u64>, Vec<RunFigures>) =
        samples.into_iter().map(|sample| (sample.started_unix_ns, sample.figures)).unzip();
    let learned = learn(&figures).filter(|learned| learned.counted.len() >= LEAST)?;
    let started: Vec<u64> = learned.counted.iter().map(|index| started[*index]).collect();
    let runs = started.len() as u32;
    let (since, date) = (day(*started.iter().min()?), day(*started.iter().max()?));
    let origin = Origin::History { plan: plan.to_owned(), since, date, runs };
    Some((Shares { origin, ..learned.shares }, runs))
}

/// The day of a time in Unix nanoseconds, UTC: `2026-11-28`.
fn day(unix_ns: u64) -> String {
    let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(unix_ns)).to_string();
    time.split('T').next().unwrap_or_default().to_owned()
}

impl Sample {
    /// Reads and analyses a run. `None` if the run cannot be read, or had other machines.
    fn read(path: &Path) -> Option<Self> {
        let Run { record, trials, .. } = Run::read(path).ok().filter(|run| run.record.hosts.is_empty())?;
        Some(Self {
            plan: plan_on(&record.plan, &record.environment),
            setup: setup(&record),
            started_unix_ns: record.started_unix_ns,
            figures: RunFigures::new(&record, &trials),
        })
    }
}

impl Store {
    /// The samples of these runs, if they are complete.
    fn samples(&self, found: &[Found]) -> Result<Vec<Sample>, HistoryError> {
        let (mut samples, mut analysed) = (Vec::new(), 0);
        for one in found {
            let Some(kept) = self.attempt(|index| Ok(kept(index, one)?))? else { continue };
            if kept != UNREAD {
                samples.extend(serde_json::from_str::<Option<Sample>>(&kept).unwrap_or_default());
            } else if analysed < AT_ONCE {
                analysed += 1;
                // If a record crashes the analysis, only one start may fail.
                self.attempt(|index| Ok(keep(index, one, None)?))?;
                let sample = Sample::read(&one.path);
                self.attempt(|index| Ok(keep(index, one, sample.as_ref())?))?;
                samples.extend(sample);
            }
        }
        Ok(samples)
    }
}

/// The kept sample of a run as JSON, which is `null` if the run shows nothing, and [`UNREAD`] if the run was
/// not analysed yet. `None` if the run is not complete.
fn kept(index: &Connection, found: &Found) -> Result<Option<String>, Error> {
    let sql = "SELECT coalesce(sample, ?4) FROM runs LEFT JOIN scatter USING (run)
        WHERE id = ?1 AND mark = ?2 AND state = ?3 AND NOT starts";
    let values = params![found.id, found.mark(), State::Whole.name(), UNREAD];
    index.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()
}

/// Keeps the sample of a run, unless the run has changed meanwhile.
fn keep(index: &Connection, found: &Found, sample: Option<&Sample>) -> Result<(), Error> {
    let sql = "INSERT OR REPLACE INTO scatter (run, sample)
        SELECT run, ?3 FROM runs WHERE id = ?1 AND mark = ?2";
    index.prepare_cached(sql)?.execute(params![found.id, found.mark(), json(&sample)])?;
    Ok(())
}
