//! Free ports, chosen by the kernel.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// Ports of 127.0.0.1 that this process keeps reserved. It releases each port just before a gateway opens the port.
#[derive(Debug)]
pub struct Ports {
    held: Vec<TcpListener>,
}

impl Ports {
    /// Reserves `count` different free ports.
    ///
    /// # Errors
    /// If no port is free.
    pub fn take(count: usize) -> std::io::Result<Self> {
        let held =
            (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>()?;
        Ok(Self { held })
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
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_distinct_held_and_free_once_dropped() {
        let ports = Ports::take(3).expect("free ports");
        let numbers = ports.numbers().expect("known");
        let distinct: std::collections::BTreeSet<_> = numbers.iter().collect();
        assert_eq!(distinct.len(), 3);
        assert!(TcpListener::bind(local(numbers[0])).is_err(), "held");
        drop(ports);
        assert!(TcpListener::bind(local(numbers[0])).is_ok(), "let go");
    }
}
