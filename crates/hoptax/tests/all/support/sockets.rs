//! Finds the sockets on which a group of processes listens.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

/// State of a listening TCP socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";
/// State of an unconnected UDP socket in `/proc/net/udp`.
const UNCONNECTED: &str = "07";

/// Addresses such as `127.0.0.1:80` on which these processes listen: TCP, and unconnected UDP.
pub(crate) fn listening(pids: impl IntoIterator<Item = u32>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for pid in pids {
        let inodes = inodes(pid);
        for (table, state) in [("tcp", LISTEN), ("tcp6", LISTEN), ("udp", UNCONNECTED), ("udp6", UNCONNECTED)]
        {
            // Reads the table through the process, because the process may be in its own network namespace.
            let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
            for line in text.lines().skip(1) {
                let columns: Vec<&str> = line.split_whitespace().collect();
                if columns[3] == state && inodes.contains(columns[9]) {
                    found.insert(address(columns[1]));
                }
            }
        }
    }
    found
}

fn inodes(pid: u32) -> BTreeSet<String> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect()
}

/// Parses an address in the kernel's format: hexadecimal words in host byte order.
fn address(text: &str) -> String {
    let (host, port) = text.split_once(':').expect("address and port");
    let port = u16::from_str_radix(port, 16).expect("a port");
    let words: Vec<u8> = host
        .as_bytes()
        .chunks(8)
        .flat_map(|word| {
            let word = std::str::from_utf8(word).expect("digits");
            u32::from_str_radix(word, 16).expect("digits").to_ne_bytes()
        })
        .collect();
    match <[u8; 4]>::try_from(words.as_slice()) {
        Ok(v4) => format!("{}:{port}", Ipv4Addr::from(v4)),
        Err(_) => {
            let v6 = Ipv6Addr::from(<[u8; 16]>::try_from(words.as_slice()).expect("four words"));
            match v6.to_ipv4_mapped() {
                Some(v4) => format!("{v4}:{port}"),
                None => format!("[{v6}]:{port}"),
            }
        }
    }
}

#[test]
fn own_sockets_are_found_with_their_addresses() {
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let udp = std::net::UdpSocket::bind("127.0.0.2:0").expect("a port");
    let found = listening([std::process::id()]);
    for address in [tcp.local_addr(), udp.local_addr()] {
        let address = address.expect("present").to_string();
        assert!(found.contains(&address), "{address}: {found:?}");
    }
}
