//! Reads budgets. A limit is a value in the metric's unit or a relative change.

use super::http;
use super::reader::Reader;
use crate::calls::kind_name;
use crate::de::one_of;
use crate::error::Place;
use crate::raw::{Limit, Placed, RawBudget, RawLoadSelector, RawLoop};
use crate::units::{self, nearest, show_budget_value, show_change};
use crate::{Budget, Gateway, LoadPoint, LoadSelector, Metric, Target, Upstream};
use hoptax_format::messages::StreamKind;
use hoptax_format::spec::Shape;
use hoptax_record::{DIRECT, Times};
use std::collections::BTreeSet;

/// The run that budgets are checked against.
pub(super) struct Setting<'a> {
    /// The gateways that can have a budget.
    pub(super) gateways: &'a [Gateway],
    /// The targets of the plan.
    pub(super) targets: &'a [Target],
    /// The upstream of the plan.
    pub(super) upstream: &'a Upstream,
    /// The load points that a budget can select.
    pub(super) load: &'a [LoadPoint],
    /// Whether there is a baseline run to compare with.
    pub(super) baseline: bool,
    /// Whether the run measures starts of gateways instead of trials.
    pub(super) starts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    /// A value in the metric's unit.
    Value(f64),
    /// A change relative to the reference.
    Change(f64),
}

pub(super) fn read(
    reader: &mut Reader<'_>,
    typed: Vec<Placed<RawBudget>>,
    setting: &Setting<'_>,
) -> Vec<Budget> {
    let mut seen = BTreeSet::new();
    typed.into_iter().map(|entry| read_one(reader, entry, setting, &mut seen)).collect()
}

fn read_one(
    reader: &mut Reader<'_>,
    Placed { place, value: entry }: Placed<RawBudget>,
    setting: &Setting<'_>,
    seen: &mut BTreeSet<String>,
) -> Budget {
    let metric = entry.metric.value;
    check_measured(reader, &entry.metric, setting);
    if !setting.starts {
        check_streams(reader, &entry.metric, setting);
    }
    let mut budget = Budget::of(metric);
    for (label, others) in [(&entry.gateway, &[][..]), (&entry.against, &[DIRECT])] {
        if let Some(label) = label {
            check_label(reader, label, setting.gateways, others);
        }
    }
    budget.load = selector(reader, entry.load.as_ref(), setting.load);
    let max = entry.max.as_ref().and_then(|max| bound(reader, metric, max));
    let min = entry.min.as_ref().and_then(|min| bound(reader, metric, min));
    match (max, min, &entry.min) {
        (Some(Bound::Value(max)), Some(Bound::Value(min)), Some(typed)) if min > max => {
            let (min, max) = (show_budget_value(metric, min), show_budget_value(metric, max));
            min_above_max(reader, typed.place, &min, &max);
        }
        (Some(Bound::Change(max)), Some(Bound::Change(min)), Some(typed)) if min > max => {
            min_above_max(reader, typed.place, &show_change(min), &show_change(max));
        }
        _ => {}
    }
    budget.gateway = entry.gateway.map(|label| label.value);
    budget.against = entry.against.as_ref().map(|label| label.value.clone());
    for (bound, value, change) in
        [(max, &mut budget.max, &mut budget.max_change), (min, &mut budget.min, &mut budget.min_change)]
    {
        match bound {
            Some(Bound::Value(limit)) => *value = Some(limit),
            Some(Bound::Change(limit)) => *change = Some(limit),
            None => {}
        }
    }
    if entry.max.is_none() && entry.min.is_none() {
        reader.fault(place, "this budget has no limit", "add `max: …` or `min: …`");
    }
    check_relation(reader, place, &budget, entry.against.as_ref(), setting);
    refuse_duplicates(reader, place, &budget, seen);
    budget
}

/// Refuses a metric that the run does not measure.
fn check_measured(reader: &mut Reader<'_>, typed: &Placed<Metric>, setting: &Setting<'_>) {
    let Placed { place, value: metric } = *typed;
    if metric.is_start() == setting.starts {
        return;
    }
    let name = metric.name();
    if setting.starts {
        let names = Metric::STARTS.map(Metric::name);
        let help = format!("use {}, or write another plan, without `start`", one_of(&names));
        reader.fault(place, format!("a run with `start` does not measure `{name}`"), help);
    } else {
        let help = "remove this budget, or write a plan with `start` for it";
        reader.fault(place, format!("only a run with `start` measures `{name}`"), help);
    }
}

/// Refuses a metric of messages that no call of the plan has.
fn check_streams(reader: &mut Reader<'_>, typed: &Placed<Metric>, setting: &Setting<'_>) {
    const ALL: [StreamKind; 3] = [StreamKind::ServerStream, StreamKind::ClientStream, StreamKind::BothWays];
    let Placed { place, value: metric } = *typed;
    let of_all = [Metric::CpuUsPerMessage, Metric::CpuUsPerStreamSecond, Metric::BytesPerStream];
    if [Metric::GoodputShare, Metric::GoodRate].contains(&metric) {
        if !setting.targets.iter().any(Target::has_goodput) {
            let message = format!("only plans with `goodput` have `{}`", metric.name());
            reader.fault(place, message, "add `goodput: { first_content: 300ms }`, or remove this budget");
        }
        return;
    }
    let mut streams = setting.targets.iter().filter_map(|target| target.stream);
    if Metric::OF_TOKENS.iter().any(|of| [Some(*of), of.plain()].contains(&Some(metric))) {
        if !streams.any(|stream| stream.tokens.is_some()) {
            let message = format!("only streams of tokens (`llm`) have `{}`", metric.name());
            reader.fault(place, message, "remove this budget, or add such a target");
        } else if (metric == Metric::ExtraTokensPerStream || metric.times() == Some(Times::FirstAge))
            && !matches!(setting.upstream, Upstream::BuiltIn(_))
        {
            let what = "needs the built-in upstream, which writes times and counts tokens";
            reader.fault(place, format!("`{}` {what}", metric.name()), "remove this budget, or `url`");
        }
        return;
    }
    let kinds: &[StreamKind] = match (metric, metric.times()) {
        (_, Some(Times::Reach)) => {
            if !streams.any(|stream| stream.fan_out) {
                let message = format!("only WebSockets with `kind: fan-out` have `{}`", metric.name());
                reader.fault(place, message, "remove this budget, or add such a target");
            }
            return;
        }
        (_, Some(Times::Message)) => &[StreamKind::BothWays],
        (_, Some(Times::Age)) => &[StreamKind::ServerStream],
        (_, Some(Times::Gap)) => &[StreamKind::ServerStream, StreamKind::BothWays],
        (_, Some(Times::FirstMessage | Times::Headers)) => &ALL,
        _ if of_all.contains(&metric) => &ALL,
        _ => return,
    };
    if streams.any(|stream| kinds.contains(&stream.kind)) {
        if metric.times() == Some(Times::Age) && !matches!(setting.upstream, Upstream::BuiltIn(_)) {
            let message = format!("`{}` needs the built-in upstream, which writes times", metric.name());
            reader.fault(place, message, "remove this budget, or `url`");
        }
        let mut targets = setting.targets.iter();
        if of_all.contains(&metric) && targets.any(|target| target.stream.is_none()) {
            let message = format!("`{}` needs a plan in which all targets have streams", metric.name());
            reader.fault(place, message, "use `cpu_us_per_request`, or remove the other targets");
        }
        let of_loops = setting.load.iter().filter(|point| point.shape == Shape::Closed);
        let numbers: BTreeSet<u64> = of_loops.map(LoadPoint::concurrency).collect();
        if metric == Metric::BytesPerStream && !setting.load.is_empty() && numbers.len() < 2 {
            let message = "`bytes_per_stream` needs closed loops with two numbers of streams";
            reader.fault(place, message, "write `connections: [100, 1000]`, for example");
        }
        return;
    }
    let kinds: Vec<&str> = kinds.iter().map(|kind| kind_name(Some(*kind))).collect();
    let message = format!("only calls with `kind: {}` have `{}`", one_of(&kinds), metric.name());
    reader.fault(place, message, "remove this budget, or add `kind` to the target's `grpc`");
}

fn min_above_max(reader: &mut Reader<'_>, place: Place, min: &str, max: &str) {
    let message = format!("`min` ({min}) is above `max` ({max})");
    reader.fault(place, message, "swap `min` and `max`");
}

/// Parses a limit. A limit with a sign is a change. A limit without a sign is a value in the metric's unit.
fn bound(reader: &mut Reader<'_>, metric: Metric, typed: &Placed<Limit>) -> Option<Bound> {
    if !typed.value.0.trim_start().starts_with(['+', '-', '−']) {
        return reader.unit(typed, |text| units::budget_value(metric, text)).map(Bound::Value);
    }
    let change = reader.unit(typed, units::change)?;
    if metric.is_mostly_zero() {
        let message = format!("`{}` is zero for most gateways, so it has no relative change", metric.name());
        reader.fault(typed.place, message, "write a limit without a sign, such as 0.1%");
        return None;
    }
    Some(Bound::Change(change))
}

/// Checks that a budget has a reference if it has a relative limit, and that it has no reference otherwise.
fn check_relation(
    reader: &mut Reader<'_>,
    place: Place,
    budget: &Budget,
    against: Option<&Placed<String>>,
    setting: &Setting<'_>,
) {
    match against {
        None if budget.is_relative() && !setting.baseline => reader.fault(
            place,
            "this limit is relative, but there is nothing to compare with",
            "add `against: LABEL` (another gateway of the plan), or move the budget to a file for \
             `hoptax gate RUN --budget FILE --baseline RUN`",
        ),
        Some(typed) if budget.gateway.as_ref() == Some(&typed.value) => {
            reader.fault(typed.place, "`gateway` and `against` are the same", "use another label");
        }
        Some(typed) if !budget.is_relative() && (budget.max.is_some() || budget.min.is_some()) => reader
            .fault(
                typed.place,
                "`against` needs a relative limit",
                "write the limit with a sign, such as `max: +10%`, or remove `against`",
            ),
        _ => {}
    }
}

fn refuse_duplicates(reader: &mut Reader<'_>, place: Place, budget: &Budget, seen: &mut BTreeSet<String>) {
    let Budget { gateway, metric, load, against, .. } = budget;
    for (bound, given) in [
        ("max", budget.max.is_some()),
        ("min", budget.min.is_some()),
        ("max", budget.max_change.is_some()),
        ("min", budget.min_change.is_some()),
    ] {
        let key = format!("{gateway:?} {metric:?} {load:?} {against:?} {bound} {}", budget.is_relative());
        if given && !seen.insert(key) {
            let of = gateway.as_deref().map_or("every gateway".to_owned(), |label| format!("`{label}`"));
            let message = format!("`{bound}` of `{}` is set twice for {of}", metric.name());
            reader.fault(place, message, "remove one of the entries");
        }
    }
}

fn check_label(reader: &mut Reader<'_>, label: &Placed<String>, gateways: &[Gateway], others: &[&str]) {
    let labels: Vec<_> =
        gateways.iter().map(|one| one.label.as_str()).chain(others.iter().copied()).collect();
    if labels.contains(&label.value.as_str()) {
        return;
    }
    let help = match nearest(&label.value, labels.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if labels.is_empty() => "the plan has no gateways".to_owned(),
        None => format!("use {}", one_of(&labels)),
    };
    reader.fault(label.place, format!("no gateway has the label `{}`", label.value), help);
}

fn selector(
    reader: &mut Reader<'_>,
    typed: Option<&Placed<RawLoadSelector>>,
    points: &[LoadPoint],
) -> LoadSelector {
    let Some(Placed { place, value }) = typed else { return LoadSelector::default() };
    let selector = LoadSelector {
        open: value.loops.map(|kind| kind == RawLoop::Open),
        connections: value.connections.map(|count| count.0),
        streams: value.streams.map(|count| count.0),
        http: value.http.as_ref().and_then(|version| reader.unit(version, http::version)),
        rate: value.rate.as_ref().and_then(|rate| reader.unit(rate, units::rate)),
    };
    if !points.is_empty() && !points.iter().any(|point| selector.selects(point)) {
        let known: Vec<String> = points.iter().map(LoadPoint::describe).collect();
        let help = format!("the load points are: {}", known.join("; "));
        reader.fault(*place, "no load point matches", help);
    }
    selector
}
