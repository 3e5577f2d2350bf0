//! One thread's share of the load: its slots, and how it reacts to their events.
//!
//! Workers share nothing, and allocate nothing per request in steady state.

use crate::address::Address;
use crate::cause;
use crate::clock::{self, MILLISECOND};
use crate::connection::{Event, Read, Slot, State};
use crate::event_loop::{AfterEnd, EventLoop, Handler, Token};
use crate::pace::Pace;
use crate::pacer::Pacer;
use crate::record::Cause;
use crate::recorder::{Recorder, Response, Tally, Times};
use crate::scratch::Scratch;
use crate::spec;
use crate::target::{Mix, Requests};
use crate::timeouts::{Kind, Timeouts};
use crate::tls::Client;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::IpAddr;
use tls_shared::TlsShared;

/// Wait after a slot's first failure. Each further failure doubles the wait.
const SHORTEST_REST: u64 = 10 * MILLISECOND;
/// Longest wait after a failure.
const LONGEST_REST: u64 = 1000 * MILLISECOND;
/// Maximum number of slots that get their first request before the loop looks for responses again.
const STARTS_AT_ONCE: usize = 128;
/// A worker with its own CPU stops sleeping this long before a request is due, nanoseconds. This covers the wake-up
/// latency of common kernels.
const SPIN: u64 = 50_000;
/// Attempts per slot to open a connection before traffic begins. There are fewer attempts if the peer refuses them.
const OPENING_ATTEMPTS: u8 = 5;

#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) addresses: &'a [Address],
    /// Local addresses to connect from. If empty, the kernel chooses.
    pub(crate) sources: &'a [IpAddr],
    pub(crate) mix: &'a Mix<'a>,
    pub(crate) tls: Option<&'a Client>,
    /// Maximum number of retired connections that may be open in addition to the regular ones, per worker.
    pub(crate) most_leaving: usize,
    pub(crate) timeouts: spec::Timeouts,
    /// True if the worker spins before a request is due.
    pub(crate) spin: bool,
    pub(crate) stamps: bool,
}

/// Where new requests come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// There are no requests yet. Connections are opened, and failed ones are retried.
    Opening,
    Quiet,
    /// Closed loop: until `end`, each free slot gets a request. At most `limit` requests are counted from `start` on.
    Closed {
        start: u64,
        end: u64,
        limit: u64,
    },
    /// Open loop: each due request gets a free slot. The requests that remain from the warm-up come before those of
    /// the measured time.
    Open {
        warmup: Box<Pacer>,
        measured: Box<Pacer>,
    },
}

#[derive(Debug)]
pub(crate) struct Worker<'a> {
    setup: &'a Setup<'a>,
    slots: Vec<Slot>,
    /// Slot 0 has connection `first_address`, counted over all workers, and each further slot has the connection
    /// `address_step` later. Connection `i` goes to address `i`, modulo the number of addresses.
    first_address: usize,
    address_step: usize,
    source: Source,
    pub(crate) recorder: Recorder,
    timeouts: Timeouts,
    /// Slots that wait after a failure, ordered by the end of their wait.
    resting: BinaryHeap<Reverse<(u64, u32)>>,
    /// Slots that need a connection, in the order in which they began to need it.
    queued: VecDeque<u32>,
    /// Number of slots that are connecting or in a TLS handshake.
    connecting: usize,
    pace: Pace,
    /// Number of retired connections that the peer has not closed yet.
    leaving: usize,
    /// Open loop: slots without a request, the longest idle first.
    free: VecDeque<u32>,
    starting: std::ops::Range<u32>,
    active: usize,
    requests: Requests<'a>,
    scratch: Scratch,
    tls: Option<Box<TlsShared>>,
    pub(crate) connect_error: Option<String>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        setup: &'a Setup<'a>,
        (index, workers): (u32, u32),
        slots: u32,
        recorder: Recorder,
    ) -> Self {
        Self {
            setup,
            slots: (0..slots).map(|_| Slot::new(setup.mix.room_for_checks())).collect(),
            first_address: index as usize,
            address_step: workers as usize,
            source: Source::Opening,
            recorder,
            timeouts: Timeouts::new(setup.timeouts),
            resting: BinaryHeap::new(),
            queued: VecDeque::with_capacity(slots as usize),
            connecting: 0,
            pace: Pace::default(),
            leaving: 0,
            free: VecDeque::with_capacity(slots as usize),
            starting: 0..0,
            active: 0,
            requests: Requests::new(setup.mix, (index, workers)),
            scratch: Scratch::new(setup.mix.len(), setup.stamps),
            tls: setup.tls.map(|client| TlsShared::new(client, slots as usize)),
            connect_error: None,
        }
    }

    pub(crate) fn open_all(&mut self) {
        for slot in 0..self.slots.len() as u32 {
            self.queue_connect(slot);
        }
    }

    /// True if every slot has its connection or has used up its attempts. Cancels further attempts if they are
    /// hopeless.
    pub(crate) fn is_settled(&mut self, now: u64) -> bool {
        if self.pace.is_hopeless(now) {
            self.source = Source::Quiet;
            self.cancel_queued();
        }
        let resting = matches!(self.source, Source::Opening) && !self.resting.is_empty();
        self.queued.is_empty() && self.connecting == 0 && !resting
    }

    pub(crate) fn established_count(&self) -> u64 {
        self.slots.iter().filter(|slot| matches!(slot.state(), State::Idle | State::Busy)).count() as u64
    }

    /// Number of slots with a request that has no outcome yet.
    pub(crate) fn active(&self) -> usize {
        self.active
    }

    /// Starts or stops traffic.
    pub(crate) fn set_source(&mut self, source: Source) {
        self.starting = match source {
            Source::Closed { .. } | Source::Open { .. } => 0..self.slots.len() as u32,
            Source::Opening | Source::Quiet => 0..0,
        };
        self.source = source;
    }

    /// Number of open-loop requests that were due before `until` and have no slot yet.
    pub(crate) fn due_unsent(&self, until: u64) -> u64 {
        match &self.source {
            Source::Open { measured, .. } => measured.due_unsent(until),
            _ => 0,
        }
    }

    pub(crate) fn record_unfinished(&mut self) {
        for slot in &mut self.slots {
            if let Some(times) = slot.request.take() {
                self.recorder.unfinished(times);
            }
        }
    }

    pub(crate) fn finish(self, ended: u64) -> Tally {
        self.recorder.finish(ended)
    }

    /// Does all work that is due, then waits for events, at most until `until`.
    pub(crate) fn turn<L: EventLoop>(&mut self, io: &mut L, mut now: u64, until: u64) -> io::Result<()> {
        if self.timeouts.next() <= now {
            // Deliver the bytes that have already arrived first. They arrived in time, even if this thread was too
            // late to look.
            io.turn(self, Some(now))?;
            let looked = clock::now().max(now);
            while let Some((slot, kind)) = self.timeouts.expire(now) {
                self.time_out(io, slot, kind, looked);
            }
            // The send timestamps below must not be earlier than the work above.
            now = looked;
        }
        while let Some(Reverse((at, slot))) = self.resting.peek().copied()
            && at <= now
        {
            self.resting.pop();
            self.rested(io, slot, now);
        }
        if self.may_connect() || !self.starting.is_empty() {
            self.connect_queued(io);
            for _ in 0..STARTS_AT_ONCE {
                let Some(slot) = self.starting.next() else { break };
                self.start(io, slot);
            }
            // The steps above took time. They may have armed timeouts that begin after the start of this turn.
            now = clock::now().max(now);
        }
        self.dispatch(io, now);
        let deadline = self.deadline(now, until);
        io.turn(self, Some(deadline))
    }

    fn deadline(&self, now: u64, until: u64) -> u64 {
        if !self.starting.is_empty() {
            return now;
        }
        let mut deadline = until;
        if self.may_connect() {
            deadline = deadline.min(self.pace.not_before().max(now));
        }
        deadline = deadline.min(self.timeouts.next());
        if let Some(Reverse((at, _))) = self.resting.peek() {
            deadline = deadline.min(*at);
        }
        if let (Source::Open { warmup, measured }, false) = (&self.source, self.free.is_empty()) {
            let due = warmup.peek().or_else(|| measured.peek()).unwrap_or(u64::MAX);
            // Close to the due time, a worker with its own CPU only polls, so that each turn returns at once.
            deadline = deadline.min(if self.setup.spin { due.saturating_sub(SPIN) } else { due });
        }
        deadline
    }

    /// Gives a slot its first request, or marks it as free. In a closed loop, the first request is due now, because
    /// there is no earlier response that determines its time.
    fn start<L: EventLoop>(&mut self, io: &mut L, slot: u32) {
        if self.slots[slot as usize].is_free() {
            self.freed(io, slot, clock::now());
        }
    }

    /// Called when a slot can take a request.
    fn freed<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64) {
        match &self.source {
            Source::Opening | Source::Quiet => {}
            Source::Closed { start, end, limit } => {
                if now < *end && (now < *start || self.recorder.scheduled_so_far() < *limit) {
                    self.assign(io, slot, now, now);
                }
            }
            Source::Open { .. } => {
                self.free.push_back(slot);
                self.dispatch(io, now);
            }
        }
    }

    /// Open loop: assigns due requests to free slots.
    fn dispatch<L: EventLoop>(&mut self, io: &mut L, mut now: u64) {
        while let (Source::Open { warmup, measured }, false) = (&mut self.source, self.free.is_empty()) {
            let next = if warmup.peek().is_some() { warmup } else { measured };
            let Some(scheduled) = next.take_due(now) else { return };
            let slot = self.free.pop_front().expect("there is a free one");
            self.assign(io, slot, scheduled, now);
            now = clock::now();
        }
    }

    fn assign<L: EventLoop>(&mut self, io: &mut L, slot: u32, scheduled: u64, now: u64) {
        let target = self.requests.choose();
        self.recorder.scheduled(scheduled, target);
        self.active += 1;
        self.slots[slot as usize].request = Some(Times::new(scheduled, target));
        if self.slots[slot as usize].state() == State::Idle {
            self.send(io, slot, now);
        } else {
            self.queue_connect(slot);
            self.connect_queued(io);
        }
    }

    fn send<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64) {
        let token = self.token(slot);
        let state = &mut self.slots[slot as usize];
        let times = state.request.as_mut().expect("only a slot with a request sends");
        let reused = state.carried > 0;
        state.carried = state.carried.saturating_add(1);
        let bytes = self.requests.next(times.target, state.carried);
        times.length = bytes.len() as u64;
        let given = match &mut self.tls {
            None => io.send(token, bytes),
            Some(tls) => tls.send(io, token, state.session.as_deref_mut(), bytes),
        };
        if let Err(error) = given {
            let (cause, text) = cause::of_end(Err(error), false);
            return self.fail(io, slot, now, cause, &text);
        }
        times.sent = Some(now);
        let scheduled = times.scheduled;
        let target = self.setup.mix.target(times.target);
        state.expect_response(target);
        state.step(Event::Sent);
        self.timeouts.sent(slot, now);
        self.recorder.sent(scheduled, now, reused);
    }

    fn queue_connect(&mut self, slot: u32) {
        self.slots[slot as usize].step(Event::Wanted);
        self.queued.push_back(slot);
    }

    /// The connect or request of `slot` failed. Records the request's outcome, closes the connection, and lets the
    /// slot wait before it retries, so that a failing target is not flooded.
    fn fail<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64, cause: Cause, text: &str) {
        io.close(self.token(slot));
        self.timeouts.failed(slot);
        let state = &mut self.slots[slot as usize];
        match state.state() {
            State::Connecting | State::Handshaking => self.connecting -= 1,
            State::Queued => self.queued.retain(|queued| *queued != slot),
            _ => {}
        }
        if !matches!(state.state(), State::Idle | State::Busy) || state.carried <= 1 {
            self.pace.failed(now, matches!(cause, Cause::PortsExhausted | Cause::DescriptorsExhausted));
        }
        state.step(Event::Failed);
        let rest = SHORTEST_REST.saturating_mul(1 << state.failures.min(20)).min(LONGEST_REST);
        state.failures = state.failures.saturating_add(1);
        self.resting.push(Reverse((now + rest, slot)));
        if let Some(times) = state.request.take() {
            self.active -= 1;
            self.recorder.failed(times, now, cause, text);
        }
    }

    fn time_out<L: EventLoop>(&mut self, io: &mut L, slot: u32, kind: Kind, now: u64) {
        let state = &self.slots[slot as usize];
        let begun = state.request.is_some_and(|times| times.first_byte.is_some());
        let (cause, text) = match (kind, begun) {
            (Kind::Connect, _) if state.state() == State::Handshaking => {
                (Cause::TlsTimeout, "timeout in the TLS handshake")
            }
            (Kind::Connect, _) => (Cause::ConnectTimeout, "timeout while connecting"),
            (Kind::FirstByte, _) => {
                (Cause::FirstByteTimeout, "timeout while waiting for the first byte of the response")
            }
            (Kind::Total, false) => (Cause::ResponseTimeout, "timeout while waiting for the response"),
            (Kind::Total, true) => (Cause::ReadTimeout, "timeout while reading the response"),
            (Kind::Leaving, _) => {
                io.close(self.former_token(slot));
                return self.retired(slot);
            }
        };
        if kind == Kind::Connect {
            self.connect_error = Some(text.to_owned());
        }
        self.fail(io, slot, now, cause, text);
    }

    fn rested<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64) {
        self.slots[slot as usize].step(Event::Rested);
        match self.source {
            Source::Opening if self.slots[slot as usize].failures < OPENING_ATTEMPTS => {
                self.queue_connect(slot);
            }
            _ if self.starting.contains(&slot) => {}
            _ => self.freed(io, slot, now),
        }
    }

    /// A response is complete. The slot continues with its next request, on this connection or a new one.
    fn complete<L: EventLoop>(
        &mut self,
        io: &mut L,
        slot: u32,
        now: u64,
        response: Response,
        keep_alive: bool,
    ) {
        self.timeouts.completed(slot);
        self.pace.proved();
        let token = self.token(slot);
        let state = &mut self.slots[slot as usize];
        let times = state.request.take().expect("a busy slot has a request");
        state.failures = 0;
        self.active -= 1;
        self.recorder.completed(times, now, response);
        if self.setup.stamps {
            self.recorder.stamped(times, now, state.stamped());
        }
        let closing = self.setup.mix.closes(times.target, state.carried);
        if !keep_alive && !closing {
            self.recorder.closed_by_peer(now);
        }
        let keep_alive = keep_alive && !state.session.as_ref().is_some_and(|session| session.is_spent());
        // If part of the request is still unsent, it would precede the next request.
        let unsent = io.unsent(token) > 0;
        if keep_alive && !closing && !unsent {
            state.step(Event::Ended);
        } else {
            if unsent {
                io.close(token);
            }
            self.retire(io, slot, now);
        }
        self.freed(io, slot, now);
    }
}

impl<L: EventLoop> Handler<L> for Worker<'_> {
    fn connected(&mut self, io: &mut L, token: Token, result: io::Result<()>) {
        let now = clock::now();
        let (slot, _) = self.slot_of(token);
        match result {
            Ok(()) => {
                self.pace.connected();
                self.recorder.opened(self.slots[slot as usize].connect_started, now);
                match self.tls {
                    None => self.established(io, slot, now),
                    Some(_) => self.start_handshake(io, slot, now),
                }
            }
            Err(error) => self.connect_failed(io, slot, now, &error),
        }
    }

    fn received(&mut self, io: &mut L, token: Token, bytes: &[u8]) {
        let (slot, true) = self.slot_of(token) else {
            // Data on a retired connection is ignored. Only the end of the connection matters.
            return;
        };
        let now = clock::now();
        match self.tls {
            None => self.read(io, slot, now, bytes),
            Some(_) => self.decrypt(io, slot, now, bytes),
        }
    }

    fn closed(&mut self, io: &mut L, token: Token, result: io::Result<()>) -> AfterEnd {
        let (slot, present) = self.slot_of(token);
        // Close the socket in any case, because it cannot be used again.
        io.close(token);
        if present {
            self.ended(io, slot, clock::now(), result);
        } else {
            self.retired(slot);
        }
        AfterEnd::Close
    }
}

impl Worker<'_> {
    fn established<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64) {
        self.connecting -= 1;
        self.timeouts.connected(slot);
        let state = &mut self.slots[slot as usize];
        state.step(Event::Established);
        let wanted = state.request.is_some();
        if matches!(self.source, Source::Opening) {
            // Before traffic, an established connection counts as success.
            state.failures = 0;
            self.pace.proved();
        }
        if wanted {
            self.send(io, slot, now);
        } else if !self.starting.contains(&slot) {
            self.freed(io, slot, now);
        }
    }

    fn read<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64, bytes: &[u8]) {
        let token = self.token(slot);
        let state = &mut self.slots[slot as usize];
        if state.state() != State::Busy {
            // A server that sends unrequested data (a 408 on an idle connection) is about to close it.
            io.close(token);
            state.step(Event::Closed);
            self.recorder.unasked();
            self.connect_error = Some("the server sent data without a request".to_owned());
            return;
        }
        let times = state.request.as_mut().expect("a busy slot has a request");
        if times.first_byte.is_none() {
            times.first_byte = Some(now);
            self.timeouts.responding(slot);
        }
        let target = self.setup.mix.target(times.target);
        match state.read(&mut self.scratch, target, bytes) {
            Ok(Read::More) => {}
            Ok(Read::Whole { response, keep_alive }) => self.complete(io, slot, now, response, keep_alive),
            Err(malformed) => self.fail(io, slot, now, Cause::MalformedResponse, &malformed.to_string()),
        }
    }

    /// The peer closed a connection, or it failed.
    fn ended<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64, result: io::Result<()>) {
        let state = &mut self.slots[slot as usize];
        match state.state() {
            State::Busy => {}
            State::Handshaking => return self.handshake_broken(io, slot, now, result),
            _ => {
                io.close(self.token(slot));
                return self.lost(slot, now);
            }
        }
        // With TLS, only a close_notify is a valid end: anyone on the path can close a TCP connection.
        let whole = state.session.as_ref().is_none_or(|session| session.peer_closed());
        let times = state.request.expect("a busy slot has a request");
        let target = self.setup.mix.target(times.target);
        match result.as_ref().ok().filter(|()| whole).and_then(|()| state.read_end(target)) {
            Some(response) => self.complete(io, slot, now, response, false),
            None => {
                let begun = state.request.is_some_and(|times| times.first_byte.is_some());
                let (cause, text) = cause::of_end(result, begun);
                self.recorder.closed_by_peer(now);
                self.fail(io, slot, now, cause, &text);
            }
        }
    }

    /// An idle connection is gone. This is not a failure, because the connection carried no request. The slot
    /// connects again when it gets a request.
    fn lost(&mut self, slot: u32, now: u64) {
        self.slots[slot as usize].step(Event::Closed);
        self.recorder.closed_by_peer(now);
    }
}

mod connects;
mod retire;
mod tls;
mod tls_shared;

#[cfg(test)]
mod tests;
