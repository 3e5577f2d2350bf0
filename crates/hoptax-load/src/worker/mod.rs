//! The part of the load that one thread runs: its slots, and how it reacts to their events.
//!
//! Workers share nothing. Once the load runs steadily, a request allocates nothing.

use crate::clock;
use crate::connection::{ConnectionSlot, Event, Read, State};
use crate::event_loop::{AfterEnd, EventLoop, Handler, Token};
use crate::pace::Pace;
use crate::pacer::Pacer;
use crate::recorder::{Recorder, Response, Tally, Times};
use crate::scratch::Scratch;
use crate::target::{Mix, Requests};
use crate::timeouts::{Kind, Timeouts};
use crate::tls::Client;
use hoptax_format::Address;
use hoptax_format::clock::MILLISECOND;
use hoptax_format::record::Cause;
use hoptax_format::spec;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::IpAddr;
use tls_shared::TlsShared;
use uploads::Uploads;

/// Time that a slot waits after its first failure. Each further failure doubles this time.
const SHORTEST_REST: u64 = 10 * MILLISECOND;
/// Maximum time that a slot waits after a failure.
const LONGEST_REST: u64 = 1000 * MILLISECOND;
/// Maximum number of slots that get their first request before the loop reads responses again.
const STARTS_AT_ONCE: usize = 128;
/// Shortly before a request is due, a worker with its own CPU stops sleeping and polls. This is the duration
/// of polling, nanoseconds. It covers the wake-up latency of common kernels.
const SPIN: u64 = 50_000;
/// Maximum number of attempts per slot to open a connection before traffic begins. If the peer refuses them,
/// there are fewer attempts.
const OPENING_ATTEMPTS: u8 = 5;

/// A load without any response gives up after this many failures per slot. With the waiting times between
/// them, these failures take 0.3 s.
const HOPELESS_FAILURES: u64 = 5;

#[derive(Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) addresses: &'a [Address],
    /// Local addresses to connect from. If empty, the kernel chooses.
    pub(crate) sources: &'a [IpAddr],
    pub(crate) mix: &'a Mix<'a>,
    pub(crate) tls: Option<&'a Client>,
    pub(crate) proxy_protocol: Option<spec::ProxyProtocol>,
    /// The request that opens a tunnel through a forward proxy.
    pub(crate) tunnel: Option<&'a [u8]>,
    /// Maximum number of retired connections per worker that are open at the same time as the regular
    /// connections.
    pub(crate) most_leaving: usize,
    pub(crate) timeouts: spec::Timeouts,
    pub(crate) retry: spec::Retry,
    pub(crate) spin: Spin,
    pub(crate) stamps: bool,
}

/// Whether a worker polls without sleeping shortly before a request is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spin {
    /// It always sleeps, because it has no CPU of its own.
    Never,
    /// It polls while no request is in flight. It shares its CPU with processes that have nothing to do at
    /// that time.
    Unloaded,
    /// It always polls, because it has its own CPU.
    Always,
}

impl Spin {
    /// The choice for the workers of `spec`.
    pub(crate) fn of(spec: &spec::LoadSpec) -> Self {
        match (spec.cpus.is_empty(), spec.shares_cpus) {
            (true, _) => Self::Never,
            (false, true) => Self::Unloaded,
            (false, false) => Self::Always,
        }
    }
}

/// Source of new requests.
#[derive(Debug)]
pub(crate) enum Source {
    /// No requests yet: connections are opened, and failed connects are retried.
    Opening,
    Quiet,
    /// Closed loop. Until `end`, each free slot gets a request. From `start` on, requests are counted, and at
    /// most `limit` of them are sent.
    Closed {
        start: u64,
        end: u64,
        limit: u64,
    },
    /// Open loop. Each request that is due gets a free slot. Requests that are still due from the warm-up are
    /// sent before the requests of the measured time.
    Open {
        warmup: Box<Pacer>,
        measured: Box<Pacer>,
    },
}

#[derive(Debug)]
pub(crate) struct Worker<'a> {
    setup: &'a Setup<'a>,
    slots: Vec<ConnectionSlot>,
    /// Connections are numbered over all workers. Slot `s` has connection number `first_address + s *
    /// address_step`. Connection `i` goes to address `i mod n`, where `n` is the number of addresses.
    first_address: usize,
    address_step: usize,
    source: Source,
    pub(crate) recorder: Recorder,
    timeouts: Timeouts,
    /// Slots that wait after a failure, ordered by the end of their waiting time.
    resting: BinaryHeap<Reverse<(u64, u32)>>,
    /// Slots that need a connection, in the order in which they began to need it.
    queued: VecDeque<u32>,
    /// Number of slots that are connecting, wait for a tunnel, or are in a TLS handshake.
    connecting: usize,
    pace: Pace,
    /// Number of retired connections that the peer has not closed yet.
    leaving: usize,
    /// True once the peer did not close a retired connection in time, because it waits for the client.
    peer_waits: bool,
    /// Slots without a request, in an open loop. The slot that has been free for the longest time is first.
    free: VecDeque<u32>,
    starting: std::ops::Range<u32>,
    active: usize,
    requests: Requests<'a>,
    /// Absent if all requests are sent at once.
    uploads: Option<Box<Uploads<'a>>>,
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
            slots: (0..slots).map(|_| ConnectionSlot::new(setup.mix.room_for_checks())).collect(),
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
            peer_waits: false,
            free: VecDeque::with_capacity(slots as usize),
            starting: 0..0,
            active: 0,
            requests: Requests::new(setup.mix, (index, workers)),
            uploads: setup.mix.has_pieces().then(Box::default),
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

    /// True if every slot is connected or has used all its attempts. If connecting is hopeless, this function
    /// also cancels further attempts.
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

    /// Number of slots that have a request without an outcome.
    pub(crate) fn active(&self) -> usize {
        self.active
    }

    /// Sets the source of new requests, which starts or stops traffic.
    pub(crate) fn set_source(&mut self, source: Source) {
        self.starting = match source {
            Source::Closed { .. } | Source::Open { .. } => 0..self.slots.len() as u32,
            Source::Opening | Source::Quiet => 0..0,
        };
        self.source = source;
    }

    /// Number of open-loop requests that were due before `until` and were not assigned to a slot yet.
    pub(crate) fn due_unsent(&self, until: u64) -> u64 {
        match &self.source {
            Source::Open { measured, .. } => measured.due_unsent(until),
            _ => 0,
        }
    }

    pub(crate) fn record_unfinished(&mut self) {
        for slot in &mut self.slots {
            if let Some(times) = slot.request.take() {
                slot.in_vain = true;
                self.recorder.unfinished(times);
            }
        }
    }

    pub(crate) fn finish(mut self, ended: u64) -> Tally {
        let tally = self.recorder.tally();
        for slot in &self.slots {
            tally.busy.connection(slot.answered, slot.in_vain);
        }
        tally.redirected_to = self.scratch.redirected_to.take();
        self.recorder.finish(ended)
    }

    /// True if no response was ever complete, and at least [`HOPELESS_FAILURES`] requests per slot have
    /// failed.
    pub(crate) fn is_hopeless(&self) -> bool {
        let enough = HOPELESS_FAILURES * self.slots.len() as u64;
        self.recorder.failures_without_response().is_some_and(|failures| failures >= enough)
    }

    pub(crate) fn has_response(&self) -> bool {
        self.recorder.failures_without_response().is_none()
    }

    /// Does all work that is due, then waits for events until `until` or until more work is due.
    pub(crate) fn turn<L: EventLoop>(&mut self, io: &mut L, mut now: u64, until: u64) -> io::Result<()> {
        if self.timeouts.next() <= now {
            // First process the bytes that have already arrived. They arrived in time, even if this thread
            // reads them only after the timeout.
            io.turn(self, Some(now))?;
            let looked = clock::now().max(now);
            while let Some((slot, kind)) = self.timeouts.expire(now) {
                self.time_out(io, slot, kind, looked);
            }
            // Processing the timeouts took time. Requests that are sent below must not get a timestamp from
            // before this work.
            now = looked;
        }
        while let Some(Reverse((at, slot))) = self.resting.peek().copied()
            && at <= now
        {
            self.resting.pop();
            self.rested(io, slot, now);
        }
        if self.uploads.is_some() {
            self.send_pieces(io, now);
        }
        if self.may_connect() || !self.starting.is_empty() {
            self.connect_queued(io);
            for _ in 0..STARTS_AT_ONCE {
                let Some(slot) = self.starting.next() else { break };
                self.start(io, slot);
            }
            // The steps above took time, and they armed timeouts at times after the old value of `now`.
            now = clock::now().max(now);
        }
        self.dispatch(io, now, false);
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
        if let Some(uploads) = &self.uploads {
            deadline = deadline.min(uploads.next());
        }
        if let Some(Reverse((at, _))) = self.resting.peek() {
            deadline = deadline.min(*at);
        }
        if let (Source::Open { warmup, measured }, false) = (&self.source, self.free.is_empty()) {
            let due = warmup.peek().or_else(|| measured.peek()).unwrap_or(u64::MAX);
            // To spin, use a deadline that is already in the past. Each turn then returns at once.
            let spins = match self.setup.spin {
                Spin::Never => false,
                Spin::Unloaded => self.active == 0,
                Spin::Always => true,
            };
            deadline = deadline.min(if spins { due.saturating_sub(SPIN) } else { due });
        }
        deadline
    }

    /// Gives a slot its first request, or marks the slot as free. In a closed loop, the first request is due
    /// at once, because no earlier response determines its time.
    fn start<L: EventLoop>(&mut self, io: &mut L, slot: u32) {
        if self.slots[slot as usize].is_free() {
            self.freed(io, slot, clock::now());
        }
    }

    /// Called when a slot is ready for its next request.
    fn freed<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64) {
        match &self.source {
            Source::Opening | Source::Quiet => {}
            Source::Closed { start, end, limit } => {
                if now < *end && (now < *start || self.recorder.scheduled_so_far() < *limit) {
                    self.assign(io, slot, now, now);
                }
            }
            Source::Open { .. } => {
                // While slots get their first request, an empty list of free slots does not mean that all are
                // busy.
                let waited = self.free.is_empty() && self.starting.is_empty();
                self.free.push_back(slot);
                self.dispatch(io, now, waited);
            }
        }
    }

    /// In an open loop, assigns requests that are due to free slots. `waited` is true if no slot was free
    /// until now.
    fn dispatch<L: EventLoop>(&mut self, io: &mut L, mut now: u64, mut waited: bool) {
        while let (Source::Open { warmup, measured }, false) = (&mut self.source, self.free.is_empty()) {
            let next = if warmup.peek().is_some() { warmup } else { measured };
            let Some(scheduled) = next.take_due(now) else { return };
            let slot = self.free.pop_front().expect("there is a free one");
            if waited || self.slots[slot as usize].state() != State::Idle {
                self.recorder.waited(scheduled);
            }
            waited = false;
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

    fn queue_connect(&mut self, slot: u32) {
        self.slots[slot as usize].step(Event::Wanted);
        self.queued.push_back(slot);
    }

    /// Called when the connect or the request of `slot` failed. Records the outcome of the request and closes
    /// the connection. The slot then waits before it connects again, so that a failing target is not flooded.
    fn fail<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64, cause: Cause, text: &str) {
        io.close(self.token(slot));
        self.timeouts.failed(slot);
        self.cancel_upload(slot);
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
            state.in_vain |= self.recorder.is_measuring(now);
            self.recorder.failed(times, now, cause, text);
        }
    }

    fn time_out<L: EventLoop>(&mut self, io: &mut L, slot: u32, kind: Kind, now: u64) {
        let state = &self.slots[slot as usize];
        let begun = state.request.is_some_and(|times| times.first_byte.is_some());
        let (cause, text) = match (kind, begun) {
            (Kind::Connect, _) if self.awaits_tunnel(slot) => {
                (Cause::ConnectTimeout, "timeout while waiting for the proxy's answer to CONNECT")
            }
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
                self.peer_waits = true;
                io.reset(self.former_token(slot));
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

    /// Called when a response is complete. The slot sends its next request on the same connection or on a new
    /// one.
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
        // If parts of the request are still unsent, they would precede the next request. The connection is
        // therefore not used again.
        let unsent = io.unsent(token);
        let is_cut = self.cancel_upload(slot) || unsent > 0;
        let state = &mut self.slots[slot as usize];
        let mut times = state.request.take().expect("a busy slot has a request");
        times.length = times.length.saturating_sub(unsent as u64);
        state.failures = 0;
        self.active -= 1;
        state.answered += u32::from(self.recorder.completed(times, now, response));
        if self.setup.stamps {
            self.recorder.stamped(times, now, state.stamped());
        }
        let closing = self.setup.mix.closes(times.target, state.carried);
        if !keep_alive && !closing {
            self.recorder.closed_by_peer(now);
        }
        let keep_alive = keep_alive && !state.session.as_ref().is_some_and(|session| session.is_spent());
        if keep_alive && !closing && !is_cut {
            state.step(Event::Ended);
        } else {
            if is_cut {
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
                if let Err(error) = self.send_proxy_header(io, slot) {
                    return self.connect_failed(io, slot, now, &error);
                }
                match self.setup.tunnel {
                    None => self.reached(io, slot, now),
                    Some(request) => self.ask_for_tunnel(io, slot, now, request),
                }
            }
            Err(error) => self.connect_failed(io, slot, now, &error),
        }
    }

    fn received(&mut self, io: &mut L, token: Token, bytes: &[u8]) {
        let (slot, true) = self.slot_of(token) else {
            // Data on a retired connection is ignored. Only its end matters.
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
        // The socket cannot be used again, so it is closed whether or not a request uses it.
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
    /// Called when the connection leads to the server: TCP is connected, and the tunnel is open if there is
    /// one.
    fn reached<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64) {
        self.recorder.opened(self.slots[slot as usize].connect_started, now);
        match self.tls {
            None => self.established(io, slot, now),
            Some(_) => self.start_handshake(io, slot, now),
        }
    }

    fn established<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64) {
        self.connecting -= 1;
        self.timeouts.connected(slot);
        let state = &mut self.slots[slot as usize];
        state.step(Event::Established);
        let wanted = state.request.is_some();
        if matches!(self.source, Source::Opening) {
            // Before traffic begins, an established connection counts as a success.
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
            if self.awaits_tunnel(slot) {
                return self.read_tunnel(io, slot, now, bytes);
            }
            // A server that sends data without a request, for example status 408 on an idle connection, is
            // about to close the connection.
            io.close(token);
            self.slots[slot as usize].step(Event::Closed);
            self.recorder.unasked();
            let text = match self.setup.proxy_protocol {
                None => "the server sent data without a request",
                Some(_) => "the server sent data without a request; it may not expect the PROXY protocol",
            };
            self.connect_error = Some(text.to_owned());
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
            Err(refused) => self.fail(io, slot, now, Cause::MalformedResponse, &refused.text),
        }
    }

    /// Called when the peer has closed a connection, or when the connection has failed.
    fn ended<L: EventLoop>(&mut self, io: &mut L, slot: u32, now: u64, result: io::Result<()>) {
        if self.awaits_tunnel(slot) {
            return self.tunnel_broken(io, slot, now, result);
        }
        let state = &mut self.slots[slot as usize];
        match state.state() {
            State::Busy => {}
            State::Handshaking => return self.handshake_broken(io, slot, now, result),
            _ => {
                io.close(self.token(slot));
                return self.lost(slot, now);
            }
        }
        // With TLS, only a close_notify is a valid end of the data, because anyone on the network path can
        // close a TCP connection.
        let whole = state.session.as_ref().is_none_or(|session| session.peer_closed());
        let times = state.request.expect("a busy slot has a request");
        let target = self.setup.mix.target(times.target);
        match result.as_ref().ok().filter(|()| whole).and_then(|()| state.read_end(target)) {
            Some(response) => self.complete(io, slot, now, response, false),
            None => {
                let unsent = self.uploads.as_mut().and_then(|uploads| uploads.failure(slot));
                self.unanswered(io, slot, now, result.and(unsent.map_or(Ok(()), Err)));
            }
        }
    }

    /// Called when an idle connection has ended. This is not a failure, because the connection carried no
    /// request. The slot connects again when it gets a request.
    fn lost(&mut self, slot: u32, now: u64) {
        let state = &mut self.slots[slot as usize];
        state.step(Event::Closed);
        self.recorder.closed_unannounced(now, state.carried);
    }
}

mod connects;
mod retire;
mod retry;
mod send;
mod tls;
mod tls_shared;
mod tunnel;
mod uploads;

#[cfg(test)]
mod tests;
