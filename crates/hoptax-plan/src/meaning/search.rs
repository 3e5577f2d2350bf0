//! Searches for capacity: objectives, rates, and what cannot stand beside them.

use super::reader::Reader;
use crate::error::{Place, Sources};
use crate::raw::{Placed, RawLoad, RawSearch, SteadyRate, Time};
use crate::units::{self, show_duration, show_rate};
use crate::{Objective, Search};
use hoptax_load::spec::Rate;
use std::time::Duration;

/// Bounds on p99 of the frontier that is searched where nothing else is asked for, in ms: from what a person never notices
/// to what everyone does.
const BOUNDS_MS: [u64; 5] = [1, 5, 10, 50, 100];

/// More objectives than anyone reads, each of which costs trials.
const MOST_OBJECTIVES: usize = 10;

/// How well a rate is known unless asked otherwise.
const PRECISION: f64 = 0.05;

/// Precisions that can be had: below one per cent trials scatter more, above a half nothing is said.
const PRECISIONS: std::ops::RangeInclusive<f64> = 0.01..=0.5;

/// How much longer than the others the trials are that confirm, unless asked otherwise.
const CONFIRM: u32 = 2;

/// What says itself how much is sent has no place beside a search.
pub(super) fn check_company(reader: &mut Reader<'_>, search: Place, typed: &RawLoad, closed: bool) {
    if closed {
        let help = "write `loop: open`: a closed loop sends at the pace of the responses, and has no rate to search for";
        reader.fault(search, "a search needs an open loop", help);
    }
    if let Some(rate) = &typed.rate {
        let help = "leave out `rate`: `from` and `to` of the search say which rates are tried";
        reader.fault(rate.0[0].place, "a search tries rates of its own", help);
    }
    if let Some(requests) = &typed.requests {
        let help = "leave out `requests`: each trial of a search takes its `duration`, whatever the rate";
        reader.fault(requests.0[0].place, "a search has no number of requests", help);
    }
}

/// Understands a search; nothing where its rates are wrong.
pub(super) fn read(reader: &mut Reader<'_>, typed: &Placed<RawSearch>) -> Option<Placed<Search>> {
    let objectives = objectives(reader, typed);
    let precision = match &typed.value.precision {
        None => PRECISION,
        Some(typed) => {
            let precision = reader.unit(typed, units::share).unwrap_or(PRECISION);
            if !PRECISIONS.contains(&precision) {
                let message =
                    format!("a precision of {} cannot be searched for", units::show_share(precision));
                reader.fault(typed.place, message, "write 1% to 50%");
            }
            precision
        }
    };
    let confirm = typed.value.confirm.as_ref().and_then(|typed| {
        let value = reader.unit(typed, units::duration)?;
        if value.is_zero() {
            reader.fault(typed.place, "nothing can be confirmed in no time", "write 10s");
        }
        Some(value)
    });
    let rate = |reader: &mut Reader<'_>, typed: &Placed<SteadyRate>| reader.unit(typed, units::rate);
    let from = rate(reader, &typed.value.from);
    let to = rate(reader, &typed.value.to);
    let (from, to) = (from?, to?);
    if from >= to {
        let message =
            format!("the highest rate {} is not above the lowest {}", show_rate(to), show_rate(from));
        reader.fault(typed.value.to.place, message, "raise `to`, or lower `from`");
    }
    if to > hoptax_load::pacer::HIGHEST_RATE {
        let message =
            format!("more than {} cannot be scheduled", show_rate(hoptax_load::pacer::HIGHEST_RATE));
        reader.fault(typed.value.to.place, message, "ask for less");
    }
    // Zero stands for what hangs on the duration, which may be swept over.
    let confirm = confirm.unwrap_or_default();
    let value = Search { objectives, from, to, precision, confirm };
    Some(Placed { place: typed.value.from.place, value })
}

/// The rate with which a search begins, as the axis of rates has it.
pub(super) fn first_rate(search: Option<&Placed<Search>>) -> Vec<Placed<Option<Rate>>> {
    let place = search.map_or(Place::default(), |search| search.place);
    vec![Placed { place, value: search.map(|search| Rate::Fixed(search.value.from)) }]
}

/// The search at a point of this duration.
pub(super) fn at(search: &Search, duration: Duration) -> Search {
    let confirm = if search.confirm.is_zero() { duration.saturating_mul(CONFIRM) } else { search.confirm };
    Search { confirm, ..search.clone() }
}

/// A percentile needs a request beyond it: at the lowest rate, too.
pub(super) fn check_samples(reader: &mut Reader<'_>, search: &Placed<Search>, duration: Duration) {
    let Search { objectives, from, .. } = &search.value;
    let due = from * duration.as_secs_f64();
    let highest = objectives.iter().filter_map(Objective::highest_percentile).reduce(f64::max);
    let Some(highest) = highest.filter(|_| !duration.is_zero()) else { return };
    // A billionth is forgiven to the arithmetic.
    let needed = (1.0 / (1.0 - highest) - 1e-9).ceil();
    if due + 1e-9 < needed {
        let message = format!(
            "at {} within {} {} requests are due, too few for p{}",
            show_rate(*from),
            show_duration(duration),
            due.floor(),
            (highest * 1e8).round() / 1e6
        );
        let help = format!("{needed} are the least: raise `from` or `duration`");
        reader.fault(search.place, message, help);
    }
}

fn objectives(reader: &mut Reader<'_>, typed: &Placed<RawSearch>) -> Vec<Objective> {
    let RawSearch { slo, bounds, .. } = &typed.value;
    let mut objectives: Vec<Placed<Objective>> = Vec::new();
    match (slo, bounds) {
        (Some(_), Some(bounds)) => reader.fault(
            bounds.0[0].place,
            "a search has either `slo` or `bounds`",
            "leave out one: `bounds` stands for a list of objectives `p99 < BOUND and errors < 0.1%`",
        ),
        (Some(slo), None) => {
            for typed in &slo.0 {
                match Objective::parse(&typed.value.0) {
                    Ok(value) => objectives.push(Placed { place: typed.place, value }),
                    Err((part, error)) => {
                        let place = place_of(reader.sources, typed.place, part);
                        reader.fault(place, error.message, error.help);
                    }
                }
            }
        }
        (None, Some(bounds)) => objectives.extend(bounds.0.iter().filter_map(|typed| bound(reader, typed))),
        (None, None) => {
            let standard = BOUNDS_MS.map(|bound| Objective::at_bound(Duration::from_millis(bound)));
            return standard.to_vec();
        }
    }
    let mut distinct: Vec<Objective> = Vec::new();
    for Placed { place, value } in objectives {
        if distinct.contains(&value) {
            reader.fault(place, format!("the objective `{}` stands twice", value.text), "remove one");
        }
        distinct.push(value);
    }
    if distinct.len() > MOST_OBJECTIVES {
        let message = format!("{} objectives are searched for", distinct.len());
        reader.fault(typed.place, message, format!("write {MOST_OBJECTIVES} or fewer"));
    }
    distinct
}

fn bound(reader: &mut Reader<'_>, typed: &Placed<Time>) -> Option<Placed<Objective>> {
    let bound = reader.unit(typed, units::duration)?;
    if bound.is_zero() {
        reader.fault(typed.place, "nothing is answered in no time", "give a bound above zero, such as 10ms");
        return None;
    }
    Some(Placed { place: typed.place, value: Objective::at_bound(bound) })
}

/// Where a part of a value stands in what was typed; the whole value where that cannot be told (it is empty, or stands on
/// another line).
fn place_of(sources: &Sources<'_>, place: Place, part: &str) -> Place {
    let typed = match place.source.checked_sub(1) {
        None => Some(sources.text),
        Some(index) => sources.sets.get(index as usize).map(String::as_str),
    };
    let line = typed.and_then(|typed| typed.lines().nth(place.line.saturating_sub(1) as usize));
    let before = place.column.saturating_sub(1) as usize;
    let found = line.and_then(|line| {
        let rest: String = line.chars().skip(before).collect();
        Some(rest[..rest.find(part)?].chars().count())
    });
    match found {
        Some(at) if !part.is_empty() => {
            Place { column: place.column + at as u32, length: part.chars().count() as u32, ..place }
        }
        _ => place,
    }
}
