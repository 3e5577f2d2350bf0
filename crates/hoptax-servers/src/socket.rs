//! A blocking connection, TCP or Unix.

use hoptax_format::Address;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A blocking connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects within `limit`. A Unix socket accepts or refuses at once, unless its queue is full.
    pub(crate) fn connect(to: &Address, limit: Duration) -> io::Result<Self> {
        match to {
            Address::Tcp(to) => Self::of_tcp(TcpStream::connect_timeout(to, limit)?),
            Address::Unix(path) => UnixStream::connect(path).map(Self::Unix),
        }
    }

    /// Connects from one of this host's addresses. No time limit is needed, because a connect within this
    /// host succeeds or fails at once.
    pub(crate) fn connect_from(from: IpAddr, to: SocketAddr) -> io::Result<Self> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket =
            rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
        rustix::net::bind(&socket, &SocketAddr::new(from, 0))?;
        rustix::net::connect(&socket, &to)?;
        Self::of_tcp(TcpStream::from(socket))
    }

    fn of_tcp(stream: TcpStream) -> io::Result<Self> {
        // The second part of a large request must not wait until the first part is acknowledged.
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// The addresses of the client and of the server; `None` for a Unix socket.
    pub(crate) fn ends(&self) -> io::Result<Option<(SocketAddr, SocketAddr)>> {
        match self {
            Self::Tcp(stream) => Ok(Some((stream.local_addr()?, stream.peer_addr()?))),
            Self::Unix(_) => Ok(None),
        }
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }

    pub(crate) fn set_read_timeout(&self, limit: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(Some(limit)),
            Self::Unix(stream) => stream.set_read_timeout(Some(limit)),
        }
    }

    pub(crate) fn set_write_timeout(&self, limit: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_write_timeout(Some(limit)),
            Self::Unix(stream) => stream.set_write_timeout(Some(limit)),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
