//! The header of the PROXY protocol that a connection begins with.

use hoptax_format::spec::ProxyProtocol;
use hoptax_wire::proxy_protocol::{Ends, header_v1, header_v2};

/// The header at the start of a connection. `ends` are its source and its destination; absent for a Unix
/// socket.
pub fn header(version: ProxyProtocol, ends: Option<Ends>) -> Vec<u8> {
    match version {
        ProxyProtocol::V1 => header_v1(ends),
        ProxyProtocol::V2 => header_v2(ends),
    }
}
