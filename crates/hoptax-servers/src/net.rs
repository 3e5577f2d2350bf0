//! Socket helpers for the upstream and the hops: listeners, descriptor limits, tokens.

use hoptax_load::event_loop::Token;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::net::{SocketAddr, TcpListener};

/// Length of the accept queue. It is long because a generator opens thousands of connections at once.
const BACKLOG: i32 = 4096;

/// Listens on `address`. With `shared`, several listeners may use the same address, and the kernel distributes
/// connections among them.
///
/// # Errors
/// If the address is in use or does not belong to this host. The error names the address.
pub(super) fn listener(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let named = |error: Errno| {
        let error = io::Error::from(error);
        let text = match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!("{address} is in use. Stop the program that listens there, or choose another port")
            }
            io::ErrorKind::AddrNotAvailable => format!("{address} is not an address of this machine"),
            _ => format!("cannot listen on {address}: {error}"),
        };
        io::Error::new(error.kind(), text)
    };
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket =
        rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    // With this option, the socket can listen while connections of an earlier run are in TIME_WAIT. The option does
    // not allow a second listener on the same port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if shared {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    rustix::net::bind(&socket, &address).map_err(named)?;
    rustix::net::listen(&socket, BACKLOG).map_err(named)?;
    Ok(TcpListener::from(socket))
}

/// Binds a socket to `address` without listening. The kernel then refuses connections to the address, and gives the
/// port to no other process.
///
/// # Errors
/// If the address is taken.
pub(super) fn hold(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket =
        rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    Ok(TcpListener::from(socket))
}

/// Starts to listen on a bound socket.
///
/// # Errors
/// If the kernel refuses.
pub(super) fn listen(listener: &TcpListener) -> io::Result<()> {
    Ok(rustix::net::listen(listener, BACKLOG)?)
}

/// Raises this process's descriptor limit to the hard limit, because soft limits are often only 1024.
pub(super) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the old limit remains. An error is reported later if the limit is reached.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

pub(super) fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX / 10)
}

/// Allocates tokens densely from zero and reuses freed tokens first, because the event loop and the handlers use tokens
/// as array indices.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    free: Vec<Token>,
    next: u32,
}

impl Tokens {
    pub(super) fn take(&mut self) -> Token {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            Token(self.next - 1)
        })
    }

    pub(super) fn give_back(&mut self, token: Token) {
        self.free.push(token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_address() {
        let first = listener("127.0.0.1:0".parse().expect("an address"), false).expect("a port");
        let address = first.local_addr().expect("bound");
        let error = listener(address, false).expect_err("taken");
        assert!(error.to_string().contains(&format!("{address} is in use")), "{error}");
        let error = listener("192.0.2.1:0".parse().expect("an address"), false).expect_err("not ours");
        assert!(error.to_string().contains("192.0.2.1:0 is not an address of this machine"), "{error}");
    }

    #[test]
    fn shares_an_address_when_asked() {
        let first = listener("127.0.0.1:0".parse().expect("an address"), true).expect("a port");
        listener(first.local_addr().expect("bound"), true).expect("shared");
    }

    #[test]
    fn tokens_are_dense() {
        let mut tokens = Tokens::default();
        assert_eq!([tokens.take(), tokens.take()], [Token(0), Token(1)]);
        tokens.give_back(Token(0));
        assert_eq!([tokens.take(), tokens.take()], [Token(0), Token(2)]);
    }
}
