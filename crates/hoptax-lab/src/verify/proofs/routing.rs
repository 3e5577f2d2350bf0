//! Where requests go: routes and turns.

use super::rewriting::unknown_prefix;
use super::scene::{Proof, Request, Scene, not_on};
use crate::features::route_prefix;
use hoptax_plan::Feature;
use std::collections::BTreeSet;

/// Requests for each instance before it counts as left out: several workers take turns each for itself.
const REQUESTS_PER_INSTANCE: usize = 50;

/// First, middle and last route are there, and what none leads to is 404.
pub(super) fn prove_routes(scene: &Scene<'_>, feature: Feature, count: u32) -> Proof {
    let asked = scene.request("echo");
    let known = &scene.change.prefix;
    let rest = asked.path[known.len()..].to_owned();
    let none = unknown_prefix(known, count);
    for index in [0, count / 2, count - 1] {
        let prefix = none.replace("/no-such-route", &route_prefix(index));
        let request = Request { path: prefix + &rest, ..asked.clone() };
        scene.let_through(feature, &request).map_err(|mut failure| {
            failure.message += &format!(" (route {} of {count})", index + 1);
            failure
        })?;
    }
    let request = Request { path: none + &rest, ..asked };
    scene.turned_away(feature, &request, 404, "on a path that no route leads to")
}

/// Every instance is sent requests.
pub(super) fn prove_turns(scene: &Scene<'_>, feature: Feature, instances: Option<u32>) -> Proof {
    if !scene.echoes {
        return Ok(());
    }
    let there = scene.upstreams.len();
    let wanted = instances.map_or(there, |count| (count as usize).min(there));
    let request = scene.request("echo");
    let mut seen = BTreeSet::new();
    for _ in 0..wanted * REQUESTS_PER_INSTANCE {
        let (echo, _) = scene.echo(feature, &request)?;
        seen.insert(echo.number("instance"));
        if seen.len() == wanted {
            return Ok(());
        }
    }
    let numbers: Vec<String> = seen.iter().map(|index| (index + 1).to_string()).collect();
    Err(not_on(
        feature,
        &format!("of {wanted} instances none but number {} was sent requests", numbers.join(" and number ")),
        &[],
    ))
}
