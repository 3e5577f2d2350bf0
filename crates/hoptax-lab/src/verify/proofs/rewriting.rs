//! Proofs for features that change messages: headers, paths, encodings, identifiers.

use super::scene::{Proof, Scene, is, not_on};
use crate::features::{
    CORS_ORIGIN, REQUEST_ID_HEADER, REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED, RESPONSE_SET,
    REWRITTEN_PREFIX, route_prefix,
};
use crate::verify::tolerance::unpacked;
use hoptax_plan::Feature;
use hoptax_servers::http_client::Answer;
use hoptax_servers::upstream::MARK;

const OTHER_ORIGIN: &str = "https://other.example";

/// Path of a response whose body is large enough to compress.
const LARGE: &str = "bytes/4096";

const ALLOWED: &str = "access-control-allow-origin";

/// The gateway must set one header and remove another header, both on requests and on responses.
pub(super) fn prove_headers(scene: &Scene<'_>, feature: Feature) -> Proof {
    let request = scene.request("echo");
    let answer = scene.must_accept(feature, &request)?;
    let shown = [("it answered", &answer)];
    let value = answer.headers.get(RESPONSE_SET.0).map(String::as_str);
    let what = format!("the response has no `{}: {}`", RESPONSE_SET.0, RESPONSE_SET.1);
    is(feature, value == Some(RESPONSE_SET.1), &what, &shown)?;
    if !scene.echoes {
        return Ok(());
    }
    let what = format!("the response still has `{RESPONSE_REMOVED}`");
    is(feature, !answer.headers.contains_key(RESPONSE_REMOVED), &what, &shown)?;
    let (echo, answer) = scene.echo(feature, &request)?;
    let shown = [("it answered", &answer)];
    let what = format!("the upstream received no `{}: {}`", REQUEST_SET.0, REQUEST_SET.1);
    is(feature, echo.header(REQUEST_SET.0) == Some(REQUEST_SET.1), &what, &shown)?;
    let what = format!("the upstream still received `{}`", REQUEST_REMOVED.0);
    is(feature, echo.header(REQUEST_REMOVED.0).is_none(), &what, &shown)
}

/// The upstream must receive the path without the prefix that the gateway removes.
pub(super) fn prove_path(scene: &Scene<'_>, feature: Feature) -> Proof {
    if !scene.echoes {
        return Ok(());
    }
    let (echo, answer) = scene.echo(feature, &scene.request("echo"))?;
    let seen = echo.text("path");
    let rest = scene.change.prefix.replacen(REWRITTEN_PREFIX, "", 1);
    let whole = format!("{MARK}echo");
    // The gateway may also remove the route's own prefix.
    let right = seen == whole || seen == format!("{rest}{whole}");
    let what = format!("the upstream received the path `{seen}` instead of `{rest}{whole}`");
    is(feature, right, &what, &[("it answered", &answer)])
}

/// The allowed origin must get the CORS header, also in the response to a preflight request. Another origin
/// must not get this header.
pub(super) fn prove_cors(scene: &Scene<'_>, feature: Feature) -> Proof {
    let request = scene.request("echo").with("origin", CORS_ORIGIN);
    let answer = scene.must_accept(feature, &request)?;
    let allowed = |answer: &Answer| answer.headers.get(ALLOWED).cloned();
    let what = format!("`{ALLOWED}` is {:?} for {CORS_ORIGIN}", allowed(&answer));
    is(feature, allowed(&answer).as_deref() == Some(CORS_ORIGIN), &what, &[("it answered", &answer)])?;

    let mut preflight = request.clone().with("access-control-request-method", "GET");
    preflight.method = "OPTIONS";
    let answer = scene.must_accept(feature, &preflight)?;
    let what = format!("`{ALLOWED}` is {:?} in the answer to a preflight", allowed(&answer));
    is(feature, allowed(&answer).as_deref() == Some(CORS_ORIGIN), &what, &[("it answered", &answer)])?;
    let methods = answer.headers.get("access-control-allow-methods").cloned().unwrap_or_default();
    let what = format!("a preflight allows the methods `{methods}`, without GET");
    is(feature, methods.contains("GET") || methods == "*", &what, &[("it answered", &answer)])?;

    let answer = scene
        .answer(&request.with("origin", OTHER_ORIGIN))
        .map_err(|error| not_on(feature, &format!("no answer to another origin: {error:#}"), &[]))?;
    let origin = allowed(&answer).unwrap_or_default();
    let what = format!("`{ALLOWED}` is `{origin}` for {OTHER_ORIGIN}, which is not allowed");
    is(feature, origin != "*" && origin != OTHER_ORIGIN, &what, &[("it answered", &answer)])
}

/// Responses must be compressed only for clients that accept compression. The decompressed body must equal
/// the uncompressed body.
pub(super) fn prove_gzip(scene: &Scene<'_>, feature: Feature) -> Proof {
    let request = scene.request(LARGE);
    let packed = scene.must_accept(feature, &request)?;
    let plain = scene.must_accept(feature, &request.without("accept-encoding"))?;
    let shown = [("with `accept-encoding: gzip`", &packed), ("without", &plain)];
    let encoding = packed.headers.get("content-encoding").map(String::as_str);
    is(feature, encoding == Some("gzip"), "it does not compress", &shown)?;
    let what = "it compresses for a client that does not accept gzip";
    is(feature, !plain.headers.contains_key("content-encoding"), what, &shown)?;
    let same = unpacked(&packed.body).is_ok_and(|body| body == plain.body);
    is(feature, same, "the decompressed body differs", &shown)
}

/// Each request must get its own identifier. Both the upstream and the client must receive this identifier.
pub(super) fn prove_request_id(scene: &Scene<'_>, feature: Feature) -> Proof {
    let request = scene.request("echo").without(REQUEST_ID_HEADER);
    let mut earlier = None;
    for _ in 0..2 {
        let answer = scene.must_accept(feature, &request)?;
        let id = answer.headers.get(REQUEST_ID_HEADER).cloned().unwrap_or_default();
        let shown = [("it answered", &answer)];
        is(feature, !id.is_empty(), &format!("the response has no `{REQUEST_ID_HEADER}`"), &shown)?;
        let what = format!("two requests have the same identifier, `{id}`");
        is(feature, earlier.as_ref() != Some(&id), &what, &shown)?;
        if scene.echoes {
            let (echo, answer) = scene.echo(feature, &request)?;
            let client_saw = answer.headers.get(REQUEST_ID_HEADER).map(String::as_str);
            let seen = echo.header(REQUEST_ID_HEADER);
            let what = format!("the upstream received the identifier {seen:?}, the client {client_saw:?}");
            is(feature, seen.is_some() && seen == client_saw, &what, &[("it answered", &answer)])?;
        }
        earlier = Some(id);
    }
    Ok(())
}

pub(super) fn unknown_prefix(prefix: &str, count: u32) -> String {
    let known = (0..count).map(route_prefix).find(|route| prefix.ends_with(route.as_str()));
    known.map_or_else(|| prefix.to_owned(), |route| prefix.replace(&route, "/no-such-route"))
}
