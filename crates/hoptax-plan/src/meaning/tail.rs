//! Passes after the rounds that explain slow requests.

use super::reader::Reader;
use crate::raw::{OnOffText, Placed, RawTail, Short};
use crate::units::{self, show_duration};
use crate::{LOCAL, LoadPoint, Plan, Roles, TailPasses, Upstream};
use std::time::Duration;

/// Maximum number of rounds of passes.
const MOST_PASSES: u32 = 100;

/// Shortest and longest measured time of a pass. A pass needs some hundred requests, and the record of a
/// minute has millions of switches.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

pub(super) fn read(
    reader: &mut Reader<'_>,
    typed: Option<Placed<Short<RawTail, OnOffText>>>,
    upstream: &Upstream,
    (load, roles): (&[LoadPoint], &Roles),
) -> Option<TailPasses> {
    let default = TailPasses::default();
    let Placed { place, value } = typed?;
    let passes = match value {
        Short::Word(word) if word.0 == "off" => return None,
        Short::Word(word) if word.0 == "on" => default,
        Short::Word(word) => {
            let help = "write on, off, or { passes: 4, for: 5s }";
            reader.fault(place, format!("unknown value `{}`", word.0), help);
            return None;
        }
        Short::Full(typed) => {
            let passes = reader.count(typed.passes.as_ref(), "passes", default.passes, MOST_PASSES);
            let duration = match typed.duration {
                None => default.duration,
                Some(typed) => duration(reader, typed).unwrap_or(default.duration),
            };
            TailPasses { passes, duration }
        }
    };
    if let Some((problem, help)) = obstacle(upstream, load, roles) {
        reader.fault(place, problem, help);
    }
    Some(passes)
}

fn duration(reader: &mut Reader<'_>, typed: Placed<crate::raw::Time>) -> Option<Duration> {
    let duration = reader.unit(&typed, units::duration)?;
    if !(SHORTEST..=LONGEST).contains(&duration) {
        reader.fault(
            typed.place,
            format!("a pass of `tail` cannot last {}", show_duration(duration)),
            format!("write a time from {} to {}", show_duration(SHORTEST), show_duration(LONGEST)),
        );
    }
    Some(duration)
}

/// What in a plan makes it impossible to explain slow requests, and what to do.
pub fn tail_obstacle(plan: &Plan) -> Option<(&'static str, &'static str)> {
    obstacle(&plan.upstream, &plan.load, &plan.roles)
}

fn obstacle(upstream: &Upstream, load: &[LoadPoint], roles: &Roles) -> Option<(&'static str, &'static str)> {
    let is_elsewhere = |point: &LoadPoint| point.from.as_ref().is_some_and(|host| host != LOCAL);
    match upstream {
        Upstream::Running(_) => Some((
            "`tail` needs the time stamps of the built-in upstream",
            "remove `url` of the upstream, or remove `tail`",
        )),
        _ if !roles.is_local() || load.iter().any(is_elsewhere) => Some((
            "`tail` needs all roles on this machine, because it compares their clocks",
            "remove the hosts, or remove `tail`",
        )),
        _ => None,
    }
}
