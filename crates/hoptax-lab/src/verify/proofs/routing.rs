//! Proofs that routes and load balancing are on.

use super::rewriting::unknown_prefix;
use super::scene::{Proof, Request, Scene, not_on};
use crate::features::route_prefix;
use hoptax_plan::Feature;
use std::collections::BTreeSet;

/// Number of requests that the proof sends per instance. An instance that receives none of these requests
/// counts as unused. One request per instance would not be enough, because each worker of a gateway chooses
/// instances independently.
const REQUESTS_PER_INSTANCE: usize = 50;

/// The first, the middle and the last route must exist; an unknown path must get 404.
pub(super) fn prove_routes(scene: &Scene<'_>, feature: Feature, count: u32) -> Proof {
    let asked = scene.request("echo");
    let known = &scene.change.prefix;
    let rest = asked.path[known.len()..].to_owned();
    let none = unknown_prefix(known, count);
    for index in [0, count / 2, count - 1] {
        let prefix = none.replace("/no-such-route", &route_prefix(index));
        let request = Request { path: prefix + &rest, ..asked.clone() };
        scene.must_accept(feature, &request).map_err(|mut failure| {
            failure.message += &format!(" (route {} of {count})", index + 1);
            failure
        })?;
    }
    let request = Request { path: none + &rest, ..asked };
    scene.must_refuse(feature, &request, 404, "on a path without a route")
}

/// Every instance must receive requests.
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
        &format!("of {wanted} instances, only instance {} received requests", numbers.join(" and instance ")),
        &[],
    ))
}
