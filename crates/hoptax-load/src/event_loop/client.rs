//! Sockets for outgoing connections.

use crate::address::Address;
use nix::sys::socket::{setsockopt, sockopt::IpBindAddressNoPort};
use rustix::fd::OwnedFd;
use rustix::net::addr::SocketAddrArg as _;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, ipproto, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Creates a socket to connect to `to`. The socket is bound to the local address `from`, if given; a Unix socket has
/// none.
///
/// # Errors
/// If there is no descriptor, or the local address cannot be used.
pub(super) fn socket(to: &Address, from: Option<IpAddr>) -> io::Result<(OwnedFd, SocketAddrAny)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    match to {
        Address::Tcp(to) => {
            let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
            sockopt::set_tcp_nodelay(&socket, true)?;
            if let Some(from) = from {
                // The port must be chosen by connect, not by bind. For connect, a port only needs to be free for this
                // destination, and may be in TIME_WAIT. For bind, it would have to be free for all destinations
                // (ip(7)). On kernels without this option, bind chooses the port.
                let _ = setsockopt(&socket, IpBindAddressNoPort, &true);
                rustix::net::bind(&socket, &SocketAddr::new(from, 0))?;
            }
            Ok((socket, to.as_any()))
        }
        Address::Unix(path) => {
            let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            Ok((socket, SocketAddrUnix::new(path)?.as_any()))
        }
    }
}
