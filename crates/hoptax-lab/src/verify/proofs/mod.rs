//! Is each feature on? Asked of a gateway that answers as direct does, before anything is timed.
//!
//! A feature that is configured and does nothing costs nothing, and that is what would be reported. So each is proved by what
//! only a gateway that has it does: it turns away who shows no key, or the upstream sees a header that nobody sent. With the
//! built-in upstream, requests go to its echo, which tells what arrived; of another upstream only what answers show is proved.

mod authentication;
mod limits;
mod rewriting;
mod routing;
mod scene;
mod transport;

use super::Requests;
use crate::features::Change;
use hoptax_plan::Feature;
use hoptax_record::Failure;
use scene::{Proof, Scene};
use std::net::SocketAddr;
use std::time::Duration;

/// Proves every feature that `change` comes of; `upstreams` are all instances, `timeout` is for each answer.
///
/// # Errors
/// If one is not on, with how it was asked and what it answered.
pub fn prove(
    upstreams: &[SocketAddr],
    gateway: SocketAddr,
    requests: &Requests,
    change: &Change,
    timeout: Duration,
) -> Result<(), Failure> {
    let Some(made) = &change.credentials else { return Ok(()) };
    let mut scene = Scene { upstreams, gateway, requests, change, made, timeout, echoes: false };
    scene.echoes = scene.upstream_echoes();
    // What exhausts a limit comes last: the other proofs want answers.
    let (limits, others): (Vec<Feature>, Vec<Feature>) =
        change.features.iter().partition(|feature| matches!(feature, Feature::RateLimit { .. }));
    for feature in others.into_iter().chain(limits) {
        prove_one(&scene, feature).map_err(|failure| Failure {
            message: change.redact(&failure.message),
            detail: change.redact(&failure.detail),
            ..failure
        })?;
    }
    Ok(())
}

/// Proves one feature.
fn prove_one(scene: &Scene<'_>, feature: Feature) -> Proof {
    match feature {
        Feature::KeyAuth | Feature::BasicAuth | Feature::Jwt(_) => authentication::prove(scene, feature),
        Feature::TokenReview { cache_s } => authentication::prove_review(scene, feature, cache_s),
        Feature::Consumers { count } => authentication::prove_consumers(scene, feature, count),
        Feature::IpAllow => limits::prove_addresses(scene, feature),
        Feature::RateLimit { per_second } => limits::prove_rate(scene, feature, per_second),
        Feature::AccessLog => limits::prove_access_log(scene, feature),
        Feature::Tls => transport::prove_tls(scene, feature),
        Feature::Mtls => transport::prove_mtls(scene, feature),
        Feature::UpstreamTls => transport::prove_upstream_tls(scene, feature),
        Feature::HeaderRewrite => rewriting::prove_headers(scene, feature),
        Feature::PathRewrite => rewriting::prove_path(scene, feature),
        Feature::Cors => rewriting::prove_cors(scene, feature),
        Feature::Gzip => rewriting::prove_gzip(scene, feature),
        Feature::RequestId => rewriting::prove_request_id(scene, feature),
        Feature::Routes { count, .. } => routing::prove_routes(scene, feature, count),
        Feature::RoundRobin { instances } => routing::prove_turns(scene, feature, instances),
    }
}
