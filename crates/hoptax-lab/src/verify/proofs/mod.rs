//! Proofs that each feature of a gateway is on. They run before the first trial.
//!
//! A feature that is configured but does nothing would seem to cost nothing. So each proof tests behavior
//! that only a gateway with the feature has. For example, the gateway rejects a request without a key, or the
//! upstream receives a header that the client did not send. The built-in upstream echoes the requests that it
//! receives. With another upstream, the proofs can use only the responses.

mod authentication;
mod limits;
mod rewriting;
mod routing;
mod scene;
mod translation;
mod transport;

use super::Requests;
use crate::features::Change;
use hoptax_format::Address;
use hoptax_plan::Feature;
use hoptax_record::Failure;
use scene::{Proof, Scene};
use std::time::Duration;

/// Proves that every feature in `change` is on. `upstreams` are the addresses of all upstream instances.
/// `timeout` is the time limit for each response.
///
/// # Errors
/// If a feature is not on. The error contains the requests and responses.
pub fn prove(
    upstreams: &[impl Clone + Into<Address>],
    gateway: impl Into<Address>,
    requests: &Requests,
    change: &Change,
    timeout: Duration,
) -> Result<(), Failure> {
    let Some(made) = &change.credentials else { return Ok(()) };
    let upstreams: Vec<Address> = upstreams.iter().cloned().map(Into::into).collect();
    let gateway = gateway.into();
    let mut scene = Scene { upstreams: &upstreams, gateway, requests, change, made, timeout, echoes: false };
    scene.echoes = scene.upstream_echoes();
    // Proofs that exhaust a limit come last, because the other proofs need successful responses.
    let (limits, others): (Vec<Feature>, Vec<Feature>) =
        change.features.iter().partition(|feature| matches!(feature, Feature::RateLimit { .. }));
    for feature in others.into_iter().chain(limits) {
        prove_one(&scene, feature).map_err(|failure| change.shown(failure))?;
    }
    Ok(())
}

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
        Feature::ProxyProtocol(version) => transport::prove_proxy_protocol(scene, feature, version),
        Feature::UpstreamTls => transport::prove_upstream_tls(scene, feature),
        Feature::HeaderRewrite => rewriting::prove_headers(scene, feature),
        Feature::PathRewrite => rewriting::prove_path(scene, feature),
        Feature::Cors => rewriting::prove_cors(scene, feature),
        Feature::Gzip => rewriting::prove_gzip(scene, feature),
        Feature::RequestId => rewriting::prove_request_id(scene, feature),
        Feature::Routes { count, .. } => routing::prove_routes(scene, feature, count),
        Feature::RoundRobin { instances } => routing::prove_turns(scene, feature, instances),
        Feature::GrpcWeb => translation::prove_web(scene, feature),
        Feature::GrpcJson => translation::prove_json(scene, feature),
    }
}
