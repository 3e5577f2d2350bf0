//! From what was typed to what it means: units, defaults, sweeps, and every check that needs no running thing.
//!
//! A mistake does not end the reading: a stand-in takes the place of the wrong value, so that all mistakes are told at
//! once. A plan is handed out only when there was none.

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
mod running;
mod search;
mod target;
mod templates;
mod trials;
mod upstream;

use super::error::{Fault, Place, Sources};
use super::raw::{Auto, Placed, RawBudget, RawCpus, RawPlan, RawTarget, Short, Sweep};
use super::units::{self, UnitError};
use super::{
    AccessLog, Budget, BudgetContext, Context, CpuPlan, CpuSets, Plan, Profile, Running, Targets, Upstream,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Rounds beyond this would take weeks.
const MOST_TRIALS: u32 = 10_000;

/// Understands a whole plan; `stem` is its file's name without the ending.
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
    let load = load::read(&mut reader, raw.load, &upstream);
    let trials = trials::read(&mut reader, raw.trials);
    let warmup = reader.time(raw.warmup, Duration::from_secs(2));
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
        pause,
        timeout,
        sources,
        profile: raw.profile.unwrap_or(Profile::Equalised),
        access_log: raw.access_log.unwrap_or(AccessLog::Off),
        path_split: raw.path_split.unwrap_or_default(),
        cpus,
        isolate: raw.isolate.unwrap_or(false),
        seed: raw.seed,
        events,
        budget,
    })
}

/// Understands a list of targets that belongs to no plan; of what answers them nothing is known.
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

/// Understands a list of budgets that belongs to a run which is over.
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

/// What was understood of the upstream, and where its delay stands, for the checks that load and timeout need.
struct UpstreamRead {
    value: Upstream,
    delay_place: Option<Place>,
}

struct Reader<'a> {
    context: &'a Context,
    /// What was typed, for places inside of values.
    sources: &'a Sources<'a>,
    faults: Vec<Fault>,
    /// Files that templates take lines from, by the name that they give them.
    files: BTreeMap<String, PathBuf>,
}

impl Reader<'_> {
    fn fault(&mut self, place: Place, message: impl Into<String>, help: impl Into<String>) {
        self.faults.push(Fault::new(place, message, help));
    }

    /// Understands one value with a unit, or notes what is wrong with it.
    fn unit<T>(
        &mut self,
        typed: &Placed<impl AsRef<str>>,
        parse: impl FnOnce(&str) -> Result<T, UnitError>,
    ) -> Option<T> {
        parse(typed.value.as_ref()).map_err(|error| self.fault(typed.place, error.message, error.help)).ok()
    }

    fn time(&mut self, typed: Option<Placed<super::raw::Time>>, default: Duration) -> Duration {
        typed.and_then(|typed| self.unit(&typed, units::duration)).unwrap_or(default)
    }

    /// A count from 1 to `most`; above that a typing error is likelier than a wish.
    fn count(&mut self, typed: Option<&Placed<u32>>, key: &str, default: u32, most: u32) -> u32 {
        let Some(&Placed { place, value }) = typed else { return default };
        if value == 0 {
            self.fault(place, format!("`{key}` is zero"), "write 1 or more");
        } else if value > most {
            self.fault(place, format!("`{key}` is {value}"), format!("write {most} or less"));
        }
        value
    }

    fn name(&mut self, typed: Option<Placed<String>>, stem: &str) -> String {
        match typed {
            Some(name) => {
                self.check_file_name(&name, "name");
                name.value
            }
            None if is_file_name(stem) => stem.to_owned(),
            None => "plan".to_owned(),
        }
    }

    /// Names of plans and labels of gateways become names of directories.
    fn check_file_name(&mut self, name: &Placed<String>, what: &str) {
        if !is_file_name(&name.value) {
            self.fault(
                name.place,
                format!("the {what} `{}` cannot name a directory", name.value),
                "use up to 64 letters, digits, `.`, `_` and `-`, beginning with a letter or a digit",
            );
        }
    }

    fn cpus(&mut self, typed: Option<Placed<Short<RawCpus, Auto>>>) -> CpuPlan {
        match typed {
            None => CpuPlan::Auto,
            Some(Placed { value: Short::Word(word), .. }) if word.0 == "auto" => CpuPlan::Auto,
            Some(Placed { value: Short::Word(word), place }) => {
                self.fault(
                    place,
                    format!("unknown value `{}`", word.0),
                    "write auto, or { generator: \"0\", gateway: \"1\", upstream: \"2-3\" }",
                );
                CpuPlan::Auto
            }
            Some(Placed { value: Short::Full(sets), .. }) => CpuPlan::Pinned(CpuSets {
                generator: self.cpu_set(sets.generator),
                gateway: self.cpu_set(sets.gateway),
                upstream: self.cpu_set(sets.upstream),
            }),
        }
    }

    fn cpu_set(&mut self, typed: Option<Placed<super::raw::CpuList>>) -> Vec<u32> {
        let Some(typed) = typed else { return Vec::new() };
        let cpus = self.unit(&typed, units::cpu_list).unwrap_or_default();
        let count = self.context.cpus;
        if let Some(absent) = cpus.iter().find(|cpu| **cpu >= count) {
            let have = if count == 1 { "only CPU 0".to_owned() } else { format!("CPUs 0 to {}", count - 1) };
            self.fault(typed.place, format!("there is no CPU {absent}"), format!("this machine has {have}"));
        }
        cpus
    }
}

fn is_file_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}
