//! Socket helpers for the upstream and the hops: listeners, descriptor limits, tokens.

use hoptax_format::Address;
use hoptax_load::event_loop::Token;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, ipproto, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Length of the accept queue. It is long because a generator opens thousands of connections at once.
const BACKLOG: i32 = 4096;

/// Listens on `address`. With `shared`, several listeners may use the same address, and the kernel
/// distributes connections among them.
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
    // With this option, the socket can listen while connections of an earlier run are in TIME_WAIT. The
    // option does not allow a second listener on the same port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if shared {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    rustix::net::bind(&socket, &address).map_err(named)?;
    rustix::net::listen(&socket, BACKLOG).map_err(named)?;
    Ok(TcpListener::from(socket))
}

/// Mode of a Unix socket. Every user may connect, because gateways run their workers as other users.
const SOCKET_MODE: u32 = 0o666;

/// A bound socket, TCP or Unix. Dropping this value removes the file of a Unix socket.
#[derive(Debug)]
pub(super) struct Listener {
    socket: OwnedFd,
    address: Address,
}

impl Listener {
    /// Listens on `address`.
    ///
    /// # Errors
    /// If the address is in use, does not belong to this host, or is no path for a socket. The error names
    /// the address.
    pub(super) fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let listener = listener(*address, false)?;
                let address = listener.local_addr()?.into();
                Ok(Self { socket: listener.into(), address })
            }
            Address::Unix(path) => {
                let listener = Self { socket: bind_unix(path)?, address: address.clone() };
                listener.listen()?;
                Ok(listener)
            }
        }
    }

    /// Binds a socket to `address` without listening. The kernel then refuses connections to the address, and
    /// gives it to no other process.
    ///
    /// # Errors
    /// If the address is taken.
    pub(super) fn hold(address: &Address) -> io::Result<Self> {
        let socket = match address {
            Address::Tcp(address) => hold(*address)?,
            Address::Unix(path) => bind_unix(path)?,
        };
        Ok(Self { socket, address: address.clone() })
    }

    /// Starts to listen.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(super) fn listen(&self) -> io::Result<()> {
        Ok(rustix::net::listen(&self.socket, BACKLOG)?)
    }

    /// The address, with the port that the kernel chose.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// The socket, for an event loop.
    ///
    /// # Errors
    /// If no descriptor is free.
    pub(super) fn socket(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address {
            // If the directory is gone, so is the socket.
            let _ = fs::remove_file(path);
        }
    }
}

fn bind_unix(path: &Path) -> io::Result<OwnedFd> {
    let shown = path.display();
    let named = |error: io::Error| {
        let text = match error.kind() {
            io::ErrorKind::NotFound => {
                format!("cannot create the socket {shown}: its directory does not exist")
            }
            io::ErrorKind::AddrInUse => error.to_string(),
            _ => format!("cannot create the socket {shown}: {error}"),
        };
        io::Error::new(error.kind(), text)
    };
    let address = SocketAddrUnix::new(path).map_err(|_| {
        let text = format!("the path {shown} is too long for a socket. Choose one of at most 107 bytes");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })?;
    remove_abandoned(path).map_err(named)?;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &address).map_err(|error| named(error.into()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE)).map_err(named)?;
    Ok(socket)
}

/// Removes the socket of a program that has ended.
///
/// # Errors
/// If a program listens on it, or the path is not a socket.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    let shown = path.display();
    let in_use = |text: String| Err(io::Error::new(io::ErrorKind::AddrInUse, text));
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            in_use(format!("{shown} exists and is not a socket. Remove it, or choose another path"))
        }
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
            Err(error) => Err(error),
            Ok(_) => in_use(format!(
                "{shown} is in use. Stop the program that listens there, or choose another path"
            )),
        },
    }
}

fn hold(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket =
        rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
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

/// Allocates tokens densely from zero and reuses freed tokens first, because the event loop and the handlers
/// use tokens as array indices.
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
        assert!(error.to_string().contains("192.0.2.1:0"), "{error}");
    }

    #[test]
    fn a_unix_socket_is_open_to_every_user_and_is_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let address = Address::Unix(path.clone());
        let bind_fails = || Listener::bind(&address).expect_err("refused").to_string();
        let listener = Listener::bind(&address).expect("binds");
        let mode = fs::metadata(&path).expect("it exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o666);
        assert!(bind_fails().contains("is in use"), "{}", bind_fails());
        drop(listener);
        assert!(!path.exists());

        let held = Listener::hold(&address).expect("binds");
        let refused = UnixStream::connect(&path).expect_err("it does not listen");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        held.listen().expect("listens");
        UnixStream::connect(&path).expect("it listens");
        drop(held);

        drop(std::os::unix::net::UnixListener::bind(&path).expect("leaves its file behind"));
        drop(Listener::bind(&address).expect("nobody listens on the old one"));
        fs::write(&path, "a file").expect("written");
        assert!(bind_fails().contains("is not a socket"), "{}", bind_fails());
        let nowhere = Address::Unix(directory.path().join("none/socket"));
        let error = Listener::bind(&nowhere).expect_err("no directory").to_string();
        assert!(error.contains("directory"), "{error}");
        let long = Address::Unix(directory.path().join("x".repeat(120)));
        let error = Listener::bind(&long).expect_err("too long").to_string();
        assert!(error.contains("at most 107 bytes"), "{error}");
    }

    #[test]
    fn tokens_are_dense() {
        let mut tokens = Tokens::default();
        assert_eq!([tokens.take(), tokens.take()], [Token(0), Token(1)]);
        tokens.give_back(Token(0));
        assert_eq!([tokens.take(), tokens.take()], [Token(0), Token(2)]);
    }
}
