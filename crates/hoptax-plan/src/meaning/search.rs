//! Reads searches for capacity. Refuses keys that cannot be combined with a search.

use super::reader::Reader;
use crate::error::{Place, Sources};
use crate::raw::{Placed, RawLoad, RawSearch, SearchedText, Time};
use crate::units::{self, UnitError, show_duration, show_rate};
use crate::{Objective, Search, Target, Term, objective};
use hoptax_format::messages::StreamKind;
use hoptax_format::spec::Rate;
use std::time::Duration;

/// Default bounds on the p99, in ms, for a search without `slo` and `bounds`. Users do not notice the
/// shortest of these times, but they clearly notice the longest of these times.
const BOUNDS_MS: [u64; 5] = [1, 5, 10, 50, 100];

/// Maximum number of objectives of a search. Each objective needs its own trials.
const MOST_OBJECTIVES: usize = 10;

const PRECISION: f64 = 0.05;

/// Range of accepted precisions. A precision below 1 % is not realistic, because trials vary by more than 1
/// %. A result with a precision above 50 % is not useful.
const PRECISIONS: std::ops::RangeInclusive<f64> = 0.01..=0.5;

/// Default length of a confirming trial, as a multiple of the length of other trials.
const CONFIRM: u32 = 2;

/// Refuses keys that set the rate or the number of requests, because a search chooses both itself. In a
/// closed loop, a search needs streams.
pub(super) fn refuse_keys(reader: &mut Reader<'_>, search: Place, typed: &RawLoad, without_streams: bool) {
    if without_streams {
        let help = "write `loop: open`; a closed loop has no rate to search for";
        reader.fault(search, "a search needs an open loop", help);
    }
    if let Some(rate) = &typed.rate {
        let help = "remove `rate`; `from` and `to` of the search set the range of rates";
        reader.fault(rate.0[0].place, "a search chooses its own rates", help);
    }
    if let Some(requests) = &typed.requests {
        let help = "remove `requests`; each trial of a search lasts for `duration`";
        reader.fault(requests.0[0].place, "a search cannot have `requests`", help);
    }
}

/// Parses a number of connections.
fn connections(text: &str) -> Result<f64, UnitError> {
    let count = text.trim().parse::<u32>().ok().filter(|count| *count > 0);
    count.map(f64::from).ok_or_else(|| {
        let help = "write a whole number such as 1000, because a closed loop has no rate";
        UnitError::new(format!("`{text}` is not a number of connections"), help)
    })
}

/// Checks and converts a search. In a closed loop, it searches for a number of connections. Returns `None` if
/// its rates or numbers are wrong.
pub(super) fn read(
    reader: &mut Reader<'_>,
    typed: &Placed<RawSearch>,
    closed: bool,
) -> Option<Placed<Search>> {
    let objectives = objectives(reader, typed);
    let precision = match &typed.value.precision {
        None => PRECISION,
        Some(typed) => {
            let precision = reader.unit(typed, units::share).unwrap_or(PRECISION);
            if !PRECISIONS.contains(&precision) {
                let message = format!("the precision {} is out of range", units::show_share(precision));
                reader.fault(typed.place, message, "write 1% to 50%");
            }
            precision
        }
    };
    let confirm = typed.value.confirm.as_ref();
    let confirm = confirm
        .and_then(|typed| reader.time_above_zero(typed, "confirm", "write a longer time, such as 10s"));
    let parse = if closed { connections } else { units::rate };
    let limit = |reader: &mut Reader<'_>, typed: &Placed<SearchedText>| reader.unit(typed, parse);
    let from = limit(reader, &typed.value.from);
    let to = limit(reader, &typed.value.to);
    let (from, to) = (from?, to?);
    if from >= to {
        let (what, [from, to]) = match closed {
            true => ("number of connections", [from, to].map(|count| count.to_string())),
            false => ("rate", [from, to].map(show_rate)),
        };
        let message = format!("the highest {what} ({to}) is not above the lowest {what} ({from})");
        reader.fault(typed.value.to.place, message, "raise `to` or lower `from`");
    }
    if !closed && to > hoptax_format::spec::HIGHEST_RATE {
        let message =
            format!("rates above {} are not supported", show_rate(hoptax_format::spec::HIGHEST_RATE));
        reader.fault(typed.value.to.place, message, "lower `to`");
    }
    // Zero means "derived from the duration" (see `at`). The duration is not known here, because it can be a
    // sweep.
    let confirm = confirm.unwrap_or_default();
    let value = Search { objectives, from, to, precision, confirm };
    Some(Placed { place: typed.value.from.place, value })
}

/// An axis with one value: the rate at which the search starts.
pub(super) fn first_rate(search: Option<&Placed<Search>>) -> Vec<Placed<Option<Rate>>> {
    let place = search.map_or(Place::default(), |search| search.place);
    vec![Placed { place, value: search.map(|search| Rate::Fixed(search.value.from)) }]
}

pub(super) fn at(search: &Search, duration: Duration) -> Search {
    let confirm = if search.confirm.is_zero() { duration.saturating_mul(CONFIRM) } else { search.confirm };
    Search { confirm, ..search.clone() }
}

/// Checks in a closed loop that the search can open all connections that it tries.
pub(super) fn check_connections(reader: &mut Reader<'_>, search: &Search, typed: &[Placed<u32>]) {
    for Placed { place, value } in typed.iter().filter(|typed| f64::from(typed.value) != search.to) {
        let message = format!("the search opens up to {} connections, and not {value}", search.to);
        reader.fault(*place, message, format!("write `connections: {}`", search.to));
    }
}

/// Checks, for a closed loop, that the objectives limit only times that messages have. Messages state when
/// they were due only if they come from the built-in upstream.
pub(super) fn check_times(
    reader: &mut Reader<'_>,
    search: &Placed<Search>,
    targets: &[Target],
    is_built_in: bool,
) {
    let mut terms = search.value.objectives.iter().flat_map(|objective| &objective.terms);
    let has_times = |target: &Target| {
        target.stream.is_some_and(|stream| match stream.kind {
            StreamKind::BothWays => true,
            StreamKind::ServerStream => is_built_in,
            StreamKind::ClientStream => false,
        })
    };
    if terms.any(|term| matches!(term, Term::Time { .. })) && !targets.iter().any(has_times) {
        let message = "the search limits times of messages, but these streams have none";
        let help = if is_built_in {
            "limit only `errors` in `slo`, or use streams whose messages the upstream sends"
        } else {
            "limit only `errors` in `slo`, or use the built-in upstream, or messages that it sends back"
        };
        reader.fault(search.place, message, help);
    }
}

/// Checks that there are tokens if an objective limits the time to the first content, and that they have
/// limits if it limits the goodput.
pub(super) fn check_content(reader: &mut Reader<'_>, search: &Placed<Search>, targets: &[Target]) {
    let mut terms = search.value.objectives.iter().flat_map(|objective| &objective.terms);
    let has_limits = targets.iter().any(Target::has_goodput);
    if terms.clone().any(|term| matches!(term, Term::Goodput { .. })) && !has_limits {
        let message = "the search limits the goodput, but the plan has no `goodput`";
        reader.fault(search.place, message, "add `goodput: { first_content: 300ms }`, for example");
    }
    let has_tokens = |target: &Target| target.stream.is_some_and(|stream| stream.tokens.is_some());
    if terms.any(|term| matches!(term, Term::FirstContent { .. })) && !targets.iter().any(has_tokens) {
        let message = "the search limits the time to the first content, but no target has tokens";
        reader.fault(search.place, message, "limit other times in `slo`, or use `llm` in the target");
    }
}

/// Checks that a trial at the lowest rate has enough requests for the highest percentile: at least one
/// request must be above this percentile.
pub(super) fn check_samples(reader: &mut Reader<'_>, search: &Placed<Search>, duration: Duration) {
    let Search { objectives, from, .. } = &search.value;
    let due = from * duration.as_secs_f64();
    let highest = objectives.iter().filter_map(Objective::highest_percentile).reduce(f64::max);
    let Some(highest) = highest.filter(|_| !duration.is_zero()) else { return };
    // The tolerance allows for rounding.
    let needed = (1.0 / (1.0 - highest) - 1e-9).ceil();
    if due + 1e-9 < needed {
        let message = format!(
            "at {}, a trial of {} has {} requests, which are too few for p{}",
            show_rate(*from),
            show_duration(duration),
            due.floor(),
            (highest * 1e8).round() / 1e6
        );
        let help = format!("raise `from` or `duration` to have at least {needed}");
        reader.fault(search.place, message, help);
    }
}

fn objectives(reader: &mut Reader<'_>, typed: &Placed<RawSearch>) -> Vec<Objective> {
    let RawSearch { slo, bounds, .. } = &typed.value;
    let mut objectives: Vec<Placed<Objective>> = Vec::new();
    match (slo, bounds) {
        (Some(_), Some(bounds)) => reader.fault(
            bounds.0[0].place,
            "a search cannot have both `slo` and `bounds`",
            "remove one of them; `bounds` is short for objectives `p99 < BOUND and errors < 0.1%`",
        ),
        (Some(slo), None) => {
            for typed in &slo.0 {
                match objective(&typed.value.0) {
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
            reader.fault(
                place,
                format!("the objective `{}` appears twice", value.text),
                "remove one of the two",
            );
        }
        distinct.push(value);
    }
    if distinct.len() > MOST_OBJECTIVES {
        let message = format!("the search has {} objectives", distinct.len());
        reader.fault(typed.place, message, format!("write {MOST_OBJECTIVES} or fewer"));
    }
    distinct
}

fn bound(reader: &mut Reader<'_>, typed: &Placed<Time>) -> Option<Placed<Objective>> {
    let bound = reader.unit(typed, units::duration)?;
    if bound.is_zero() {
        reader.fault(typed.place, "the bound is zero", "write a bound above zero, such as 10ms");
        return None;
    }
    Some(Placed { place: typed.place, value: Objective::at_bound(bound) })
}

/// Finds a part of a value in the user's input. If the part is empty or on another line, returns the place of
/// the whole value.
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

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "is within the precision ({})" percent(PRECISION);
    METHODOLOGY "trials {} as long at the lower end" times(CONFIRM);
}
