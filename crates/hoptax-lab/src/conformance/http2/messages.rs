//! Requests and responses: their heads, bodies, trailers and interim responses.

use super::paths::{EARLY, ECHO, HINTS, TRAILERS};
use super::side::{Deviation, Outcome, Side, check, echo, get, post};
use crate::conformance::cases::text;
use hoptax_record::Digest;
use hoptax_servers::http2_session::{StreamAnswer, StreamRequest};
use hoptax_servers::upstream::TRAILER;
use hoptax_wire::http2::{Code, Config};

/// Number and length of the headers that need more than one frame. Gateways commonly accept 100 headers.
const FIELDS: usize = 90;
const FIELD: usize = 200;

/// Length of bodies whose length does not matter, bytes.
const BODY: usize = 1000;

pub(super) fn post_without_length(side: &Side<'_>, size: usize) -> Outcome {
    let body = text(size);
    let mut session = side.open(Config::default())?;
    let stream = session.request(post(ECHO))?;
    session.send_body(stream, &body, true);
    saw_body(&session.wait(stream)?, &body)
}

/// Checks that the upstream has received this body.
fn saw_body(answer: &StreamAnswer, body: &[u8]) -> Outcome {
    let echo = echo(answer)?;
    let mut digest = Digest::default();
    digest.add(body);
    let expected: [(&str, serde_json::Value); 2] =
        [("body_bytes", body.len().into()), ("body_digest", digest.text().into())];
    for (member, expected) in expected {
        if echo[member] != expected {
            let seen = &echo[member];
            return Err(Deviation(format!("the upstream saw {member} {seen} instead of {expected}")));
        }
    }
    Ok(())
}

/// The value of a long header. No character of it has a short Huffman code, so that it is not compressed.
fn value(index: usize) -> String {
    format!("{index:03}{}", "~".repeat(FIELD - 3))
}

/// Headers that together are longer than a frame.
pub(super) fn fields() -> Vec<(String, String)> {
    (0..FIELDS).map(|index| (format!("x-hoptax-{index:03}"), value(index))).collect()
}

pub(super) fn many_fields(side: &Side<'_>) -> Outcome {
    let fields = fields();
    let headers: Vec<(&str, &str)> =
        fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut session = side.open(Config::default())?;
    let stream = session.request(StreamRequest { headers: &headers, ..get(ECHO) })?;
    let echo = echo(&session.wait(stream)?)?;
    let seen = echo["headers"].as_array().cloned().unwrap_or_default();
    let is_missing = |(name, value): &&(String, String)| {
        !seen.iter().any(|one| one[0] == name.as_str() && one[1] == value.as_str())
    };
    match fields.iter().filter(is_missing).count() {
        0 => Ok(()),
        missing => Err(Deviation(format!("the upstream did not see {missing} of {FIELDS} headers"))),
    }
}

pub(super) fn request_trailers(side: &Side<'_>) -> Outcome {
    let (name, value) = ("x-hoptax-trailer", "by-client");
    let body = text(BODY);
    let mut session = side.open(Config::default())?;
    let stream = session.request(StreamRequest { headers: &[("trailer", name)], ..post(ECHO) })?;
    session.send_body(stream, &body, false);
    session.send_trailers(stream, &[(name, value)]);
    let answer = session.wait(stream)?;
    saw_body(&answer, &body)?;
    let echo = echo(&answer)?;
    let mut trailers = echo["trailers"].as_array().into_iter().flatten();
    match trailers.any(|one| one[0] == name && one[1] == value) {
        true => Ok(()),
        false => Err(Deviation(format!("the upstream did not see the trailer `{name}`"))),
    }
}

pub(super) fn response_trailers(side: &Side<'_>) -> Outcome {
    let mut session = side.open(Config::default())?;
    let stream = session.request(StreamRequest { headers: &[("te", "trailers")], ..get(TRAILERS) })?;
    let answer = session.wait(stream)?;
    check(&answer)?;
    let is_expected = |(name, value): &(String, String)| (name.as_str(), value.as_str()) == TRAILER;
    match answer.trailers.iter().any(is_expected) {
        true => Ok(()),
        false => Err(Deviation(format!("the trailer `{}` is missing", TRAILER.0))),
    }
}

pub(super) fn early_hints(side: &Side<'_>) -> Outcome {
    let mut session = side.open(Config::default())?;
    let stream = session.request(get(HINTS))?;
    let answer = session.wait(stream)?;
    check(&answer)?;
    match answer.interim.contains(&103) {
        true => Ok(()),
        false => Err(Deviation::new("103 Early Hints is missing")),
    }
}

/// If 100 Continue does not arrive, sends the body nevertheless, as clients do.
pub(super) fn expect_continue(side: &Side<'_>) -> Outcome {
    let body = text(BODY);
    let mut session = side.open(Config::default())?;
    let headers = &[("expect", "100-continue")];
    let content_length = Some(body.len() as u64);
    let stream = session.request(StreamRequest { headers, content_length, ..post(ECHO) })?;
    session.until_within(side.patience, |session| {
        session.is_over(stream) || session.answer(stream).interim.contains(&100)
    })?;
    if session.is_over(stream) {
        check(&session.answer(stream))?;
        return Err(Deviation::new("the response does not wait for the body"));
    }
    let was_asked = session.answer(stream).interim.contains(&100);
    session.send_body(stream, &body, true);
    saw_body(&session.wait(stream)?, &body)?;
    match was_asked {
        true => Ok(()),
        false => Err(Deviation::new("100 Continue is missing")),
    }
}

/// A server may ask the client to stop with RST_STREAM and NO_ERROR after its response.
pub(super) fn early_response(side: &Side<'_>) -> Outcome {
    let mut session = side.open(Config::default())?;
    let stream = session.request(post(EARLY))?;
    session.send_body(stream, &text(BODY), false);
    if !session.until_within(side.patience, |session| session.is_over(stream))? {
        return Err(Deviation::new("no response before the end of the request"));
    }
    check(&session.answer(stream))?;
    session.send_body(stream, b"the rest", true);
    let next = session.request(get(ECHO))?;
    echo(&session.wait(next)?)?;
    match session.answer(stream).reset {
        Some(code) if code != Code::NO_ERROR => {
            Err(Deviation(format!("the stream ends with {code} after its response")))
        }
        _ => Ok(()),
    }
}
