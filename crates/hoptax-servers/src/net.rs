//! What the upstream and the hops share about sockets: listeners made the same way, and tokens.

use hoptax_load::event_loop::Token;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::net::{SocketAddr, TcpListener};

/// Connections that may wait to be accepted: a generator connects thousands at once.
const BACKLOG: i32 = 4096;

/// Listens on `address`; with `shared`, several listeners may have the same one, and the kernel spreads connections
/// over them.
///
/// # Errors
/// If the address is taken or not this host's; the text names it.
pub(super) fn listener(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let named = |error: Errno| {
        let error = io::Error::from(error);
        let text = match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!("{address} is in use: stop what listens there, or choose another port")
            }
            io::ErrorKind::AddrNotAvailable => format!("{address} is not an address of this machine"),
            _ => format!("cannot listen on {address}: {error}"),
        };
        io::Error::new(error.kind(), text)
    };
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket =
        rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    // Connections of an earlier run that linger in TIME_WAIT do not hold the port; a listener does.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if shared {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    rustix::net::bind(&socket, &address).map_err(named)?;
    rustix::net::listen(&socket, BACKLOG).map_err(named)?;
    Ok(TcpListener::from(socket))
}

/// A socket that has `address` and does not listen yet: connections to it are refused, and the kernel gives its port to nobody.
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

/// Lets a held socket listen.
///
/// # Errors
/// If the kernel refuses.
pub(super) fn listen(listener: &TcpListener) -> io::Result<()> {
    Ok(rustix::net::listen(listener, BACKLOG)?)
}

/// Lets this process hold as many descriptors as it may: soft limits are often 1024.
pub(super) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Without it the old limit stands, and whoever reaches it is told then.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Descriptors that this process may hold now.
pub(super) fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX / 10)
}

/// Hands out tokens densely from zero, freed ones first: both the loop and the handler index arrays with them.
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
    fn tells_which_address_is_in_use() {
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
