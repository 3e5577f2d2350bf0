//! The address of a connection: TCP or a Unix socket.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a connection. Its text form is, for example, `127.0.0.1:80`, `[::1]:80` or
/// `unix:/run/app.sock`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// IP address and port.
    Tcp(SocketAddr),
    /// Path of a Unix stream socket.
    Unix(PathBuf),
}

const UNIX: &str = "unix:";

impl Address {
    /// IP address and port; `None` for a Unix socket.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix(UNIX) {
            return if path.is_empty() {
                Err(format!("{text:?} has no path; write unix:/path/to/socket"))
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        text.parse().map(Self::Tcp).map_err(|_| {
            format!("{text:?} is not an address; write 127.0.0.1:80, [::1]:80 or unix:/path/to/socket")
        })
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_round_trip() {
        for text in ["127.0.0.1:80", "[::1]:8080", "unix:/run/app.sock"] {
            let address: Address = text.parse().expect(text);
            assert_eq!(address.to_string(), text);
            let json = serde_json::to_string(&address).expect("text");
            assert_eq!(serde_json::from_str::<Address>(&json).expect("text"), address);
        }
        for text in ["127.0.0.1", "unix:", "localhost:80", ""] {
            text.parse::<Address>().expect_err(text);
        }
    }
}
