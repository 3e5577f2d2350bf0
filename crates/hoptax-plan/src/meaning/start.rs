//! Starts of gateways instead of trials.

use super::reader::Reader;
use crate::error::Place;
use crate::raw::{Placed, RawGateway, RawLoad, RawPlan, RawStart, Short};
use crate::units::{self, show_duration};
use crate::{LoadPoint, Start};
use hoptax_format::spec::{Arrivals, Rate, Shape};
use std::time::Duration;

/// Default number of rounds. The interval of a median over 20 starts spans the 6th to the 15th value.
const TIMES: u32 = 20;

/// Maximum number of rounds.
const MOST_TIMES: u32 = 1000;

/// Default duration of the load after a start. Native gateways settle in less than a second. 10 s also show
/// how other gateways become faster.
const DURATION: Duration = Duration::from_secs(10);

/// Longest load after a start. Each second of it adds 100 windows to the record.
const LONGEST: Duration = Duration::from_secs(600);

/// Rate and connections of a plan without `load`.
const RATE: f64 = 1000.0;
const CONNECTIONS: u32 = 32;

/// Help for keys that cannot be combined with `start`.
const APART: &str = "remove it, or remove `start`; starts and trials need two plans";

/// Converts `start`. Refuses keys that cannot be combined with `start`.
pub(super) fn read(reader: &mut Reader<'_>, plan: &RawPlan) -> Option<Start> {
    let Placed { value: typed, .. } = plan.start.as_ref()?;
    for (key, place) in apart(plan) {
        reader.fault(place, format!("a plan with `start` cannot have `{key}`"), APART);
    }
    let external = plan.gateways.iter().filter(|gateway| name(&gateway.value) == "external");
    for gateway in external {
        reader.fault(
            gateway.place,
            "hoptax cannot measure the start of a gateway that it does not start",
            "remove the `external` gateway, or remove `start`",
        );
    }
    if let Some(load) = &plan.load {
        load.value.iter().for_each(|entry| check_entry(reader, &entry.value));
    }
    Some(Start {
        times: reader.count(typed.times.as_ref(), "times", TIMES, MOST_TIMES),
        duration: duration(reader, typed),
        reload: typed.reload.unwrap_or(true),
    })
}

/// The keys of the plan that only trials have, with their places.
fn apart(plan: &RawPlan) -> impl Iterator<Item = (&'static str, Place)> {
    let events = plan.events.as_ref().and_then(|events| events.first());
    let keys = [
        ("time", plan.time.as_ref().map(|typed| typed.place)),
        ("precision", plan.precision.as_ref().map(|typed| typed.place)),
        ("trials", plan.trials.as_ref().map(|typed| typed.place)),
        ("events", events.map(|typed| typed.place)),
        ("isolate", plan.isolate.as_ref().map(|typed| typed.place)),
        ("restarts", plan.restarts.as_ref().map(|typed| typed.place)),
        ("cpu_profile", plan.cpu_profile.as_ref().map(|typed| typed.place)),
        ("tail", plan.tail.as_ref().map(|typed| typed.place)),
    ];
    keys.into_iter().filter_map(|(key, place)| Some((key, place?)))
}

fn name(gateway: &Short<RawGateway>) -> &str {
    match gateway {
        Short::Word(name) => name,
        Short::Full(gateway) => &gateway.name.value,
    }
}

/// Refuses keys of a load point that set how long a trial lasts.
fn check_entry(reader: &mut Reader<'_>, entry: &RawLoad) {
    if let Some(search) = &entry.search {
        reader.fault(search.place, "a plan with `start` cannot search for capacity", APART);
    }
    let first = |places: Option<Place>, key: &str, reader: &mut Reader<'_>| {
        let Some(place) = places else { return };
        let help = format!("remove `{key}`; `for` of `start` sets how long the load lasts");
        reader.fault(place, format!("a load point of a plan with `start` cannot have `{key}`"), help);
    };
    first(entry.duration.as_ref().map(|typed| typed.0[0].place), "duration", reader);
    first(entry.requests.as_ref().map(|typed| typed.0[0].place), "requests", reader);
    if let Some(from) = &entry.from {
        let help = "remove `from`; the host of the role `generator` measures starts";
        reader.fault(from.0[0].place, "a load point of a plan with `start` cannot have `from`", help);
    }
}

fn duration(reader: &mut Reader<'_>, typed: &RawStart) -> Duration {
    let Some(typed) = &typed.duration else { return DURATION };
    let Some(duration) = reader.unit(typed, units::duration) else { return DURATION };
    if duration.is_zero() || duration > LONGEST {
        reader.fault(
            typed.place,
            format!("the load after a start cannot last {}", show_duration(duration)),
            format!("write a time above 0 and up to {}", show_duration(LONGEST)),
        );
    }
    duration
}

/// The load point of a plan without `load`.
pub(super) fn default_load(start: Start) -> LoadPoint {
    let shape = Shape::Open { rate: Rate::Fixed(RATE), arrivals: Arrivals::Constant };
    LoadPoint { shape, ..LoadPoint::closed(CONNECTIONS, start.duration) }
}

/// Sets the duration of the only load point. Refuses several load points, stages, and a rate that is too low
/// for the duration. `place` is the place of `load`.
pub(super) fn fit_load(reader: &mut Reader<'_>, start: Start, place: Place, points: &mut [LoadPoint]) {
    if points.len() > 1 {
        reader.fault(
            place,
            format!("a plan with `start` has one load point, but this `load` has {}", points.len()),
            "keep one load point, and write another plan for each of the others",
        );
    }
    for point in points {
        point.duration = start.duration;
        let Shape::Open { rate, .. } = &point.shape else { continue };
        if matches!(rate, Rate::Stages(_)) {
            let help = "write one rate, such as 1000/s";
            reader.fault(place, "the load of a plan with `start` cannot have stages", help);
        } else if rate.mean() * start.duration.as_secs_f64() < 1.0 {
            let message = format!("no request is due within {}", show_duration(start.duration));
            reader.fault(place, message, "raise the rate, or raise `for` of `start`");
        }
    }
}
