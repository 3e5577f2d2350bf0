//! One thread's share of the load: its slots, and what it does when something happens to one of them.
//!
//! Nothing here is shared with other workers, and nothing is allocated per request in steady state.

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

/// Rest after a slot's first failure; doubled by each further one.
const SHORTEST_REST: u64 = 10 * MILLISECOND;
/// Longest rest.
const LONGEST_REST: u64 = 1000 * MILLISECOND;
/// Slots given their first request before the loop looks for responses again.
const STARTS_AT_ONCE: usize = 128;
/// How soon before a due moment a worker stops sleeping, when it owns its CPU: what waking takes on common kernels.
const SPIN: u64 = 50_000;
/// Attempts to open a connection before traffic begins. A refusal is final sooner than silence.
const OPENING_ATTEMPTS: u8 = 5;

/// What a worker needs to know of the trial.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) addresses: &'a [Address],
    /// Local addresses; empty: the kernel chooses.
    pub(crate) sources: &'a [IpAddr],
    pub(crate) mix: &'a Mix<'a>,
    /// TLS on every connection.
    pub(crate) tls: Option<&'a Client>,
    /// Former connections that may be open beside those asked for, per worker.
    pub(crate) most_leaving: usize,
    pub(crate) timeouts: spec::Timeouts,
    /// Whether to spin before a due moment.
    pub(crate) spin: bool,
    /// Whether responses carry the upstream's stamps.
    pub(crate) stamps: bool,
}

/// Where requests come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// Connections are opened, and again where that fails; no requests yet.
    Opening,
    /// No new requests.
    Quiet,
    /// A slot that is free gets one, until `end`, and no more than `limit` from `start` on.
    Closed { start: u64, end: u64, limit: u64 },
    /// A request that is due gets a free slot: first what the warm-up left, then the measured time's.
    Open { warmup: Box<Pacer>, measured: Box<Pacer> },
}

/// One thread's share of the load.
#[derive(Debug)]
pub(crate) struct Worker<'a> {
    setup: &'a Setup<'a>,
    slots: Vec<Slot>,
    /// Address of slot 0 and the step from slot to slot, so that connection `i` of all workers' goes to address `i`.
    first_address: usize,
    address_step: usize,
    source: Source,
    pub(crate) recorder: Recorder,
    timeouts: Timeouts,
    /// Slots at rest, by the end of their rest.
    resting: BinaryHeap<Reverse<(u64, u32)>>,
    /// Slots that want a connection, first come first served.
    queued: VecDeque<u32>,
    /// Slots that connect or shake hands.
    connecting: usize,
    pace: Pace,
    /// Former connections that the other side has not closed yet.
    leaving: usize,
    /// Open loop: slots that a request may be given to, the one that is free longest in front.
    free: VecDeque<u32>,
    /// Slots not yet looked at since traffic began.
    starting: std::ops::Range<u32>,
    /// Slots with a request.
    under_way: usize,
    /// What it requests.
    requests: Requests<'a>,
    scratch: Scratch,
    tls: Option<Box<TlsShared>>,
    /// Why the last connect failed.
    pub(crate) connect_error: Option<String>,
}

impl<'a> Worker<'a> {
    /// Worker `index` of `workers`, with `slots` connections to make.
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
            under_way: 0,
            requests: Requests::new(setup.mix, (index, workers)),
            scratch: Scratch::new(setup.mix.len(), setup.stamps),
            tls: setup.tls.map(|client| TlsShared::new(client, slots as usize)),
            connect_error: None,
        }
    }

    /// Wants a connection for every slot.
    pub(crate) fn open_all(&mut self) {
        for slot in 0..self.slots.len() as u32 {
            self.want(slot);
        }
    }

    /// Whether every slot has its connection, or has tried often enough. Where trying on is of no use, none tries on.
    pub(crate) fn is_settled(&mut self, now: u64) -> bool {
        if self.pace.is_hopeless(now) {
            self.source = Source::Quiet;
            self.want_none();
        }
        let resting = matches!(self.source, Source::Opening) && !self.resting.is_empty();
        self.queued.is_empty() && self.connecting == 0 && !resting
    }

    /// Connections that stand.
    pub(crate) fn standing(&self) -> u64 {
        self.slots.iter().filter(|slot| matches!(slot.state(), State::Idle | State::Busy)).count() as u64
    }

    /// Slots with a request that has no outcome.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Begins or ends traffic.
    pub(crate) fn set_source(&mut self, source: Source) {
        self.starting = match source {
            Source::Closed { .. } | Source::Open { .. } => 0..self.slots.len() as u32,
            Source::Opening | Source::Quiet => 0..0,
        };
        self.source = source;
    }

    /// Requests of the open loop that were due before `until` and still stand in line.
    pub(crate) fn in_line(&self, until: u64) -> u64 {
        match &self.source {
            Source::Open { measured, .. } => measured.in_line(until),
            _ => 0,
        }
    }

    /// Writes down what became of every request that has no outcome.
    pub(crate) fn leave_over(&mut self) {
        for slot in &mut self.slots {
            if let Some(times) = slot.request.take() {
                self.recorder.left_over(times);
            }
        }
    }

    /// Closes the books on a measured time that ended at `ended`.
    pub(crate) fn finish(self, ended: u64) -> Tally {
        self.recorder.finish(ended)
    }

    /// Does what is due, then waits for events, at most until `until`.
    pub(crate) fn turn<L: EventLoop>(&mut self, io: &mut L, mut now: u64, until: u64) -> io::Result<()> {
        if self.timeouts.next() <= now {
            // What is there already is no timeout, however late this thread is to look.
            io.turn(self, Some(now))?;
            let looked = clock::now().max(now);
            while let Some((slot, kind)) = self.timeouts.expire(now) {
                self.time_out(io, slot, kind, looked);
            }
            // What is sent now is stamped with the moment that it is, and not with one before all of that.
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
            // That took its time, and may have armed timeouts at later moments than this turn's first.
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
            // Close to the moment a worker that owns its CPU only polls: each turn then returns at once.
            deadline = deadline.min(if self.setup.spin { due.saturating_sub(SPIN) } else { due });
        }
        deadline
    }

    /// Gives a slot its first request, or a place among the free ones. In a closed loop the moment is this one: nothing
    /// scheduled it earlier.
    fn start<L: EventLoop>(&mut self, io: &mut L, slot: u32) {
        if self.slots[slot as usize].is_free() {
            self.freed(io, slot, clock::now());
        }
    }

    /// A slot can take a request.
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

    /// Open loop: gives requests that are due to free slots.
    fn dispatch<L: EventLoop>(&mut self, io: &mut L, mut now: u64) {
        while let (Source::Open { warmup, measured }, false) = (&mut self.source, self.free.is_empty()) {
            let next = if warmup.peek().is_some() { warmup } else { measured };
            let Some(scheduled) = next.take_due(now) else { return };
            let slot = self.free.pop_front().expect("there is a free one");
            self.assign(io, slot, scheduled, now);
            now = clock::now();
        }
    }

    /// Gives `slot` the request that was due at `scheduled`.
    fn assign<L: EventLoop>(&mut self, io: &mut L, slot: u32, scheduled: u64, now: u64) {
        let target = self.requests.choose();
        self.recorder.scheduled(scheduled, target);
        self.under_way += 1;
        self.slots[slot as usize].request = Some(Times::new(scheduled, target));
        if self.slots[slot as usize].state() == State::Idle {
            self.send(io, slot, now);
        } else {
            self.want(slot);
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

    fn want(&mut self, slot: u32) {
        self.slots[slot as usize].step(Event::Wanted);
        self.queued.push_back(slot);
    }

    /// The connect or the request of `slot` failed: the request has its outcome, the connection is over, and the slot
    /// rests before it tries again, so that a target in trouble is not stormed.
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
            self.under_way -= 1;
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
                return self.left(slot);
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
            Source::Opening if self.slots[slot as usize].failures < OPENING_ATTEMPTS => self.want(slot),
            _ if self.starting.contains(&slot) => {}
            _ => self.freed(io, slot, now),
        }
    }

    /// A response is whole. The slot goes on with its next request, on this connection or on a new one.
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
        self.under_way -= 1;
        self.recorder.completed(times, now, response);
        if self.setup.stamps {
            self.recorder.stamped(times, now, state.stamped());
        }
        let closing = self.setup.mix.closes(times.target, state.carried);
        if !keep_alive && !closing {
            self.recorder.closed_by_peer(now);
        }
        let keep_alive = keep_alive && !state.session.as_ref().is_some_and(|session| session.is_spent());
        // An answer to half a request leaves the other half in the way of the next one.
        let unsent = io.unsent(token) > 0;
        if keep_alive && !closing && !unsent {
            state.step(Event::Ended);
        } else {
            if unsent {
                io.close(token);
            }
            self.part(io, slot, now);
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
                    Some(_) => self.shake_hands(io, slot, now),
                }
            }
            Err(error) => self.connect_failed(io, slot, now, &error),
        }
    }

    fn received(&mut self, io: &mut L, token: Token, bytes: &[u8]) {
        let (slot, true) = self.slot_of(token) else {
            // Nobody asked for more. Its end is all that matters now.
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
        // Whatever becomes of it, its socket is of no use any more.
        io.close(token);
        if present {
            self.ended(io, slot, clock::now(), result);
        } else {
            self.left(slot);
        }
        AfterEnd::Close
    }
}

impl Worker<'_> {
    /// A connection stands and may carry requests.
    fn established<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64) {
        self.connecting -= 1;
        self.timeouts.connected(slot);
        let state = &mut self.slots[slot as usize];
        state.step(Event::Established);
        let wanted = state.request.is_some();
        if matches!(self.source, Source::Opening) {
            // Before traffic, an established connection is all the success there can be.
            state.failures = 0;
            self.pace.proved();
        }
        if wanted {
            self.send(io, slot, now);
        } else if !self.starting.contains(&slot) {
            self.freed(io, slot, now);
        }
    }

    /// Bytes of HTTP came.
    fn read<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64, bytes: &[u8]) {
        let token = self.token(slot);
        let state = &mut self.slots[slot as usize];
        if state.state() != State::Busy {
            // A server that speaks unasked (a 408 to an idle connection) is about to close it.
            io.close(token);
            state.step(Event::Closed);
            self.recorder.unasked();
            self.connect_error = Some("the other side spoke unasked".to_owned());
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

    /// The other side ended a connection, or it broke.
    fn ended<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64, result: io::Result<()>) {
        let state = &mut self.slots[slot as usize];
        match state.state() {
            State::Busy => {}
            State::Handshaking => return self.broke_off(io, slot, now, result),
            _ => {
                io.close(self.token(slot));
                return self.lost(slot, now);
            }
        }
        // Under TLS only a close_notify is an end: anybody on the way can end a connection of TCP.
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

    /// An idle connection is gone. Nothing failed, as nothing was asked: the slot connects again when it gets a request.
    fn lost(&mut self, slot: u32, now: u64) {
        self.slots[slot as usize].step(Event::Closed);
        self.recorder.closed_by_peer(now);
    }
}

mod connects;
mod parting;
mod tls;
mod tls_shared;

#[cfg(test)]
mod tests;
