//! Trials with TLS. The server uses rustls and has one thread per connection.

use super::*;
use crate::tls::testing::{self, Authority, Identity, NAME};
use hoptax_format::record::Cause;
use hoptax_format::spec::{TlsSpec, TlsVersion, Verify};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

pub(super) const BOTH: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];

pub(super) type Stream = StreamOwned<ServerConnection, TcpStream>;

pub(super) fn secure(
    config: ServerConfig,
    behave: impl Fn(Stream, &AtomicU64) + Clone + Send + 'static,
) -> Server {
    let config = Arc::new(config);
    Server::new(move |connection, requests| {
        let session = ServerConnection::new(Arc::clone(&config)).expect("a server");
        behave(StreamOwned::new(session, connection), requests);
    })
}

fn answering(config: ServerConfig) -> Server {
    secure(config, |mut stream, requests| {
        while request(&mut stream) {
            requests.fetch_add(1, Ordering::Relaxed);
            thread::sleep(MODEST);
            if stream.write_all(OK).is_err() {
                return;
            }
        }
    })
}

fn tls_spec(addresses: &[SocketAddr], tls: TlsSpec) -> LoadSpec {
    LoadSpec { tls: Some(tls), ..spec(addresses) }
}

/// Runs `spec` and checks the properties that every record with TLS must have.
fn load_tls(spec: &LoadSpec) -> LoadRecord {
    let record = load(spec);
    let tally = record.tls.as_ref().expect("there is TLS");
    let took = record.histograms.tls_handshake.as_ref().expect("there is TLS");
    assert_eq!(took.decode().expect("our own").len(), tally.handshakes);
    assert!(tally.handshakes <= record.lifetime.opened && tally.resumed <= tally.handshakes);
    for counts in [&tally.versions, &tally.cipher_suites, &tally.alpn] {
        assert_eq!(counts.values().sum::<u64>(), tally.handshakes, "{tally:?}");
    }
    assert_eq!(record.counts.causes.values().sum::<u64>(), record.counts.errors.values().sum::<u64>());
    record
}

/// Runs a load with a single server and returns its error. A TLS session with this server must be impossible.
fn refusal(address: SocketAddr, tls: TlsSpec) -> String {
    let error = super::refusal(&tls_spec(&[address], tls));
    assert!(matches!(error, LoadError::NoConnection { .. }), "{error}");
    error.to_string()
}

/// Sends half of the connections to `bad`. All failures on these connections must have the cause `cause`. The
/// timeout is short only if the handshake is expected to stall, because a busy machine could delay other
/// handshakes. If the machine delays all of them beyond the short timeout, the test measures again.
fn fails_with(bad: SocketAddr, tls: &TlsSpec, authority: &Authority, cause: Cause) {
    let good = answering(testing::server(&authority.sign(NAME), &BOTH, None));
    let mut spec = tls_spec(&[good.address, bad], tls.clone());
    if cause == Cause::TlsTimeout {
        spec.timeouts.connect_ns = 300 * MILLISECOND;
    }
    retry_if_disturbed(|| {
        let mut enough = Ok(());
        let record = load_tls(&spec);
        let counts = &record.counts;
        let causes: Vec<_> = counts.causes.keys().copied().collect();
        assert!(causes.is_empty() || causes == [cause], "{:?}", counts.errors);
        // Two of the slots fail. They wait between attempts, so there are only a few attempts.
        let times = counts.causes.get(&cause).copied().unwrap_or(0);
        assert!(times <= 40, "{counts:?}");
        if counts.completed == 0 || times < 2 {
            enough = Err(format!("{counts:?}"));
        }
        enough
    });
}

#[test]
fn a_load_with_tls_completes_what_it_sends() {
    let authority = Authority::new("authority.test");
    let identity = authority.sign(NAME);
    for version in BOTH {
        let server = answering(testing::server(&identity, &[version], None));
        for shape in [Shape::Closed, open(2000.0, Arrivals::Constant)] {
            let spec = tls_spec(&[server.address], testing::client(&authority));
            let record = load_tls(&until_done(200, LoadSpec { shape, workers: 2, ..spec }));
            assert_eq!((record.counts.completed, record.counts.ok), (200, 200));
            assert_eq!((record.connections.established, record.connections.reused), (4, 196));
            assert_eq!(record.bytes.received, 200 * OK.len() as u64, "HTTP bytes are counted, without TLS");
            assert_eq!(record.bytes.body, 200 * 5);
            let tally = record.tls.as_ref().expect("there is TLS");
            let name = if version == TlsVersion::Tls12 { "TLSv1.2" } else { "TLSv1.3" };
            assert_eq!((tally.handshakes, tally.versions[name], tally.alpn["none"]), (4, 4, 4));
        }
    }
}

#[test]
fn a_connection_per_request_resumes_if_enabled() {
    let authority = Authority::new("authority.test");
    let identity = authority.sign(NAME);
    for version in BOTH {
        let server = secure(testing::server(&identity, &[version], None), |mut stream, _| {
            if request(&mut stream) {
                // If the client has closed the connection, writing fails here. The client counts the failure
                // itself.
                let _ =
                    stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok");
            }
        });
        for resumption in [true, false] {
            let tls = TlsSpec { resumption, ..testing::client(&authority) };
            let spec = LoadSpec { connections: 1, ..tls_spec(&[server.address], tls) };
            let record = load_tls(&until_done(60, spec));
            assert_eq!(record.counts.completed, 60, "{:?}", record.counts);
            let tally = record.tls.as_ref().expect("there is TLS");
            assert!(tally.handshakes >= 60);
            let expected = if resumption { tally.handshakes - 1 } else { 0 };
            assert_eq!(tally.resumed, expected, "{version:?}: {tally:?}");
        }
    }
}

#[test]
fn only_a_close_notify_ends_a_response_that_lasts_until_the_end() {
    let authority = Authority::new("authority.test");
    let identity = authority.sign(NAME);
    for version in BOTH {
        for notifies in [true, false] {
            let server = secure(testing::server(&identity, &[version], None), move |mut stream, _| {
                if request(&mut stream) {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nuntil the end");
                    if notifies {
                        stream.conn.send_close_notify();
                        let _ = stream.flush();
                    }
                }
            });
            let spec = tls_spec(&[server.address], testing::client(&authority));
            let record = load_tls(&until_done(12, spec));
            let counts = &record.counts;
            if notifies {
                assert_eq!(counts.completed, 12, "{counts:?}");
                assert_eq!(record.bytes.body, 13 * record.completed_in_time);
            } else {
                assert_eq!(counts.completed, 0, "{counts:?}");
                assert!(counts.causes[&Cause::ClosedInResponse] >= 4, "{counts:?}");
            }
        }
    }
}

#[test]
fn a_server_that_waits_for_the_client_to_close_delays_no_request() {
    const CLOSES: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    let authority = Authority::new("authority.test");
    let identity = authority.sign(NAME);
    for (version, shape) in [
        (TlsVersion::Tls12, Shape::Closed),
        (TlsVersion::Tls13, Shape::Closed),
        (TlsVersion::Tls13, open(100.0, Arrivals::Constant)),
    ] {
        let server = secure(testing::server(&identity, &[version], None), |mut stream, _| {
            if request(&mut stream) && stream.write_all(CLOSES).is_ok() {
                while request(&mut stream) {}
            }
        });
        let spec = LoadSpec { shape, ..tls_spec(&[server.address], testing::client(&authority)) };
        let record = load_tls(&until_done(20, LoadSpec { connections: 1, workers: 1, ..spec }));
        assert_eq!((record.counts.ok, record.lifetime.opened), (20, 20), "{:?}", record.counts);
        let slow = quantile(&record.histograms.response_time, 0.9);
        assert!(slow < 500 * MILLISECOND, "{slow} ns");
    }
}

#[test]
fn unacceptable_certificates_are_refused_with_the_reason() {
    let authority = Authority::new("authority.test");
    let tls = testing::client(&authority);
    let trials: [(Identity, &str); 4] = [
        (authority.sign_expired(NAME), "expired"),
        (authority.sign("another.test"), "another name"),
        (Authority::new("stranger.test").sign(NAME), "--ca FILE"),
        (testing::self_signed(NAME), "--ca FILE"),
    ];
    let check = |identity: &Identity, reason: &str| {
        for version in BOTH {
            let server = answering(testing::server(identity, &[version], None));
            let text = refusal(server.address, tls.clone());
            assert!(text.contains(reason) && text.contains("--insecure"), "{text}");
        }
        let server = answering(testing::server(identity, &BOTH, None));
        fails_with(server.address, &tls, &authority, Cause::TlsCertificate);
        let any = TlsSpec { verify: Verify::Nothing, ..tls.clone() };
        let record = load_tls(&until_done(50, tls_spec(&[server.address], any)));
        assert_eq!(record.counts.completed, 50, "{:?}", record.counts);
    };
    thread::scope(|scope| {
        for (identity, reason) in &trials {
            scope.spawn(move || check(identity, reason));
        }
    });
}

#[test]
fn a_given_self_signed_certificate_is_trusted() {
    let identity = testing::self_signed(NAME);
    let server = answering(testing::server(&identity, &BOTH, None));
    let tls = testing::client(&Authority::new("authority.test"));
    let tls = TlsSpec { verify: Verify::Authorities(identity.certificate), ..tls };
    let record = load(&until_done(50, tls_spec(&[server.address], tls)));
    assert_eq!(record.counts.completed, record.counts.scheduled);
}

#[test]
fn the_usual_certificate_of_openssl_is_trusted_for_its_name_alone() {
    for (name, asked, is_right) in
        [(NAME, NAME, true), (NAME, "other.test", false), ("127.0.0.1", "127.0.0.1", true)]
    {
        let identity = testing::usual(name);
        let server = answering(testing::server(&identity, &BOTH, None));
        let tls = TlsSpec {
            server_name: asked.to_owned(),
            verify: Verify::Authorities(identity.certificate),
            ..testing::client(&Authority::new("authority.test"))
        };
        if is_right {
            let record = load(&until_done(50, tls_spec(&[server.address], tls)));
            assert_eq!(record.counts.completed, record.counts.scheduled);
        } else {
            assert!(refusal(server.address, tls).contains("another name"));
        }
    }
    let server = answering(testing::server(&testing::usual(NAME), &BOTH, None));
    let stranger = refusal(server.address, testing::client(&Authority::new("authority.test")));
    assert!(stranger.contains("belongs to an authority"), "{stranger}");
}

#[test]
fn a_client_certificate_is_sent_on_request_and_its_absence_is_refused() {
    let authority = Authority::new("authority.test");
    let clients = Authority::new("clients.test");
    let identity = authority.sign(NAME);
    for version in BOTH {
        let server = answering(testing::server(&identity, &[version], Some(&clients)));
        let tls = testing::client(&authority);
        let client_certificate = Some(clients.sign("client.test").as_client());
        let shows = TlsSpec { client_certificate, ..tls.clone() };
        let record = load_tls(&until_done(50, tls_spec(&[server.address], shows)));
        assert_eq!(record.counts.completed, 50, "{:?}", record.counts);
        fails_with(server.address, &tls, &authority, Cause::TlsRefused);
    }
}

#[test]
fn no_common_version_is_refused() {
    let authority = Authority::new("authority.test");
    for (theirs, ours) in [(TlsVersion::Tls12, TlsVersion::Tls13), (TlsVersion::Tls13, TlsVersion::Tls12)] {
        let server = answering(testing::server(&authority.sign(NAME), &[theirs], None));
        let text = refusal(server.address, TlsSpec { versions: vec![ours], ..testing::client(&authority) });
        assert!(text.contains("version"), "{text}");
    }
}

#[test]
fn a_handshake_that_stalls_times_out() {
    let authority = Authority::new("authority.test");
    let halting = Server::new(|mut connection: TcpStream, requests: &AtomicU64| {
        // A part of the first record.
        let _ = connection.write_all(&[22, 3, 3, 0, 100, 2]);
        silent(connection, requests);
    });
    let (authority, mute) = (&authority, Server::new(silent));
    thread::scope(|scope| {
        for address in [mute.address, halting.address] {
            scope.spawn(move || {
                fails_with(address, &testing::client(authority), authority, Cause::TlsTimeout);
            });
        }
    });
}

#[test]
fn a_connection_that_ends_in_the_handshake_is_reported() {
    let authority = Authority::new("authority.test");
    // Closing a socket that has unread data resets the connection.
    let resetting = Server::new(|connection: TcpStream, _: &AtomicU64| {
        let _ = connection.peek(&mut [0]);
    });
    fails_with(resetting.address, &testing::client(&authority), &authority, Cause::TlsClosed);
    let closing = Server::new(|mut connection: TcpStream, _: &AtomicU64| {
        let _ = connection.read(&mut [0; 10_000]);
    });
    fails_with(closing.address, &testing::client(&authority), &authority, Cause::TlsClosed);
}

#[test]
fn a_server_without_tls_is_reported() {
    let authority = Authority::new("authority.test");
    let plain = Server::new(|mut connection: TcpStream, _: &AtomicU64| {
        let _ = connection.read(&mut [0; 10_000]);
        let _ = connection.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    });
    fails_with(plain.address, &testing::client(&authority), &authority, Cause::TlsMalformed);
    let text = refusal(plain.address, testing::client(&authority));
    assert!(text.contains("http://"), "{text}");
}

#[test]
fn a_close_notify_on_an_idle_connection_is_no_error() {
    let authority = Authority::new("authority.test");
    let server = secure(testing::server(&authority.sign(NAME), &BOTH, None), |mut stream, _| {
        if request(&mut stream) && stream.write_all(OK).is_ok() {
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    let spec = tls_spec(&[server.address], testing::client(&authority));
    let spec = LoadSpec { shape: open(20.0, Arrivals::Constant), connections: 1, ..spec };
    let record = load_tls(&until_done(6, spec));
    let counts = &record.counts;
    assert_eq!(counts.completed + counts.resets, 6, "{counts:?}");
    assert!(counts.completed >= 2 && record.lifetime.opened >= counts.completed, "{counts:?}");
}

#[test]
fn an_invalid_tls_spec_is_refused_before_anything_starts() {
    let authority = Authority::new("authority.test");
    let tls = TlsSpec { versions: Vec::new(), ..testing::client(&authority) };
    let mut phases = 0;
    let bad = tls_spec(&["127.0.0.1:1".parse().expect("an address")], tls);
    let error = run(&bad, &AtomicBool::new(false), Watch::Phases, |_| phases += 1).expect_err("no version");
    assert!(matches!(&error, LoadError::Spec(text) if text.contains("tls.versions")), "{error}");
    assert_eq!(phases, 0);
}
