//! Validates source addresses and destinations.

use hoptax_format::Address;
use std::net::{IpAddr, UdpSocket};

/// Maximum length of the path of a Unix socket, bytes: the size of `sun_path` without its NUL (unix(7)).
const LONGEST_PATH: usize = 107;

/// Refuses addresses that no connection can use. The error contains advice on how to fix this.
pub(super) fn check(addresses: &[Address], sources: &[IpAddr]) -> Result<(), String> {
    for address in addresses {
        match address {
            Address::Unix(path) if path.as_os_str().len() > LONGEST_PATH => {
                return Err(format!(
                    "addresses: {address} is longer than the {LONGEST_PATH} bytes that a Unix socket's path \
                     may have; use a shorter path, for instance a symbolic link"
                ));
            }
            Address::Unix(_) if !sources.is_empty() => {
                return Err(format!(
                    "sources: a connection to a Unix socket ({address}) has no source address; remove \
                    `sources`"
                ));
            }
            Address::Tcp(to) => {
                if let Some(from) = sources.iter().find(|from| from.is_ipv4() != to.is_ipv4()) {
                    let family = if to.is_ipv4() { "IPv4" } else { "IPv6" };
                    return Err(format!(
                        "sources: cannot connect from {from} to {to}; give {family} addresses of this machine"
                    ));
                }
            }
            Address::Unix(_) => {}
        }
    }
    // Binding a datagram socket checks a local address without sending anything.
    match sources.iter().find_map(|from| Some((from, UdpSocket::bind((*from, 0)).err()?))) {
        None => Ok(()),
        Some((from, error)) => Err(format!(
            "sources: cannot connect from {from} ({error}); give addresses of this machine (`ip address` \
            lists them)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(addresses: &[&str], sources: &[&str]) -> Result<(), String> {
        let addresses: Vec<Address> =
            addresses.iter().map(|text| text.parse().expect("an address")).collect();
        let sources: Vec<IpAddr> = sources.iter().map(|text| text.parse().expect("an address")).collect();
        check(&addresses, &sources)
    }

    #[test]
    fn possible_routes_pass() {
        checked(&["127.0.0.1:80", "[::1]:80", "unix:/run/app.sock"], &[]).expect("the kernel chooses");
        checked(&["127.0.0.1:80", "127.0.0.9:81"], &["127.0.0.2", "127.0.0.3"]).expect("loopback");
    }

    #[test]
    fn impossible_routes_are_refused_with_a_remedy() {
        let long = format!("unix:/{}", "x".repeat(LONGEST_PATH));
        for (addresses, sources, parts) in [
            (&["127.0.0.1:80"][..], &["127.0.0.2", "::1"][..], ["from ::1 to 127.0.0.1:80", "IPv4"]),
            (&["[::1]:80"], &["127.0.0.2"], ["from 127.0.0.2 to [::1]:80", "IPv6"]),
            (&["unix:/run/app.sock"], &["127.0.0.2"], ["unix:/run/app.sock", "remove `sources`"]),
            // This address is in TEST-NET-3 (RFC 5737), so no machine has it.
            (&["127.0.0.1:80"], &["203.0.113.9"], ["203.0.113.9", "ip address"]),
            (&[&long], &[], ["107 bytes", "shorter"]),
        ] {
            let error = checked(addresses, sources).expect_err("impossible");
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
