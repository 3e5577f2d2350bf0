//! Converts the raw YAML types to a plan. Applies units, defaults and sweeps, and performs all checks that
//! need no running service.
//!
//! After an error, reading continues with a placeholder for the wrong value, so that all errors are reported
//! at once. A plan is returned only if there was no error.

mod answers;
mod body;
mod budget;
mod chunked;
mod connections;
mod cpu_profile;
mod events;
mod expect;
mod features;
mod gateways;
mod generators;
mod grpc;
mod hop_delay;
mod host_kind;
mod hosts;
mod http;
mod kubernetes;
mod llm;
mod load;
mod passing;
mod rates;
mod reader;
mod replacements;
mod retry;
mod running;
mod search;
mod server_events;
mod start;
mod streams;
mod tail;
mod target;
mod templates;
mod terraform;
mod translations;
mod trials;
mod upstream;
mod versions;
mod warmup;
mod websocket;
mod words;

use super::error::{Fault, Place, Sources};
use super::raw::{Placed, RawAnswer, RawBudget, RawIdle, RawLoad, RawPlan, RawTarget, Short, Sweep};
use super::{
    AccessLog, Answer, Budget, BudgetContext, Context, LOCAL, LoadPoint, PathSplit, Plan, Profile, Running,
    Start, Targets, Trials, Upstream,
};
use reader::Reader;
use std::path::PathBuf;
use std::time::Duration;
pub use tail::tail_obstacle;

/// Checks and converts a whole plan. `stem` is the name of the plan's file without its extension.
pub(crate) fn understand(
    raw: RawPlan,
    stem: &str,
    context: &Context,
    sources: &Sources<'_>,
) -> Result<Plan, Vec<Fault>> {
    let mut reader = Reader::new(context, sources);
    let start = start::read(&mut reader, &raw);
    let name = reader.name(raw.name, stem);
    let mut upstream = upstream::read(&mut reader, raw.upstream);
    let entries = replacements::entries(&raw.gateways);
    let passing = passing::entries(&reader, &raw.gateways);
    let priced = raw
        .gateways
        .iter()
        .any(|typed| matches!(&typed.value, Short::Full(gateway) if gateway.features.is_some()));
    let (profile, access_log) =
        (raw.profile.unwrap_or(Profile::Equalised), raw.access_log.unwrap_or(AccessLog::Off));
    let uses = http::Uses::of(raw.load.as_ref(), grpc::are_typed(raw.target.as_ref()));
    let settings = (profile, access_log);
    let mut gateways = gateways::read(&mut reader, raw.gateways, &upstream.value, settings, uses);
    let replacements = replacements::read(&mut reader, &entries, &gateways);
    target::check_rate_limits(&mut reader, raw.target.as_ref(), &gateways);
    let models = raw.target.iter().flat_map(|typed| &typed.0).find_map(|target| target.value.llm.as_ref());
    let model_place = models.map(|typed| typed.place);
    let mut targets = translations::read_targets(&mut reader, raw.target, &upstream.value, &mut gateways);
    llm::check_keys(&mut reader, model_place, &targets, &gateways);
    llm::set_goodput(&mut reader, raw.goodput, &mut targets);
    if let Upstream::BuiltIn(built_in) = &upstream.value
        && built_in.varies()
    {
        targets.iter_mut().for_each(|target| target.varies = true);
    }
    passing::check(&mut reader, passing, &targets);
    streams::set_upstream(&mut reader, &targets, &mut upstream.value);
    let imported = raw.imported.map(|typed| answers::imported(&mut reader, typed));
    // Without `trials`, a plan has short trials and short warmups by default. A plan with events does not,
    // because an event happens at a fixed time within a trial, and a short trial could end before it.
    let typed = trials::Typed::latest(raw.trials, raw.time, raw.precision);
    let timed = typed.trials.is_none() && raw.events.as_ref().is_none_or(Vec::is_empty);
    let divided = generators::Divided::of(raw.load.as_ref(), raw.start.as_ref());
    let from = hosts::sending(raw.load.as_ref());
    let typed_generator = raw.roles.as_ref().and_then(|roles| roles.generator.as_ref());
    let generator = typed_generator.map_or_else(|| LOCAL.to_owned(), |host| host.value.clone());
    let setting = load::Setting { upstream: &upstream, targets: &targets, timed, generator: &generator };
    let load = read_load(&mut reader, raw.load, (start, priced), &setting);
    grpc::check_load(&mut reader, &load);
    streams::check_load(&mut reader, &load, &targets, raw.start.as_ref().map(|typed| typed.place));
    let trials = trials::read(&mut reader, typed, timed);
    let trials = start.map_or(trials, |start| Trials::Fixed(start.times));
    // A process settles by its requests, and endless messages let no request end.
    let may_settle = raw.warmup.is_some() || !targets.iter().any(streams::is_endless);
    let (warmup, until_settled) = warmup::read(&mut reader, raw.warmup, timed && may_settle);
    let until_settled = until_settled.filter(|_| may_settle);
    let restarts = trials::restarts(&mut reader, raw.restarts, raw.isolate.as_ref());
    let pause = reader.time(raw.pause, Duration::ZERO);
    let timeout = connections::timeouts(&mut reader, raw.timeout, &upstream);
    chunked::check_pauses(&mut reader, &timeout);
    streams::check_lengths(&mut reader, &timeout, &load);
    let hosts = hosts::Typed { hosts: raw.hosts, roles: raw.roles, from };
    let hosts = hosts::read(&mut reader, hosts, &upstream, &gateways);
    divided.check(&mut reader, &hosts);
    let sources = connections::sources(&mut reader, raw.sources.unwrap_or_default(), &hosts, &upstream.value);
    let cpu_profile = cpu_profile::read(&mut reader, raw.cpu_profile);
    let tail = tail::read(&mut reader, raw.tail, &upstream.value, (&load, &hosts.roles));
    // Slow requests cannot be explained without the upstream's time stamps.
    let path_split = if tail.is_some() { PathSplit::On } else { raw.path_split.unwrap_or_default() };
    let cpus = reader.cpus(raw.cpus, &hosts.roles);
    let events = events::read(&mut reader, raw.events.unwrap_or_default(), &upstream.value, &gateways, &load);
    let setting = budget::Setting {
        gateways: &gateways,
        targets: &targets,
        upstream: &upstream.value,
        load: &load,
        baseline: false,
        starts: start.is_some(),
    };
    let budget = budget::read(&mut reader, raw.budget.unwrap_or_default(), &setting);
    if !reader.faults.is_empty() {
        return Err(reader.faults);
    }
    Ok(Plan {
        name,
        upstream: upstream.value,
        gateways,
        replacements,
        targets,
        imported,
        files: reader.files,
        secrets: reader.secrets,
        load,
        trials,
        start,
        warmup,
        until_settled,
        pause,
        timeout,
        sources,
        profile,
        access_log,
        path_split,
        cpu_profile,
        tail,
        cpus,
        idle: raw.idle.and_then(RawIdle::fixed),
        isolate: raw.isolate.is_some_and(|typed| typed.value),
        restarts,
        seed: raw.seed,
        events,
        budget,
        hosts: hosts.hosts,
        roles: hosts.roles,
    })
}

/// Converts the load. Only plans with `start` and plans with features (`priced`) have a default load.
fn read_load(
    reader: &mut Reader<'_>,
    typed: Option<Placed<Vec<Placed<RawLoad>>>>,
    (start, priced): (Option<Start>, bool),
    setting: &load::Setting<'_>,
) -> Vec<LoadPoint> {
    match (typed, start) {
        (None, Some(start)) => vec![start::default_load(start)],
        (None, None) if priced => load::of_features(setting),
        (None, None) => {
            let place = Place { line: 1, column: 1, ..Place::default() };
            reader.fault(place, "missing key `load`", "add `load: …`");
            Vec::new()
        }
        (Some(typed), start) => {
            let place = typed.place;
            let mut points = load::read(reader, typed, setting);
            if let Some(start) = start {
                start::fit_load(reader, start, place, &mut points);
            }
            points
        }
    }
}

/// Checks and converts a list of targets that does not belong to a plan. The upstream is unknown in this
/// case.
pub(crate) fn understand_targets(
    raw: Sweep<RawTarget>,
    context: &Context,
    sources: &Sources<'_>,
) -> Result<Targets, Vec<Fault>> {
    let mut reader = Reader::new(context, sources);
    let elsewhere = Upstream::Running(Running::default());
    let targets = target::list(&mut reader, raw, &elsewhere);
    match reader.faults.is_empty() {
        true => Ok(Targets { targets, files: reader.files }),
        false => Err(reader.faults),
    }
}

/// Checks and converts one answer of the built-in upstream that does not belong to a plan.
pub(crate) fn understand_answer(
    raw: RawAnswer,
    context: &Context,
    sources: &Sources<'_>,
) -> Result<Answer, Vec<Fault>> {
    let mut reader = Reader::new(context, sources);
    let answer = answers::read(&mut reader, raw);
    if reader.faults.is_empty() { Ok(answer) } else { Err(reader.faults) }
}

pub(crate) fn understand_budget(
    raw: Vec<Placed<RawBudget>>,
    context: &BudgetContext<'_>,
    sources: &Sources<'_>,
) -> Result<Vec<Budget>, Vec<Fault>> {
    let nothing = Context { cpus: 0, known: Vec::new(), directory: PathBuf::new() };
    let mut reader = Reader::new(&nothing, sources);
    let BudgetContext { plan, baseline } = *context;
    let starts = plan.start.is_some();
    let Plan { gateways, targets, upstream, load, .. } = plan;
    let setting = budget::Setting { gateways, targets, upstream, load, baseline, starts };
    let budget = budget::read(&mut reader, raw, &setting);
    if reader.faults.is_empty() { Ok(budget) } else { Err(reader.faults) }
}
