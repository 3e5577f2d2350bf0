//! Proofs that the gateway translates calls.

use super::scene::{Echo, Proof, Scene, is, not_on, parsed};
use crate::verify::translation::{is_web, must_be_json, web_status};
use hoptax_plan::Feature;
use hoptax_servers::http_client::Answer;
use hoptax_wire::grpc::{self, MESSAGE};

/// Not JSON. The upstream would accept it, because it reads no bodies.
const MALFORMED: &[u8] = b"[";

/// A gRPC-Web call must get an answer of gRPC-Web, with the status of the call in its trailers. The upstream
/// must receive the content type of gRPC.
pub(super) fn prove_web(scene: &Scene<'_>, feature: Feature) -> Proof {
    let answer = scene.call(feature, |_| {})?;
    let shown = [("it answered", &answer)];
    is(feature, is_web(&answer), "its answer to a call of gRPC-Web is not gRPC-Web", &shown)?;
    is(feature, web_status(&answer).is_some(), "its answer has no trailers of gRPC-Web", &shown)?;
    if !scene.echoes {
        return Ok(());
    }
    let path = scene.request("echo").path;
    let answer = scene.call(feature, |target| target.path = path)?;
    let shown = [("it answered", &answer)];
    let Some(echo) = echo(&answer) else {
        return Err(not_on(feature, "the upstream's echo is incomplete", &shown));
    };
    let seen = echo.header("content-type").unwrap_or_default();
    let what = format!("the upstream received the content type `{seen}`");
    is(feature, grpc::is_grpc(seen.as_bytes()), &what, &shown)
}

/// The echo of the upstream, which is not an answer of gRPC. A gateway may put it into the message of the
/// status.
fn echo(answer: &Answer) -> Option<Echo> {
    let in_message = || {
        let body = grpc::decode_message(answer.headers.get(MESSAGE)?.as_bytes()).into_bytes();
        parsed(&Answer { body, ..Answer::default() })
    };
    parsed(answer).or_else(in_message)
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
