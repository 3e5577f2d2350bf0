//! Tests sessions with rustls's server, in memory. The bytes of the server arrive in pieces of different
//! sizes.

use super::testing::{Authority, Identity, NAME, client, server};
use super::*;
use hoptax_format::spec::{ClientCertificate, TlsSpec, TlsVersion, Verify};
use rustls::{ServerConfig, ServerConnection};
use std::io::{Read as _, Write as _};
use std::sync::Arc;

const BOTH: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];

/// Number of connections of the worker to which the sessions belong.
const CONNECTIONS: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    suite: &'static str,
    alpn: Option<Vec<u8>>,
    resumed: bool,
}

/// A client session and a server. The test passes bytes between them.
struct Pair {
    session: Session,
    buffers: Buffers,
    server: ServerConnection,
    /// Size of the pieces in which the server's bytes reach the session.
    piece: usize,
    agreed: Option<Known>,
    heard: Vec<u8>,
    asked: Vec<u8>,
}

impl Pair {
    fn new(client: &Client, server: &Arc<ServerConfig>, piece: usize) -> Self {
        let mut buffers = Buffers::default();
        let session = Session::start(client, 0, &mut buffers).expect("random numbers");
        let server = ServerConnection::new(Arc::clone(server)).expect("a server");
        let mut pair =
            Self { session, buffers, server, piece, agreed: None, heard: Vec::new(), asked: Vec::new() };
        pair.deliver_to_server();
        pair
    }

    fn established(client: &Client, server: &Arc<ServerConfig>, piece: usize) -> Self {
        let mut pair = Self::new(client, server, piece);
        pair.exchange().expect("a handshake");
        assert!(pair.agreed.is_some() && !pair.server.is_handshaking());
        pair
    }

    fn deliver_to_server(&mut self) {
        let mut out = &self.buffers.out[..];
        while !out.is_empty() {
            self.server.read_tls(&mut out).expect("memory");
            // If the server refuses the bytes, this call fails and the server sends an alert.
            let _ = self.server.process_new_packets();
            // `read_to_end` always fails when it has read all available data.
            let _ = self.server.reader().read_to_end(&mut self.asked);
        }
        self.buffers.out.clear();
    }

    fn server_says(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut bytes).expect("memory");
        }
        bytes
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        for piece in bytes.chunks(self.piece) {
            let agreed = &mut self.agreed;
            let received = self.session.receive(piece, &mut self.buffers, |now| {
                assert!(agreed.is_none(), "a handshake is done once");
                *agreed = Some(Known {
                    suite: now.suite,
                    alpn: now.alpn.map(<[u8]>::to_vec),
                    resumed: now.resumed,
                });
            });
            self.heard.extend_from_slice(&self.buffers.plain);
            self.deliver_to_server();
            received?;
        }
        Ok(())
    }

    /// Passes bytes between both sides until neither side has more bytes to send.
    fn exchange(&mut self) -> Result<(), Failure> {
        loop {
            let bytes = self.server_says();
            if bytes.is_empty() {
                return Ok(());
            }
            self.hear(&bytes)?;
        }
    }

    fn ask(&mut self, request: &[u8]) {
        self.session.send(request, &mut self.buffers).expect("the key is good");
        self.deliver_to_server();
        assert_eq!(self.asked, request);
        self.asked.clear();
    }

    /// Returns the encrypted bytes that the server sends for `answer`.
    fn saying(&mut self, answer: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in answer.chunks(10_000) {
            self.server.writer().write_all(part).expect("memory");
            bytes.extend(self.server_says());
        }
        bytes
    }

    fn answer(&mut self, answer: &[u8]) {
        self.heard.clear();
        let bytes = self.saying(answer);
        self.hear(&bytes).expect("records");
        assert_eq!(self.heard, answer);
    }
}

struct World {
    authority: Authority,
    identity: Identity,
}

impl World {
    fn new() -> Self {
        let authority = Authority::new("authority.test");
        let identity = authority.sign(NAME);
        Self { authority, identity }
    }

    fn server(&self, versions: &[TlsVersion]) -> Arc<ServerConfig> {
        Arc::new(server(&self.identity, versions, None))
    }

    fn client(&self) -> Client {
        made(&client(&self.authority))
    }
}

fn made(spec: &TlsSpec) -> Client {
    Client::new(spec).expect("a good spec").for_one_worker(CONNECTIONS)
}

fn long(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

#[test]
fn works_with_server_data_in_any_pieces() {
    let world = World::new();
    for version in BOTH {
        let (server, client) = (world.server(&[version]), world.client());
        for piece in [1, 2, 3, 5, 7, 64, 1000, 16 * 1024, usize::MAX] {
            let mut pair = Pair::established(&client, &server, piece);
            for round in 0..3 {
                pair.ask(format!("request {round}").as_bytes());
                pair.answer(format!("response {round}").as_bytes());
            }
            pair.ask(&long(50_000));
            pair.answer(&long(70_000));
            assert!(!pair.session.is_spent() && pair.session.answered());
        }
    }
}

#[test]
fn every_cipher_works() {
    let world = World::new();
    let mut seen = Vec::new();
    for suite in rustls::crypto::ring::ALL_CIPHER_SUITES {
        let mut config = server(&world.identity, &BOTH, None);
        let mut provider = (**config.crypto_provider()).clone();
        provider.cipher_suites.retain(|one| one == suite);
        let version = [suite.version()];
        let versions = rustls::ServerConfig::builder_with_provider(Arc::new(provider));
        let resolver = Arc::clone(&config.cert_resolver);
        config = versions
            .with_protocol_versions(&version)
            .expect("the suite's own")
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        let mut pair = Pair::new(&world.client(), &Arc::new(config), 100);
        if pair.exchange().is_err() {
            // The server has an ECDSA key, so RSA suites cannot work.
            assert!(format!("{suite:?}").contains("RSA"), "{suite:?}");
            continue;
        }
        pair.ask(b"request");
        pair.answer(&long(20_000));
        seen.push(pair.agreed.expect("done").suite);
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
}

#[test]
fn every_connection_can_resume() {
    let world = World::new();
    for version in BOTH {
        let (server, client) = (world.server(&[version]), world.client());
        // The bytes arrive one at a time, to test tickets that arrive in pieces.
        let made: Vec<_> = (0..CONNECTIONS).map(|_| Pair::established(&client, &server, 1)).collect();
        drop(made);
        let again: Vec<_> = (0..CONNECTIONS).map(|_| Pair::established(&client, &server, 1)).collect();
        assert!(again.iter().all(|pair| pair.agreed.as_ref().is_some_and(|agreed| agreed.resumed)));
    }
}

#[test]
fn workers_do_not_share_sessions() {
    let world = World::new();
    let server = world.server(&BOTH);
    let shared = Client::new(&client(&world.authority)).expect("a good spec");
    for _ in 0..2 {
        let pair = Pair::established(&shared.for_one_worker(CONNECTIONS), &server, usize::MAX);
        assert!(!pair.agreed.expect("done").resumed);
    }
}

#[test]
fn alpn_selects_a_common_protocol() {
    let world = World::new();
    let mut config = server(&world.identity, &BOTH, None);
    config.alpn_protocols = vec![b"other".to_vec(), b"http/1.1".to_vec()];
    let config = Arc::new(config);
    for (alpn, expected) in [
        (vec!["http/1.1".to_owned()], Some(b"http/1.1".to_vec())),
        (vec!["http/1.0".to_owned(), "other".to_owned()], Some(b"other".to_vec())),
        (Vec::new(), None),
    ] {
        let client = made(&TlsSpec { alpn, ..client(&world.authority) });
        let pair = Pair::established(&client, &config, usize::MAX);
        assert_eq!(pair.agreed.expect("done").alpn, expected);
    }
    let client = made(&TlsSpec { alpn: vec!["unknown".to_owned()], ..client(&world.authority) });
    let refused = Pair::new(&client, &config, 1).exchange();
    assert!(matches!(&refused, Err(Failure::Refused(text)) if text.contains("ALPN")), "{refused:?}");
}

#[test]
fn the_server_receives_an_alert_with_the_reason() {
    let world = World::new();
    let config = Arc::new(server(&world.authority.sign_expired(NAME), &BOTH, None));
    let mut pair = Pair::new(&world.client(), &config, usize::MAX);
    let bytes = pair.server_says();
    let mut buffers = Buffers::default();
    pair.session.receive(&bytes, &mut buffers, |_| ()).expect_err("expired");
    let mut alert = &buffers.out[..];
    while !alert.is_empty() {
        pair.server.read_tls(&mut alert).expect("memory");
    }
    let received = pair.server.process_new_packets();
    let expired = rustls::Error::AlertReceived(rustls::AlertDescription::CertificateExpired);
    assert_eq!(received.map(|_| ()), Err(expired));
}

#[test]
fn a_close_notify_ends_the_session_and_later_bytes_are_ignored() {
    let world = World::new();
    for version in BOTH {
        let (server, client) = (world.server(&[version]), world.client());
        for piece in [1, 10, usize::MAX] {
            let mut pair = Pair::established(&client, &server, piece);
            pair.server.writer().write_all(b"the end").expect("memory");
            pair.server.send_close_notify();
            let mut bytes = pair.server_says();
            bytes.extend_from_slice(b"anything at all");
            pair.hear(&bytes).expect("records");
            assert_eq!(pair.heard, b"the end");
            assert!(pair.session.peer_closed() && pair.session.is_spent());
        }
    }
}

#[test]
fn either_side_can_update_keys() {
    let world = World::new();
    let server = world.server(&[TlsVersion::Tls13]);
    for piece in [1, 4, usize::MAX] {
        let mut pair = Pair::established(&world.client(), &server, piece);
        for _ in 0..3 {
            pair.server.refresh_traffic_keys().expect("an established session");
            pair.answer(b"under a new key");
            pair.ask(b"with any key");
        }
        pair.session.limit_records(5);
        for round in 0..20 {
            pair.ask(format!("request {round}").as_bytes());
            pair.answer(b"response");
        }
        assert!(!pair.session.is_spent());
    }
}

#[test]
fn a_tls_1_2_key_near_its_limit_ends_the_connection() {
    let world = World::new();
    let mut pair = Pair::established(&world.client(), &world.server(&[TlsVersion::Tls12]), usize::MAX);
    let sent = 10;
    pair.session.limit_records(established::RESERVE + sent);
    let mut asked = 0;
    while !pair.session.is_spent() {
        pair.ask(b"request");
        asked += 1;
    }
    // The client already sent one record with this key during the handshake.
    assert_eq!(asked, sent - 1);
    pair.ask(&long(1_000_000));
}

#[test]
fn a_flipped_bit_is_detected() {
    let world = World::new();
    for version in BOTH {
        let (server, client) = (world.server(&[version]), world.client());
        let length = Pair::established(&client, &server, usize::MAX).saying(b"response").len();
        for at in 0..length {
            let mut pair = Pair::established(&client, &server, usize::MAX);
            let mut bytes = pair.saying(b"response");
            bytes[at] ^= 0x10;
            match pair.hear(&bytes) {
                Err(Failure::Malformed(_)) => {}
                // If the changed byte makes the length in the header larger, the session waits for more
                // bytes.
                Ok(()) => assert!(at == 3 || at == 4, "byte {at}"),
                other => panic!("byte {at}: {other:?}"),
            }
            assert!(pair.heard.is_empty(), "byte {at}");
        }
    }
}

#[test]
fn garbage_is_refused_in_the_handshake_and_after_it() {
    let world = World::new();
    for rubbish in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"SSH-2.0-OpenSSH\r\n", &[0; 100], &[0xff; 100]]
    {
        for piece in [1, usize::MAX] {
            let mut pair = Pair::new(&world.client(), &world.server(&BOTH), piece);
            let refused = pair.hear(rubbish);
            assert!(matches!(refused, Err(Failure::Malformed(_))), "{refused:?}");
            let mut pair = Pair::established(&world.client(), &world.server(&BOTH), piece);
            let refused = pair.hear(rubbish);
            assert!(matches!(refused, Err(Failure::Malformed(_))), "{refused:?}");
            assert!(pair.session.is_spent());
        }
    }
}

#[test]
fn no_memory_is_kept_between_responses() {
    let world = World::new();
    let mut pair = Pair::established(&world.client(), &world.server(&BOTH), 100);
    pair.answer(&long(40_000));
    assert_eq!(pair.session.kept(), 0);
}

/// A certificate with X.509 version 1, valid until 2126. It was created with `openssl x509 -req`, without
/// `-extfile`.
const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBFzCBvQIUczcrpecPkErpfb3koZL+gV7i8rMwCgYIKoZIzj0EAwIwDTELMAkG\n\
A1UEAwwCdjEwIBcNMjYxMTIxMDc1ODQ5WhgPMjEyNjEwMjgwNzU4NDlaMA0xCzAJ\n\
BgNVBAMMAnYxMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEB/puGlbKz4D+R8rv\n\
ppaele47dTLVDQycdnFPkf3fXBh439/6WuQtnj8Lp+SrxgWAYg7RUCzaqUYjonLO\n\
ZLZo1TAKBggqhkjOPQQDAgNJADBGAiEA1ttOxVrJC4U4vTMESCtN4EUR4bR4YTjl\n\
Tg/CWO9nb9gCIQCjRD3D/PzrYzYVuJS7rO3u5k977Qn9hSUPijdI0gVI7Q==\n\
-----END CERTIFICATE-----\n";

#[test]
fn an_invalid_spec_is_refused_with_its_field() {
    let authority = Authority::new("authority.test");
    let good = client(&authority);
    let (one, other) = (authority.sign("one.test"), authority.sign("other.test"));
    let certificate =
        |chain: &str, key: &str| Some(ClientCertificate { chain: chain.to_owned(), key: key.to_owned() });
    for (spec, field) in [
        (TlsSpec { server_name: "no name".into(), ..good.clone() }, "tls.server_name"),
        (TlsSpec { server_name: String::new(), ..good.clone() }, "tls.server_name"),
        (TlsSpec { versions: Vec::new(), ..good.clone() }, "tls.versions"),
        (TlsSpec { verify: Verify::Authorities("nothing".into()), ..good.clone() }, "tls.verify.authorities"),
        (TlsSpec { verify: Verify::Authorities(one.key.clone()), ..good.clone() }, "tls.verify.authorities"),
        (TlsSpec { alpn: vec![String::new()], ..good.clone() }, "tls.alpn"),
        (
            TlsSpec { client_certificate: certificate("", &one.key), ..good.clone() },
            "tls.client_certificate.chain",
        ),
        (
            TlsSpec { client_certificate: certificate(&one.certificate, "x"), ..good.clone() },
            "tls.client_certificate.key",
        ),
        (
            TlsSpec { client_certificate: certificate(&one.certificate, &other.key), ..good.clone() },
            "tls.client_certificate.key",
        ),
        (
            TlsSpec { client_certificate: certificate(VERSION_1, &one.key), ..good.clone() },
            "create a version 3",
        ),
    ] {
        let error = Client::new(&spec).expect_err(field).to_string();
        assert!(error.contains(field), "{error}");
    }
    for name in ["127.0.0.1", "::1", "a.test"] {
        made(&TlsSpec { server_name: name.to_owned(), ..good.clone() });
    }
}
