//! Free ports, chosen by the kernel.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

/// The address at which services are reached only from this machine.
pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Maximum number of ports to try for each port to reserve. A port that is free at one address is rarely in
/// use at another.
const ATTEMPTS: usize = 100;

/// Ports that this process keeps reserved. It releases each port just before a gateway opens the port.
#[derive(Debug)]
pub struct Ports {
    held: Vec<TcpListener>,
    /// Listeners that reserve the same ports at 127.0.0.1, and ports that were not suitable.
    _more: Vec<TcpListener>,
}

impl Ports {
    /// Reserves `count` different free ports of 127.0.0.1.
    ///
    /// # Errors
    /// If no port is free.
    pub fn take(count: usize) -> std::io::Result<Self> {
        Self::take_at(LOOPBACK, count)
    }

    /// Reserves `count` different ports that are free both at `address` and at 127.0.0.1. So a gateway can
    /// use each of them at either address.
    ///
    /// # Errors
    /// If no port is free, or this machine does not have `address`.
    pub fn take_at(address: IpAddr, count: usize) -> std::io::Result<Self> {
        let (mut held, mut more) = (Vec::new(), Vec::new());
        for _ in 0..count * ATTEMPTS {
            if held.len() == count {
                break;
            }
            let listener = TcpListener::bind((address, 0))?;
            if address != LOOPBACK {
                match TcpListener::bind(local(listener.local_addr()?.port())) {
                    Ok(same_port) => more.push(same_port),
                    Err(error) if error.kind() == ErrorKind::AddrInUse => {
                        // The kernel must not choose this port again.
                        more.push(listener);
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            held.push(listener);
        }
        if held.len() < count {
            let what = format!("no port is free both at {address} and at {LOOPBACK}");
            return Err(std::io::Error::new(ErrorKind::AddrInUse, what));
        }
        Ok(Self { held, _more: more })
    }

    /// The numbers of the ports, in the order in which they were reserved.
    ///
    /// # Errors
    /// If the kernel does not report a port.
    pub fn numbers(&self) -> std::io::Result<Vec<u16>> {
        self.held.iter().map(|listener| listener.local_addr().map(|address| address.port())).collect()
    }
}

/// The address of `port` on 127.0.0.1.
pub fn local(port: u16) -> SocketAddr {
    SocketAddr::new(LOOPBACK, port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ports_are_distinct_held_and_free_once_dropped() {
        let second = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        for (address, reserved) in [(LOOPBACK, vec![LOOPBACK]), (second, vec![LOOPBACK, second])] {
            let ports = Ports::take_at(address, 3).expect("free ports");
            let numbers = ports.numbers().expect("known");
            assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 3);
            let places = || reserved.iter().flat_map(|&at| numbers.iter().map(move |&port| (at, port)));
            for place in places() {
                assert!(TcpListener::bind(place).is_err(), "{place:?} is held");
            }
            drop(ports);
            for place in places() {
                assert!(TcpListener::bind(place).is_ok(), "{place:?} is free again");
            }
        }
    }

    #[test]
    fn an_address_of_another_machine_is_refused() {
        // RFC 5737 reserves this address for documentation.
        let elsewhere = Ports::take_at("192.0.2.1".parse().expect("an address"), 1).expect_err("not ours");
        assert_eq!(elsewhere.kind(), ErrorKind::AddrNotAvailable);
    }
}
