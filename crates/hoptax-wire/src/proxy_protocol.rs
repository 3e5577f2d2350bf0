//! The PROXY protocol: a header at the start of a connection, before TLS, that names the addresses of the
//! original client and of the server to which it connected. Load balancers send this header, in version 1 or
//! 2.
//!
//! The specification is `proxy-protocol.txt` in HAProxy's documentation.

use std::net::{IpAddr, SocketAddr};

/// The first bytes of a header of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, and a connection that the sender of the header opened for itself.
const LOCAL: u8 = 0x20;
/// Version 2, and a connection on behalf of a client.
const PROXY: u8 = 0x21;
/// No address family.
const UNSPECIFIED: u8 = 0x00;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;

/// The source and the destination of a connection.
pub type Ends = (SocketAddr, SocketAddr);

/// The header of version 1, a line of text. `ends` are absent for connections that have no IP addresses, such
/// as those to Unix sockets.
pub fn header_v1(ends: Option<Ends>) -> Vec<u8> {
    let Some((from, to)) = ends.and_then(same_family) else { return b"PROXY UNKNOWN\r\n".to_vec() };
    let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
    format!("PROXY {family} {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port()).into_bytes()
}

/// The header of version 2, which is binary. `ends` are as in [`header_v1`].
pub fn header_v2(ends: Option<Ends>) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    let Some((from, to)) = ends.and_then(same_family) else {
        header.extend_from_slice(&[LOCAL, UNSPECIFIED, 0, 0]);
        return header;
    };
    let mut body = Vec::new();
    for end in [from, to] {
        match end.ip() {
            IpAddr::V4(ip) => body.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => body.extend_from_slice(&ip.octets()),
        }
    }
    for end in [from, to] {
        body.extend_from_slice(&end.port().to_be_bytes());
    }
    header.extend_from_slice(&[PROXY, if from.is_ipv4() { TCP_OVER_IPV4 } else { TCP_OVER_IPV6 }]);
    header.extend_from_slice(&(body.len() as u16).to_be_bytes());
    header.extend_from_slice(&body);
    header
}

/// Returns both ends in one address family. If only one of them is an IPv6 address, the other is converted to
/// IPv6.
fn same_family((from, to): Ends) -> Option<Ends> {
    let mapped = |end: SocketAddr| match end.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), end.port()),
        IpAddr::V6(_) => end,
    };
    Some(if from.is_ipv4() == to.is_ipv4() { (from, to) } else { (mapped(from), mapped(to)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(from: &str, to: &str) -> Option<Ends> {
        Some((from.parse().expect("an address"), to.parse().expect("an address")))
    }

    #[test]
    fn version_1_is_a_line() {
        for (ends, line) in [
            (ends("192.0.2.1:56324", "198.51.100.7:443"), "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n"),
            (ends("[2001:db8::1]:1", "[::1]:80"), "PROXY TCP6 2001:db8::1 ::1 1 80\r\n"),
            (ends("127.0.0.1:1", "[::1]:80"), "PROXY TCP6 ::ffff:127.0.0.1 ::1 1 80\r\n"),
            (None, "PROXY UNKNOWN\r\n"),
        ] {
            assert_eq!(String::from_utf8(header_v1(ends)).expect("text"), line);
        }
        let longest = ends(&format!("[{0}]:65535", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), "[::1]:65535");
        assert!(header_v1(longest).len() <= 107, "the specification's bound");
    }

    #[test]
    fn version_2_is_binary() {
        let v4 = header_v2(ends("192.0.2.1:258", "198.51.100.7:443"));
        assert_eq!(v4[..12], SIGNATURE[..]);
        assert_eq!(v4[12..16], [0x21, 0x11, 0, 12]);
        assert_eq!(v4[16..], [192, 0, 2, 1, 198, 51, 100, 7, 1, 2, 1, 187]);
        let v6 = header_v2(ends("[2001:db8::1]:1", "[::1]:80"));
        assert_eq!(v6[12..16], [0x21, 0x21, 0, 36]);
        assert_eq!(
            (v6.len(), &v6[16..20], &v6[47..]),
            (52, &[0x20, 0x01, 0x0d, 0xb8][..], &[1, 0, 1, 0, 80][..])
        );
        assert_eq!(header_v2(None)[12..], [0x20, 0x00, 0, 0]);
    }
}
