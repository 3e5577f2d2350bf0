//! Completions by io_uring, on Linux 6.1 or newer: one receive per connection that goes on for its whole life and fills
//! buffers that all connections share, descriptors registered with the ring, and one system call per turn that hands
//! over everything queued and brings everything that happened.

mod buffers;
mod connection;
mod ring;
#[cfg(test)]
mod tests;

use super::{AfterEnd, EventLoop, Handler, Token, client};
use crate::address::Address;
use crate::clock;
use buffers::{Chunk, Size};
use connection::{Connection, Descriptor, HeldBack, Kind, Slot};
use ring::{Completion, Event, Flight, Owner, Ring, Sizes};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, sockopt};
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr, TcpListener};

/// Sizes for thousands of connections. Fewer buffers run out when a turn brings many large bodies, and receiving has to be
/// asked for again: at 100 connections with 64 KiB, 32 of them cost 10.9 µs of CPU per request, 16 cost 11.5, 8 cost 12.1
/// and 4 cost 13.2 (epoll 11.0); at 64 B it makes no difference.
const SIZES: Sizes =
    Sizes { submissions: 512, completions: 4096, buffers: Size { count: 32, bytes: 64 * 1024 } };
/// How long a listener rests after the process ran out of descriptors.
const ACCEPT_REST: u64 = 10 * clock::MILLISECOND;

/// An event loop on io_uring.
pub struct Uring {
    ring: Ring,
    slots: Vec<Slot>,
    completions: Vec<Completion>,
    /// Unix sockets whose connect has succeeded, which is not told yet.
    connected: Vec<Owner>,
    /// Connections that were resumed while something was held back, or while the kernel was not asked to receive.
    resumed: Vec<Owner>,
    /// Listeners that could not accept for want of descriptors, and when they try again.
    resting: Vec<Owner>,
    rest_until: u64,
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

/// Writes until everything is taken or the kernel wants no more; tells how much was taken.
///
/// A system call of its own, although the ring could carry it: at 100 connections with 64 B both cost the same, 5.71 µs of
/// CPU per request against 5.73 queued (Linux 6.18, AMD EPYC, median of 12; epoll 5.67), as 71 to 76 % of that is the
/// kernel's way through TCP to the peer. This way the bytes leave when the caller's clock says so, not after everything
/// else of this turn, and large ones are not copied twice.
fn write(socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match rustix::net::send(socket, &bytes[sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(count) => sent += count,
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sent)
}

fn not_connected() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl Uring {
    /// A loop without connections, for this thread alone.
    ///
    /// # Errors
    /// If the kernel does not know io_uring or what is used of it, or forbids it.
    pub fn new() -> io::Result<Self> {
        Self::with_sizes(SIZES)
    }

    fn with_sizes(sizes: Sizes) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::new(sizes)?,
            slots: Vec::new(),
            completions: Vec::new(),
            connected: Vec::new(),
            resumed: Vec::new(),
            resting: Vec::new(),
            rest_until: 0,
        })
    }

    /// The free slot of `token`.
    ///
    /// # Panics
    /// If the token is taken: two connections under one name would swap their bytes.
    fn vacant(&mut self, token: Token) -> &mut Slot {
        if self.slots.len() <= token.index() {
            self.slots.resize_with(token.index() + 1, Slot::default);
        }
        let slot = &mut self.slots[token.index()];
        assert!(matches!(slot.kind, Kind::Free), "token {token:?} is taken");
        slot
    }

    fn owner(&self, token: Token) -> Owner {
        Owner { token, generation: self.slots[token.index()].generation }
    }

    /// The slot, if the token still has the generation that the completion was for.
    fn current(&mut self, owner: Owner) -> Option<&mut Slot> {
        self.slots.get_mut(owner.token.index()).filter(|slot| slot.generation == owner.generation)
    }

    fn connection(&mut self, token: Token) -> Option<&mut Connection> {
        match self.slots.get_mut(token.index())?.kind {
            Kind::Open(ref mut connection) => Some(connection),
            _ => None,
        }
    }

    fn current_connection(&mut self, owner: Owner) -> Option<&mut Connection> {
        match self.current(owner)?.kind {
            Kind::Open(ref mut connection) => Some(connection),
            _ => None,
        }
    }

    /// Takes the socket in as the connection of `owner`, and asks for what arrives on it.
    fn open(&mut self, owner: Owner, descriptor: Descriptor) -> io::Result<()> {
        self.slots[owner.token.index()].kind = Kind::Open(Connection::new(descriptor));
        self.receive(owner)
    }

    /// Asks for what arrives, unless that was done or is not wanted.
    fn receive(&mut self, owner: Owner) -> io::Result<()> {
        let epoch = self.ring.epoch();
        let slot = &mut self.slots[owner.token.index()];
        let Slot { generation, queued, kind: Kind::Open(connection) } = slot else { return Ok(()) };
        if *generation != owner.generation || connection.receiving || connection.paused || connection.ended {
            return Ok(());
        }
        connection.receiving = true;
        *queued = epoch;
        self.ring.receive(owner, connection.descriptor.named())
    }

    fn deliver(&mut self, handler: &mut impl Handler<Self>, completion: Completion) {
        match self.ring.look(completion) {
            Event::Nothing => {}
            Event::Watched(owner) => self.watched(handler, owner),
            Event::Received { owner, result, more } => self.received(handler, owner, result, more),
            Event::Sent { owner, flight, result } => self.sent(handler, owner, flight, result),
            Event::Connected(owner, result) => self.connected(handler, owner, result),
            Event::Accepted { listener, result, more } => self.accepted(handler, listener, result, more),
        }
    }

    fn connected(&mut self, handler: &mut impl Handler<Self>, owner: Owner, result: io::Result<()>) {
        let Some(slot) = self.current(owner) else { return };
        let Kind::Connecting(descriptor) = mem::take(&mut slot.kind) else { return };
        let result = match result {
            Ok(()) => self.open(owner, descriptor),
            Err(error) => {
                slot.kind = Kind::Connecting(descriptor);
                Err(error)
            }
        };
        if result.is_err() {
            self.close(owner.token);
        }
        handler.connected(self, owner.token, result);
    }

    fn received(
        &mut self,
        handler: &mut impl Handler<Self>,
        owner: Owner,
        result: Result<Option<Chunk>, Errno>,
        more: bool,
    ) {
        if let Some(connection) = self.current_connection(owner) {
            connection.receiving = more;
        }
        match result {
            Ok(Some(chunk)) => {
                let buffers = std::rc::Rc::clone(self.ring.buffers());
                let held_back = self.current_connection(owner).map(Connection::hold_back);
                match held_back {
                    Some(None) => handler.received(self, owner.token, buffers.bytes(&chunk)),
                    Some(Some(held_back)) => held_back.bytes.extend_from_slice(buffers.bytes(&chunk)),
                    None => {}
                }
                buffers.give_back(chunk);
                if !more && self.receive(owner).is_err() {
                    self.broken(handler, owner, io::ErrorKind::OutOfMemory.into());
                }
            }
            Ok(None) => self.end(handler, owner, Ok(())),
            // All buffers were in use, which they no longer are when the kernel looks next; or it was told to stop, and
            // perhaps to go on since.
            Err(Errno::NOBUFS | Errno::CANCELED | Errno::AGAIN | Errno::INTR) => {
                if let Err(error) = self.receive(owner) {
                    self.broken(handler, owner, error);
                }
            }
            Err(error) => self.end(handler, owner, Err(error.into())),
        }
    }

    /// The peer's stream is over. A paused connection learns of it when it is resumed.
    fn end(&mut self, handler: &mut impl Handler<Self>, owner: Owner, result: io::Result<()>) {
        let Some(connection) = self.current_connection(owner) else { return };
        if let Some(held_back) = connection.hold_back() {
            held_back.end = Some(result);
            return;
        }
        if let Err(error) = result {
            return self.broken(handler, owner, error);
        }
        connection.ended = true;
        let after = handler.closed(self, owner.token, Ok(()));
        let epoch = self.ring.epoch();
        let slot = self.slots.get_mut(owner.token.index()).filter(|slot| slot.generation == owner.generation);
        let Some(Slot { queued, kind: Kind::Open(connection), .. }) = slot else { return };
        if after == AfterEnd::Close {
            return self.close(owner.token);
        }
        // Nothing is received any more that would tell if it breaks.
        *queued = epoch;
        if let Err(error) = self.ring.watch(owner, connection.descriptor.named()) {
            self.broken(handler, owner, error);
        }
    }

    /// A half-open connection broke, unless the kernel only tells that our side has ended too.
    fn watched(&mut self, handler: &mut impl Handler<Self>, owner: Owner) {
        let Some(connection) = self.current_connection(owner) else { return };
        if let Err(error) = sockopt::socket_error(&connection.descriptor.socket).and_then(|outcome| outcome) {
            self.broken(handler, owner, error.into());
        }
    }

    fn broken(&mut self, handler: &mut impl Handler<Self>, owner: Owner, error: io::Error) {
        if self.current_connection(owner).is_some() {
            self.close(owner.token);
            handler.closed(self, owner.token, Err(error));
        }
    }

    /// Delivers what was held back, and receives again.
    fn go_on(&mut self, handler: &mut impl Handler<Self>, owner: Owner) {
        let Some(connection) = self.current_connection(owner) else { return };
        if connection.paused {
            return;
        }
        if let Some(held_back) = connection.held_back.take() {
            let HeldBack { bytes, end } = *held_back;
            if !bytes.is_empty() {
                handler.received(self, owner.token, &bytes);
            }
            if let Some(end) = end {
                return self.end(handler, owner, end);
            }
        }
        if let Err(error) = self.receive(owner) {
            self.broken(handler, owner, error);
        }
    }

    fn sent(
        &mut self,
        handler: &mut impl Handler<Self>,
        owner: Owner,
        flight: Flight,
        result: Result<usize, Errno>,
    ) {
        let epoch = self.ring.epoch();
        let left = self.ring.left(&flight);
        let slot = self.slots.get_mut(owner.token.index());
        let Some(Slot { generation, queued, kind: Kind::Open(connection) }) = slot else {
            return self.ring.land(flight);
        };
        if *generation != owner.generation {
            return self.ring.land(flight);
        }
        let outcome = match result {
            Ok(0) if left > 0 => Err(io::ErrorKind::WriteZero.into()),
            Err(error) if !matches!(error, Errno::INTR | Errno::AGAIN) => Err(error.into()),
            result => {
                connection.unsent -= result.unwrap_or(0);
                if left > 0 {
                    *queued = epoch;
                    return match self.ring.launch(flight, connection.descriptor.named()) {
                        Ok(()) => {}
                        Err(error) => self.broken(handler, owner, error),
                    };
                }
                if connection.pending.is_empty() {
                    Ok(())
                } else {
                    *queued = epoch;
                    let bytes = mem::take(&mut connection.pending);
                    self.ring.send_owned(owner, connection.descriptor.named(), bytes)
                }
            }
        };
        self.ring.land(flight);
        let outcome = outcome.and_then(|()| {
            if connection.unsent == 0 && connection.finishing {
                rustix::net::shutdown(&connection.descriptor.socket, Shutdown::Write)?;
            }
            Ok(connection.unsent)
        });
        match outcome {
            Ok(0) => handler.drained(self, owner.token),
            Ok(_) => {}
            Err(error) => self.broken(handler, owner, error),
        }
    }

    fn accepted(
        &mut self,
        handler: &mut impl Handler<Self>,
        listener: Owner,
        result: io::Result<OwnedFd>,
        more: bool,
    ) {
        let Some(Slot { kind: Kind::Listener(_), .. }) = self.current(listener) else { return };
        let exhausted = match result {
            Ok(socket) => {
                self.welcome(handler, listener, socket);
                false
            }
            Err(error) => !matches!(
                Errno::from_io_error(&error),
                Some(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED | Errno::CANCELED)
            ),
        };
        if exhausted {
            self.resting.push(listener);
            self.rest_until = clock::now() + ACCEPT_REST;
        } else if !more {
            self.accept(listener);
        }
    }

    /// Asks for connections. What cannot be asked now is tried again after a rest.
    fn accept(&mut self, listener: Owner) {
        let epoch = self.ring.epoch();
        let slot = &mut self.slots[listener.token.index()];
        let Slot { generation, queued, kind: Kind::Listener(socket) } = slot else { return };
        if *generation == listener.generation {
            *queued = epoch;
            if self.ring.accept(listener, socket.as_fd()).is_err() {
                self.resting.push(listener);
                self.rest_until = clock::now() + ACCEPT_REST;
            }
        }
    }

    /// Takes in a new connection, if the handler wants it.
    fn welcome(&mut self, handler: &mut impl Handler<Self>, listener: Owner, socket: OwnedFd) {
        // A peer that is gone already has no name.
        let peer = rustix::net::getpeername(&socket).ok().flatten();
        let Some(peer) = peer.and_then(|peer| SocketAddr::try_from(peer).ok()) else { return };
        let Some(new) = handler.accepted(self, listener.token, peer) else { return };
        self.vacant(new);
        let owner = self.owner(new);
        // It cannot fail for want of anything but kernel memory; the peer then waits a little longer.
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        let registered = self.ring.register(new, socket.as_fd());
        if let Err(error) = self.open(owner, Descriptor { socket, registered }) {
            self.broken(handler, owner, error);
        }
    }

    /// How long the kernel may let us sleep.
    fn timeout(&self, deadline: Option<u64>) -> Option<u64> {
        if !self.resumed.is_empty() || !self.connected.is_empty() {
            return Some(0);
        }
        let rest = (!self.resting.is_empty()).then_some(self.rest_until);
        let deadline = match (deadline, rest) {
            (Some(deadline), Some(rest)) => deadline.min(rest),
            (deadline, rest) => deadline.or(rest)?,
        };
        Some(deadline.saturating_sub(clock::now()))
    }
}

impl EventLoop for Uring {
    fn connect(&mut self, token: Token, to: &Address, from: Option<IpAddr>) -> io::Result<()> {
        self.vacant(token);
        let owner = self.owner(token);
        let (socket, address) = client::socket(to, from)?;
        // A Unix socket connects on the spot or not at all; the ring would wait, out of reach, for room in a full backlog.
        let stands = matches!(to, Address::Unix(_));
        if stands {
            rustix::net::connect(&socket, &address)?;
        }
        let registered = self.ring.register(token, socket.as_fd());
        let descriptor = Descriptor { socket, registered };
        if stands {
            self.slots[token.index()].kind = Kind::Connecting(descriptor);
            self.connected.push(owner);
            return Ok(());
        }
        let queued = self.ring.connect(owner, descriptor.named(), address);
        // It leaves now, so that the time it takes counts from here, and whoever waits for it on the other side gets it
        // whether or not a turn follows.
        let queued = queued.and_then(|()| self.ring.enter(Some(0)));
        let epoch = self.ring.epoch();
        let slot = &mut self.slots[token.index()];
        slot.queued = epoch;
        slot.kind = Kind::Connecting(descriptor);
        if queued.is_err() {
            self.close(token);
        }
        queued
    }

    fn listen(&mut self, token: Token, listener: TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        self.vacant(token).kind = Kind::Listener(listener);
        let owner = self.owner(token);
        self.accept(owner);
        Ok(())
    }

    fn send(&mut self, token: Token, bytes: &[u8]) -> io::Result<()> {
        let epoch = self.ring.epoch();
        let slot = self.slots.get_mut(token.index()).ok_or_else(not_connected)?;
        let Slot { generation, queued, kind: Kind::Open(connection) } = slot else {
            return Err(not_connected());
        };
        if connection.unsent > 0 {
            connection.pending.extend_from_slice(bytes);
            connection.unsent += bytes.len();
            return Ok(());
        }
        let rest = &bytes[write(&connection.descriptor.socket, bytes)?..];
        if rest.is_empty() {
            return Ok(());
        }
        connection.unsent = rest.len();
        *queued = epoch;
        let owner = Owner { token, generation: *generation };
        self.ring.send(owner, connection.descriptor.named(), rest)
    }

    fn is_connected(&self, token: Token) -> bool {
        self.slots.get(token.index()).is_some_and(|slot| matches!(slot.kind, Kind::Open(_)))
    }

    fn unsent(&self, token: Token) -> usize {
        match self.slots.get(token.index()).map(|slot| &slot.kind) {
            Some(Kind::Open(connection)) => connection.unsent,
            _ => 0,
        }
    }

    fn pause(&mut self, token: Token) {
        let Some(connection) = self.connection(token) else { return };
        connection.paused = true;
        if connection.receiving {
            let owner = self.owner(token);
            // What cannot be queued is not cancelled: what arrives is then held back in memory instead.
            let _ = self.ring.cancel_receive(owner);
        }
    }

    fn resume(&mut self, token: Token) {
        let Some(connection) = self.connection(token) else { return };
        if mem::replace(&mut connection.paused, false) {
            let owner = self.owner(token);
            self.resumed.push(owner);
        }
    }

    fn finish(&mut self, token: Token) -> io::Result<()> {
        let connection = self.connection(token).ok_or_else(not_connected)?;
        connection.finishing = true;
        if connection.unsent == 0 {
            rustix::net::shutdown(&connection.descriptor.socket, Shutdown::Write)?;
        }
        Ok(())
    }

    fn close(&mut self, token: Token) {
        let Some(slot) = self.slots.get_mut(token.index()) else { return };
        if matches!(slot.kind, Kind::Free) {
            return;
        }
        if slot.queued == self.ring.epoch() {
            // What is queued names the descriptor, which may be another's by the time that the kernel looks.
            let _ = self.ring.enter(Some(0));
        }
        let owner = Owner { token, generation: slot.generation };
        match slot.free() {
            Kind::Free => {}
            Kind::Listener(_) => {
                // The kernel holds the socket until its answer is ready, which it is after entering.
                let _ = self.ring.cancel_accept(owner).and_then(|()| self.ring.enter(Some(0)));
            }
            Kind::Connecting(descriptor) | Kind::Open(Connection { descriptor, .. }) => {
                // Ends, at once, what the kernel still does with it; its answers find nobody.
                let _ = rustix::net::shutdown(&descriptor.socket, Shutdown::Both);
                if let Some(place) = descriptor.registered {
                    self.ring.unregister(place);
                }
            }
        }
    }

    fn turn(&mut self, handler: &mut impl Handler<Self>, deadline: Option<u64>) -> io::Result<()> {
        let timeout = self.timeout(deadline);
        self.ring.enter(timeout)?;
        let mut completions = mem::take(&mut self.completions);
        self.ring.completions(&mut completions);
        let resumed = mem::take(&mut self.resumed);
        for owner in mem::take(&mut self.connected) {
            self.connected(handler, owner, Ok(()));
        }
        for completion in completions.drain(..) {
            self.deliver(handler, completion);
        }
        for owner in resumed {
            self.go_on(handler, owner);
        }
        if !self.resting.is_empty() && clock::now() >= self.rest_until {
            for listener in mem::take(&mut self.resting) {
                self.accept(listener);
            }
        }
        self.ring.buffers().publish();
        self.completions = completions;
        Ok(())
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // The kernel takes its time to cancel what is under way in a closed ring; peers shall see the end now.
        for token in 0..self.slots.len() {
            self.close(Token(token as u32));
        }
    }
}
