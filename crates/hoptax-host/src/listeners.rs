//! Finds out which processes listen on which addresses.

use hoptax_format::Address;
use procfs::FromBufReadSI as _;
use procfs::net::{TcpNetEntries, TcpNetEntry, UnixState};
use procfs::process::{FDTarget, Process, all_processes};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;

/// A listening socket.
struct Listening {
    address: SocketAddr,
    inode: u64,
}

/// State of a listening socket in the kernel's tables (include/net/tcp_states.h).
const LISTEN: &str = "0A";

/// Addresses that these processes listen on (IPv4 and IPv6).
pub fn addresses(processes: &BTreeSet<u32>) -> BTreeSet<SocketAddr> {
    let held: BTreeSet<u64> = processes.iter().flat_map(|pid| sockets(*pid)).collect();
    all().into_iter().filter(|one| held.contains(&one.inode)).map(|one| one.address).collect()
}

/// A process that listens on `address` and is not one of `ours`. `None` if there is no such process, or if it
/// belongs to another user, so that its sockets cannot be read.
pub fn stranger(address: SocketAddr, ours: &BTreeSet<u32>) -> Option<u32> {
    let own: BTreeSet<u64> = ours.iter().flat_map(|pid| sockets(*pid)).collect();
    let foreign: BTreeSet<u64> = at(address, all()).filter(|inode| !own.contains(inode)).collect();
    if foreign.is_empty() {
        return None;
    }
    let others = all_processes().into_iter().flatten().flatten().map(|process| process.pid.cast_unsigned());
    let mut others = others.filter(|pid| !ours.contains(pid));
    others.find(|pid| !sockets(*pid).is_disjoint(&foreign))
}

/// Programs that listen for a process elsewhere, and forward its traffic.
const FORWARDERS: [&str; 8] =
    ["docker-proxy", "rootlessport", "slirp4netns", "pasta", "conmon", "kubectl", "ssh", "socat"];

/// The process whose tree serves `address` on this machine, and its name. `None` if the address is on another
/// machine, or if not exactly one tree listens on it. Also `None` if the process belongs to another user, so
/// that its sockets cannot be read, if the process only forwards traffic, or if hoptax itself runs in its
/// tree.
pub fn owner(address: &Address) -> Option<(u32, String)> {
    let inodes: BTreeSet<u64> = match address {
        Address::Tcp(address) => {
            // Only an address of this machine can be bound.
            TcpListener::bind((address.ip(), 0)).ok()?;
            at(*address, all()).collect()
        }
        Address::Unix(path) => at_path(path),
    };
    let holds = |process: &Process| !sockets(process.pid.cast_unsigned()).is_disjoint(&inodes);
    let holders: Vec<_> = all_processes().into_iter().flatten().flatten().filter(holds).collect();
    let stats: Vec<_> = holders.iter().filter_map(|process| process.stat().ok()).collect();
    let mut roots = stats.iter().filter(|stat| stats.iter().all(|other| other.pid != stat.ppid));
    let root = roots.next()?;
    let pid = root.pid.cast_unsigned();
    let is_ours = pid == std::process::id() || crate::tree::descendants(pid).contains(&std::process::id());
    let is_alone = roots.next().is_none();
    (is_alone && !is_ours && !FORWARDERS.contains(&root.comm.as_str())).then(|| (pid, root.comm.clone()))
}

/// Name and id of a process, for messages: `` `nginx` (process 812) ``.
pub fn described(pid: u32) -> String {
    let stat = Process::new(pid.cast_signed()).and_then(|process| process.stat());
    stat.map_or_else(|_| format!("process {pid}"), |stat| format!("`{}` (process {pid})", stat.comm))
}

/// The sockets that receive connections to `address`. Sockets that listen on all addresses receive them only
/// if no socket listens on this address.
fn at(address: SocketAddr, all: Vec<Listening>) -> impl Iterator<Item = u64> {
    let of_port: Vec<Listening> =
        all.into_iter().filter(|one| one.address.port() == address.port()).collect();
    // An IPv6 socket may listen on an IPv4 address.
    let ip = |one: &Listening| one.address.ip().to_canonical();
    let has_own = of_port.iter().any(|one| ip(one) == address.ip());
    let receives = move |ip: IpAddr| if has_own { ip == address.ip() } else { ip.is_unspecified() };
    of_port.into_iter().filter(move |one| receives(ip(one))).map(|one| one.inode)
}

/// The sockets that listen on this path. Accepted connections have the same path. They are left out, because
/// their state is connected.
fn at_path(path: &Path) -> BTreeSet<u64> {
    let entries = procfs::net::unix().into_iter().flatten();
    let listening = entries
        .filter(|entry| matches!(entry.state, UnixState::UNCONNECTED) && entry.path.as_deref() == Some(path));
    listening.map(|entry| entry.inode).collect()
}

/// All listening sockets of this network namespace.
fn all() -> Vec<Listening> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|path| File::open(path).ok());
    tables.flat_map(|table| listening_in(BufReader::new(table))).collect()
}

/// The listening sockets of a table. The kernel lists them before all others (`tcp_get_idx` in
/// net/ipv4/tcp_ipv4.c), so nothing reads the tens of thousands of sockets in TIME_WAIT after a load.
fn listening_in(table: impl BufRead) -> Vec<Listening> {
    let mut lines = table.lines().map_while(Result::ok);
    let header = lines.next().unwrap_or_default();
    let listening = lines.take_while(|line| line.split_ascii_whitespace().nth(3) == Some(LISTEN));
    let text: String = std::iter::once(header).chain(listening).map(|line| line + "\n").collect();
    let entries = TcpNetEntries::from_buf_read(text.as_bytes(), procfs::current_system_info());
    let listening = |entry: TcpNetEntry| Listening { address: entry.local_address, inode: entry.inode };
    entries.map_or_else(|_| Vec::new(), |entries| entries.0.into_iter().map(listening).collect())
}

/// The sockets that a process has open; none if it has exited, or if this process may not look.
fn sockets(pid: u32) -> BTreeSet<u64> {
    let descriptors = Process::new(pid.cast_signed()).and_then(|process| process.fd());
    let targets = descriptors.into_iter().flatten().flatten().map(|descriptor| descriptor.target);
    targets
        .filter_map(|target| match target {
            FDTarget::Socket(inode) => Some(inode),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    #[test]
    fn a_listener_is_a_stranger_unless_it_is_ours() {
        let this = std::process::id();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        assert!(addresses(&BTreeSet::from([this])).contains(&address));
        assert_eq!(stranger(address, &BTreeSet::from([this])), None);
        assert_eq!(stranger(address, &BTreeSet::new()), Some(this));
        let elsewhere = SocketAddr::from(([127, 0, 0, 9], address.port()));
        assert_eq!(stranger(elsewhere, &BTreeSet::new()), None, "it does not listen there");
        drop(listener);
        assert_eq!(stranger(address, &BTreeSet::new()), None);
        assert!(!addresses(&BTreeSet::from([this])).contains(&address));

        let everywhere = TcpListener::bind("0.0.0.0:0").expect("a port");
        let port = everywhere.local_addr().expect("bound").port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(stranger(address, &BTreeSet::new()), Some(this), "it listens on all addresses");
    }

    #[test]
    fn sockets_after_the_listening_ones_are_not_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  \
             timeout inode\n   \
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 71 1 0\n   \
             1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 72 1 0\n   \
             2: 0100007F:1F90 0100007F:B4D2 06 00000000:00000000 03:00000F5A 00000000  0  0 0 3 0\n   \
             3: nonsense\n";
        let found =
            listening_in(table.as_bytes()).into_iter().map(|one| (one.address.to_string(), one.inode));
        let expected = [("127.0.0.1:8080".to_owned(), 71), ("0.0.0.0:22".to_owned(), 72)];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_socket_on_the_address_itself_wins_over_one_on_all_addresses() {
        let one = |address: &str, inode| Listening { address: address.parse().expect("an address"), inode };
        let sockets = |all: &[(&str, u64)]| {
            let all = all.iter().map(|(address, inode)| one(address, *inode)).collect();
            at("127.0.0.1:80".parse().expect("an address"), all).collect::<Vec<_>>()
        };
        assert_eq!(sockets(&[("0.0.0.0:80", 1), ("127.0.0.1:80", 2), ("127.0.0.1:81", 3)]), [2]);
        assert_eq!(sockets(&[("0.0.0.0:80", 1), ("[::]:80", 2), ("127.0.0.2:80", 3)]), [1, 2]);
        assert_eq!(sockets(&[("[::ffff:127.0.0.1]:80", 1), ("[::]:80", 2)]), [1]);
    }

    /// A script of Python that runs until its standard input ends, and the line that it has written.
    fn python(script: &str, argument: &Path) -> (Child, String) {
        let mut starting = Command::new("python3");
        starting.args(["-c", script]).arg(argument).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = starting.spawn().expect("python3 starts");
        let mut line = String::new();
        let output = server.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("a line");
        (server, line)
    }

    #[test]
    fn the_owner_of_an_address_is_the_root_of_the_tree_that_listens() {
        // A shell that inherits no socket starts a listener, as a service manager does.
        let script = "import os, socket, sys\ns = socket.create_server(('127.0.0.1', 0))\n\
                      child = os.fork() == 0\n\
                      if not child: print(s.getsockname()[1], flush=True)\nsys.stdin.read()\n";
        let (mut server, line) = python(script, Path::new(""));
        let port: u16 = line.trim().parse().expect("a port");
        let at = |ip, port| Address::from(SocketAddr::from((ip, port)));
        let (pid, name) = owner(&at([127, 0, 0, 1], port)).expect("it listens");
        assert!(name.starts_with("python3"), "{name}");
        assert_eq!(pid, server.id(), "not its child, which listens too");
        assert_eq!(owner(&at([192, 0, 2, 1], port)), None, "an address of another machine");
        drop(server.stdin.take());
        server.wait().expect("ours");
        // The child ends a moment after its parent.
        let ended = std::time::Instant::now();
        while owner(&at([127, 0, 0, 1], port)).is_some() {
            assert!(ended.elapsed().as_secs() < 30, "nobody listens any more");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }

        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let ours = owner(&listener.local_addr().expect("bound").into());
        assert_eq!(ours, None, "its tree contains whatever this process starts");
    }

    #[test]
    fn the_owner_of_a_unix_socket_is_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket");
        let script = "import socket, sys\ns = \
                      socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen()\n\
                      print('ready', flush=True)\nsys.stdin.read()\n";
        let (mut server, _) = python(script, &path);
        // A client of the socket does not listen.
        let client = std::os::unix::net::UnixStream::connect(&path).expect("it listens");
        let found = owner(&Address::Unix(path.clone())).map(|(pid, _)| pid);
        assert_eq!(found, Some(server.id()));
        drop((client, server.stdin.take()));
        server.wait().expect("ours");
        assert_eq!(owner(&Address::Unix(path)), None);
    }

    #[test]
    fn a_process_is_described_by_name_and_id() {
        let this = std::process::id();
        let text = described(this);
        assert!(text.starts_with('`') && text.ends_with(&format!("` (process {this})")), "{text}");
    }
}
