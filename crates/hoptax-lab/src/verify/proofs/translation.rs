//! Proofs that the gateway translates calls.

use super::scene::{Proof, Scene, is, not_on};
use crate::verify::translation::{is_web, must_be_json, web_status};
use hoptax_plan::Feature;

/// Not JSON. The upstream would accept it, because it reads no bodies.
const MALFORMED: &[u8] = b"[";

/// A gRPC-Web call must get an answer of gRPC-Web, with the status of the call in its trailers. The built-in
/// upstream gives a status only if it receives the content type of gRPC.
pub(super) fn prove_web(scene: &Scene<'_>, feature: Feature) -> Proof {
    let answer = scene.call(feature, |_| {})?;
    let shown = [("it answered", &answer)];
    is(feature, is_web(&answer), "its answer to a call of gRPC-Web is not gRPC-Web", &shown)?;
    is(feature, web_status(&answer).is_some(), "its answer has no trailers of gRPC-Web", &shown)
}

/// A call as JSON must get an answer in JSON. The gateway must refuse a body that is not JSON.
pub(super) fn prove_json(scene: &Scene<'_>, feature: Feature) -> Proof {
    let answer = scene.call(feature, |_| {})?;
    let shown = ("it answered", &answer);
    must_be_json(&answer).map_err(|what| not_on(feature, &what, &[shown]))?;
    let refusal = scene.call(feature, |target| target.body = MALFORMED.to_vec())?;
    let what = format!("it answers {} to a body that is not JSON", refusal.status);
    is(feature, refusal.status >= 400, &what, &[shown, ("this request", &refusal)])
}
