//! Event loop on epoll. It is edge-triggered, and one registration covers both directions of a connection.
//! Once a load runs steadily, a request costs one `recv`, one `send` and a share of one `epoll_wait`.

use super::client;
use super::interface::{AfterEnd, EventLoop, Handler, Token};
use crate::clock;
use crate::spares::Spares;
use hoptax_format::Address;
use hoptax_format::clock::{MILLISECOND, SECOND};
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags, sockopt};
use rustix::time::Timespec;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Size of the receive buffer, which all connections of a loop share. An idle connection therefore needs no
/// buffer.
const RECEIVE_BUFFER: usize = 64 * 1024;
/// Maximum number of times that the buffer is filled from one connection before the other connections are
/// read.
const READS_IN_A_ROW: usize = 16;
const EVENTS: usize = 512;
/// Maximum total size of the unused send buffers that are kept for reuse, bytes. Because buffers are reused,
/// a request allocates nothing even if the kernel does not accept all of it at once. A buffer is allocated
/// only when it is needed.
const KEPT_OF_UNSENT: usize = 16 << 20;
/// Time that a listener waits after the process had no free descriptor.
const ACCEPT_REST: u64 = 10 * MILLISECOND;
/// Placeholder for the address of a client of a Unix socket, which has no address.
const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// An event loop on epoll.
pub struct Epoll {
    epoll: OwnedFd,
    slots: Vec<TokenState>,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
    /// Buffers for data that the kernel does not accept at once.
    spares: Spares,
    /// Connections to read again without a new event, because they were resumed or because more data may be
    /// left after [`READS_IN_A_ROW`].
    again: Vec<(Token, u32)>,
    /// The empty vector that replaces `again` while the loop processes it. Both vectors keep their memory.
    was_again: Vec<(Token, u32)>,
    /// Listeners for which no descriptor was free when a connection arrived. They try again at `rest_until`.
    resting: Vec<(Token, u32)>,
    rest_until: u64,
}

impl std::fmt::Debug for Epoll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoll").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

/// State of a token. `generation` increases whenever the token is freed. The current batch can still contain
/// an event of the token's former connection. The generation distinguishes this event from an event of the
/// new connection.
#[derive(Default)]
struct TokenState {
    generation: u32,
    kind: Kind,
}

#[derive(Default)]
enum Kind {
    #[default]
    Free,
    Listener(OwnedFd),
    Connecting(OwnedFd),
    Open(Connection),
}

struct Connection {
    socket: OwnedFd,
    /// Data that the kernel has not accepted yet. The first `taken` bytes were already accepted. The buffer
    /// is nearly always empty and unallocated.
    pending: Vec<u8>,
    taken: usize,
    paused: bool,
    /// True once the kernel has reported a hang-up or an error. Reading must then continue until the end of
    /// the stream, even after a short read.
    hangup: bool,
    /// True once the handler knows that the peer has ended its stream. From then on, the connection only
    /// sends.
    ended: bool,
    finishing: bool,
    /// Why sending failed. Received data is then still passed to the handler, before the failure.
    failed: Option<Errno>,
}

impl Connection {
    fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            pending: Vec::new(),
            taken: 0,
            paused: false,
            hangup: false,
            ended: false,
            finishing: false,
            failed: None,
        }
    }

    fn unsent(&self) -> usize {
        self.pending.len() - self.taken
    }

    fn send(&mut self, bytes: &[u8], spares: &mut Spares) -> io::Result<()> {
        let sent = if self.unsent() == 0 { write(&self.socket, bytes)? } else { 0 };
        if sent < bytes.len() {
            if self.unsent() == 0 {
                self.pending = spares.take();
                self.pending.reserve_exact(bytes.len() - sent);
            }
            self.pending.drain(..mem::take(&mut self.taken));
            self.pending.extend_from_slice(&bytes[sent..]);
        }
        Ok(())
    }

    /// Sends pending data. Returns true if this call has sent the last pending byte.
    fn flush(&mut self, spares: &mut Spares) -> Result<bool, Errno> {
        if self.unsent() == 0 {
            return Ok(false);
        }
        self.taken += write(&self.socket, &self.pending[self.taken..])?;
        if self.unsent() > 0 {
            return Ok(false);
        }
        spares.give_back(mem::take(&mut self.pending));
        self.taken = 0;
        if self.finishing {
            rustix::net::shutdown(&self.socket, Shutdown::Write)?;
        }
        Ok(true)
    }
}

/// Writes until everything is sent or the kernel accepts no more data. Returns the number of bytes sent.
///
/// If the peer resets the connection meanwhile, the remaining bytes count as not accepted. A later event
/// reports the reset.
fn write(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    let mut sent = 0;
    while sent < bytes.len() {
        match rustix::net::send(socket, &bytes[sent..], SendFlags::NOSIGNAL) {
            Ok(count) => sent += count,
            Err(Errno::AGAIN) => break,
            Err(Errno::PIPE | Errno::CONNRESET) if sent > 0 => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

impl Epoll {
    /// Creates a loop without connections.
    ///
    /// # Errors
    /// If the process has no free descriptor.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            slots: Vec::new(),
            events: Vec::with_capacity(EVENTS),
            buffer: vec![0; RECEIVE_BUFFER],
            spares: Spares::new(KEPT_OF_UNSENT),
            again: Vec::new(),
            was_again: Vec::new(),
            resting: Vec::new(),
            rest_until: 0,
        })
    }

    /// Returns the slot of `token`, which must be free.
    ///
    /// # Panics
    /// If the token is in use, because two connections with one token would mix up their data.
    fn vacant(&mut self, token: Token) -> &mut TokenState {
        if self.slots.len() <= token.index() {
            self.slots.resize_with(token.index() + 1, TokenState::default);
        }
        let slot = &mut self.slots[token.index()];
        assert!(matches!(slot.kind, Kind::Free), "token {token:?} is in use");
        slot
    }

    fn connection(&mut self, token: Token) -> Option<&mut Connection> {
        match self.slots.get_mut(token.index())?.kind {
            Kind::Open(ref mut connection) => Some(connection),
            _ => None,
        }
    }

    /// Returns the connection of `token`, if the token still has this generation.
    fn current(&mut self, token: Token, generation: u32) -> Option<&mut Connection> {
        match &mut self.slots[token.index()] {
            TokenState { generation: now, kind: Kind::Open(connection) } if *now == generation => {
                Some(connection)
            }
            _ => None,
        }
    }

    /// Ends all connections by reset, and frees their tokens. Unlike a connection that is closed, none of
    /// them keeps its port in TIME_WAIT for a minute. Data that the peer has not received is lost.
    pub fn reset_all(&mut self) {
        for index in 0..self.slots.len() {
            if matches!(self.slots[index].kind, Kind::Open(_)) {
                self.reset(Token(index as u32));
            }
        }
    }

    fn free(&mut self, token: Token) -> Kind {
        let slot = &mut self.slots[token.index()];
        slot.generation = slot.generation.wrapping_add(1);
        mem::take(&mut slot.kind)
    }

    fn register(epoll: &OwnedFd, socket: &OwnedFd, token: Token, generation: u32) -> io::Result<()> {
        let interest =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        Ok(epoll::add(epoll, socket, event_data(token, generation), interest)?)
    }

    fn deliver(
        &mut self,
        handler: &mut impl Handler<Self>,
        token: Token,
        generation: u32,
        flags: epoll::EventFlags,
    ) {
        if self.slots[token.index()].generation != generation {
            return;
        }
        match &self.slots[token.index()].kind {
            Kind::Free => {}
            Kind::Listener(_) => self.accept(handler, token),
            Kind::Connecting(_) => self.connect_done(handler, token, generation, flags),
            Kind::Open(_) => self.ready(handler, token, generation, flags),
        }
    }

    fn connect_done(
        &mut self,
        handler: &mut impl Handler<Self>,
        token: Token,
        generation: u32,
        flags: epoll::EventFlags,
    ) {
        let Kind::Connecting(socket) = mem::take(&mut self.slots[token.index()].kind) else { return };
        match sockopt::socket_error(&socket).and_then(|outcome| outcome) {
            Ok(()) => {
                self.slots[token.index()].kind = Kind::Open(Connection::new(socket));
                handler.connected(self, token, Ok(()));
                // If the server sends first or closes at once, this event can already include its data. No
                // further event will report this data.
                self.ready(handler, token, generation, flags);
            }
            Err(error) => {
                self.free(token);
                drop(socket);
                handler.connected(self, token, Err(error.into()));
            }
        }
    }

    fn ready(
        &mut self,
        handler: &mut impl Handler<Self>,
        token: Token,
        generation: u32,
        flags: epoll::EventFlags,
    ) {
        use epoll::EventFlags as Flags;
        let slot = &mut self.slots[token.index()];
        let TokenState { generation: now, kind: Kind::Open(connection) } = slot else { return };
        if *now != generation {
            return;
        }
        connection.hangup |= flags.intersects(Flags::RDHUP | Flags::HUP | Flags::ERR);
        if flags.contains(Flags::OUT) {
            match connection.flush(&mut self.spares) {
                Ok(true) => handler.drained(self, token),
                Ok(false) => {}
                Err(error) => return self.unsendable(handler, token, generation, error),
            }
        }
        let Some(connection) = self.current(token, generation) else { return };
        if connection.ended && flags.contains(Flags::ERR) {
            // This connection is no longer read, so reading cannot report the failure.
            let error = sockopt::socket_error(&connection.socket).and_then(|outcome| outcome).err();
            return self.broken(handler, token, error.unwrap_or(Errno::CONNRESET).into());
        }
        if flags.intersects(Flags::IN | Flags::RDHUP | Flags::HUP | Flags::ERR) {
            self.receive(handler, token, generation);
        }
    }

    /// Called when pending data cannot be sent. A server that refuses a request may have answered before it
    /// closed the connection, so its answer is read first.
    fn unsendable(&mut self, handler: &mut impl Handler<Self>, token: Token, generation: u32, error: Errno) {
        if let Some(connection) = self.current(token, generation) {
            (connection.failed, connection.hangup) = (Some(error), true);
        }
        self.receive(handler, token, generation);
        if self.current(token, generation).is_some() {
            self.broken(handler, token, error.into());
        }
    }

    fn receive(&mut self, handler: &mut impl Handler<Self>, token: Token, generation: u32) {
        // The loop's buffer is removed from `self` during the call, so that the handler can use the loop.
        let mut buffer = mem::take(&mut self.buffer);
        self.receive_into(&mut buffer, handler, token, generation);
        self.buffer = buffer;
    }

    fn receive_into(
        &mut self,
        buffer: &mut [u8],
        handler: &mut impl Handler<Self>,
        token: Token,
        generation: u32,
    ) {
        for _ in 0..READS_IN_A_ROW {
            let Some(connection) = self.current(token, generation) else { return };
            if connection.paused || connection.ended {
                return;
            }
            match rustix::net::recv(&connection.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return self.ended(handler, token, generation),
                Ok((count, _)) => {
                    // After a short read, the socket is empty (epoll(7), "edge-triggered"), unless the end of
                    // the stream follows.
                    let emptied = count < buffer.len() && !connection.hangup;
                    handler.received(self, token, &buffer[..count]);
                    if emptied {
                        return;
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(error) => return self.broken(handler, token, error.into()),
            }
        }
        self.again.push((token, generation));
    }

    fn ended(&mut self, handler: &mut impl Handler<Self>, token: Token, generation: u32) {
        if let Some(connection) = self.current(token, generation) {
            if let Some(error) = connection.failed {
                return self.broken(handler, token, error.into());
            }
            connection.ended = true;
        }
        if handler.closed(self, token, Ok(())) == AfterEnd::Close && self.current(token, generation).is_some()
        {
            self.close(token);
        }
    }

    fn broken(&mut self, handler: &mut impl Handler<Self>, token: Token, error: io::Error) {
        self.close(token);
        handler.closed(self, token, Err(error));
    }

    fn accept(&mut self, handler: &mut impl Handler<Self>, token: Token) {
        loop {
            let slot = &self.slots[token.index()];
            let generation = slot.generation;
            let Kind::Listener(listener) = &slot.kind else { return };
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match rustix::net::acceptfrom_with(listener, flags) {
                Ok((socket, peer)) => {
                    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok()).unwrap_or(NO_ADDRESS);
                    let Some(new) = handler.accepted(self, token, peer) else { continue };
                    let generation = self.vacant(new).generation;
                    // This fails for a Unix socket, which does not have this option.
                    let _ = sockopt::set_tcp_nodelay(&socket, true);
                    // This fails only if the kernel has no memory left. The peer then receives a reset.
                    if Self::register(&self.epoll, &socket, new, generation).is_ok() {
                        self.vacant(new).kind = Kind::Open(Connection::new(socket));
                    } else {
                        handler.closed(self, new, Err(io::ErrorKind::OutOfMemory.into()));
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(_) => {
                    // The process has no descriptor or memory left. The kernel does not report when that
                    // changes, so the loop retries after a while.
                    self.resting.push((token, generation));
                    self.rest_until = clock::now() + ACCEPT_REST;
                    return;
                }
            }
        }
    }

    fn timeout(&self, deadline: Option<u64>) -> Option<Timespec> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !self.again.is_empty() {
            return Some(zero);
        }
        let rest = (!self.resting.is_empty()).then_some(self.rest_until);
        let deadline = match (deadline, rest) {
            (Some(deadline), Some(rest)) => deadline.min(rest),
            (deadline, rest) => deadline.or(rest)?,
        };
        let left = deadline.saturating_sub(clock::now());
        Some(Timespec {
            tv_sec: (left / SECOND).try_into().unwrap_or(i64::MAX),
            tv_nsec: (left % SECOND) as i64,
        })
    }
}

impl EventLoop for Epoll {
    fn connect(&mut self, token: Token, to: &Address, from: Option<IpAddr>) -> io::Result<()> {
        let generation = self.vacant(token).generation;
        let (socket, address) = client::socket(to, from)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        // Register the socket only after the call of connect: a socket that is not connecting yet would
        // report a hang-up.
        Self::register(&self.epoll, &socket, token, generation)?;
        self.slots[token.index()].kind = Kind::Connecting(socket);
        Ok(())
    }

    fn listen(&mut self, token: Token, listener: impl Into<OwnedFd>) -> io::Result<()> {
        let generation = self.vacant(token).generation;
        let listener = listener.into();
        rustix::io::ioctl_fionbio(&listener, true)?;
        let interest = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &listener, event_data(token, generation), interest)?;
        self.slots[token.index()].kind = Kind::Listener(listener);
        Ok(())
    }

    fn send(&mut self, token: Token, bytes: &[u8]) -> io::Result<()> {
        match self.slots.get_mut(token.index()) {
            Some(TokenState { kind: Kind::Open(connection), .. }) => connection.send(bytes, &mut self.spares),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn is_connected(&self, token: Token) -> bool {
        self.slots.get(token.index()).is_some_and(|slot| matches!(slot.kind, Kind::Open(_)))
    }

    fn local_address(&self, token: Token) -> Option<SocketAddr> {
        match self.slots.get(token.index()).map(|slot| &slot.kind) {
            Some(Kind::Open(connection)) => {
                rustix::net::getsockname(&connection.socket).ok()?.try_into().ok()
            }
            _ => None,
        }
    }

    fn unsent(&self, token: Token) -> usize {
        match self.slots.get(token.index()).map(|slot| &slot.kind) {
            Some(Kind::Open(connection)) => connection.unsent(),
            _ => 0,
        }
    }

    fn pause(&mut self, token: Token) {
        if let Some(connection) = self.connection(token) {
            connection.paused = true;
        }
    }

    fn resume(&mut self, token: Token) {
        let Some(slot) = self.slots.get_mut(token.index()) else { return };
        let TokenState { generation, kind: Kind::Open(connection) } = slot else { return };
        if mem::replace(&mut connection.paused, false) {
            self.again.push((token, *generation));
        }
    }

    fn finish(&mut self, token: Token) -> io::Result<()> {
        let Some(connection) = self.connection(token) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        connection.finishing = true;
        if connection.unsent() == 0 {
            rustix::net::shutdown(&connection.socket, Shutdown::Write)?;
        }
        Ok(())
    }

    fn close(&mut self, token: Token) {
        if token.index() < self.slots.len() && !matches!(self.slots[token.index()].kind, Kind::Free) {
            // Nothing else refers to this descriptor, so closing it also removes it from the epoll set.
            drop(self.free(token));
        }
    }

    fn reset(&mut self, token: Token) {
        if let Some(connection) = self.connection(token) {
            // Closing a socket with a linger time of zero resets its connection, unless the peer has ended
            // its side (tcp(7)). Unix sockets have no ports. If the option cannot be set, the connection is
            // closed like any other.
            let _ = sockopt::set_socket_linger(&connection.socket, Some(Duration::ZERO));
        }
        self.close(token);
    }

    fn turn(&mut self, handler: &mut impl Handler<Self>, deadline: Option<u64>) -> io::Result<()> {
        let timeout = self.timeout(deadline);
        let mut events = mem::take(&mut self.events);
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut again = mem::replace(&mut self.again, mem::take(&mut self.was_again));
        for event in &events {
            let (token, generation) = from_event_data(event.data);
            self.deliver(handler, token, generation, event.flags);
        }
        for (token, generation) in again.drain(..) {
            self.receive(handler, token, generation);
        }
        self.was_again = again;
        if !self.resting.is_empty() && clock::now() >= self.rest_until {
            for (token, generation) in mem::take(&mut self.resting) {
                self.deliver(handler, token, generation, epoll::EventFlags::IN);
            }
        }
        self.events = events;
        Ok(())
    }
}

fn event_data(token: Token, generation: u32) -> epoll::EventData {
    epoll::EventData::new_u64(u64::from(generation) << 32 | u64::from(token.0))
}

fn from_event_data(data: epoll::EventData) -> (Token, u32) {
    let data = data.u64();
    (Token(data as u32), (data >> 32) as u32)
}
