//! The means of a case: connections to one side, calls on them, and the state of the upstream.

use super::script::{Method, message};
use super::state::{Counts, Shared};
use crate::conformance::http2::side::{Deviation, Outcome};
use hoptax_format::grpc::Status;
use hoptax_servers::http2_session::{Http2Session, StreamAnswer, StreamRequest};
use hoptax_wire::grpc::{CONTENT_TYPE, STATUS};
use hoptax_wire::http2::Config;
use std::cmp::Ordering;
use std::time::{Duration, Instant};

/// Pause between two looks at the upstream's counts.
const PAUSE: Duration = Duration::from_millis(5);

/// The headers that every call has.
pub(super) const USUAL: [(&str, &str); 2] = [("content-type", CONTENT_TYPE), ("te", "trailers")];

/// The message of calls whose content does not matter, without its prefix.
pub(super) const QUESTION: &[u8] = b"a question";

/// The gateway or direct.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    /// Opens a connection to it.
    pub(super) connect: &'a dyn Fn(Config) -> anyhow::Result<Http2Session>,
    /// The state of the upstream.
    pub(super) upstream: &'a Shared,
    /// How long to wait for data that may never arrive.
    pub(super) patience: Duration,
}

impl Side<'_> {
    /// Opens a connection.
    pub(super) fn open(&self, config: Config) -> Result<Http2Session, Deviation> {
        Ok((self.connect)(config)?)
    }

    /// Waits until the upstream's counts are as expected. Returns false after `limit`.
    pub(super) fn sees_within(&self, limit: Duration, is_expected: impl Fn(Counts) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            if is_expected(self.upstream.counts()) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until the upstream's counts are as expected. Returns false after the usual time limit.
    pub(super) fn sees(&self, is_expected: impl Fn(Counts) -> bool) -> bool {
        self.sees_within(self.patience, is_expected)
    }

    /// Makes a call with these headers and one message on a connection of its own.
    pub(super) fn call(&self, method: Method, headers: &[(&str, &str)]) -> Result<StreamAnswer, Deviation> {
        let mut session = self.open(Config::default())?;
        let stream = begin(&mut session, method, headers)?;
        session.send_body(stream, &message(QUESTION), true);
        Ok(session.wait(stream)?)
    }
}

/// Begins a call with these headers.
pub(super) fn begin(
    session: &mut Http2Session,
    method: Method,
    headers: &[(&str, &str)],
) -> Result<u32, Deviation> {
    let path = method.path();
    let request = StreamRequest { method: "POST", path: &path, headers, content_length: None, end: false };
    Ok(session.request(request)?)
}

/// Begins a call, and sends its only message.
pub(super) fn ask(session: &mut Http2Session, method: Method) -> Result<u32, Deviation> {
    let stream = begin(session, method, &USUAL)?;
    session.send_body(stream, &message(QUESTION), true);
    Ok(stream)
}

/// Checks that a connection still carries calls.
pub(super) fn is_usable(session: &mut Http2Session) -> Outcome {
    let stream = ask(session, Method::Echo)?;
    expect(&session.wait(stream)?, Status::Ok)
}

/// The values of a name, in order. A comma separates values too.
pub(super) fn values<'a>(
    fields: impl IntoIterator<Item = (&'a str, &'a str)>,
    name: &'a str,
) -> Vec<&'a str> {
    let of_name = fields.into_iter().filter(|(known, _)| *known == name);
    of_name.flat_map(|(_, value)| value.split(',').map(str::trim)).collect()
}

/// Names and values of the head.
pub(super) fn head_of(answer: &StreamAnswer) -> impl Iterator<Item = (&str, &str)> {
    answer.answer.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

/// Names and values of the trailers.
pub(super) fn trailers_of(answer: &StreamAnswer) -> impl Iterator<Item = (&str, &str)> {
    answer.trailers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

/// A field of the trailers. An answer without a message can have it in its head.
pub(super) fn field<'a>(answer: &'a StreamAnswer, name: &str) -> Option<&'a str> {
    trailers_of(answer).chain(head_of(answer)).find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// Checks that an answer is complete, and has the HTTP status 200 and this gRPC status.
pub(super) fn expect(answer: &StreamAnswer, expected: Status) -> Outcome {
    if !answer.is_whole {
        return Err(match answer.reset {
            Some(code) => Deviation(format!("the stream ends with {code}")),
            None => Deviation::new("no whole answer"),
        });
    }
    if answer.answer.status != 200 {
        return Err(Deviation(format!("HTTP status {} instead of 200", answer.answer.status)));
    }
    let expected = expected.number().to_string();
    match field(answer, STATUS) {
        Some(seen) if seen == expected => Ok(()),
        Some(seen) => Err(Deviation(format!("grpc-status {seen} instead of {expected}"))),
        None => Err(Deviation::new("grpc-status is missing")),
    }
}

/// Checks the messages of an answer, with their prefixes.
pub(super) fn expect_body(answer: &StreamAnswer, expected: &[u8]) -> Outcome {
    let body = &answer.answer.body;
    match body.len().cmp(&expected.len()) {
        _ if body == expected => Ok(()),
        Ordering::Equal => Err(Deviation::new("the messages are changed")),
        // How many bytes are missing can depend on races.
        Ordering::Less => Err(Deviation::new("a part of the messages is missing")),
        Ordering::Greater => Err(Deviation::new("more bytes arrive than were sent")),
    }
}
