//! The PROXY protocol at the start of connections: from `load` and in runs. curl, and the logs of real
//! gateways, are the second opinions.

use crate::findings::two_ports;
use crate::load::{Upstream, case, load};
use crate::run::{report, run, run_to_success, text, trials};
use crate::support::nginx::Nginx;
use crate::support::{PATIENCE, Scratch, wait_until};
use crate::world::is_missing;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// What a server saw of a connection: its first bytes, the client's address, and its own.
type Seen = (Vec<u8>, SocketAddr, SocketAddr);

/// Reads the beginning of a connection, up to the first request's head, and answers this request and all
/// others.
fn serve(mut stream: impl std::io::Read + std::io::Write) -> Vec<u8> {
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    let has = |seen: &[u8], part: &[u8]| seen.windows(part.len()).any(|bytes| bytes == part);
    // Until the end of a head, or the first byte of TLS.
    while !(has(&seen, b" HTTP/1.1\r\n") && seen.ends_with(b"\r\n\r\n") || has(&seen, b"\r\n\x16")) {
        match stream.read(&mut piece) {
            Ok(count @ 1..) => seen.extend_from_slice(&piece[..count]),
            _ => return seen,
        }
    }
    while stream.write_all(OK).is_ok() && matches!(stream.read(&mut piece), Ok(1..)) {}
    seen
}

/// A server that reports each connection when it ends.
fn watching(address: &str) -> (SocketAddr, Receiver<Seen>) {
    let listener = TcpListener::bind(address).expect("a port");
    let (address, (send, seen)) = (listener.local_addr().expect("bound"), channel());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let send = send.clone();
            std::thread::spawn(move || {
                let (peer, own) = (stream.peer_addr().expect("known"), stream.local_addr().expect("known"));
                let _ = send.send((serve(stream), peer, own));
            });
        }
    });
    (address, seen)
}

fn line(client: SocketAddr, server: SocketAddr) -> Vec<u8> {
    let family = if client.is_ipv4() { "TCP4" } else { "TCP6" };
    let (client_port, server_port) = (client.port(), server.port());
    format!("PROXY {family} {} {} {client_port} {server_port}\r\n", client.ip(), server.ip()).into_bytes()
}

#[test]
fn every_connection_begins_with_its_addresses_as_curl_sends_them() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (address, seen) = watching(address);
        let url = format!("http://{address}/");
        let mut curl = Command::new("curl");
        curl.args(["-s", "--haproxy-protocol", "-A", "", "-H", "accept:"]);
        assert!(curl.arg(&url).status().expect("curl runs").success());
        // Before a load, hoptax may check whether the server accepts connections. Skip the connection of this
        // check.
        let next = || loop {
            let seen = seen.recv_timeout(PATIENCE).expect("a connection");
            if !seen.0.is_empty() {
                break seen;
            }
        };
        let (bytes, client, server) = next();
        assert!(bytes.starts_with(&line(client, server)), "curl: {}", bytes.escape_ascii());

        for (version, requests) in [("v1", "1"), ("v2", "3")] {
            let options = ["--requests-per-connection", requests, "--proxy-protocol", version];
            case(&[&[url.as_str(), "-c", "2", "-n", "6"][..], &options].concat());
            for _ in 0..if version == "v1" { 6 } else { 2 } {
                let (bytes, client, server) = next();
                let header = match version {
                    "v1" => line(client, server),
                    _ => binary(client, server),
                };
                let rest = bytes.strip_prefix(header.as_slice());
                let rest = rest.unwrap_or_else(|| panic!("{}: {client}", bytes.escape_ascii()));
                assert!(rest.starts_with(b"GET / HTTP/1.1\r\n"), "{}", rest.escape_ascii());
            }
        }
    }
}

/// The header of version 2, as the specification describes it.
fn binary(client: SocketAddr, server: SocketAddr) -> Vec<u8> {
    let ip = |end: SocketAddr| match end.ip() {
        std::net::IpAddr::V4(ip) => ip.octets().to_vec(),
        std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let family: &[u8] = if client.is_ipv4() { &[0x11, 0, 12] } else { &[0x21, 0, 36] };
    let ports = [client.port().to_be_bytes(), server.port().to_be_bytes()].concat();
    [b"\r\n\r\n\0\r\nQUIT\n\x21", family, &ip(client), &ip(server), &ports].concat()
}

#[test]
fn the_header_comes_before_tls_and_names_no_addresses_on_unix_sockets() {
    let (address, seen) = watching("127.0.0.1:0");
    let url = format!("https://{address}/");
    load(&[url.as_str(), "-k", "-c", "1", "-n", "1", "--proxy-protocol", "v1", "--timeout", "2s"]);
    let (bytes, client, server) = seen.iter().find(|(bytes, ..)| !bytes.is_empty()).expect("a connection");
    let header = line(client, server);
    assert!(bytes.starts_with(&header) && bytes.get(header.len()) == Some(&0x16), "{}", bytes.escape_ascii());

    let scratch = Scratch::new();
    for (version, header) in
        [("v1", &b"PROXY UNKNOWN\r\n"[..]), ("v2", b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00")]
    {
        let path = scratch.path().join(version);
        let listener = UnixListener::bind(&path).expect("a socket");
        let (send, seen) = channel();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a connection");
            let _ = send.send(serve(stream));
        });
        let path = path.display().to_string();
        case(&["http://a/", "--unix", &path, "-c", "1", "-n", "3", "--proxy-protocol", version]);
        let bytes = seen.recv_timeout(PATIENCE).expect("a connection");
        let rest = bytes.strip_prefix(header).unwrap_or_else(|| panic!("{}", bytes.escape_ascii()));
        assert!(rest.starts_with(b"GET / HTTP/1.1\r\n"), "{}", rest.escape_ascii());
    }
}

#[test]
fn a_server_that_expects_no_header_is_named() {
    let upstream = Upstream::start(&[]);
    let output = load(&[upstream.url().as_str(), "-n", "10", "-c", "2", "--proxy-protocol", "v1"]);
    let said = text(&output.stderr) + &text(&output.stdout);
    assert!(!output.status.success() && said.contains("PROXY protocol"), "{said}");
    let output = load(&[upstream.url().as_str(), "--proxy-protocol", "v3"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("use v1 or v2"), "{}", text(&output.stderr));
}

/// A gateway that its user runs: nginx logs the address that the header names.
#[test]
fn an_external_gateway_receives_the_header_from_the_first_request_on() {
    needs!("nginx");
    let upstream = Upstream::start(&["--body", "2B"]);
    let scratch = Scratch::new();
    for version in ["v1", "v2"] {
        let log = scratch.path().join(version).display().to_string();
        let [address, _] = two_ports();
        let _nginx = Nginx::start(
            address,
            &format!(
                "log_format seen '$proxy_protocol_addr $proxy_protocol_server_port $status'; access_log {log} seen;
                 keepalive_requests 100000; upstream u {{ server {}; keepalive 8; }}
                 server {{ listen {address} proxy_protocol; location / {{ proxy_pass http://u;
                 proxy_http_version 1.1; proxy_set_header Connection \"\"; }} }}",
                upstream.address()
            ),
        );
        let plan = |keys: &str| {
            format!(
                "upstream: {{ url: \"{}\" }}
gateways: [{{ name: external, label: mine, url: \"http://{address}\"{keys} }}]
load: [{{ loop: closed, connections: 2, requests: 40, duration: 60s }}]
sources: [127.0.0.9]
trials: 2
warmup: 0s
timeout: 20s
",
                upstream.url()
            )
        };
        let results = Scratch::new();
        let plan_of_version = plan(&format!(", proxy_protocol: {version}"));
        let directory = run_to_success(&results, &plan_of_version, &["--accept-void"]);
        let report = report(&directory);
        let ok = crate::run::case(&report, "mine")["counts"]["ok"].as_u64().expect("a count");
        assert_eq!(ok, 80);
        wait_until("nginx has logged all requests", PATIENCE, || {
            let logged = std::fs::read_to_string(&log).unwrap_or_default();
            let expected = format!("127.0.0.9 {} 200", address.port());
            logged.lines().filter(|line| *line == expected).count() as u64 >= ok
        });

        let output = run(&Scratch::new(), &plan(""), &[]);
        let said = text(&output.stderr) + &text(&output.stdout);
        assert!(!output.status.success() && said.contains("proxy_protocol: v2"), "{said}");
    }
}

/// Direct sends no header, or the built-in upstream would answer 400.
#[test]
fn packs_with_the_feature_are_measured_and_direct_is_not_changed() {
    let packs: Vec<&str> = ["nginx", "haproxy", "envoy", "apache", "varnish", "trafficserver", "nghttpx"]
        .into_iter()
        .filter(|pack| !is_missing(pack))
        .collect();
    let entries: String = packs
        .iter()
        .map(|pack| {
            format!(
                "  - {{ name: {pack}, features: [{{ proxy-protocol: v1 }}] }}\n  - {{ name: \
            {pack}, label: {pack}-2, features: [proxy-protocol] }}\n"
            )
        })
        .collect();
    let plan = format!(
        "gateways:
{entries}load: [{{ loop: closed, connections: 2, requests: 40, duration: 60s, keepalive: [on, off] }}]
trials: 1
warmup: 0s
timeout: 30s
"
    );
    let scratch = Scratch::new();
    let directory = run_to_success(&scratch, &plan, &["--accept-void"]);
    let report = report(&directory);
    let cases = report["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 2 * (1 + 2 * packs.len()));
    for case in cases {
        let counts = &case["counts"];
        assert!(
            counts["ok"].as_u64() >= Some(40) && counts["scheduled"] == counts["ok"],
            "{}: {counts}",
            case["gateway"]
        );
    }
}

/// In most of these gateways, `ip-allow` checks the address in the header. The proof of `proxy-protocol`
/// sends an invented address.
#[test]
fn packs_prove_it_together_with_ip_allow() {
    let packs = ["nginx", "haproxy", "envoy", "apache", "trafficserver"].map(|pack| (pack, is_missing(pack)));
    let entries: String = packs
        .iter()
        .filter(|(_, missing)| !missing)
        .map(|(pack, _)| format!("  - {{ name: {pack}, features: [proxy-protocol, ip-allow] }}\n"))
        .collect();
    let plan = format!(
        "name: allowed\ngateways:\n{entries}\
         load: [{{ loop: closed, connections: 2, requests: 40, duration: 60s }}]\n\
         trials: 1\nwarmup: 0s\ntimeout: 30s\n"
    );
    let scratch = Scratch::new();
    let directory = run_to_success(&scratch, &plan, &["--accept-void"]);
    for trial in trials(&directory) {
        assert!(trial["failed"].is_null(), "{}: {}", trial["contender"], trial["failed"]);
        assert_eq!(trial["load_record"]["counts"]["ok"], 40, "{}", trial["contender"]);
    }
}

/// HAProxy logs the client that the header names.
#[test]
fn haproxy_logs_the_source_of_the_header() {
    needs!("haproxy");
    let upstream = Upstream::start(&[]);
    let scratch = Scratch::new();
    let [address, _] = two_ports();
    let config = scratch.file(
        "haproxy.cfg",
        &format!(
            "global\n  log stdout format raw local0\ndefaults\n  mode http\n  log global\n  option \
             httplog\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\nfrontend f\n  bind \
             {address} accept-proxy\n  default_backend b\n\
             backend b\n  server s {}\n",
            upstream.address()
        ),
    );
    let log = std::fs::File::create(scratch.path().join("log")).expect("a file");
    let process =
        Command::new("haproxy").arg("-db").arg("-f").arg(config).stdout(log).spawn().expect("starts");
    let _haproxy = crate::load::KilledOnDrop(process);
    wait_until("HAProxy listens", PATIENCE, || TcpStream::connect(address).is_ok());
    let url = format!("http://{address}/");
    for version in ["v1", "v2"] {
        let from = ["--source", "127.0.0.7", "--proxy-protocol", version];
        let case = case(&[&[url.as_str(), "-n", "20", "-c", "2"][..], &from].concat());
        assert_eq!(case["counts"]["ok"], 20);
    }
    wait_until("HAProxy has logged all requests", PATIENCE, || {
        let log = std::fs::read_to_string(scratch.path().join("log")).unwrap_or_default();
        log.lines().filter(|line| line.starts_with("127.0.0.7:") && line.contains(" 200 ")).count() == 40
    });
}
