//! Why a single request got no complete response, in the words of `hoptax load`.

use std::fmt;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// Why a request got no complete response.
#[derive(Debug)]
pub enum RequestError {
    /// No connection was made. Contains the kernel's error.
    Connect(io::Error),
    /// Something did not happen within the time limit.
    Timeout {
        /// What did not happen.
        awaited: Awaited,
        /// The time limit.
        limit: Duration,
    },
    /// The TLS handshake failed, or a TLS record was wrong.
    Tls(String),
    /// The server closed or reset the connection. `begun` is true if a part of the response had arrived.
    Ended {
        /// Whether a part of the response had arrived.
        begun: bool,
        /// Whether it was reset.
        reset: bool,
    },
    /// The proxy opened no tunnel. Contains the reason.
    Tunnel(String),
    /// The response is not valid HTTP/1. Contains the reason.
    Malformed(String),
    /// The server does not speak HTTP/2, or there was no answer on the stream. Contains the reason.
    Http2(String),
    /// The kernel reported another error.
    Other(io::Error),
}

/// An event that a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// The connection.
    Connection,
    /// The TLS handshake.
    Handshake,
    /// The first byte of the response.
    Response,
    /// The rest of the response.
    Rest,
}

impl RequestError {
    /// The error of a failed connect.
    pub(crate) fn of_connect(error: io::Error, limit: Duration) -> Self {
        match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => {
                Self::Timeout { awaited: Awaited::Connection, limit }
            }
            _ => Self::Connect(error),
        }
    }

    /// The error of a failed read or write. `awaited` is what the request waits for.
    pub(crate) fn of_transfer(error: io::Error, awaited: Awaited, limit: Duration) -> Self {
        if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return Self::Tls(hoptax_load::tls::describe(tls));
        }
        let begun = awaited == Awaited::Rest;
        match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Self::Timeout { awaited, limit },
            ErrorKind::UnexpectedEof => Self::Ended { begun, reset: false },
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
                Self::Ended { begun, reset: true }
            }
            _ => Self::Other(error),
        }
    }

    /// True if nothing listens at the address.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Connect(error) if error.kind() == ErrorKind::ConnectionRefused)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => match error.kind() {
                ErrorKind::ConnectionRefused => f.write_str("connection refused: no server listens there"),
                ErrorKind::NotFound => f.write_str("there is no such socket"),
                ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
                    f.write_str("no route to the address")
                }
                ErrorKind::ConnectionReset => f.write_str("connect was reset"),
                ErrorKind::AddrNotAvailable | ErrorKind::AddrInUse => f.write_str("all local ports in use"),
                _ => write!(f, "connect failed: {error}"),
            },
            Self::Timeout { awaited, limit } => match awaited {
                Awaited::Connection => write!(f, "not connected within {limit:?}"),
                Awaited::Handshake => write!(f, "no TLS handshake within {limit:?}"),
                Awaited::Response => write!(f, "no response within {limit:?}"),
                Awaited::Rest => write!(f, "response not complete within {limit:?}"),
            },
            Self::Tls(text) | Self::Tunnel(text) => f.write_str(text),
            Self::Ended { begun, reset } => {
                let how = if *reset { "reset" } else { "closed" };
                let when = if *begun { "during" } else { "before" };
                write!(f, "the connection was {how} {when} the response")
            }
            Self::Http2(reason) => write!(f, "HTTP/2: {reason}"),
            Self::Malformed(error) => write!(f, "malformed response: {error}"),
            Self::Other(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for RequestError {}
