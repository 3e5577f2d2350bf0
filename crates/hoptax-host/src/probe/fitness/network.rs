//! Checks of the network's limits: ports, listeners' queues, the firewall's connection table.

use super::host::Host;
use super::item::{doubt, good, graded, unknown};
use hoptax_record::{Fitness, FitnessStatus};
use std::collections::{BTreeMap, BTreeSet};

/// Bounds on the number of local ports for connections to one address and port. The kernel's default is
/// 28,232. Below the first bound, a load without keep-alive uses up all ports within one second, even at a
/// moderate rate. Below the second bound, even the connections of a single load point use up all ports.
const PORTS: (u64, u64) = (10_000, 1_024);

/// Bounds on the share of ports in TIME_WAIT. Above the first bound, four times as many connections would use
/// up the ports. Above the second bound, almost no port is free.
const WAITING: (f64, f64) = (0.25, 0.75);

/// Minimum length of a queue of connections. It must be this long, because a load opens all its connections
/// at once. If the queue is full, the kernel retries a connection only after a second.
const LINE: u64 = 1_024;

const DEVICE_BACKLOG: u64 = 1_000;

/// Bounds on the share of the connection table that is in use. A full table drops packets of new connections.
const TABLE: (f64, f64) = (0.5, 0.9);
/// Minimum size of the connection table, in entries. Closed connections remain in the table for two minutes,
/// so a small table fills up.
const LEAST_TABLE: u64 = 65_536;

pub(super) fn ports(host: &Host) -> Fitness {
    let Some((first, last)) = host.port_range() else {
        return unknown("ports", "The kernel does not report its range of local ports.");
    };
    let count = (last + 1).saturating_sub(first);
    let seen = format!("{count} ({first} to {last})");
    let status = match count {
        _ if count < PORTS.1 => FitnessStatus::Bad,
        _ if count < PORTS.0 => FitnessStatus::Warning,
        _ => return good("ports", seen),
    };
    let message = "Each connection to an address uses a local port. The port stays in use for a minute \
                   after the connection is closed.";
    doubt("ports", status, seen, message, "sudo sysctl net.ipv4.ip_local_port_range=\"1024 65535\"")
}

pub(super) fn time_wait(host: &Host) -> Fitness {
    let waiting = host.text("proc/net/sockstat").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("TCP:"))?.to_owned();
        let mut words = line.split_whitespace().skip_while(|word| *word != "tw").skip(1);
        words.next()?.parse::<u64>().ok()
    });
    let Some(all) = waiting else {
        return unknown("time-wait", "The kernel does not report how many ports are in TIME_WAIT.");
    };
    let ports = host.local_ports().unwrap_or(u64::MAX) as f64;
    let seen = format!("{all} sockets");
    if graded(all as f64 / ports, WAITING.0, WAITING.1).is_none() {
        return good("time-wait", seen);
    }
    // Many sockets are in TIME_WAIT. Count them by destination, which takes longer.
    let waiting = most_to_one_destination(host).unwrap_or(all);
    let Some(status) = graded(waiting as f64 / ports, WAITING.0, WAITING.1) else {
        return good("time-wait", seen);
    };
    let message =
        "Ports of closed connections are blocked for a minute. New connections may find no free port.";
    doubt("time-wait", status, seen, message, "Wait a minute, or widen net.ipv4.ip_local_port_range.")
}

/// Largest number of sockets in TIME_WAIT between one local address and one destination. Leaves out
/// destinations on this machine that nothing listens on any more: a port in TIME_WAIT blocks only connections
/// between the same two ends, so sockets to services of earlier runs do no harm. `None` if the kernel does
/// not list its sockets.
fn most_to_one_destination(host: &Host) -> Option<u64> {
    let mut sockets = Vec::new();
    for table in ["proc/net/tcp", "proc/net/tcp6"] {
        let text = host.text(table);
        sockets.extend(text.iter().flat_map(|text| text.lines().filter_map(Socket::parse)));
    }
    if sockets.is_empty() {
        return None;
    }
    let listening: BTreeSet<&str> =
        sockets.iter().filter(|socket| socket.state == LISTEN).map(|socket| &*socket.local_port).collect();
    let mut waiting: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for socket in sockets.iter().filter(|socket| socket.state == TIME_WAIT) {
        let has_ended = is_loopback(&socket.remote) && !listening.contains(&*socket.remote_port);
        if !has_ended {
            *waiting.entry((&socket.local, &socket.remote, &socket.remote_port)).or_default() += 1;
        }
    }
    Some(waiting.into_values().max().unwrap_or(0))
}

/// States of a socket in `/proc/net/tcp` (include/net/tcp_states.h).
const TIME_WAIT: &str = "06";
const LISTEN: &str = "0A";

/// A line of `/proc/net/tcp`. Addresses and ports are hexadecimal, as the kernel prints them.
struct Socket {
    local: String,
    local_port: String,
    remote: String,
    remote_port: String,
    state: String,
}

impl Socket {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_whitespace().skip(1);
        let (local, local_port) = fields.next()?.split_once(':')?;
        let (remote, remote_port) = fields.next()?.split_once(':')?;
        Some(Self {
            local: local.to_owned(),
            local_port: local_port.to_owned(),
            remote: remote.to_owned(),
            remote_port: remote_port.to_owned(),
            state: fields.next()?.to_owned(),
        })
    }
}

/// True for 127.0.0.0/8, also mapped into IPv6, and for `::1`. The kernel prints each group of four bytes as
/// a number in the order of the machine, here with the lowest byte first.
fn is_loopback(address: &str) -> bool {
    let is_v4 = |address: &str| address.len() == 8 && address.ends_with("7F");
    let mapped = address.strip_prefix("0000000000000000FFFF0000");
    is_v4(address) || mapped.is_some_and(is_v4) || address == "00000000000000000000000001000000"
}

/// Names of checks of queues that drop packets or connections when they are full, with the key of the queue's
/// length and its minimum.
pub(super) const QUEUES: [(&str, &str, u64); 3] = [
    ("listen-queue", "net.core.somaxconn", LINE),
    ("syn-backlog", "net.ipv4.tcp_max_syn_backlog", LINE),
    ("device-backlog", "net.core.netdev_max_backlog", DEVICE_BACKLOG),
];

/// Checks the length of one of the [`QUEUES`].
pub(super) fn queue(host: &Host, (name, key, least): (&str, &str, u64)) -> Fitness {
    let Some(length) = host.number(&format!("proc/sys/{}", key.replace('.', "/"))) else {
        return unknown(name, format!("The kernel does not report {key}."));
    };
    if length >= least {
        return good(name, length.to_string());
    }
    let message = format!(
        "If more than {length} connections arrive at once ({key}), the kernel drops the rest, and clients \
        retry a second later."
    );
    doubt(name, FitnessStatus::Warning, length.to_string(), message, format!("sudo sysctl {key}=4096"))
}

pub(super) fn conntrack(host: &Host) -> Fitness {
    const NAME: &str = "conntrack";
    let Some(most) = host.number("proc/sys/net/netfilter/nf_conntrack_max") else {
        return good(NAME, "not loaded");
    };
    let now = host.number("proc/sys/net/netfilter/nf_conntrack_count").unwrap_or(0);
    let seen = format!("{now} of {most} connections");
    let full = graded(now as f64 / most.max(1) as f64, TABLE.0, TABLE.1);
    let small = (most < LEAST_TABLE).then_some(FitnessStatus::Warning);
    let Some(status) = full.or(small) else { return good(NAME, seen) };
    let message =
        "The firewall tracks every connection. When its table is full, it silently drops new connections.";
    let advice = "sudo sysctl net.netfilter.nf_conntrack_max=1048576, or exempt the traffic (NOTRACK).";
    doubt(NAME, status, seen, message, advice)
}
