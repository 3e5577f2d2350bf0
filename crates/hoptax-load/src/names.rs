//! Chooses which addresses of a host name are used.
//!
//! A name can have several addresses. hoptax tries all of them. It uses the addresses that accept
//! connections, but only those of one family, IPv4 or IPv6: that of the first address that accepts
//! connections. The reason is that the IPv4 and the IPv6 addresses of a name usually belong to the same
//! servers.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// Time limit for each address.
const PATIENCE: Duration = Duration::from_secs(3);
/// Maximum number of addresses of a name.
const MOST: usize = 256;

/// Which addresses of a name are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Use {
    /// All that accept connections.
    #[default]
    All,
    /// The first that accepts connections.
    First,
}

/// The addresses of a name.
#[derive(Debug)]
pub struct Found {
    /// The addresses to connect to. Empty if the name has several addresses, and none accepts connections.
    pub used: Vec<SocketAddr>,
    /// Addresses that do not accept connections, with the reason.
    pub refused: Vec<(SocketAddr, String)>,
    /// Number of addresses that are not used although they accept connections.
    pub spare: usize,
}

impl Found {
    /// A note for the user about the addresses that are used, if the name has several.
    pub fn note(&self, name: &str) -> Option<String> {
        let mut note = match self.used.as_slice() {
            [] => return None,
            [_] if self.refused.is_empty() && self.spare == 0 => return None,
            [only] => format!("{name} has several addresses, and hoptax uses {only}"),
            used => format!("{name} has {} addresses that hoptax uses in turn: {}", used.len(), list(used)),
        };
        if !self.refused.is_empty() {
            let _ = write!(note, ". It leaves out {}", self.reasons());
        }
        Some(note)
    }

    /// The addresses that do not accept connections, with the reasons.
    pub fn reasons(&self) -> String {
        let each = self.refused.iter().map(|(address, reason)| format!("{address} ({reason})"));
        each.collect::<Vec<_>>().join(", ")
    }
}

/// All addresses of `host`, without duplicates. IPv4 and IPv6 addresses alternate, beginning with the family
/// of the system's first address.
///
/// # Errors
/// If the name cannot be resolved.
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let found = (host, port).to_socket_addrs();
    let found = match (found, host.strip_suffix('.')) {
        // Some resolvers do not find a name with a dot at its end in /etc/hosts.
        (Err(_), Some(name)) => (name, port).to_socket_addrs()?,
        (found, _) => found?,
    };
    let mut all: Vec<SocketAddr> = Vec::new();
    for address in found {
        if !all.contains(&address) && all.len() < MOST {
            all.push(address);
        }
    }
    if all.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    Ok(alternating(&all))
}

fn alternating(all: &[SocketAddr]) -> Vec<SocketAddr> {
    let first = all[0].is_ipv4();
    let (own, other): (Vec<SocketAddr>, Vec<SocketAddr>) = all.iter().partition(|one| one.is_ipv4() == first);
    let longest = own.len().max(other.len());
    (0..longest).flat_map(|at| [own.get(at), other.get(at)]).flatten().copied().collect()
}

/// Chooses the addresses of `host` to connect to. If the name has several addresses, opens and closes a
/// connection to each of them. With `from`, only addresses of the same family as `from` are used.
///
/// # Errors
/// If the name cannot be resolved, or has no address of the family of `from`.
pub fn find(host: &str, port: u16, which: Use, from: Option<IpAddr>) -> io::Result<Found> {
    let mut all = resolve(host, port)?;
    if let Some(from) = from {
        let first = all[0];
        all.retain(|address| address.is_ipv4() == from.is_ipv4());
        if all.is_empty() {
            // The caller reports that the source does not fit this address.
            all.push(first);
        }
    }
    if let [only] = all.as_slice() {
        return Ok(Found { used: vec![*only], refused: Vec::new(), spare: 0 });
    }
    Ok(choose(all.iter().copied().zip(connect(&all)).collect(), which))
}

/// Connects to each address. Returns the results in the same order.
fn connect(all: &[SocketAddr]) -> Vec<Result<(), String>> {
    let one = |address: &SocketAddr| match TcpStream::connect_timeout(address, PATIENCE) {
        Ok(_) => Ok(()),
        Err(error) => Err(reason(&error)),
    };
    std::thread::scope(|scope| {
        let started: Vec<_> = all.iter().map(|address| scope.spawn(move || one(address))).collect();
        let lost = || Err("it could not be tried".to_owned());
        started.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).collect()
    })
}

/// Describes why a connect failed.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::TimedOut => "timeout".to_owned(),
        _ => error.to_string(),
    }
}

fn choose(tried: Vec<(SocketAddr, Result<(), String>)>, which: Use) -> Found {
    let mut found = Found { used: Vec::new(), refused: Vec::new(), spare: 0 };
    for (address, result) in tried {
        match (result, found.used.first()) {
            (Err(reason), _) => found.refused.push((address, reason)),
            (Ok(()), None) => found.used.push(address),
            (Ok(()), Some(first)) if which == Use::All && first.is_ipv4() == address.is_ipv4() => {
                found.used.push(address);
            }
            (Ok(()), Some(_)) => found.spare += 1,
        }
    }
    found
}

fn list(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_families_alternate() {
        let all = ["[::1]:1", "[::2]:1", "[::3]:1", "127.0.0.1:1"].map(address);
        assert_eq!(alternating(&all), ["[::1]:1", "127.0.0.1:1", "[::2]:1", "[::3]:1"].map(address));
        let all = ["127.0.0.1:1", "127.0.0.2:1", "[::1]:1"].map(address);
        assert_eq!(alternating(&all), ["127.0.0.1:1", "[::1]:1", "127.0.0.2:1"].map(address));
    }

    #[test]
    fn addresses_that_accept_are_used_and_the_others_are_named() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let all = [format!("127.0.0.2:{port}"), format!("127.0.0.1:{port}")].map(|text| address(&text));
        let found = choose(all.into_iter().zip(connect(&all)).collect(), Use::All);
        assert_eq!(found.used, [all[1]]);
        assert_eq!(found.reasons(), format!("127.0.0.2:{port} (connection refused)"));
        let note = found.note("a.test").expect("two addresses");
        insta::assert_snapshot!(note.replace(&port.to_string(), "PORT"));
    }

    #[test]
    fn all_addresses_of_one_family_are_used_or_only_the_first() {
        let tried = || {
            let all = ["[::1]:1", "127.0.0.1:1", "[::2]:1"].map(address);
            all.into_iter().map(|address| (address, Ok(()))).collect::<Vec<_>>()
        };
        let all = choose(tried(), Use::All);
        assert_eq!((all.used, all.spare), (["[::1]:1", "[::2]:1"].map(address).to_vec(), 1));
        let first = choose(tried(), Use::First);
        assert_eq!((first.used, first.spare), (vec![address("[::1]:1")], 2));
        let nobody = choose(vec![(address("[::1]:1"), Err("no".into()))], Use::All);
        assert!(nobody.used.is_empty() && nobody.note("a").is_none());
    }

    #[test]
    fn an_address_is_its_own_name() {
        let found = find("127.0.0.1", 1, Use::All, None).expect("an address");
        assert_eq!((found.used.as_slice(), found.note("127.0.0.1")), (&[address("127.0.0.1:1")][..], None));
        assert_eq!(resolve("::1", 80).expect("an address"), [address("[::1]:80")]);
    }
}
