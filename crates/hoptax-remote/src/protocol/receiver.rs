//! Receivers of the messages that measure the network. A receiver is at one end of a leg. Runner and agent
//! open them.

use hoptax_host::probe::leg::Receiver;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Opens a receiver. Fails if this host has no such address. The error says what to do.
pub(crate) fn open(address: IpAddr) -> Result<Receiver, String> {
    Receiver::open(address).map_err(|error| {
        format!(
            "cannot listen on {address} to measure the network: {error}. Check that this `address` in the \
             plan is one of this host (`ip address` lists them)"
        )
    })
}

/// Why a leg was not measured.
pub(crate) fn unreachable(to: SocketAddr, error: &io::Error) -> String {
    format!(
        "cannot measure the network to {to}: {error}. Check that no firewall stops connections from this \
         host to {}, on any port: the upstream and gateways listen on free ports",
        to.ip()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_address_and_what_to_try() {
        let error = open(IpAddr::from([192, 0, 2, 1])).expect_err("nobody has this address");
        assert!(error.contains("cannot listen on 192.0.2.1") && error.contains("`ip address`"), "{error}");
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = unreachable(SocketAddr::from(([10, 0, 0, 2], 4711)), &refused);
        assert!(error.contains("to 10.0.0.2:4711: connection refused"), "{error}");
        assert!(error.contains("firewall"), "{error}");
    }
}
