//! Loads through tunnels of a forward proxy. The connections to the proxy use TLS. The server behind it is
//! tested with and without TLS.

use super::tls::{BOTH, Stream, secure};
use super::*;
use crate::tls::testing::{self, Authority, Identity, NAME};
use hoptax_format::spec::{ProxyProtocol, TlsSpec, Tunnel, Verify};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

const PROXY: &str = "proxy.test";
const OPEN: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// A proxy that opens a tunnel on each connection. `behave` acts as the server at the other end of the
/// tunnel.
fn proxy<B>(config: ServerConfig, behave: B) -> Server
where
    B: Fn(Stream, &AtomicU64) + Clone + Send + 'static,
{
    secure(config, move |mut stream, requests| {
        if request(&mut stream) && stream.write_all(OPEN).is_ok() {
            behave(stream, requests);
        }
    })
}

fn answering(mut stream: impl io::Read + io::Write, requests: &AtomicU64) {
    while request(&mut stream) {
        requests.fetch_add(1, Ordering::Relaxed);
        if stream.write_all(OK).is_err() {
            return;
        }
    }
}

/// A server with TLS in the tunnel.
fn answering_with_tls(config: ServerConfig) -> impl Fn(Stream, &AtomicU64) + Clone + Send + 'static {
    let config = Arc::new(config);
    move |stream, requests| {
        let session = ServerConnection::new(Arc::clone(&config)).expect("a server");
        answering(StreamOwned::new(session, stream), requests);
    }
}

fn to_proxy(authority: &Authority) -> TlsSpec {
    TlsSpec { server_name: PROXY.to_owned(), ..testing::client(authority) }
}

fn tunnelled(address: SocketAddr, tls: TlsSpec) -> LoadSpec {
    let tunnel = Some(Tunnel { authority: "app.test:80".into(), authorization: None, tls: Some(tls) });
    until_done(40, LoadSpec { tunnel, ..spec(&[address]) })
}

#[test]
fn requests_go_through_a_tunnel_in_tls() {
    let authority = Authority::new("authority.test");
    let identity = authority.sign(PROXY);
    for version in BOTH {
        let config = || testing::server(&identity, &[version], None);
        let server = proxy(config(), answering);
        let spec = tunnelled(server.address, to_proxy(&authority));
        for shape in [Shape::Closed, open(2000.0, Arrivals::Constant)] {
            let record = load(&LoadSpec { shape, workers: 2, ..spec.clone() });
            assert_eq!((record.counts.ok, record.connections.established), (40, 4), "{:?}", record.counts);
            assert_eq!(record.bytes.received, 40 * OK.len() as u64, "HTTP bytes are counted, without TLS");
            // TLS to the proxy is a part of the connect. There is no TLS to the server.
            assert!(record.tls.is_none() && record.histograms.connect.decode().expect("ours").len() == 4);
        }
        let each = LoadSpec { requests_per_connection: Some(1), ..spec };
        let record = load(&each);
        assert_eq!(record.counts.ok, 40, "{:?}", record.counts);
        assert!(record.lifetime.opened >= 40, "{:?}", record.lifetime);
    }
}

#[test]
fn tls_to_the_server_goes_through_a_tunnel_in_tls() {
    let (outer, inner) = (Authority::new("outer.test"), Authority::new("inner.test"));
    let (of_proxy, of_server) = (outer.sign(PROXY), inner.sign(NAME));
    for version in BOTH {
        let server = testing::server(&of_server, &[version], None);
        let server = proxy(testing::server(&of_proxy, &BOTH, None), answering_with_tls(server));
        let spec = tunnelled(server.address, to_proxy(&outer));
        let record = load(&LoadSpec { tls: Some(testing::client(&inner)), ..spec });
        assert_eq!((record.counts.ok, record.connections.established), (40, 4), "{:?}", record.counts);
        let tally = record.tls.as_ref().expect("TLS to the server");
        let name = format!("{version:?}").replace("Tls", "TLSv").replace("v1", "v1.");
        assert_eq!((tally.handshakes, tally.versions.get(&name)), (4, Some(&4)), "{tally:?}");
    }
    // Each of the two certificates is verified with its own settings.
    let config = testing::server(&of_server, &BOTH, None);
    let server = proxy(testing::server(&of_proxy, &BOTH, None), answering_with_tls(config));
    let spec = tunnelled(server.address, to_proxy(&outer));
    let spec = LoadSpec { tls: Some(testing::client(&outer)), ..spec };
    is_refused(&spec, "TLS: the server's certificate");
}

#[test]
fn large_bodies_pass_both_layers_both_ways() {
    const LARGE: usize = 2_000_000;
    let (outer, inner) = (Authority::new("outer.test"), Authority::new("inner.test"));
    let config = Arc::new(testing::server(&inner.sign(NAME), &BOTH, None));
    let server = proxy(testing::server(&outer.sign(PROXY), &BOTH, None), move |stream, _| {
        let session = ServerConnection::new(Arc::clone(&config)).expect("a server");
        let mut stream = StreamOwned::new(session, stream);
        let mut response = format!("HTTP/1.1 200 OK\r\ncontent-length: {LARGE}\r\n\r\n").into_bytes();
        response.resize(response.len() + LARGE, b'x');
        let mut body = vec![0; LARGE];
        while request_head(&mut stream) && stream.read_exact(&mut body).is_ok() {
            assert!(body.iter().all(|&byte| byte == b'y'));
            if stream.write_all(&response).is_err() {
                return;
            }
        }
    });
    let mut spec = tunnelled(server.address, to_proxy(&outer));
    spec.targets[0].body = vec![b'y'; LARGE];
    let spec = LoadSpec { requests: Some(6), connections: 2, tls: Some(testing::client(&inner)), ..spec };
    let record = load(&spec);
    assert_eq!((record.counts.ok, record.bytes.body), (6, 6 * LARGE as u64), "{:?}", record.counts);
}

/// Reads the head of a request byte by byte, so that its body remains in the stream.
fn request_head(stream: &mut impl io::Read) -> bool {
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !seen.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => seen.push(byte[0]),
            _ => return false,
        }
    }
    true
}

#[test]
fn failures_of_tls_to_the_proxy_say_so() {
    let (authority, other) = (Authority::new("authority.test"), Authority::new("other.test"));
    let tls = to_proxy(&authority);
    let serving = |identity: &Identity| proxy(testing::server(identity, &BOTH, None), answering);
    let untrusted = serving(&other.sign(PROXY));
    is_refused(&tunnelled(untrusted.address, tls.clone()), "the proxy's certificate is not signed");
    let misnamed = serving(&authority.sign("other.test"));
    is_refused(&tunnelled(misnamed.address, tls.clone()), "another name");
    // The same proxy is accepted without verification.
    let any = TlsSpec { verify: Verify::Nothing, ..tls.clone() };
    assert_eq!(load(&tunnelled(misnamed.address, any)).counts.ok, 40);

    let plain = Server::new(answer_any(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    is_refused(&tunnelled(plain.address, tls.clone()), "plain HTTP");
    let closing = Server::new(|_: TcpStream, _: &AtomicU64| {});
    is_refused(&tunnelled(closing.address, tls.clone()), "TLS to the proxy: ");
    let mute = Server::new(silent);
    let timeouts = Timeouts { connect_ns: 50 * MILLISECOND, ..Timeouts::all(5000 * MILLISECOND) };
    let spec = LoadSpec { timeouts, ..tunnelled(mute.address, tls.clone()) };
    is_refused(&spec, "timeout while connecting");
    let refusing = secure(testing::server(&authority.sign(PROXY), &BOTH, None), |mut stream, _| {
        if request(&mut stream) {
            let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n");
        }
    });
    is_refused(&tunnelled(refusing.address, tls), "status 403");
}

/// Answers the first bytes of a connection with `response`, without parsing them.
fn answer_any(response: &'static [u8]) -> impl Fn(TcpStream, &AtomicU64) + Clone + Send + 'static {
    move |mut connection, _| {
        let mut buffer = [0; 1024];
        if connection.read(&mut buffer).is_ok() {
            let _ = connection.write_all(response);
            while matches!(connection.read(&mut buffer), Ok(1..)) {}
        }
    }
}

#[test]
fn only_a_close_notify_of_the_proxy_ends_a_response_that_lasts_until_the_end() {
    let authority = Authority::new("authority.test");
    let identity = authority.sign(PROXY);
    for notifies in [true, false] {
        let server = proxy(testing::server(&identity, &BOTH, None), move |mut stream, _| {
            if request(&mut stream) {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nuntil the end");
                if notifies {
                    stream.conn.send_close_notify();
                    let _ = stream.flush();
                }
            }
        });
        let record = load(&until_done(12, tunnelled(server.address, to_proxy(&authority))));
        let counts = &record.counts;
        if notifies {
            assert_eq!(counts.ok, 12, "{counts:?}");
        } else {
            assert_eq!(counts.completed, 0, "{counts:?}");
            assert!(counts.causes[&Cause::ResetInResponse] >= 4, "{counts:?}");
            assert!(counts.errors.keys().any(|text| text.contains("without a close_notify")), "{counts:?}");
        }
    }
}

#[test]
fn the_header_of_the_proxy_protocol_comes_before_tls_to_the_proxy() {
    let authority = Authority::new("authority.test");
    let config = Arc::new(testing::server(&authority.sign(PROXY), &BOTH, None));
    let server = Server::new(move |mut connection: TcpStream, requests: &AtomicU64| {
        let (peer, own) = (connection.peer_addr().expect("known"), connection.local_addr().expect("known"));
        let expected = format!("PROXY TCP4 {} {} {} {}\r\n", peer.ip(), own.ip(), peer.port(), own.port());
        let mut header = vec![0; expected.len()];
        if connection.read_exact(&mut header).is_err() || header != expected.as_bytes() {
            return;
        }
        let session = ServerConnection::new(Arc::clone(&config)).expect("a server");
        let mut stream = StreamOwned::new(session, connection);
        if request(&mut stream) && stream.write_all(OPEN).is_ok() {
            answering(stream, requests);
        }
    });
    let spec = tunnelled(server.address, to_proxy(&authority));
    let record = load(&LoadSpec { proxy_protocol: Some(ProxyProtocol::V1), ..spec });
    assert_eq!(record.counts.ok, 40, "{:?}", record.counts);
}
