//! A generator on another host.

use super::agent_channel::PROMPT;
use super::connection::Event;
use super::host::Host;
use crate::protocol::message::{Order, Request, Update, Verify};
use hoptax_format::record::PhaseLine;
use hoptax_format::spec::LoadSpec;
use hoptax_format::{Address, clock};
use hoptax_lab::features::Change;
use hoptax_lab::first_requests::{FirstAnswers, FirstRequests};
use hoptax_lab::verify::Requests;
use hoptax_record::{Failure, Verified};
use hoptax_run::{Loaded, Look, TrialUpdate, WatchedRoles};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval at which to check for signals, ns.
const POLL_NS: u64 = 50 * clock::MILLISECOND;

/// Interval at which to check whether a starting gateway has ended, ns.
const LOOK_NS: u64 = 100 * clock::MILLISECOND;

/// Time limit for a verification. Some proofs wait 20 s.
const VERIFY: Duration = Duration::from_secs(15 * 60);

/// Time that a load may take in addition to the times of its spec. The agent kills its generator earlier.
/// Bodies may be large, and links slow.
const SLACK_NS: u64 = 300 * clock::SECOND;

/// Verifies a gateway from the generator's host.
pub(super) fn verify(
    host: &Host,
    requests: &Requests,
    timeout: Duration,
    direct: &[Address],
    gateway: &Address,
    change: &Change,
) -> Result<Verified, Failure> {
    let verify = Verify {
        requests: requests.clone(),
        timeout,
        direct: direct.to_vec(),
        gateway: gateway.clone(),
        change: change.clone(),
        credentials: change.credentials.as_ref().map(|made| made.of_clients()),
    };
    let asked = host.link()?.ask(Request::Verify(Box::new(verify)), VERIFY);
    asked.map_err(|failure| change.shown(failure))
}

/// Makes a generator begin to send its part of a load at a moment of our clock.
pub(super) type Begin = Box<dyn FnOnce(u64) + Send>;

/// Sends a load, or a part of a load, from the generator's host. The moments of the result are on our clock.
/// When the host has the spec, calls `accepted` with a function. For a part, call this function once the part
/// is in the phase [`hoptax_format::record::Phase::Connected`]. Fails if the host is lost, or does not answer
/// in time.
pub(super) fn load(
    host: &Host,
    spec: &LoadSpec,
    roles: WatchedRoles,
    live: bool,
    interrupted: &AtomicBool,
    accepted: &mut dyn FnMut(Begin),
    report: &mut dyn FnMut(TrialUpdate),
) -> Result<Loaded, Failure> {
    let link = host.link()?;
    let mut call = link.begin(Request::Load { spec: Box::new(spec.clone()), roles, live })?;
    let (orders, offset) = (call.orders(), link.offset());
    accepted(Box::new(move |at_ns| orders.send(Order::Begin(offset.there(at_ns)))));
    let connecting = spec.timeouts.connect_ns.saturating_mul(2).max(10 * clock::SECOND);
    let limit = connecting + spec.warmup_ns + spec.duration_ns + spec.longest_response() + SLACK_NS;
    let deadline = clock::now() + limit;
    let mut is_interrupted = false;
    loop {
        let now = clock::now();
        if now > deadline {
            return Err(call.too_late(Duration::from_nanos(limit)));
        }
        match call.wait::<Loaded>(now + POLL_NS)? {
            Event::Done(mut loaded) => {
                if let Some(record) = &mut loaded.record {
                    record.started_ns = link.offset().here(record.started_ns);
                }
                return Ok(loaded);
            }
            Event::Update(Update::Trial(TrialUpdate::Phase(PhaseLine { phase, at_ns }))) => {
                report(TrialUpdate::Phase(PhaseLine { phase, at_ns: link.offset().here(at_ns) }));
            }
            Event::Update(Update::Trial(update)) => report(update),
            Event::Update(Update::Ready) | Event::Nothing => {}
        }
        if interrupted.load(Ordering::Relaxed) && !std::mem::replace(&mut is_interrupted, true) {
            call.order(Order::Interrupt);
        }
    }
}

/// Sends the first requests from the generator's host. Calls `has_ended` repeatedly until the first right
/// answer. Then calls `ready`; the generator's host sends no further request until `ready` has returned. The
/// moments of the result are on our clock.
pub(super) fn first_requests(
    host: &Host,
    asked: &FirstRequests,
    has_ended: &mut dyn FnMut() -> bool,
    ready: &mut dyn FnMut(),
) -> FirstAnswers {
    let answers = try_first_requests(host, asked, has_ended, ready);
    answers.unwrap_or_else(|failure| FirstAnswers {
        began_ns: clock::now(),
        failed: Some(failure.message),
        ..FirstAnswers::default()
    })
}

fn try_first_requests(
    host: &Host,
    asked: &FirstRequests,
    has_ended: &mut dyn FnMut() -> bool,
    ready: &mut dyn FnMut(),
) -> Result<FirstAnswers, Failure> {
    let link = host.link()?;
    let mut call = link.begin(Request::FirstRequests(Box::new(asked.clone())))?;
    let limit = asked.patience + asked.timeout * asked.count as u32 + PROMPT;
    let deadline = clock::now() + limit.as_nanos() as u64;
    let mut is_waiting = true;
    loop {
        let now = clock::now();
        if now > deadline {
            return Err(call.too_late(limit));
        }
        match call.wait::<FirstAnswers>(now + LOOK_NS)? {
            Event::Done(answers) => {
                let here = |moment: u64| link.offset().here(moment);
                return Ok(FirstAnswers {
                    began_ns: here(answers.began_ns),
                    listening_ns: answers.listening_ns.map(here),
                    ready_ns: answers.ready_ns.map(here),
                    failed: answers.failed.map(|text| asked.redact(&text)),
                    ..answers
                });
            }
            Event::Update(Update::Ready) => {
                is_waiting = false;
                ready();
                call.order(Order::Continue);
            }
            Event::Update(Update::Trial(_)) => {}
            Event::Nothing if is_waiting && has_ended() => {
                is_waiting = false;
                call.order(Order::Interrupt);
            }
            Event::Nothing => {}
        }
    }
}

/// Resources that the roles and the host have used so far. Empty if the host is lost.
pub(super) fn look(host: &Host, roles: WatchedRoles) -> Look {
    let look = || {
        let link = host.link().ok()?;
        let mut look: Look = link.ask(Request::Look(roles), PROMPT).ok()?;
        if let Some(sample) = &mut look.sample {
            sample.at_ns = link.offset().here(sample.at_ns);
        }
        Some(look)
    };
    look().unwrap_or_default()
}
