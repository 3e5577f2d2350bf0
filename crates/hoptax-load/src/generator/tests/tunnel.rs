//! Loads through tunnels of a forward proxy. One thread per connection acts as the proxy and as the server
//! behind it.

use super::*;
use hoptax_format::spec::Tunnel;

/// A proxy that answers CONNECT with these pieces after `delay`, and then answers requests itself.
fn proxy(
    pieces: &'static [&'static [u8]],
    delay: Duration,
) -> impl Fn(TcpStream, &AtomicU64) + Clone + Send + 'static {
    move |mut connection, requests| {
        if !request(&mut connection) {
            return;
        }
        thread::sleep(delay);
        for piece in pieces {
            let _ = connection.set_nodelay(true);
            if connection.write_all(piece).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        while request(&mut connection) && connection.write_all(OK).is_ok() {
            requests.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn tunnelled(address: SocketAddr) -> LoadSpec {
    let tunnel = Some(Tunnel { authority: "app.test:80".into(), authorization: None, tls: None });
    until_done(40, LoadSpec { tunnel, ..spec(&[address]) })
}

#[test]
fn the_time_to_open_the_tunnel_is_part_of_the_connect() {
    let delay = Duration::from_millis(30);
    let server = Server::new(proxy(&[b"HTTP/1.1 200 ", b"Connection established\r\n\r\n"], delay));
    let record = load(&tunnelled(server.address));
    assert_eq!((record.counts.ok, record.connections.established, record.lifetime.opened), (40, 4, 4));
    let connect = record.histograms.connect.decode().expect("our own");
    assert_eq!(connect.len(), 4);
    assert!(connect.min() >= 30 * MILLISECOND, "{} ns", connect.min());
    // A CONNECT is not counted as a request.
    assert_eq!((record.lifetime.sent, record.counts.status.values().sum::<u64>()), (40, 40));
}

#[test]
fn a_refused_tunnel_is_an_error_with_its_status() {
    let piece = |answer: &'static [u8]| proxy(Box::leak(vec![answer].into_boxed_slice()), Duration::ZERO);
    for (answer, words) in [
        (&b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"[..], "status 407"),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 3\r\n\r\nwhy", "status 502"),
        (b"SSH-2.0-proxy\r\n\r\n", "malformed"),
    ] {
        let server = Server::new(piece(answer));
        let error = refusal(&tunnelled(server.address)).to_string();
        assert!(error.contains("CONNECT: ") && error.contains(words), "{error}");
    }
    let closing = Server::new(|mut connection: TcpStream, _: &AtomicU64| {
        request(&mut connection);
    });
    is_refused(&tunnelled(closing.address), "without an answer");
    let mute = Server::new(silent);
    let timeouts = Timeouts { connect_ns: 50 * MILLISECOND, ..Timeouts::all(5000 * MILLISECOND) };
    is_refused(&LoadSpec { timeouts, ..tunnelled(mute.address) }, "answer to CONNECT");
    let wrong = Some(Tunnel { authority: "no port".into(), authorization: None, tls: None });
    is_refused(&LoadSpec { tunnel: wrong, ..spec(&[mute.address]) }, "tunnel.authority");
}

/// A proxy that refuses the second half of its connections.
#[test]
fn requests_that_need_a_refused_tunnel_are_connect_errors() {
    let good = Server::new(proxy(&[b"HTTP/1.1 200 OK\r\n\r\n"], Duration::ZERO));
    let bad = Server::new(proxy(&[b"HTTP/1.1 403 Forbidden\r\n\r\n"], Duration::ZERO));
    let counts = load(&LoadSpec {
        addresses: vec![good.address.into(), bad.address.into()],
        ..tunnelled(good.address)
    })
    .counts;
    assert!(counts.completed > 10, "{counts:?}");
    assert_eq!(counts.causes.keys().collect::<Vec<_>>(), [&Cause::ProxyRefused]);
    assert!(counts.errors.keys().all(|text| text.contains("status 403")), "{:?}", counts.errors);
}
