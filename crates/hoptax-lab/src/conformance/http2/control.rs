//! Streams and connections: cancels, windows, many streams, PING and GOAWAY.

use super::paths::{ECHO, GOAWAY, LATE, SOON};
use super::side::{Deviation, Outcome, Side, check, echo, get};
use hoptax_servers::http2_session::Http2Session;
use hoptax_wire::http2::{Config, Release};

/// Number of requests that a client cancels together, as a browser does when its user leaves a page.
const CANCELS: usize = 30;

/// Number of requests that the smallest server should accept at a time (RFC 9113, section 6.5.2).
const STREAMS: u32 = 100;

/// Number of requests in flight when a side sends GOAWAY.
const IN_FLIGHT: usize = 5;

/// Checks that a connection still answers.
fn is_usable(session: &mut Http2Session) -> Outcome {
    let stream = session.request(get(ECHO))?;
    echo(&session.wait(stream)?).map(drop)
}

/// The upstream must learn of the cancel, by RST_STREAM or the end of the connection that carried the
/// request, and the client's connection must stay usable.
pub(super) fn cancel(side: &Side<'_>) -> Outcome {
    let before = side.delays()?;
    let mut session = side.open(Config::default())?;
    let stream = session.request(get(LATE))?;
    session.flush()?;
    if !side.upstream_sees(|now| now.delayed > before.delayed)? {
        return Err(Deviation::new("the upstream did not see the request"));
    }
    session.cancel(stream);
    session.flush()?;
    if !side.upstream_sees(|now| now.abandoned > before.abandoned)? {
        return Err(Deviation::new("the upstream did not see the cancel"));
    }
    is_usable(&mut session)
}

pub(super) fn cancel_many(side: &Side<'_>) -> Outcome {
    let mut session = side.open(Config::default())?;
    let streams: Vec<u32> = (0..CANCELS).map(|_| session.request(get(LATE))).collect::<Result<_, _>>()?;
    is_usable(&mut session)?;
    streams.into_iter().for_each(|stream| session.cancel(stream));
    let usable = is_usable(&mut session);
    match (usable, session.goaway()) {
        (Ok(()), None) => Ok(()),
        (_, Some(code)) => Err(Deviation(format!("GOAWAY with {code} after {CANCELS} cancels"))),
        (Err(Deviation(what)), None) => Err(Deviation(format!("{what} after {CANCELS} cancels"))),
    }
}

/// Requests a body of `length` bytes. When `pause` bytes have arrived, calls `then`.
fn body(
    session: &mut Http2Session,
    length: usize,
    pause: usize,
    then: impl FnOnce(&mut Http2Session),
) -> Outcome {
    let path = format!("/.hoptax/bytes/{length}");
    let stream = session.request(get(&path))?;
    session.until(|session| session.is_over(stream) || session.received(stream) >= pause)?;
    then(session);
    let answer = session.wait(stream)?;
    check(&answer)?;
    match answer.answer.body.len() {
        arrived if arrived == length => Ok(()),
        arrived => Err(Deviation(format!("{arrived} of {length} bytes arrive"))),
    }
}

pub(super) fn window_of_one(side: &Side<'_>) -> Outcome {
    let mut session = side.open(Config { window: 1, ..Config::default() })?;
    body(&mut session, 1000, 0, |_| {})
}

/// The server may send 1,000 bytes. The rest must follow when a new setting makes the window larger.
pub(super) fn growing_window(side: &Side<'_>) -> Outcome {
    let mut session = side.open(Config { window: 1000, release: Release::ByCaller, ..Config::default() })?;
    body(&mut session, 20_000, 1000, |session| session.grow_window(1 << 20))
}

pub(super) fn many_streams(side: &Side<'_>) -> Outcome {
    let mut session = side.open(Config { streams: STREAMS, ..Config::default() })?;
    session.until(Http2Session::has_settings)?;
    let allowed = session.capacity();
    if allowed < STREAMS {
        return Err(Deviation(format!("{allowed} streams are allowed at a time instead of {STREAMS}")));
    }
    let mut requests = Vec::new();
    for number in 0..STREAMS {
        let path = format!("{ECHO}?number={number}");
        requests.push((session.request(get(&path))?, path));
    }
    for (stream, path) in requests {
        let echo = echo(&session.wait(stream)?)?;
        if echo["path"] != path {
            let seen = &echo["path"];
            return Err(Deviation(format!("the answer to {path} belongs to {seen}")));
        }
    }
    Ok(())
}

pub(super) fn ping(side: &Side<'_>) -> Outcome {
    let payload = *b"conforms";
    let mut session = side.open(Config::default())?;
    let stream = session.request(get(SOON))?;
    session.ping(payload);
    session.until(|session| !session.pongs().is_empty() || session.is_over(stream))?;
    let answered = session.pongs().first().copied();
    check(&session.wait(stream)?)?;
    match answered {
        Some(same) if same == payload => Ok(()),
        Some(_) => Err(Deviation::new("the answer to PING has another payload")),
        None => Err(Deviation::new("no answer to PING before the response")),
    }
}

fn begin(session: &mut Http2Session) -> Result<Vec<u32>, Deviation> {
    Ok((0..IN_FLIGHT).map(|_| session.request(get(SOON))).collect::<Result<_, _>>()?)
}

fn end(session: &mut Http2Session, streams: Vec<u32>) -> Outcome {
    streams.into_iter().try_for_each(|stream| check(&session.wait(stream)?))
}

/// The client still needs the responses to its requests.
pub(super) fn goaway_of_client(side: &Side<'_>) -> Outcome {
    let mut session = side.open(Config::default())?;
    let streams = begin(&mut session)?;
    session.go_away();
    end(&mut session, streams)
}

/// The last of several requests makes the upstream accept no more requests on its connection.
pub(super) fn goaway_of_upstream(side: &Side<'_>) -> Outcome {
    let mut session = side.open(Config::default())?;
    let mut streams = begin(&mut session)?;
    streams.push(session.request(get(GOAWAY))?);
    end(&mut session, streams)?;
    // A gateway's own connection can stay open.
    let mut next = match session.goaway() {
        Some(_) => side.open(Config::default())?,
        None => session,
    };
    is_usable(&mut next)
}
