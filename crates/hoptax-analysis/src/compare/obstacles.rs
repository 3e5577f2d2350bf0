//! Checks the settings of two runs. Some settings must be equal, or the runs cannot be compared. If other
//! settings differ, the comparison has warnings.

use super::{Obstacle, Subject};
use crate::Side;
use crate::hosts::vantage::first_generator;
use crate::side::{counterpart, placed_differently};
use crate::starts::of_process;
use hoptax_plan::units::show_duration;
use hoptax_plan::{Gateway, GatewayKind, Idle, LoadPoint, PackDriver, Plan, Target, Upstream};
use hoptax_record::{Contender, Environment, Role, RunRecord, Setting};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// Maximum number of characters that a message quotes from a setting.
const QUOTED: usize = 120;

/// Reasons why the subjects cannot be compared. Empty for contenders of the same run.
pub(super) fn of_subjects(first: &Subject<'_>, second: &Subject<'_>) -> Vec<Obstacle> {
    match first.is_same_run(second) {
        true => Vec::new(),
        false => of_runs(first.side.run, second.side.run, &first.pairs_of_labels(second)),
    }
}

/// Reasons why figures of `second` cannot be compared with the figures of the same gateways in `first`.
pub fn obstacles(first: &Side<'_>, second: &Side<'_>) -> Vec<Obstacle> {
    let (a, b) = (first.run, second.run);
    let both = |label: &&str| b.contenders.iter().any(|other| other.label == **label);
    let labels: Vec<(&str, &str)> =
        a.contenders.iter().map(|one| one.label.as_str()).filter(both).map(|label| (label, label)).collect();
    of_runs(a, b, &labels)
}

/// Reasons why two runs cannot be compared. `labels` are the pairs of contenders to compare.
fn of_runs(a: &RunRecord, b: &RunRecord, labels: &[(&str, &str)]) -> Vec<Obstacle> {
    let mut found = Vec::new();
    let mut check = |what: &str, (a, b): (String, String)| {
        if a != b {
            let (a, b) = (quoted(&a), quoted(&b));
            let advice = format!("measure one of the runs again with the `{what}` of the other run");
            found.push(Obstacle { what: what.into(), a, b, advice });
        }
    };
    check("target", keys(&targets(&a.plan), &targets(&b.plan)));
    check("upstream", keys(&upstream(&a.plan.upstream), &upstream(&b.plan.upstream)));
    check("profile", keys(&a.plan.profile, &b.plan.profile));
    check("access_log", keys(&a.plan.access_log, &b.plan.access_log));
    check("timeout", keys(&a.plan.timeout, &b.plan.timeout));
    check("isolate", keys(&a.plan.isolate, &b.plan.isolate));
    // With the path split, the upstream spends time on adding timestamps to each answer.
    check("path_split", keys(&a.plan.path_split, &b.plan.path_split));
    let common = a.load.iter().any(|point| counterpart(point, b).is_some());
    if !common {
        check("load", (loads(&a.load), loads(&b.load)));
    }
    for (one, other) in labels {
        if one == other
            && let (Some(one), Some(other)) = (contender(a, one), contender(b, other))
            && one.kind != other.kind
        {
            found.push(Obstacle {
                what: format!("gateway `{}`", one.label),
                a: one.kind.clone(),
                b: other.kind.clone(),
                advice: format!(
                    "to compare different gateways on purpose, name them: --labels {},{}",
                    one.label, other.label
                ),
            });
        }
    }
    found
}

/// Warnings about other settings that differ and that may explain a difference between figures.
pub(super) fn warnings(first: &Subject<'_>, second: &Subject<'_>) -> Vec<String> {
    let (a, b) = (first.side.run, second.side.run);
    let mut warnings = Vec::new();
    if !first.is_same_run(second) {
        of_machines(a, b, &mut warnings);
        of_plans(a, b, &mut warnings);
        for (one, other) in first.pairs_of_labels(second) {
            of_contenders(contender(a, one), contender(b, other), (a, b), &mut warnings);
        }
        for (subject, other) in [(first, second), (second, first)] {
            for point in &subject.side.run.load {
                if counterpart(point, other.side.run).is_none() {
                    let load = point.describe();
                    warnings.push(match point.search {
                        Some(_) => format!("\"{load}\" is a search, and capacities are not compared."),
                        None => format!("\"{load}\" is only in {}, and is left out.", subject.name),
                    });
                }
            }
        }
    }
    warnings.extend(moved(first, second));
    warnings.extend(unsettled(first, second));
    for subject in [first, second] {
        let ended = subject.side.run.ended.as_ref();
        if ended.is_none_or(|ended| ended.interrupted || ended.failed.is_some()) {
            warnings.push(format!("{} ended before its last trial.", subject.name));
        }
    }
    warnings.dedup();
    warnings
}

/// Says that CPUs were placed differently in two runs. `None` for two contenders of the same run.
fn moved(first: &Subject<'_>, second: &Subject<'_>) -> Option<String> {
    let (one, other) = placed_differently(first.side, second.side)?;
    let [cpu, neighbor] = one.cpus;
    Some(format!(
        "CPUs {cpu} and {neighbor} were {:.0} ns apart in {} and {:.0} ns in {}: the hypervisor had placed \
         them differently. A difference counts only if the distance cannot explain it. The distance can \
         triple an added time, and double any other figure.",
        one.usual_ns, first.name, other.usual_ns, second.name
    ))
}

/// Names the gateways whose settled time is not compared, because its median is not known.
fn unsettled(first: &Subject<'_>, second: &Subject<'_>) -> Vec<String> {
    let of = |subject: &Subject<'_>, label: &str| {
        let starts = of_process(&subject.analysis.starts, label)?;
        let load = starts.figures.load.as_ref()?;
        let is_unknown = load.settled_s.is_some_and(|settled| settled.estimate.is_none());
        is_unknown.then(|| {
            format!(
                "`settled` of {label} in {} is not compared: in {} of {} starts it had not settled when its \
                load ended.",
                subject.name, load.unsettled, load.starts
            )
        })
    };
    let pairs = first.pairs_of_labels(second);
    pairs.iter().flat_map(|(one, other)| [of(first, one), of(second, other)]).flatten().collect()
}

fn of_machines(a: &RunRecord, b: &RunRecord, warnings: &mut Vec<String>) {
    if a.hosts.is_empty() && b.hosts.is_empty() {
        of_environments("", &a.environment, &b.environment, warnings);
    } else {
        for role in [Role::Generator, Role::Gateway, Role::Upstream] {
            let of = format!("{}: ", role.name());
            of_environments(&of, environment(a, role), environment(b, role), warnings);
        }
        for from in both_send(a, b) {
            let machine = |run| sender(run, from);
            if let Some((one, other)) = machine(a).zip(machine(b)) {
                of_environments(&format!("loads from {from}: "), one, other, warnings);
            }
        }
    }
    differs("Version of hoptax", &a.hoptax, &b.hoptax, warnings);
}

/// The machine of a role. If several machines have the role, the first one.
fn environment(run: &RunRecord, role: Role) -> &Environment {
    let host = match role {
        Role::Generator => first_generator(run).and_then(|name| run.hosts.get(name)),
        _ => run.hosts.values().find(|host| host.has(role)),
    };
    host.map_or(&run.environment, |host| &host.environment)
}

/// The hosts from which both runs send loads, except hosts to which the plan gives a role.
fn both_send<'a>(a: &'a RunRecord, b: &RunRecord) -> impl Iterator<Item = &'a str> {
    let (others, roles) = (b.plan.generators(), a.plan.roles.each());
    let mut senders = a.plan.generators();
    senders.retain(|name| others.contains(name) && roles.iter().all(|(_, host)| host != name));
    senders.into_iter()
}

/// The first machine of a host that sends loads.
fn sender<'r>(run: &'r RunRecord, host: &str) -> Option<&'r Environment> {
    let machines = run.plan.machines_of(host);
    machines.iter().find_map(|name| run.hosts.get(name)).map(|host| &host.environment)
}

fn of_environments(of: &str, one: &Environment, other: &Environment, warnings: &mut Vec<String>) {
    let gib = |bytes: u64| format!("{} GiB", bytes >> 30);
    for (what, one, other) in [
        ("Host", one.host.clone(), other.host.clone()),
        ("Processor", one.cpu.clone(), other.cpu.clone()),
        ("Number of CPUs", one.cpus.to_string(), other.cpus.to_string()),
        ("Memory", gib(one.memory_bytes), gib(other.memory_bytes)),
        ("Kernel", one.kernel.clone(), other.kernel.clone()),
        ("Clock source", or_none(one.clock_source.as_ref()), or_none(other.clock_source.as_ref())),
        ("Governor", or_none(one.governor.as_ref()), or_none(other.governor.as_ref())),
        ("Virtualisation", or_none(one.hypervisor.as_ref()), or_none(other.hypervisor.as_ref())),
        ("Idle CPUs", idle(one.idle), idle(other.idle)),
    ] {
        differs(&format!("{of}{what}"), &one, &other, warnings);
    }
}

/// What idle CPUs did. Versions that did not record it let idle CPUs sleep.
fn idle(idle: Option<Idle>) -> String {
    words(&idle.unwrap_or(Idle::Sleep))
}

fn of_plans(a: &RunRecord, b: &RunRecord, warnings: &mut Vec<String>) {
    let (one, other) = (&a.plan, &b.plan);
    for (what, (one, other)) in [
        ("CPU pinning", keys(&one.cpus, &other.cpus)),
        ("Warm-up", keys(&one.warmup, &other.warmup)),
        ("Pause", keys(&one.pause, &other.pause)),
        ("Source addresses", keys(&one.sources, &other.sources)),
    ] {
        differs(what, &one, &other, warnings);
    }
    // A run of starts has a single load point, which has this duration, so nothing else remains to compare.
    if let (Some(one), Some(other)) = (one.start, other.start) {
        let (one, other) = (show_duration(one.duration), show_duration(other.duration));
        differs("Load after each start (`start.for`)", &one, &other, warnings);
        return;
    }
    for point in &a.load {
        if let Some(other) = counterpart(point, b).map(|at| &b.load[at])
            && point.duration != other.duration
        {
            let (one, other) = (point.duration.as_secs_f64(), other.duration.as_secs_f64());
            warnings.push(format!(
                "Trials of \"{}\" last {one} s in one run and {other} s in the other run.",
                point.describe()
            ));
        }
    }
}

fn of_contenders(
    one: Option<&Contender>,
    other: Option<&Contender>,
    (a, b): (&RunRecord, &RunRecord),
    warnings: &mut Vec<String>,
) {
    let (Some(one), Some(other)) = (one, other) else { return };
    let label = match one.label == other.label {
        true => one.label.clone(),
        false => format!("{} and {}", one.label, other.label),
    };
    if one.kind != other.kind {
        return;
    }
    let about = |what: &str| format!("{what} of {label}");
    differs(&about("Version"), &or_none(one.version.as_ref()), &or_none(other.version.as_ref()), warnings);
    let workers = |one: &Contender| one.workers.map_or("none".into(), |count| count.to_string());
    differs(&about("Workers"), &workers(one), &workers(other), warnings);
    differs(&about("Features"), &features(a, &one.label), &features(b, &other.label), warnings);
    differs(&about("Driver"), &driver(a, &one.label), &driver(b, &other.label), warnings);
    let (before, after) = (upstream_http2(a, &one.label), upstream_http2(b, &other.label));
    differs(&about("HTTP/2 to the upstream"), before, after, warnings);
    let (before, after) = (beyond(&one.settings, &other.settings), beyond(&other.settings, &one.settings));
    if before != after {
        warnings.push(format!("Settings of {label} differ: {} and {}.", quoted(&before), quoted(&after)));
    }
}

/// `on` if the plan requires HTTP/2 to the upstream of this contender.
fn upstream_http2(run: &RunRecord, label: &str) -> &'static str {
    let gateway = run.plan.gateways.iter().find(|gateway| gateway.label == label);
    if gateway.is_some_and(Gateway::has_http2_upstream) { "on" } else { "off" }
}

/// The settings that the other contender does not have.
fn beyond(settings: &[Setting], others: &[Setting]) -> String {
    let beyond = settings.iter().filter(|setting| !others.contains(setting));
    let names: Vec<&str> = beyond.map(|setting| setting.setting.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn differs(what: &str, one: &str, other: &str, warnings: &mut Vec<String>) {
    if one != other {
        warnings.push(format!("{what} differs: {} and {}.", quoted(one), quoted(other)));
    }
}

fn contender<'a>(run: &'a RunRecord, label: &str) -> Option<&'a Contender> {
    run.contenders.iter().find(|one| one.label == label)
}

fn features(run: &RunRecord, label: &str) -> String {
    let gateway = run.plan.gateways.iter().find(|gateway| gateway.label == label);
    match gateway.map(|gateway| &gateway.kind) {
        Some(GatewayKind::Pack { features, .. }) if !features.is_empty() => {
            features.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
        _ => "none".into(),
    }
}

fn driver(run: &RunRecord, label: &str) -> String {
    let gateway = run.plan.gateways.iter().find(|gateway| gateway.label == label);
    match gateway.map(|gateway| &gateway.kind) {
        Some(GatewayKind::Pack { driver: PackDriver::Docker { image }, .. }) => {
            image.as_ref().map_or_else(|| "docker".to_owned(), |image| format!("docker, {image}"))
        }
        _ => "process".into(),
    }
}

fn targets(plan: &Plan) -> Vec<Target> {
    // Names are only for reports.
    plan.targets.iter().map(|target| Target { name: String::new(), ..target.clone() }).collect()
}

/// The upstream's settings without its port, because the port does not affect the answers.
fn upstream(upstream: &Upstream) -> Upstream {
    let mut upstream = upstream.clone();
    if let Upstream::BuiltIn(built_in) = &mut upstream {
        built_in.port = None;
    }
    upstream
}

fn loads(points: &[LoadPoint]) -> String {
    points.iter().map(LoadPoint::describe).collect::<Vec<_>>().join("; ")
}

fn or_none(value: Option<&String>) -> String {
    value.cloned().unwrap_or_else(|| "unknown".into())
}

/// The value as it appears in `run.json`.
fn words(value: &impl Serialize) -> String {
    shown(&serde_json::to_value(value).unwrap_or_default())
}

/// The parts of two settings that differ, with their keys, such as `delay: 0ms` and `delay: 5ms`. Equal
/// settings give equal texts.
fn keys(one: &impl Serialize, other: &impl Serialize) -> (String, String) {
    let value = |of: Result<Value, _>| of.unwrap_or_default();
    let mut parts = Vec::new();
    difference("", &value(serde_json::to_value(one)), &value(serde_json::to_value(other)), &mut parts);
    let texts = |pick: fn(&(String, Value, Value)) -> &Value| {
        let one = |part: &(String, Value, Value)| match part.0.as_str() {
            "" => shown(pick(part)),
            key => format!("{key}: {}", shown(pick(part))),
        };
        parts.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    (texts(|part| &part.1), texts(|part| &part.2))
}

/// Adds each differing part of two values, with the path of its key. Goes into objects with the same keys and
/// into lists of the same length.
fn difference(key: &str, one: &Value, other: &Value, parts: &mut Vec<(String, Value, Value)>) {
    let below = |name: &str| match (key, is_variant(name)) {
        (key, true) => key.to_owned(),
        ("", false) => name.to_owned(),
        (key, false) => format!("{key}.{name}"),
    };
    match (one, other) {
        _ if one == other => {}
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) && duration(one).is_none() => {
            for (name, value) in a {
                difference(&below(name), value, &b[name], parts);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (value, other)) in a.iter().zip(b).enumerate() {
                let name = if a.len() == 1 { key.to_owned() } else { below(&index.to_string()) };
                difference(&name, value, other, parts);
            }
        }
        _ => parts.push((key.to_owned(), one.clone(), other.clone())),
    }
}

/// True for names in `run.json` that say which kind of value follows. Plans do not contain these names.
fn is_variant(name: &str) -> bool {
    ["built-in", "running", "size", "text", "file", "fixed", "uniform"].contains(&name)
}

/// A duration as `run.json` has it.
fn duration(value: &Value) -> Option<Duration> {
    let (seconds, nanos) = (value.get("secs")?.as_u64()?, value.get("nanos")?.as_u64()?);
    Some(Duration::new(seconds, u32::try_from(nanos).ok()?))
}

/// A value of `run.json` as a person would write it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".into(),
        Value::Object(members) => match (duration(value), members.iter().next()) {
            (Some(duration), _) => show_duration(duration),
            (None, Some((name, inner))) if members.len() == 1 => match is_variant(name) {
                true => shown(inner),
                false => format!("{name}: {}", shown(inner)),
            },
            _ => {
                let each = members.iter().map(|(name, inner)| format!("{name}: {}", shown(inner)));
                each.collect::<Vec<_>>().join(", ")
            }
        },
        Value::Array(values) if values.is_empty() => "none".into(),
        Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// The text, shortened if it is longer than [`QUOTED`].
fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_string(),
    }
}
