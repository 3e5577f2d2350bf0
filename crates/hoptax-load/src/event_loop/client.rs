//! Creates sockets for outgoing connections.

use hoptax_format::Address;
use nix::sys::socket::{setsockopt, sockopt::IpBindAddressNoPort};
use rustix::fd::OwnedFd;
use rustix::net::addr::SocketAddrArg as _;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, ipproto, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Creates a socket to connect to `to`. If `from` is given, the socket is bound to this local address. Unix
/// sockets have no local address.
///
/// # Errors
/// If no descriptor is free, or if the local address cannot be used.
pub(super) fn socket(to: &Address, from: Option<IpAddr>) -> io::Result<(OwnedFd, SocketAddrAny)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    match to {
        Address::Tcp(to) => {
            let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
            sockopt::set_tcp_nodelay(&socket, true)?;
            if let Some(from) = from {
                // The port must be chosen by `connect`, not by `bind`. `connect` only needs a port that is
                // free for this destination, and the port may be in TIME_WAIT. `bind` would need a port that
                // is free for all destinations (ip(7)). On kernels without this option, `bind` chooses the
                // port.
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
