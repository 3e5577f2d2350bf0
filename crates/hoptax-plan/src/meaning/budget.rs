//! Budgets: limits, each in the unit of its metric or as a change.

use super::reader::Reader;
use crate::de::one_of;
use crate::error::Place;
use crate::raw::{Limit, Placed, RawBudget, RawLoadSelector, RawLoop};
use crate::units::{self, nearest, show_budget_value, show_change};
use crate::{Budget, Gateway, LoadPoint, LoadSelector};
use hoptax_record::DIRECT;
use std::collections::BTreeSet;

/// What budgets are read against.
pub(super) struct Setting<'a> {
    /// The systems that can be limited.
    pub(super) gateways: &'a [Gateway],
    /// The load points that can be selected.
    pub(super) load: &'a [LoadPoint],
    /// Whether there is a baseline run that changes can be relative to.
    pub(super) baseline: bool,
}

/// A limit as it was typed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    /// In the metric's own unit.
    Value(f64),
    /// A share of the reference.
    Change(f64),
}

/// Understands a list of budgets; what is wrong is noted.
pub(super) fn read(
    reader: &mut Reader<'_>,
    typed: Vec<Placed<RawBudget>>,
    setting: &Setting<'_>,
) -> Vec<Budget> {
    let mut seen = BTreeSet::new();
    typed.into_iter().map(|entry| one(reader, entry, setting, &mut seen)).collect()
}

fn one(
    reader: &mut Reader<'_>,
    Placed { place, value: entry }: Placed<RawBudget>,
    setting: &Setting<'_>,
    seen: &mut BTreeSet<String>,
) -> Budget {
    let metric = entry.metric.value;
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
            crossed(reader, typed.place, &min, &max);
        }
        (Some(Bound::Change(max)), Some(Bound::Change(min)), Some(typed)) if min > max => {
            crossed(reader, typed.place, &show_change(min), &show_change(max));
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
        reader.fault(place, "this entry limits nothing", "add `max: …` or `min: …`");
    }
    check_relation(reader, place, &budget, entry.against.as_ref(), setting);
    check_twice(reader, place, &budget, seen);
    budget
}

fn crossed(reader: &mut Reader<'_>, place: Place, min: &str, max: &str) {
    let message = format!("the least {min} is above the most {max}");
    reader.fault(place, message, "no figure can satisfy both; exchange `min` and `max`");
}

/// A value in the metric's unit, or, with a sign, a change.
fn bound(reader: &mut Reader<'_>, metric: crate::Metric, typed: &Placed<Limit>) -> Option<Bound> {
    if !typed.value.0.trim_start().starts_with(['+', '-', '−']) {
        return reader.unit(typed, |text| units::budget_value(metric, text)).map(Bound::Value);
    }
    let change = reader.unit(typed, units::change)?;
    if metric.is_mostly_zero() {
        let message =
            format!("`{}` is zero for most gateways, and nothing is a share of zero", metric.name());
        reader.fault(typed.place, message, "write a limit without a sign, such as 0.1%");
        return None;
    }
    Some(Bound::Change(change))
}

/// A change needs something to be relative to; a value needs nothing.
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
            "this limit is a change, but nothing is said that it is relative to",
            "add `against: LABEL` (another gateway of the same plan), or keep it in a file of its own for \
             `hoptax gate RUN --budget FILE --baseline RUN`",
        ),
        Some(typed) if budget.gateway.as_ref() == Some(&typed.value) => {
            reader.fault(typed.place, "this sets a gateway against itself", "name another label");
        }
        Some(typed) if !budget.is_relative() && (budget.max.is_some() || budget.min.is_some()) => reader
            .fault(
                typed.place,
                "`against` is for changes, and this limit is a value",
                "write the limit with a sign, such as `max: +10%`, or leave out `against`",
            ),
        _ => {}
    }
}

fn check_twice(reader: &mut Reader<'_>, place: Place, budget: &Budget, seen: &mut BTreeSet<String>) {
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
            let message = format!("`{bound}` of this metric of {of} is limited twice");
            reader.fault(place, message, "keep the stricter entry");
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
        None => format!("this plan has {}", one_of(&labels)),
    };
    reader.fault(label.place, format!("no gateway here is labelled `{}`", label.value), help);
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
        rate: value.rate.as_ref().and_then(|rate| reader.unit(rate, units::rate)),
    };
    if !points.is_empty() && !points.iter().any(|point| selector.selects(point)) {
        let known: Vec<String> = points.iter().map(LoadPoint::describe).collect();
        let help = format!("there are: {}", known.join("; "));
        reader.fault(*place, "no load point is like this", help);
    }
    selector
}
