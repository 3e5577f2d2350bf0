//! The kernel's network counters, from `/proc/net` of this network namespace.
//!
//! `netstat` and `snmp` contain pairs of lines that begin with the same word: a line of names and a line of
//! values. In `sockstat` names and values alternate (proc_pid_net(5),
//! Documentation/networking/snmp_counter.rst in the kernel's sources).

use hoptax_record::NetworkUsage;
use std::fs;

/// The counters at one moment. A counter that the kernel does not report is zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NetworkCounters {
    listen_overflows: u64,
    listen_drops: u64,
    syn_retransmits: u64,
    retransmits: u64,
    segments_sent: u64,
}

impl NetworkCounters {
    /// Reads the counters now; `None` if `/proc/net` cannot be read.
    pub fn now() -> Option<Self> {
        let read = |name: &str| fs::read_to_string(format!("/proc/self/net/{name}")).ok();
        Some(Self::parse(&read("netstat")?, &read("snmp")?))
    }

    fn parse(netstat: &str, snmp: &str) -> Self {
        let extended = |name| counter(netstat, "TcpExt", name).unwrap_or(0);
        let tcp = |name| counter(snmp, "Tcp", name).unwrap_or(0);
        Self {
            listen_overflows: extended("ListenOverflows"),
            listen_drops: extended("ListenDrops"),
            syn_retransmits: extended("TCPSynRetrans"),
            retransmits: tcp("RetransSegs"),
            segments_sent: tcp("OutSegs"),
        }
    }

    /// The differences between these counters and those in `before`.
    pub fn since(&self, before: &Self, time_wait_max: u64, local_ports: u64) -> NetworkUsage {
        NetworkUsage {
            listen_overflows: self.listen_overflows.saturating_sub(before.listen_overflows),
            listen_drops: self.listen_drops.saturating_sub(before.listen_drops),
            syn_retransmits: self.syn_retransmits.saturating_sub(before.syn_retransmits),
            retransmits: self.retransmits.saturating_sub(before.retransmits),
            segments_sent: self.segments_sent.saturating_sub(before.segments_sent),
            time_wait_max,
            local_ports,
        }
    }
}

/// Number of sockets in TIME_WAIT now, IPv4 and IPv6 together; 0 if the kernel does not report it.
pub fn time_wait() -> u64 {
    fs::read_to_string("/proc/self/net/sockstat").map_or(0, |text| time_wait_in(&text))
}

/// Number of local ports that the kernel may use for connections; 0 if the kernel does not report the range.
pub fn local_ports() -> u64 {
    fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").map_or(0, |text| ports_in(&text))
}

fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut of_group = text.lines().filter_map(|line| line.strip_prefix(group)?.strip_prefix(':'));
    let (names, values) = (of_group.next()?, of_group.next()?);
    let index = names.split_whitespace().position(|known| known == name)?;
    values.split_whitespace().nth(index)?.parse().ok()
}

fn time_wait_in(sockstat: &str) -> u64 {
    let line = sockstat.lines().find_map(|line| line.strip_prefix("TCP:"));
    let mut words = line.unwrap_or_default().split_whitespace();
    words.find(|&word| word == "tw").and_then(|_| words.next()?.parse().ok()).unwrap_or(0)
}

fn ports_in(range: &str) -> u64 {
    let mut ends = range.split_whitespace().map_while(|end| end.parse::<u64>().ok());
    match (ends.next(), ends.next()) {
        (Some(low), Some(high)) if high >= low => high - low + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddr, TcpListener};

    const NETSTAT: &str = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPSynRetrans\n\
                           TcpExt: 0 7 9 11\nIpExt: InNoRoutes ListenDrops\nIpExt: 1 2\n";
    const SNMP: &str = "Ip: Forwarding OutSegs\nIp: 1 99\n\
                        Tcp: MaxConn OutSegs RetransSegs\nTcp: -1 1000 5\n";

    #[test]
    fn counters_are_found_by_group_and_name() {
        let counters = NetworkCounters::parse(NETSTAT, SNMP);
        let usage = counters.since(&NetworkCounters::default(), 3, 28232);
        let expected = NetworkUsage {
            listen_overflows: 7,
            listen_drops: 9,
            syn_retransmits: 11,
            retransmits: 5,
            segments_sent: 1000,
            time_wait_max: 3,
            local_ports: 28232,
        };
        assert_eq!(usage, expected);
        let nothing = counters.since(&counters, 0, 0);
        assert_eq!(nothing, NetworkUsage::default());
    }

    #[test]
    fn counters_that_an_older_kernel_lacks_are_zero() {
        let counters = NetworkCounters::parse("TcpExt: ListenDrops\nTcpExt: 4\n", "");
        assert_eq!(counters, NetworkCounters { listen_drops: 4, ..NetworkCounters::default() });
        assert_eq!(NetworkCounters::parse("TcpExt: ListenDrops\n", "nothing"), NetworkCounters::default());
    }

    #[test]
    fn sockets_in_time_wait_and_the_range_of_ports() {
        assert_eq!(time_wait_in("sockets: used 5\nTCP: inuse 1 orphan 0 tw 42 alloc 1 mem 0\n"), 42);
        assert_eq!(time_wait_in("sockets: used 5\n"), 0);
        assert_eq!((ports_in("32768\t60999\n"), ports_in("1"), ports_in("9 8")), (28232, 0, 0));
        assert!(local_ports() > 0, "this machine has ports");
    }

    /// If a listener never accepts connections, its backlog fills up. The kernel then drops and counts
    /// further connections.
    #[test]
    fn a_full_listen_queue_is_counted() {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .expect("a socket");
        bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        listen(&socket, 1).expect("listening");
        let listener = TcpListener::from(socket);
        let address = listener.local_addr().expect("bound");
        let before = NetworkCounters::now().expect("the counters");
        // Two connections fit into the backlog. The kernel drops the SYNs of the other connections. It would
        // repeat these SYNs after a second, but the test does not wait for this.
        let clients: Vec<_> = (0..6)
            .map(|_| {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let client = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).expect("made");
                let _ = rustix::net::connect(&client, &address);
                client
            })
            .collect();
        let usage = NetworkCounters::now().expect("the counters").since(&before, 0, 0);
        assert!(usage.listen_drops >= 1 && usage.listen_overflows >= 1, "{usage:?}");
        drop(clients);
    }
}
