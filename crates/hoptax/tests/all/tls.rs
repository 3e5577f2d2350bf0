//! `hoptax load --spec` against the real nginx with TLS.

use crate::findings::two_ports;
use crate::load::{run_spec, spec_with};
use crate::support::nginx;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

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
pub(crate) fn identity(name: &str, authority: Option<&Authority>) -> (String, String) {
    let params = params(name);
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
        let files = [("certificate.pem", certificate.as_str()), ("key.pem", key), ("mime.types", "")];
        let address = two_ports()[0];
        let http = format!(
            "access_log off; server {{ listen {address} ssl; ssl_certificate certificate.pem;
             ssl_certificate_key key.pem; ssl_protocols TLSv1.2 TLSv1.3; {more} location / {{ return 200 hello; }} }}"
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
    spec_with(json!({
        "addresses": addresses,
        "tls": tls,
        "targets": [
            {"name": "root", "weight": 1, "method": "GET", "path": "/", "headers": headers, "body": ""}
        ],
        "requests": 100,
        "workers": 2
    }))
}

fn load(nginx: &Nginx, tls: &Value, headers: Value) -> Value {
    let output = run_spec(&spec(&[nginx.address], tls, headers));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{}", nginx.process.errors());
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[test]
fn sessions_are_resumed_if_configured() {
    needs!("nginx");
    let authority = authority("authority.test");
    let more = "ssl_session_cache shared:sessions:1m;";
    let nginx = Nginx::start(&identity(NAME, Some(&authority)), more);
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
