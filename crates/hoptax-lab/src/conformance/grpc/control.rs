//! Cancels, PING and GOAWAY during calls.

use super::script::{FIRST, Method, message};
use super::side::{Side, ask, expect, is_usable};
use crate::conformance::http2::side::{Deviation, Outcome};
use hoptax_format::grpc::Status;
use hoptax_wire::http2::Config;
use std::time::Duration;

/// Number of keep-alive pings, and the time between them. gRPC's servers refuse pings that come more often
/// than every five minutes, but proxies must not.
const PINGS: usize = 10;
const PERIOD: Duration = Duration::from_millis(100);

/// Number of calls in flight when the upstream sends GOAWAY.
const IN_FLIGHT: usize = 5;

/// The upstream must learn of the cancel, by RST_STREAM or the end of the connection that carried the call,
/// and the client's connection must stay usable.
pub(super) fn cancel(side: &Side<'_>) -> Outcome {
    let before = side.upstream.counts();
    let mut session = side.open(Config::default())?;
    let stream = ask(&mut session, Method::Hang)?;
    session.flush()?;
    if !side.sees(|now| now.ended > before.ended) {
        return Err(Deviation::new("the upstream did not see the call"));
    }
    session.cancel(stream);
    session.flush()?;
    if !side.sees(|now| now.cancelled > before.cancelled) {
        return Err(Deviation::new("the upstream did not see the cancel"));
    }
    is_usable(&mut session)
}

pub(super) fn pings(side: &Side<'_>) -> Outcome {
    let mut session = side.open(Config::default())?;
    let stream = ask(&mut session, Method::Hold)?;
    let first = message(FIRST);
    session.until(|session| session.is_over(stream) || session.received(stream) >= first.len())?;
    for number in 1..=PINGS {
        session.ping(*b"keep-on!");
        session.until_within(PERIOD, |session| session.goaway().is_some() || session.is_over(stream))?;
        if let Some(code) = session.goaway() {
            return Err(Deviation(format!("GOAWAY with {code} after {number} pings")));
        }
    }
    side.upstream.release();
    expect(&session.wait(stream)?, Status::Ok)
}

/// The upstream accepts no new calls on its connections, and finishes those in flight.
pub(super) fn goaway(side: &Side<'_>) -> Outcome {
    let first = message(FIRST);
    let mut session = side.open(Config::default())?;
    let mut streams = Vec::new();
    for _ in 0..IN_FLIGHT {
        streams.push(ask(&mut session, Method::Hold)?);
    }
    for stream in &streams {
        session.until(|session| session.is_over(*stream) || session.received(*stream) >= first.len())?;
    }
    let before = side.upstream.counts().goaways;
    side.upstream.go_away();
    // A gateway may pass GOAWAY on.
    session.until_within(PERIOD, |session| session.goaway().is_some())?;
    if !side.sees(|now| now.goaways > before) {
        return Err(Deviation::new("no connection to the upstream is open during the calls"));
    }
    side.upstream.release();
    for stream in streams {
        expect(&session.wait(stream)?, Status::Ok)?;
    }
    // A gateway's own connection can stay open.
    let mut next = match session.goaway() {
        Some(_) => side.open(Config::default())?,
        None => session,
    };
    is_usable(&mut next)
}
