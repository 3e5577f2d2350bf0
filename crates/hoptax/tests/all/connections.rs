//! `hoptax load --spec -` against the real nginx. nginx's log shows how connections are opened, kept and
//! closed.

use crate::load;
use crate::support::{PATIENCE, nginx, unused_address, wait_for};
use crate::wire::Server;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

const REQUESTS: u64 = 400;

/// nginx on a Unix socket and on a port, in one process. For each request it logs the address, the HTTP
/// version, the number of the connection, and the number of the request on this connection.
pub(crate) struct Nginx {
    process: nginx::Nginx,
    address: SocketAddr,
}

impl Nginx {
    pub(crate) fn start() -> Self {
        let address = unused_address();
        let http = format!(
            "log_format seen '$remote_addr $server_protocol $connection $connection_requests';
             access_log ROOT/access.log seen;
             server {{ listen {address}; listen unix:ROOT/socket; location / {{ return 200 hello; }} }}"
        );
        let process = nginx::Nginx::start_with(&[], &http, |root| {
            UnixStream::connect(root.join("socket")).is_ok() && TcpStream::connect(address).is_ok()
        });
        Self { process, address }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn socket(&self) -> String {
        self.process.file("socket").display().to_string()
    }

    /// Returns the log lines since the last call. Waits until there are `requests` lines.
    pub(crate) fn seen(&self, requests: u64) -> Vec<Vec<String>> {
        let path = self.process.file("access.log");
        let lines = wait_for("every request is logged", PATIENCE, || {
            let text = std::fs::read_to_string(&path).expect("a log");
            let lines: Vec<Vec<String>> =
                text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect();
            (lines.len() as u64 >= requests && text.ends_with('\n')).then_some(lines)
        });
        // nginx appends to the file. After the file was emptied, nginx continues at its beginning.
        std::fs::File::create(&path).expect("emptied");
        lines
    }
}

/// A spec with [`REQUESTS`] requests on four connections to `address`. `more` has additional members.
fn spec(address: &str, mut more: Value) -> Value {
    more["addresses"] = json!([address]);
    more["requests"] = REQUESTS.into();
    load::spec_with(more)
}

/// Runs `spec` and returns the record. Fails if a request was not answered.
fn run_spec(spec: &Value) -> Value {
    let record = load::record_of(spec);
    assert_eq!(record["counts"]["ok"], REQUESTS, "{}", record["counts"]);
    record
}

/// Number of sockets in TIME_WAIT with the local address `address`, and number of sockets in TIME_WAIT with
/// the remote address `address`.
fn time_wait(address: SocketAddr) -> (usize, usize) {
    let IpAddr::V4(ip) = address.ip() else { panic!("not IPv4: {address}") };
    // The kernel prints the bytes of the address as one number in the order of the machine.
    let address = format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").expect("procfs");
    let (mut ours, mut theirs) = (0, 0);
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // State 06 is TIME_WAIT (include/net/tcp_states.h).
        if fields[3] == "06" {
            ours += usize::from(fields[1] == address);
            theirs += usize::from(fields[2] == address);
        }
    }
    (ours, theirs)
}

#[test]
fn nginx_keeps_and_closes_connections_as_specified() {
    needs!("nginx");
    let nginx = Nginx::start();
    for (http, limit) in [("1.1", 1), ("1.0", 1), ("1.1", 8), ("1.0", 8)] {
        let before = time_wait(nginx.address);
        let more = json!({"http": http, "requests_per_connection": limit});
        let record = run_spec(&spec(&nginx.address(), more));
        let seen = nginx.seen(REQUESTS);
        assert!(seen.iter().all(|line| line[1] == format!("HTTP/{http}")), "{:?}", seen[0]);
        let longest = seen.iter().map(|line| line[3].parse::<u64>().expect("a number")).max();
        assert_eq!(longest, Some(limit));
        let firsts = seen.iter().filter(|line| line[3] == "1").count() as u64;
        let connections = &record["connections"];
        assert_eq!(connections["reused"], REQUESTS - firsts, "{connections}");
        assert_eq!(connections["closed_by_peer"], 0, "it was configured to: {connections}");
        // The side that closes a connection first keeps the port in TIME_WAIT. nginx must close first.
        // Connections that are still open at the end are reset, and leave no port in TIME_WAIT.
        let after = time_wait(nginx.address);
        let (by_nginx, by_us) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        assert!(by_us <= 8, "{by_us} ports of ours are in TIME_WAIT, and {by_nginx} of nginx's");
    }
}

#[test]
fn connections_that_are_open_at_the_end_leave_no_port_in_time_wait() {
    let upstream = Server::start(&["upstream"]);
    let address = upstream.instance(0);
    for _ in 0..2 {
        let record = run_spec(&spec(&address.to_string(), json!({ "connections": 1000 })));
        assert_eq!(record["connections"]["established"], 1000, "{}", record["connections"]);
    }
    let (by_upstream, by_us) = time_wait(address);
    assert!(
        by_us + by_upstream <= 20,
        "{by_us} ports of ours are in TIME_WAIT, and {by_upstream} of the upstream's"
    );
}
