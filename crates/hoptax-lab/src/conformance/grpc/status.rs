//! The status of a call, and how it arrives.

use super::script::{FAILURE, FIRST, Method, message};
use super::side::{Side, USUAL, expect, expect_body, field, trailers_of};
use crate::conformance::http2::side::{Deviation, Outcome};
use hoptax_format::grpc::Status;
use hoptax_wire::grpc::{MESSAGE, STATUS, TIMEOUT};

/// HTTP statuses that gRPC's document maps to different statuses of calls.
const HTTP: [u16; 4] = [401, 404, 429, 503];

pub(super) fn in_trailers(side: &Side<'_>) -> Outcome {
    let answer = side.call(Method::Fail, &USUAL)?;
    expect(&answer, Status::NotFound)?;
    expect_body(&answer, &message(FIRST))?;
    match trailers_of(&answer).any(|(name, _)| name == STATUS) {
        true => Ok(()),
        false => Err(Deviation::new("grpc-status is in the head instead of the trailers")),
    }
}

/// A gateway may send the status in trailers nevertheless.
pub(super) fn trailers_only(side: &Side<'_>) -> Outcome {
    let answer = side.call(Method::TrailersOnly, &USUAL)?;
    expect(&answer, Status::NotFound)?;
    expect_body(&answer, &[])
}

/// The gateway may pass on the answer as it is, reset the stream, or report another status than OK.
pub(super) fn no_status(side: &Side<'_>) -> Outcome {
    let answer = side.call(Method::NoStatus, &USUAL)?;
    match field(&answer, STATUS) {
        Some("0") => Err(Deviation::new("grpc-status 0 although the upstream sent no status")),
        _ => Ok(()),
    }
}

/// The gateway may pass on the HTTP status, or map it to the status of the call.
pub(super) fn http_errors(side: &Side<'_>) -> Outcome {
    for sent in HTTP {
        let answer = side.call(Method::Http(sent), &USUAL)?;
        let mapped = Status::of_http(sent).number().to_string();
        let (http, status) = (answer.answer.status, field(&answer, STATUS));
        let is_right = match status {
            None => http == sent,
            Some(status) => status == mapped && [200, sent].contains(&http),
        };
        if !is_right {
            let status = status.unwrap_or("missing");
            let what = format!("HTTP status {sent} becomes HTTP status {http}, with grpc-status {status}");
            return Err(Deviation(what));
        }
    }
    Ok(())
}

pub(super) fn encoded_message(side: &Side<'_>) -> Outcome {
    let answer = side.call(Method::Fail, &USUAL)?;
    match field(&answer, MESSAGE) {
        Some(FAILURE) => Ok(()),
        Some(seen) => Err(Deviation(format!("grpc-message `{seen}` instead of `{FAILURE}`"))),
        None => Err(Deviation::new("grpc-message is missing")),
    }
}

pub(super) fn deadline(side: &Side<'_>) -> Outcome {
    let headers = [&USUAL[..], &[(TIMEOUT, "1H")]].concat();
    let answer = side.call(Method::Deadline, &headers)?;
    expect(&answer, Status::DeadlineExceeded)?;
    expect_body(&answer, &[])
}
