//! Measures the network between two hosts: round trips, and the bandwidth in both directions.
//!
//! One host opens a [`Receiver`], the other one connects to it. Only one side connects, as in the run itself,
//! so a firewall that lets the run's traffic through does not stop the measurement.
//!
//! The protocol: the sender writes a head of 40 bytes and waits for 8 bytes from the receiver. Then one of
//! three parts follows on this connection.
//!
//! - Round trips: the sender writes a message and reads the answer, again and again, until it closes the
//!   connection.
//! - There: the sender writes messages. The receiver counts their bytes for the given time, and answers with
//!   the number of bytes and of nanoseconds.
//! - Back: the receiver writes messages. The sender counts their bytes for the given time, and closes the
//!   connection.

use hoptax_format::clock::{self, MILLISECOND, SECOND};
use hoptax_format::random;
use hoptax_record::{LegLook, Link, RoundTrips};
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Identifies this protocol and its version.
const MAGIC: [u8; 8] = *b"hoptaxL1";
/// Length of a head: magic bytes, token, part, and two lengths.
const HEAD: usize = 40;

/// Time for round trips after [`WARMING_NS`], ns.
const ROUND_TRIPS_NS: u64 = 800 * MILLISECOND;
/// Number of batches in this time, if a round trip is shorter than a batch. Their medians show the scatter.
const BATCHES: u64 = 10;
/// Time for round trips that do not count, ns. During this time, both CPUs wake up and the kernels look up
/// the route.
const WARMING_NS: u64 = 20 * MILLISECOND;
/// Time for the bandwidth in one direction, ns. Its first half does not count, because a connection begins
/// slowly.
const BANDWIDTH_NS: u64 = 400 * MILLISECOND;

/// Longest message of a round trip, bytes. It fits into one packet of an Ethernet network. A gateway may
/// forward the beginning of a longer body before it has received the end. So the time to transfer such a body
/// is not a part of every round trip.
pub const ONE_PACKET: u64 = 1400;
/// Shortest message for the bandwidth, bytes. With shorter messages, system calls instead of the network
/// would limit the bandwidth.
pub const LEAST_MESSAGE: u64 = 16 << 10;
/// Longest message for the bandwidth, bytes. Longer messages would only need more memory.
pub const LONGEST_MESSAGE: u64 = 1 << 20;

/// Time limit for connecting, and for each step of the protocol.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which a receiver looks for a connection.
const POLL: Duration = Duration::from_millis(1);

/// Where a receiver is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiverAddress {
    /// Its address.
    pub address: SocketAddr,
    /// Every sender must know this number.
    pub token: u64,
}

/// Lengths of the messages of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages {
    /// Length of the longest request, bytes.
    pub request_bytes: u64,
    /// Length of the longest response, bytes.
    pub response_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LegStep {
    RoundTrips = 0,
    There = 1,
    Back = 2,
    End = 3,
}

/// Answers senders until a sender says that it is the last one, or until a time limit has passed.
#[derive(Debug)]
pub struct Receiver {
    listener: TcpListener,
    at: ReceiverAddress,
}

impl Receiver {
    /// Opens a receiver on a free port of `address`.
    ///
    /// # Errors
    /// If this host has no such address.
    pub fn open(address: IpAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((address, 0))?;
        listener.set_nonblocking(true)?;
        let token = random::from_system();
        Ok(Self { at: ReceiverAddress { address: listener.local_addr()?, token }, listener })
    }

    /// Address and token of this receiver.
    pub fn at(&self) -> ReceiverAddress {
        self.at
    }

    /// Serves senders, one after the other. If a connection fails, only this connection ends.
    pub fn serve(self, limit: Duration) {
        let deadline = clock::now() + limit.as_nanos() as u64;
        while clock::now() < deadline {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    // The sender sees an error as a closed connection.
                    if answer(stream, self.at.token).is_ok_and(|part| part == LegStep::End) {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(POLL),
                Err(_) => return,
            }
        }
    }
}

/// Measures the network to a receiver: round trips for 0.8 s and, if `with_bandwidth`, the bandwidth for
/// another 0.8 s.
///
/// # Errors
/// If there is no connection, or the round trips fail. If only a bandwidth cannot be measured, the result
/// says why.
pub fn measure(to: ReceiverAddress, messages: Messages, with_bandwidth: bool) -> io::Result<LegLook> {
    let one_packet = |bytes: u64| bytes.clamp(1, ONE_PACKET);
    let (sent, answered) = (one_packet(messages.request_bytes), one_packet(messages.response_bytes));
    let round_trips = round_trips(to, sent, answered).map_err(in_words)?;
    let message = |bytes: u64| bytes.clamp(LEAST_MESSAGE, LONGEST_MESSAGE);
    let there = with_bandwidth.then(|| there(to, message(messages.request_bytes)).map_err(in_words));
    let back = with_bandwidth.then(|| back(to, message(messages.response_bytes)).map_err(in_words));
    // If this fails, the receiver waits for its time limit.
    let _ = begin(to, LegStep::End, 0, 0);
    let why = [&there, &back].into_iter().flatten().filter_map(|one| one.as_ref().err());
    let failed = why.map(|error| format!("the bandwidth to {} is not known: {error}", to.address)).next();
    let known = |one: Option<io::Result<Link>>| one.and_then(Result::ok);
    Ok(LegLook { round_trips, there: known(there), back: known(back), failed })
}

/// Explains an error. If a read takes too long, the kernel reports the same error as for a socket that does
/// not block.
fn in_words(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            io::Error::new(ErrorKind::TimedOut, format!("no answer within {} s", TIMEOUT.as_secs()))
        }
        ErrorKind::UnexpectedEof => io::Error::new(ErrorKind::UnexpectedEof, "the other side hung up"),
        _ => error,
    }
}

/// Connects to a receiver, and names the part of the protocol that follows.
fn begin(to: ReceiverAddress, part: LegStep, sent: u64, answered: u64) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&to.address, TIMEOUT)?;
    prepare(&stream)?;
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(&MAGIC);
    for (at, number) in [to.token, part as u64, sent, answered].into_iter().enumerate() {
        head[8 + 8 * at..][..8].copy_from_slice(&number.to_be_bytes());
    }
    stream.write_all(&head)?;
    let mut ready = [0; 8];
    stream.read_exact(&mut ready)?;
    if ready != MAGIC {
        return Err(io::Error::other("another program answered"));
    }
    Ok(stream)
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))
}

fn round_trips(to: ReceiverAddress, sent_bytes: u64, answered_bytes: u64) -> io::Result<RoundTrips> {
    let mut stream = begin(to, LegStep::RoundTrips, sent_bytes, answered_bytes)?;
    let (message, mut answer) = (vec![0x5a; sent_bytes as usize], vec![0; answered_bytes as usize]);
    let mut batch = |length_ns: u64| -> io::Result<Vec<u64>> {
        let begun = clock::now();
        let (mut before, mut each) = (begun, Vec::new());
        while each.is_empty() || before < begun + length_ns {
            stream.write_all(&message)?;
            stream.read_exact(&mut answer)?;
            let after = clock::now();
            each.push(after - before);
            before = after;
        }
        Ok(each)
    };
    batch(WARMING_NS)?;
    let begun = clock::now();
    let mut found = RoundTrips { sent_bytes, answered_bytes, least_ns: u64::MAX, ..RoundTrips::default() };
    while found.p50_ns_by_batch.len() < 2 || clock::now() < begun + ROUND_TRIPS_NS {
        let mut each = batch(ROUND_TRIPS_NS / BATCHES)?;
        each.sort_unstable();
        found.count += each.len() as u64;
        found.least_ns = found.least_ns.min(each[0]);
        found.p50_ns_by_batch.push(each[each.len() / 2]);
    }
    Ok(found)
}

fn there(to: ReceiverAddress, message_bytes: u64) -> io::Result<Link> {
    let mut stream = begin(to, LegStep::There, message_bytes, 0)?;
    let message = vec![0x5a; message_bytes as usize];
    // The receiver closes the connection when its time is over, while messages are still on their way.
    let mut sender = stream.try_clone()?;
    let sending = thread::spawn(move || while sender.write_all(&message).is_ok() {});
    let mut counted = [0; 16];
    let result = stream.read_exact(&mut counted);
    // Messages that are still queued would delay the next measurement. A linger time of zero drops them.
    let _ = sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
    let _ = stream.shutdown(Shutdown::Write);
    let _ = sending.join();
    result?;
    let number = |at: usize| u64::from_be_bytes(counted[at..at + 8].try_into().expect("eight bytes"));
    link(message_bytes, (number(0), number(8)))
}

fn back(to: ReceiverAddress, message_bytes: u64) -> io::Result<Link> {
    let mut stream = begin(to, LegStep::Back, 0, message_bytes)?;
    let counted = count(&mut stream, message_bytes)?;
    link(message_bytes, counted)
}

fn link(message_bytes: u64, (bytes, ns): (u64, u64)) -> io::Result<Link> {
    if bytes == 0 || ns == 0 {
        return Err(io::Error::other("nothing arrived in time"));
    }
    let bytes_per_second = bytes as f64 / ns as f64 * SECOND as f64;
    Ok(Link { message_bytes, bytes_per_second })
}

/// Reads messages for [`BANDWIDTH_NS`]. Returns the number of bytes of the second half of this time, and the
/// length of this half, ns.
fn count(stream: &mut TcpStream, message_bytes: u64) -> io::Result<(u64, u64)> {
    let mut room = vec![0; message_bytes as usize];
    let mut read = || match stream.read(&mut room) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        result => result,
    };
    read()?;
    let begun = clock::now();
    let (mut bytes, mut from) = (0, None);
    loop {
        let count = read()? as u64;
        let now = clock::now();
        match from {
            None if now >= begun + BANDWIDTH_NS / 2 => from = Some(now),
            None => {}
            Some(from) => {
                bytes += count;
                if now >= begun + BANDWIDTH_NS {
                    return Ok((bytes, now - from));
                }
            }
        }
    }
}

/// Answers one connection. Returns the part of the protocol that the sender asked for.
fn answer(mut stream: TcpStream, token: u64) -> io::Result<LegStep> {
    prepare(&stream)?;
    let mut head = [0; HEAD];
    stream.read_exact(&mut head)?;
    let number = |at: usize| u64::from_be_bytes(head[8 + 8 * at..][..8].try_into().expect("eight bytes"));
    let [known, part, sent, answered] = [0, 1, 2, 3].map(number);
    if head[..8] != MAGIC || known != token || sent.max(answered) > LONGEST_MESSAGE {
        return Err(io::Error::other("not a sender of this run"));
    }
    let parts = [LegStep::RoundTrips, LegStep::There, LegStep::Back, LegStep::End];
    let part = *parts.get(part as usize).ok_or_else(|| io::Error::other("an unknown part"))?;
    stream.write_all(&MAGIC)?;
    match part {
        LegStep::RoundTrips => {
            let (mut message, answer) = (vec![0; sent as usize], vec![0x5a; answered as usize]);
            while stream.read_exact(&mut message).is_ok() {
                stream.write_all(&answer)?;
            }
        }
        LegStep::There => {
            let (bytes, ns) = count(&mut stream, sent)?;
            stream.write_all(&[bytes.to_be_bytes(), ns.to_be_bytes()].concat())?;
            // Closing a connection with unread data resets it, and the sender might not receive the figures.
            // So read the remaining data until the sender closes the connection.
            drain(&mut stream);
        }
        LegStep::Back => {
            let message = vec![0x5a; answered as usize];
            while stream.write_all(&message).is_ok() {}
        }
        LegStep::End => {}
    }
    Ok(part)
}

/// Reads and discards data until the other side closes the connection, for at most [`TIMEOUT`].
fn drain(stream: &mut impl Read) {
    let deadline = clock::now() + TIMEOUT.as_nanos() as u64;
    let mut room = vec![0; 64 << 10];
    while clock::now() < deadline && stream.read(&mut room).is_ok_and(|read| read > 0) {}
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "on one idle connection without Nagle's delay, for {}. Both" seconds(ROUND_TRIPS_NS);
    METHODOLOGY "Each of {} batches has a median" word(BATCHES);
    METHODOLOGY "but at most {}, one packet" bytes(ONE_PACKET);
    METHODOLOGY "in the second half of {}, with" seconds(BANDWIDTH_NS);
    METHODOLOGY "between {} and 1 MiB" bytes(LEAST_MESSAGE);
    METHODOLOGY "between 16 KiB and {}. **The" bytes(LONGEST_MESSAGE);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn opened(limit: Duration) -> (ReceiverAddress, thread::JoinHandle<()>) {
        let receiver = Receiver::open(IpAddr::V4(Ipv4Addr::LOCALHOST)).expect("a free port");
        let at = receiver.at();
        (at, thread::spawn(move || receiver.serve(limit)))
    }

    #[test]
    fn a_leg_has_round_trips_and_a_bandwidth_in_both_directions() {
        let (at, receiver) = opened(Duration::from_secs(60));
        let messages = Messages { request_bytes: 90, response_bytes: 100_000 };
        let begun = clock::now();
        let look = measure(at, messages, true).expect("measured");
        assert!(clock::now() < begun + 10 * SECOND);
        receiver.join().expect("the sender said that it was the last one");
        let found = &look.round_trips;
        assert_eq!((found.sent_bytes, found.answered_bytes), (90, ONE_PACKET));
        assert!(found.p50_ns_by_batch.len() >= 2 && found.count >= found.p50_ns_by_batch.len() as u64);
        assert!(found.p50_ns_by_batch.iter().all(|p50| *p50 >= found.least_ns), "{found:?}");
        assert!(found.least_ns > 0 && found.least_ns < SECOND, "{found:?}");
        for (link, message_bytes) in [(look.there, LEAST_MESSAGE), (look.back, 100_000)] {
            let link = link.unwrap_or_else(|| panic!("{look:?}"));
            assert_eq!(link.message_bytes, message_bytes);
            assert!(link.bytes_per_second > 1e6 && link.bytes_per_second < 1e12, "{link:?}");
        }
        assert_eq!(look.failed, None);
    }

    #[test]
    fn strangers_are_hung_up_on_and_time_is_limited() {
        let (at, receiver) = opened(Duration::from_millis(600));
        let stranger = ReceiverAddress { token: at.token ^ 1, ..at };
        measure(stranger, Messages::default(), true).expect_err("it does not know the token");
        assert!(begin(at, LegStep::Back, 0, LONGEST_MESSAGE + 1).is_err(), "too long");
        receiver.join().expect("its time is over");
        let refused = measure(at, Messages::default(), false).expect_err("nothing listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
}
