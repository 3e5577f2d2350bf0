//! Certificates and TLS servers for tests.

use hoptax_format::spec::{ClientCertificate, TlsSpec, TlsVersion, Verify};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use std::sync::Arc;

pub(crate) const NAME: &str = "server.test";

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its private key, PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

fn key() -> KeyPair {
    KeyPair::generate().expect("random numbers")
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, key()).expect("a certificate"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn sign(&self, name: &str) -> Identity {
        self.signed(&params(name))
    }

    pub(crate) fn sign_expired(&self, name: &str) -> Identity {
        let mut params = params(name);
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.signed(&params)
    }

    fn signed(&self, params: &CertificateParams) -> Identity {
        let key = key();
        let certificate = params.signed_by(&key, &self.0).expect("a certificate").pem();
        Identity { certificate, key: key.serialize_pem() }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("an authority's");
        roots
    }
}

pub(crate) fn self_signed(name: &str) -> Identity {
    let key = key();
    let certificate = params(name).self_signed(&key).expect("a certificate").pem();
    Identity { certificate, key: key.serialize_pem() }
}

/// A certificate as `openssl req -x509` creates it. It is marked as an authority, and `name` is its only
/// name, a common name.
pub(crate) fn usual(name: &str) -> Identity {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = key();
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    Identity { certificate, key: key.serialize_pem() }
}

impl Identity {
    pub(crate) fn as_client(&self) -> ClientCertificate {
        ClientCertificate { chain: self.certificate.clone(), key: self.key.clone() }
    }
}

/// Configures a server with the certificate `identity`. If `clients` is given, the server requires a client
/// certificate that this authority has signed.
pub(crate) fn server(
    identity: &Identity,
    versions: &[TlsVersion],
    clients: Option<&Authority>,
) -> ServerConfig {
    let provider = Arc::new(ring::default_provider());
    let versions: Vec<&'static SupportedProtocolVersion> = versions
        .iter()
        .map(|version| if *version == TlsVersion::Tls12 { &version::TLS12 } else { &version::TLS13 })
        .collect();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .expect("versions");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(Arc::new(authority.roots()), provider)
                .build()
                .expect("an authority"),
        ),
    };
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("PEM");
    let mut config = builder.with_single_cert(vec![certificate], key).expect("they belong together");
    config.ticketer = ring::Ticketer::new().expect("random numbers");
    config
}

pub(crate) fn client(authority: &Authority) -> TlsSpec {
    TlsSpec {
        server_name: NAME.to_owned(),
        verify: Verify::Authorities(authority.pem()),
        client_certificate: None,
        resumption: true,
        alpn: Vec::new(),
        versions: vec![TlsVersion::Tls12, TlsVersion::Tls13],
        cipher_suites: Vec::new(),
    }
}
