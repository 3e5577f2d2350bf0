//! Measures bytes per second from one process to another, with messages of a given size.
//!
//! The test uses one connection, blocking sockets, and one thread on each side. So it measures the throughput
//! of a single sender, like iperf with `--len`. Over loopback nothing is transmitted: the result shows how
//! fast this machine copies bytes from one socket to another. Any other load on the CPUs lowers the result.
//!
//! The protocol: the sender writes a greeting of 17 bytes and waits for the receiver's greeting. The sender
//! then sends messages until the duration is over, and closes its side of the connection. Without echo, the
//! receiver then sends the number of bytes that it has received, as an 8-byte integer. With echo, the
//! receiver sends each message back, and the sender waits for this echo before it sends the next message.

use serde::Serialize;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Identifies this protocol and its version.
const MAGIC: [u8; 8] = *b"hoptaxB1";
/// Largest message that a receiver accepts, bytes.
pub const LARGEST: u64 = 64 << 20;
const TIMEOUT: Duration = Duration::from_secs(10);

/// Parameters of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Size of a message in bytes, from 1 to [`LARGEST`].
    pub message_bytes: u64,
    /// Whether the sender waits for each message to come back before it sends the next.
    pub echo: bool,
    /// Time during which messages are sent.
    pub duration: Duration,
}

/// Result of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// Number of bytes that arrived at the receiver.
    pub bytes: u64,
    /// Seconds from sending the first byte until the receiver has confirmed the last byte.
    pub seconds: f64,
    /// Bytes per second, in one direction.
    pub bytes_per_second: f64,
    /// Messages per second.
    pub messages_per_second: f64,
}

/// Sends messages to a receiver at `address` and measures how fast they arrive.
///
/// # Errors
/// If nothing listens at `address`, or the other side is not a receiver.
pub fn measure(address: SocketAddr, asked: &Asked) -> io::Result<Measured> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(&hello(asked))?;
    let mut ready = [0; 8];
    stream.read_exact(&mut ready).map_err(|error| no_receiver(address, &error))?;
    if ready != MAGIC {
        return Err(no_receiver(address, &"it sent a different greeting"));
    }
    let message = vec![0x5a; asked.message_bytes as usize];
    let mut back = vec![0; if asked.echo { message.len() } else { 0 }];
    let begun = Instant::now();
    let mut sent: u64 = 0;
    while sent == 0 || begun.elapsed() < asked.duration {
        stream.write_all(&message)?;
        stream.read_exact(&mut back)?;
        sent += asked.message_bytes;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut count = [0; 8];
    stream.read_exact(&mut count)?;
    let seconds = begun.elapsed().as_secs_f64();
    let bytes = u64::from_be_bytes(count);
    if bytes != sent {
        return Err(io::Error::other(format!("{sent} bytes were sent, but {bytes} arrived")));
    }
    let per_second = bytes as f64 / seconds;
    Ok(Measured {
        bytes,
        seconds,
        bytes_per_second: per_second,
        messages_per_second: per_second / asked.message_bytes as f64,
    })
}

fn no_receiver(address: SocketAddr, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!(
        "{address} is not a hoptax receiver ({why}). Start one there with `hoptax hosts bandwidth --listen \
        {address}`"
    ))
}

/// Serves one sender after another, until `listener` fails or `enough` returns true. `enough` is called after
/// each sender. If a connection fails, only this connection ends.
///
/// # Errors
/// If the listener fails.
pub fn receive(listener: &TcpListener, mut enough: impl FnMut() -> bool) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        // The sender sees the error as a closed connection.
        let _ = serve(stream);
        if enough() {
            return Ok(());
        }
    }
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut head = [0; 17];
    stream.read_exact(&mut head)?;
    let size = u64::from_be_bytes(head[8..16].try_into().expect("eight bytes"));
    if head[..8] != MAGIC || size == 0 || size > LARGEST {
        return Err(io::Error::other("not a hoptax sender"));
    }
    let echo = head[16] == 1;
    stream.write_all(&MAGIC)?;
    let mut room = vec![0; size as usize];
    let mut received: u64 = 0;
    loop {
        let read = match stream.read(&mut room) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        received += read as u64;
        if echo {
            stream.write_all(&room[..read])?;
        }
    }
    stream.write_all(&received.to_be_bytes())
}

/// The greeting: magic bytes, message size, and whether messages are echoed.
fn hello(asked: &Asked) -> [u8; 17] {
    let mut head = [0; 17];
    head[..8].copy_from_slice(&MAGIC);
    head[8..16].copy_from_slice(&asked.message_bytes.to_be_bytes());
    head[16] = u8::from(asked.echo);
    head
}

/// Measures the bandwidth within this machine, with the receiver in another thread.
///
/// # Errors
/// As [`measure`], or if no port is free.
pub fn measure_loopback(asked: &Asked) -> io::Result<Measured> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let receiver = std::thread::spawn(move || receive(&listener, || true));
    let measured = measure(address, asked);
    if measured.is_err() {
        // The receiver may still be waiting for a connection. This connection wakes the receiver, so that it
        // can end.
        let _ = TcpStream::connect(address);
    }
    receiver.join().map_err(|_| io::Error::other("the receiver panicked"))??;
    measured
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(message_bytes: u64, echo: bool) -> Asked {
        Asked { message_bytes, echo, duration: Duration::from_millis(20) }
    }

    #[test]
    fn messages_arrive_whole_one_way_and_with_echo() {
        for echo in [false, true] {
            let measured = measure_loopback(&asked(100_000, echo)).expect("measured");
            assert!(measured.bytes > 0 && measured.bytes.is_multiple_of(100_000), "{measured:?}");
            assert!(
                (measured.bytes_per_second * measured.seconds / measured.bytes as f64 - 1.0).abs() < 1e-9
            );
            assert!((measured.messages_per_second * 1e5 / measured.bytes_per_second - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn without_time_one_message_is_sent() {
        let one = Asked { duration: Duration::ZERO, ..asked(7, true) };
        assert_eq!(measure_loopback(&one).expect("measured").bytes, 7);
    }

    #[test]
    fn a_server_of_another_kind_is_no_receiver() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody");
            stream.read_exact(&mut [0; 17]).expect("a greeting");
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("written");
        });
        let error = measure(address, &asked(1, false)).expect_err("no receiver").to_string();
        assert!(error.contains(&format!("--listen {address}")), "{error}");
        other.join().expect("it ends");
    }

    #[test]
    fn a_receiver_survives_clients_that_are_not_senders() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let mut served = 0;
        let receiver = std::thread::spawn(move || {
            receive(&listener, || {
                served += 1;
                served == 2
            })
        });
        let mut stranger = TcpStream::connect(address).expect("accepted");
        stranger.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").expect("written");
        assert_eq!(stranger.read(&mut [0; 8]).unwrap_or(0), 0, "it is hung up on");
        assert!(measure(address, &asked(10, false)).is_ok());
        receiver.join().expect("it ends").expect("served");
    }
}
