//! The queues that are shared with the kernel, and all memory that it may still read: whatever is asked of it by the
//! functions of [`Ring`] is kept until it has answered, so that the loop above needs no `unsafe`.
//!
//! With deferred task work the kernel touches our memory only while this thread is inside of `io_uring_enter`, and after
//! the ring is closed no more at all.

// What is queued names memory by its address; only here is it known how long that stays.
#![allow(unsafe_code)]

use super::buffers::{Buffers, Chunk, GROUP, Size};
use crate::event_loop::{KEPT_OF_UNSENT, Token};
use crate::spares::Spares;
use io_uring::types::{CancelBuilder, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use rustix::event::PollFlags;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketAddrAny, SocketFlags};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::mem;
use std::rc::Rc;

/// Most descriptors that are registered; those of tokens above go by their number.
const MOST_REGISTERED: u64 = 32_768;
/// `MSG_WAITALL`: a send is complete when all of it has left.
const WAIT_ALL: i32 = 0x100;

/// How large the parts of a ring are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// What can be queued before the kernel is asked to look.
    pub(super) submissions: u32,
    /// Completions that fit; the kernel keeps those that do not for later.
    pub(super) completions: u32,
    pub(super) buffers: Size,
}

/// Whom a completion is for: a token, as long as it has this generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) token: Token,
    pub(super) generation: u32,
}

/// Generations wrap at this many.
pub(super) const GENERATIONS: u32 = 1 << 28;

/// A socket as the kernel is told it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Socket<'a> {
    pub(super) descriptor: BorrowedFd<'a>,
    /// Its place among the registered ones.
    pub(super) registered: Option<u32>,
}

/// What happened.
#[derive(Debug)]
pub(super) enum Event {
    Connected(Owner, io::Result<()>),
    /// `more`: others follow without asking.
    Accepted {
        listener: Owner,
        result: io::Result<OwnedFd>,
        more: bool,
    },
    /// An empty chunk is the end.
    Received {
        owner: Owner,
        result: Result<Option<Chunk>, Errno>,
        more: bool,
    },
    /// So much of what was handed over has left, and this much is left of it.
    Sent {
        owner: Owner,
        flight: Flight,
        result: Result<usize, Errno>,
    },
    /// What was watched has broken, or its two sides have ended.
    Watched(Owner),
    /// Nobody cares.
    Nothing,
}

/// A completion that has not been looked at.
#[derive(Debug)]
pub(super) struct Completion(cqueue::Entry);

/// Names a send under way. There is one name for each, so that none is launched twice.
#[derive(Debug)]
pub(super) struct Flight(u32);

/// Bytes that the kernel reads until its completion has come.
#[derive(Debug)]
struct Aloft {
    owner: Owner,
    bytes: Vec<u8>,
    /// Where the next send begins.
    sent: usize,
}

/// The queues.
pub(super) struct Ring {
    // Dropped first: what follows is memory that the kernel knows.
    ring: IoUring,
    buffers: Rc<Buffers>,
    flights: Vec<Aloft>,
    landed: Vec<u32>,
    /// Memory of flights that have landed.
    spares: Spares,
    /// Addresses of connects that the kernel has not copied yet. Boxed, as they must not move when another is added.
    #[allow(clippy::vec_box)]
    addresses: Vec<Box<SocketAddrAny>>,
    /// Descriptors that can be registered.
    registrable: u32,
    /// Grows whenever the kernel has taken all that was queued.
    epoch: u64,
}

#[repr(u64)]
enum Operation {
    Nothing,
    Connect,
    Accept,
    Receive,
    Send,
    Watch,
}

impl Operation {
    /// The user data of a submission: operation, generation, token (or flight), from the highest bit down.
    fn tag(self, generation: u32, low: u32) -> u64 {
        (self as u64) << 60 | u64::from(generation % GENERATIONS) << 32 | u64::from(low)
    }

    fn of(self, owner: Owner) -> u64 {
        self.tag(owner.generation, owner.token.0)
    }
}

impl Ring {
    /// A ring of this thread's own.
    ///
    /// # Errors
    /// If the kernel forbids io_uring (`EPERM`), does not know it (`ENOSYS`) or not all of what is used (`EINVAL`).
    pub(super) fn new(sizes: Sizes) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize(sizes.completions)
            .dontfork()
            .build(sizes.submissions)?;
        let params = ring.params();
        if !params.is_feature_ext_arg() || !params.is_feature_nodrop() {
            return Err(Errno::INVAL.into());
        }
        let buffers = Rc::new(Buffers::new(sizes.buffers));
        // SAFETY: a field that is dropped after the ring keeps them alive.
        unsafe { buffers.register(&ring.submitter())? };
        let limit =
            getrlimit(Resource::Nofile).current.unwrap_or(MOST_REGISTERED).min(MOST_REGISTERED) as u32;
        // Registered descriptors only save time: where the kernel has no memory for the table, numbers do.
        let registrable = ring.submitter().register_files_sparse(limit).map_or(0, |()| limit);
        Ok(Self {
            ring,
            buffers,
            flights: Vec::new(),
            landed: Vec::new(),
            spares: Spares::new(KEPT_OF_UNSENT),
            addresses: Vec::new(),
            registrable,
            // Not 0, which is what a new slot has.
            epoch: 1,
        })
    }

    /// Where received bytes lie.
    pub(super) fn buffers(&self) -> &Rc<Buffers> {
        &self.buffers
    }

    /// Changes when the kernel has taken everything that was queued until now.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Registers `descriptor` under `token`; tells its place, if it has one.
    pub(super) fn register(&mut self, token: Token, descriptor: BorrowedFd<'_>) -> Option<u32> {
        let update = |place| self.ring.submitter().register_files_update(place, &[descriptor.as_raw_fd()]);
        (token.0 < self.registrable && update(token.0).is_ok()).then_some(token.0)
    }

    /// Takes the registration back.
    pub(super) fn unregister(&mut self, place: u32) {
        // It can only fail for a place outside of the table.
        let _ = self.ring.submitter().register_files_update(place, &[-1]);
    }

    /// Queues a connect.
    pub(super) fn connect(&mut self, owner: Owner, socket: Socket<'_>, to: SocketAddrAny) -> io::Result<()> {
        let address = Box::new(to);
        let (pointer, length) = (address.as_ptr().cast(), address.addr_len());
        self.make_room()?;
        self.addresses.push(address);
        let entry = match socket.registered {
            Some(place) => opcode::Connect::new(Fixed(place), pointer, length).build(),
            None => opcode::Connect::new(Fd(socket.descriptor.as_raw_fd()), pointer, length).build(),
        };
        // SAFETY: the kernel copies the address when it takes the submission, and `enter` keeps it until then.
        unsafe { self.push(entry, Operation::Connect.of(owner)) };
        Ok(())
    }

    /// Asks for connections, until cancelled.
    pub(super) fn accept(&mut self, owner: Owner, listener: BorrowedFd<'_>) -> io::Result<()> {
        self.make_room()?;
        let flags = (SocketFlags::NONBLOCK | SocketFlags::CLOEXEC).bits() as i32;
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).flags(flags).build();
        // SAFETY: it names no memory.
        unsafe { self.push(entry, Operation::Accept.of(owner)) };
        Ok(())
    }

    /// Asks for whatever arrives, until cancelled.
    pub(super) fn receive(&mut self, owner: Owner, socket: Socket<'_>) -> io::Result<()> {
        self.make_room()?;
        let entry = match socket.registered {
            Some(place) => opcode::RecvMulti::new(Fixed(place), GROUP).build(),
            None => opcode::RecvMulti::new(Fd(socket.descriptor.as_raw_fd()), GROUP).build(),
        };
        // SAFETY: the only memory is that of the registered buffers.
        unsafe { self.push(entry, Operation::Receive.of(owner)) };
        Ok(())
    }

    /// Asks for [`Event::Watched`], once.
    pub(super) fn watch(&mut self, owner: Owner, socket: Socket<'_>) -> io::Result<()> {
        self.make_room()?;
        // The type of its bits depends on the backend: under Miri it is a signed one.
        let broken = PollFlags::ERR.bits() as u32;
        let entry = opcode::PollAdd::new(Fd(socket.descriptor.as_raw_fd()), broken).build();
        // SAFETY: it names no memory.
        unsafe { self.push(entry, Operation::Watch.of(owner)) };
        Ok(())
    }

    /// Wants no more of what [`receive`](Self::receive) asked for.
    pub(super) fn cancel_receive(&mut self, owner: Owner) -> io::Result<()> {
        self.cancel(Operation::Receive.of(owner))
    }

    /// Wants no more of what [`accept`](Self::accept) asked for.
    pub(super) fn cancel_accept(&mut self, owner: Owner) -> io::Result<()> {
        self.cancel(Operation::Accept.of(owner))
    }

    fn cancel(&mut self, tag: u64) -> io::Result<()> {
        self.make_room()?;
        let entry = opcode::AsyncCancel2::new(CancelBuilder::user_data(tag)).build();
        let entry = entry.flags(squeue::Flags::SKIP_SUCCESS);
        // SAFETY: it names no memory.
        unsafe { self.push(entry, Operation::Nothing.tag(0, 0)) };
        Ok(())
    }

    /// Queues a copy of `bytes`. One send per connection at a time keeps their order.
    pub(super) fn send(&mut self, owner: Owner, socket: Socket<'_>, bytes: &[u8]) -> io::Result<()> {
        let mut copy = self.spares.take();
        copy.reserve_exact(bytes.len());
        copy.extend_from_slice(bytes);
        self.send_owned(owner, socket, copy)
    }

    /// Queues `bytes` themselves.
    pub(super) fn send_owned(&mut self, owner: Owner, socket: Socket<'_>, bytes: Vec<u8>) -> io::Result<()> {
        let flight = self.flight(owner);
        self.flights[flight.0 as usize].bytes = bytes;
        self.launch(flight, socket)
    }

    /// A flight that nobody uses, with no bytes.
    fn flight(&mut self, owner: Owner) -> Flight {
        let index = self.landed.pop().unwrap_or_else(|| {
            self.flights.push(Aloft { owner, bytes: Vec::new(), sent: 0 });
            self.flights.len() as u32 - 1
        });
        self.flights[index as usize].owner = owner;
        Flight(index)
    }

    /// Sends what is left of `flight`.
    pub(super) fn launch(&mut self, flight: Flight, socket: Socket<'_>) -> io::Result<()> {
        if let Err(error) = self.make_room() {
            self.land(flight);
            return Err(error);
        }
        let Aloft { bytes, sent, .. } = &self.flights[flight.0 as usize];
        let (pointer, length) = (bytes[*sent..].as_ptr(), (bytes.len() - sent).min(1 << 30) as u32);
        let flags = SendFlags::NOSIGNAL.bits() as i32 | WAIT_ALL;
        let entry = match socket.registered {
            Some(place) => opcode::Send::new(Fixed(place), pointer, length).flags(flags).build(),
            None => {
                let descriptor = Fd(socket.descriptor.as_raw_fd());
                opcode::Send::new(descriptor, pointer, length).flags(flags).build()
            }
        };
        // SAFETY: a flight's bytes are neither moved, changed nor dropped before its completion was looked at, which is
        // what gives its name to the loop again; moving the `Vec` does not move them.
        unsafe { self.push(entry, Operation::Send.tag(0, flight.0)) };
        Ok(())
    }

    /// What is left of `flight`.
    pub(super) fn left(&self, flight: &Flight) -> usize {
        let aloft = &self.flights[flight.0 as usize];
        aloft.bytes.len() - aloft.sent
    }

    /// `flight` is over, whether all of it has left or not.
    pub(super) fn land(&mut self, flight: Flight) {
        let aloft = &mut self.flights[flight.0 as usize];
        aloft.sent = 0;
        self.spares.give_back(mem::take(&mut aloft.bytes));
        self.landed.push(flight.0);
    }

    /// Has the kernel take what is queued if nothing more fits.
    fn make_room(&mut self) -> io::Result<()> {
        while self.ring.submission().is_full() {
            self.enter(Some(0))?;
        }
        Ok(())
    }

    /// Queues `entry`; there must be room.
    ///
    /// # Safety
    /// The memory that it names must stay until the kernel is done with it.
    unsafe fn push(&mut self, entry: squeue::Entry, tag: u64) {
        // SAFETY: by this function's contract.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(tag)) };
        pushed.expect("room was made");
    }

    /// Hands over what is queued and waits for a completion, at most `nanoseconds`; `None`: without bound. Returns
    /// early when a signal came.
    pub(super) fn enter(&mut self, nanoseconds: Option<u64>) -> io::Result<()> {
        let queued = self.ring.submission().len();
        let submitter = self.ring.submitter();
        let get = EnterFlags::GETEVENTS.bits();
        let entered = match nanoseconds {
            // SAFETY: no argument, so no memory.
            Some(0) => unsafe { submitter.enter::<SubmitArgs<'_, '_>>(queued as u32, 0, get, None) },
            // SAFETY: as above.
            None => unsafe { submitter.enter::<SubmitArgs<'_, '_>>(queued as u32, 1, get, None) },
            Some(nanoseconds) => {
                const SECOND: u64 = crate::clock::SECOND;
                let time = Timespec::new().sec(nanoseconds / SECOND).nsec((nanoseconds % SECOND) as u32);
                let args = SubmitArgs::new().timespec(&time);
                let flags = get | EnterFlags::EXT_ARG.bits();
                // SAFETY: time and arguments outlive the call, and the flag says of what kind they are.
                unsafe { submitter.enter(queued as u32, 1, flags, Some(&args)) }
            }
        };
        if queued > 0 && self.ring.submission().is_empty() {
            self.addresses.clear();
            self.epoch += 1;
        }
        match entered.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)) {
            // The time is over; a signal; or the kernel first wants us to look at completions, or to find memory.
            Ok(_) | Err(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes all completions there are.
    pub(super) fn completions(&mut self, into: &mut Vec<Completion>) {
        into.extend(self.ring.completion().map(Completion));
    }

    /// What a completion says. They are to be looked at in their order.
    pub(super) fn look(&mut self, Completion(entry): Completion) -> Event {
        let (tag, result, flags) = (entry.user_data(), entry.result(), entry.flags());
        let owner = Owner { token: Token(tag as u32), generation: ((tag >> 32) as u32) & (GENERATIONS - 1) };
        let more = cqueue::more(flags);
        let outcome =
            |result: i32| if result < 0 { Err(Errno::from_raw_os_error(-result)) } else { Ok(result) };
        const CONNECT: u64 = Operation::Connect as u64;
        const ACCEPT: u64 = Operation::Accept as u64;
        const RECEIVE: u64 = Operation::Receive as u64;
        const SEND: u64 = Operation::Send as u64;
        const WATCH: u64 = Operation::Watch as u64;
        match tag >> 60 {
            RECEIVE => {
                let length = result.max(0) as u32;
                let chunk = cqueue::buffer_select(flags)
                    .map(|buffer| self.buffers.claim(buffer, length, cqueue::buffer_more(flags)));
                let result = match outcome(result) {
                    Ok(0) => {
                        chunk.into_iter().for_each(|chunk| self.buffers.give_back(chunk));
                        Ok(None)
                    }
                    Ok(_) => Ok(chunk),
                    Err(error) => {
                        chunk.into_iter().for_each(|chunk| self.buffers.give_back(chunk));
                        Err(error)
                    }
                };
                Event::Received { owner, result, more }
            }
            SEND => {
                let flight = Flight(tag as u32);
                let aloft = &mut self.flights[flight.0 as usize];
                let result = outcome(result).map(|sent| sent as usize);
                aloft.sent += *result.as_ref().unwrap_or(&0);
                Event::Sent { owner: aloft.owner, flight, result }
            }
            CONNECT => Event::Connected(owner, outcome(result).map(drop).map_err(Into::into)),
            ACCEPT => {
                // SAFETY: the kernel has just opened it for us, and this completion is looked at once.
                let owned = |descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) };
                let result = outcome(result).map(owned).map_err(Into::into);
                Event::Accepted { listener: owner, result, more }
            }
            WATCH => Event::Watched(owner),
            _ => Event::Nothing,
        }
    }
}
