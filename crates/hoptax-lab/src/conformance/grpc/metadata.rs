//! What heads and trailers carry besides the status.

use super::script::{METADATA, Method, TRAILING, flagged};
use super::side::{QUESTION, Side, USUAL, begin, expect, expect_body, head_of, trailers_of, values};
use crate::conformance::http2::side::{Deviation, Outcome};
use hoptax_format::grpc::Status;
use hoptax_wire::grpc::{TIMEOUT, read_timeout};
use hoptax_wire::http2::Config;

/// The time limit that the client sends, and its length in nanoseconds.
const LIMIT: (&str, u64) = ("20S", 20_000_000_000);

/// A type that names the content of the messages too.
const PROTO: &str = "application/grpc+proto";

/// Metadata of requests, with several values of a name.
const SENT: [(&str, &str); 4] = [
    ("x-hoptax-sent", "one"),
    ("x-hoptax-sent", "two"),
    ("x-hoptax-sent-bin", "AAEC/w=="),
    ("x-hoptax-sent-bin", "//79"),
];

/// Checks that all values of these fields arrived. `by` says who received them.
fn compare<'a>(
    by: &str,
    seen: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    expected: &'a [(&'a str, &'a str)],
) -> Outcome {
    for (name, _) in expected {
        let wanted = values(expected.iter().copied(), name);
        let arrived = values(seen.clone(), name);
        if arrived != wanted {
            let (arrived, wanted) = (arrived.join(","), wanted.join(","));
            return Err(Deviation(format!("{by} saw {name} `{arrived}` instead of `{wanted}`")));
        }
    }
    Ok(())
}

/// Checks fields that the upstream received.
fn upstream_saw(side: &Side<'_>, expected: &[(&str, &str)]) -> Outcome {
    let head = side.upstream.head();
    compare("the upstream", head.iter().map(|(name, value)| (name.as_str(), value.as_str())), expected)
}

pub(super) fn of_request(side: &Side<'_>) -> Outcome {
    expect(&side.call(Method::Echo, &[&USUAL[..], &SENT].concat())?, Status::Ok)?;
    upstream_saw(side, &SENT)
}

pub(super) fn of_response(side: &Side<'_>) -> Outcome {
    let answer = side.call(Method::Echo, &USUAL)?;
    expect(&answer, Status::Ok)?;
    compare("the client", head_of(&answer).collect::<Vec<_>>().into_iter(), &METADATA)?;
    compare("the client", trailers_of(&answer).collect::<Vec<_>>().into_iter(), &TRAILING)
}

/// A gateway may shorten the time limit.
pub(super) fn timeout(side: &Side<'_>) -> Outcome {
    let (sent, longest) = LIMIT;
    expect(&side.call(Method::Echo, &[&USUAL[..], &[(TIMEOUT, sent)]].concat())?, Status::Ok)?;
    let head = side.upstream.head();
    let Some((_, seen)) = head.iter().find(|(name, _)| name == TIMEOUT) else {
        return Err(Deviation::new("the upstream did not see grpc-timeout"));
    };
    match read_timeout(seen.as_bytes()) {
        Some(limit) if (1..=longest).contains(&limit) => Ok(()),
        _ => Err(Deviation(format!("the upstream saw grpc-timeout {seen} instead of at most {sent}"))),
    }
}

pub(super) fn content_type(side: &Side<'_>) -> Outcome {
    let headers = [("content-type", PROTO), ("te", "trailers")];
    let answer = side.call(Method::Echo, &headers)?;
    expect(&answer, Status::Ok)?;
    upstream_saw(side, &headers)?;
    compare("the client", head_of(&answer).collect::<Vec<_>>().into_iter(), &headers[..1])
}

/// Only the ends of a call need to know how its messages are compressed.
pub(super) fn unknown_encoding(side: &Side<'_>) -> Outcome {
    let encoding = [("grpc-encoding", "x-hoptax")];
    let compressed = flagged(1, QUESTION);
    let mut session = side.open(Config::default())?;
    let stream = begin(&mut session, Method::Echo, &[&USUAL[..], &encoding].concat())?;
    session.send_body(stream, &compressed, true);
    let answer = session.wait(stream)?;
    expect(&answer, Status::Ok)?;
    upstream_saw(side, &encoding)?;
    expect_body(&answer, &compressed)
}
