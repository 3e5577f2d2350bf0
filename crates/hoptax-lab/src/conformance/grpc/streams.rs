//! Messages: their order in time, their size, and windows.

use super::script::{FIRST, Method, SECOND, message};
use super::side::{QUESTION, Side, USUAL, ask, begin, expect, expect_body};
use crate::conformance::cases::text;
use crate::conformance::http2::side::{Deviation, Outcome};
use hoptax_format::grpc::Status;
use hoptax_wire::http2::{Config, Release};
use std::time::Duration;

/// Number of messages of a stream in both directions.
const MESSAGES: usize = 3;

/// Size of large messages, bytes: the most that gRPC's clients accept by default.
const LARGE: usize = 4 << 20;

/// Window of the client that reads slowly, bytes.
const WINDOW: u32 = 65_535;

/// How long the slow client keeps its window closed, unless the upstream has sent everything before. Then
/// the gateway has some time to read it.
const CLOSED: Duration = Duration::from_millis(300);
const READING: Duration = Duration::from_millis(100);

/// Numbers of bytes beyond the window that a gateway may hold when the trailers arrive. Buffers of 16 KiB
/// are common. HAProxy up to 2.9.0 loses trailers that arrive while data is in its buffer
/// ([issue](https://github.com/haproxy/haproxy/issues/2388)).
const BEHIND: [usize; 6] = [1, 8193, 16_385, 24_577, 32_769, 40_961];

/// Each message follows the answer to the previous one.
pub(super) fn both_ways(side: &Side<'_>) -> Outcome {
    let mut session = side.open(Config::default())?;
    let stream = begin(&mut session, Method::Echo, &USUAL)?;
    let mut sent = Vec::new();
    for number in 1..=MESSAGES {
        let next = message(&text(100 * number));
        session.send_body(stream, &next, false);
        sent.extend(next);
        let arrives = session.until_within(side.patience, |session| {
            session.is_over(stream) || session.received(stream) >= sent.len()
        })?;
        if !arrives {
            return Err(Deviation(format!("no answer to message {number} before the end of the call")));
        }
    }
    session.send_body(stream, &[], true);
    let answer = session.wait(stream)?;
    expect(&answer, Status::Ok)?;
    expect_body(&answer, &sent)
}

/// The upstream sends the second message only after the first has arrived.
pub(super) fn server_stream(side: &Side<'_>) -> Outcome {
    let first = message(FIRST);
    let mut session = side.open(Config::default())?;
    let stream = ask(&mut session, Method::Hold)?;
    let arrives = session.until_within(side.patience, |session| {
        session.is_over(stream) || session.received(stream) >= first.len()
    })?;
    side.upstream.release();
    if !arrives {
        return Err(Deviation::new("the first message does not arrive before the second is sent"));
    }
    let answer = session.wait(stream)?;
    expect(&answer, Status::Ok)?;
    expect_body(&answer, &[first, message(SECOND)].concat())
}

/// The end of the request must not end the response.
pub(super) fn half_close(side: &Side<'_>) -> Outcome {
    let question = message(QUESTION);
    let before = side.upstream.counts().ended;
    let mut session = side.open(Config::default())?;
    let stream = begin(&mut session, Method::Echo, &USUAL)?;
    session.send_body(stream, &question, false);
    // A gateway that waits for the end is found by another case.
    session.until_within(side.patience, |session| {
        session.is_over(stream) || session.received(stream) >= question.len()
    })?;
    if session.is_over(stream) || side.upstream.counts().ended > before {
        return Err(Deviation::new("the call ends before the client ends it"));
    }
    session.send_body(stream, &[], true);
    session.flush()?;
    if !side.sees(|now| now.ended > before) {
        return Err(Deviation::new("the upstream did not see the end of the request"));
    }
    let answer = session.wait(stream)?;
    expect(&answer, Status::Ok)?;
    expect_body(&answer, &question)
}

pub(super) fn large_messages(side: &Side<'_>) -> Outcome {
    let large = message(&text(LARGE));
    let mut session = side.open(Config::default())?;
    let stream = begin(&mut session, Method::Echo, &USUAL)?;
    session.send_body(stream, &large, true);
    let answer = session.wait(stream)?;
    expect(&answer, Status::Ok)?;
    expect_body(&answer, &large)
}

/// Requests a message of `size` bytes. The client's window is closed for a while when it is full.
fn read_slowly(side: &Side<'_>, size: usize) -> Outcome {
    let before = side.upstream.counts().answered;
    let config = Config { window: WINDOW, release: Release::ByCaller, ..Config::default() };
    let mut session = side.open(config)?;
    let stream = ask(&mut session, Method::Many(size))?;
    let mut allowed = WINDOW as usize;
    session.until(|session| session.is_over(stream) || session.received(stream) >= allowed)?;
    side.sees_within(CLOSED.min(side.patience), |now| now.answered > before);
    session.until_within(READING, |session| session.is_over(stream))?;
    while !session.is_over(stream) {
        session.release(stream, WINDOW);
        allowed += WINDOW as usize;
        session.until(|session| session.is_over(stream) || session.received(stream) >= allowed)?;
    }
    let answer = session.answer(stream);
    expect_body(&answer, &message(&text(size)))?;
    expect(&answer, Status::Ok)
}

pub(super) fn slow_reader(side: &Side<'_>) -> Outcome {
    read_slowly(side, 2 << 20)
}

pub(super) fn trailers_behind_data(side: &Side<'_>) -> Outcome {
    BEHIND.into_iter().try_for_each(|behind| read_slowly(side, WINDOW as usize + behind))
}
