//! `hoptax load --spec` against the real nginx with TLS.

use crate::findings::two_ports;
use crate::support::{Scratch, hoptax, nginx};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use serde_json::{Value, json};
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Output, Stdio};

pub(crate) const NAME: &str = "nginx.test";

pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

pub(crate) fn authority(name: &str) -> Authority {
    let mut params = params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("random numbers")).expect("a certificate")
}

/// A certificate and its key, both PEM. The certificate is signed by `authority`, or self-signed if there is
/// no authority.
pub(crate) fn identity(name: &str, authority: Option<&Authority>, expired: bool) -> (String, String) {
    let mut params = params(name);
    if expired {
        (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
    }
    let key = KeyPair::generate().expect("random numbers");
    let certificate = match authority {
        Some(authority) => params.signed_by(&key, authority),
        None => params.self_signed(&key),
    };
    (certificate.expect("a certificate").pem(), key.serialize_pem())
}

pub(crate) struct Nginx {
    process: nginx::Nginx,
    pub(crate) address: SocketAddr,
}

impl Nginx {
    /// Starts nginx with TLS and this certificate. `more` is added to the `server` block. nginx answers `/`
    /// with "hello".
    pub(crate) fn start((certificate, key): &(String, String), more: &str) -> Self {
        Self::listening("ssl", (certificate, key), more)
    }

    fn listening(how: &str, (certificate, key): (&str, &str), more: &str) -> Self {
        let files = [("certificate.pem", certificate), ("key.pem", key), ("mime.types", "")];
        let address = two_ports()[0];
        let protocols = if more.contains("ssl_protocols") { "" } else { "ssl_protocols TLSv1.2 TLSv1.3;" };
        let http = format!(
            "access_log off; server {{ listen {address} {how}; ssl_certificate certificate.pem;
             ssl_certificate_key key.pem; {protocols} {more} location / {{ return 200 hello; }} }}"
        );
        let is_ready = |_: &Path| TcpStream::connect(address).is_ok();
        Self { process: nginx::Nginx::start_with(&files, &http, is_ready), address }
    }
}

fn tls(authority: &Authority) -> Value {
    json!({
        "server_name": NAME,
        "verify": {"authorities": authority.pem()},
        "client_certificate": null,
        "resumption": true,
        "alpn": [],
        "versions": ["1.2", "1.3"]
    })
}

fn with(mut tls: Value, key: &str, value: Value) -> Value {
    tls[key] = value;
    tls
}

fn spec(addresses: &[SocketAddr], tls: &Value, headers: Value) -> Value {
    let second = 1_000_000_000_u64;
    json!({
        "schema": 2,
        "addresses": addresses,
        "tls": tls,
        "targets": [
            {"name": "root", "weight": 1, "method": "GET", "path": "/", "headers": headers, "body": ""}
        ],
        "shape": {"loop": "closed"},
        "connections": 4,
        "warmup_ns": 0,
        "duration_ns": 60 * second,
        "requests": 100,
        "timeouts": {"connect_ns": 60 * second, "first_byte_ns": 60 * second, "total_ns": 60 * second},
        "workers": 2,
        "cpus": [],
        "seed": 1,
        "windows": false
    })
}

fn generator(spec: &Value) -> Output {
    let mut command = hoptax();
    command.args(["load", "--spec", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("starts");
    let mut stdin = process.stdin.take().expect("piped");
    stdin.write_all(spec.to_string().as_bytes()).expect("read by the generator");
    drop(stdin);
    process.wait_with_output().expect("ends")
}

fn load(nginx: &Nginx, tls: &Value, headers: Value) -> Value {
    let output = generator(&spec(&[nginx.address], tls, headers));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", nginx.process.errors());
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

fn completes(nginx: &Nginx, tls: &Value) -> Value {
    let record = load(nginx, tls, json!([["host", "x"]]));
    assert_eq!(record["counts"]["ok"], 100, "{}", record["counts"]);
    record
}

fn refused(nginx: &Nginx, tls: &Value) -> String {
    let output = generator(&spec(&[nginx.address], tls, json!([["host", "x"]])));
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn nginx_is_loaded_with_either_version() {
    needs!("nginx");
    let authority = authority("authority.test");
    let nginx = Nginx::start(&identity(NAME, Some(&authority), false), "");
    for (version, name) in [("1.2", "TLSv1.2"), ("1.3", "TLSv1.3")] {
        let record = completes(&nginx, &with(tls(&authority), "versions", json!([version])));
        assert_eq!(record["tls"]["versions"], json!({name: 4}));
        assert_eq!(record["tls"]["handshakes"], 4);
        assert_eq!(record["connections"]["reused"], 96);
        assert_eq!(record["bytes"]["body"], 500);
        assert!(
            record["histograms"]["tls_handshake"].is_object()
                || record["histograms"]["tls_handshake"].is_string()
        );
    }
    let record = completes(&nginx, &with(tls(&authority), "alpn", json!(["http/1.1"])));
    assert_eq!(record["tls"]["alpn"], json!({"http/1.1": 4}));
}

#[test]
fn sessions_are_resumed_if_configured() {
    needs!("nginx");
    let authority = authority("authority.test");
    let more = "ssl_session_cache shared:sessions:1m;";
    let nginx = Nginx::start(&identity(NAME, Some(&authority), false), more);
    for version in ["1.2", "1.3"] {
        for resumption in [true, false] {
            let tls = with(tls(&authority), "resumption", json!(resumption));
            let tls = with(tls, "versions", json!([version]));
            let record = load(&nginx, &tls, json!([["host", "x"], ["connection", "close"]]));
            assert_eq!(record["counts"]["ok"], 100, "{}", record["counts"]);
            let (handshakes, resumed) =
                (record["tls"]["handshakes"].as_u64().expect("a count"), &record["tls"]["resumed"]);
            assert!(handshakes >= 100);
            match resumption {
                // Each of the four connections makes a first handshake. There is no session yet that this
                // handshake could resume.
                true => assert!(resumed.as_u64().expect("a count") >= handshakes - 4, "{}", record["tls"]),
                false => assert_eq!(resumed, 0),
            }
        }
    }
}

#[test]
fn invalid_certificates_are_refused_unless_verification_is_off() {
    needs!("nginx");
    let authority = authority("authority.test");
    let stranger = self::authority("stranger.test");
    for (shown, reason) in [
        (identity(NAME, Some(&authority), true), "expired"),
        (identity("another.test", Some(&authority), false), "another name"),
        (identity(NAME, Some(&stranger), false), "--ca FILE"),
        (identity(NAME, None, false), "--ca FILE"),
    ] {
        let nginx = Nginx::start(&shown, "");
        let said = refused(&nginx, &tls(&authority));
        assert!(said.contains(reason) && said.contains("--insecure"), "{said}");
        completes(&nginx, &with(tls(&authority), "verify", json!("nothing")));
        if reason == "--ca FILE" {
            // The system does not trust the authority of this test.
            let said = refused(&nginx, &with(tls(&authority), "verify", json!("system")));
            assert!(said.contains("--ca FILE"), "{said}");
        }
    }
}

#[test]
fn a_client_certificate_is_sent_to_nginx() {
    needs!("nginx");
    let (authority, clients) = (authority("authority.test"), authority("clients.test"));
    let files = Scratch::new();
    let trusted = files.file("clients.pem", &clients.pem());
    let more = format!("ssl_verify_client on; ssl_client_certificate {};", trusted.display());
    let nginx = Nginx::start(&identity(NAME, Some(&authority), false), &more);
    let (chain, key) = identity("client.test", Some(&clients), false);
    completes(&nginx, &with(tls(&authority), "client_certificate", json!({"chain": chain, "key": key})));
    // nginx accepts the connection and answers with an HTTP error.
    let record = load(&nginx, &tls(&authority), json!([["host", "x"]]));
    assert_eq!((&record["counts"]["completed"], &record["counts"]["ok"]), (&json!(100), &json!(0)));
    assert_eq!(record["counts"]["status"], json!({"400": 100}));
}

#[test]
fn a_port_of_nginx_without_tls_is_named() {
    needs!("nginx");
    let authority = authority("authority.test");
    let (certificate, key) = identity(NAME, Some(&authority), false);
    let nginx = Nginx::listening("", (&certificate, &key), "");
    let said = refused(&nginx, &tls(&authority));
    assert!(said.contains("http://"), "{said}");
}

#[test]
fn incompatible_tls_versions_are_named() {
    needs!("nginx");
    let authority = authority("authority.test");
    let nginx = Nginx::start(&identity(NAME, Some(&authority), false), "ssl_protocols TLSv1.2;");
    let said = refused(&nginx, &with(tls(&authority), "versions", json!(["1.3"])));
    assert!(said.contains("version"), "{said}");
}
