//! Converts the TLS settings of a spec to a configuration of rustls. Invalid settings are refused here,
//! before the load starts.

use super::sessions::Sessions;
use super::trust::Trust;
use crate::error::LoadError;
use hoptax_format::spec::{ClientCertificate, TlsSpec, TlsVersion, Verify};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedProtocolVersion, version,
};
use std::sync::Arc;

/// Maximum number of session tickets per worker. It does not depend on the number of connections. These
/// tickets use about 1 MiB.
const MOST_TICKETS: usize = 1024;
/// Maximum length of a protocol's name: its length is sent in one byte (RFC 7301, section 3.1).
const LONGEST_PROTOCOL: usize = 255;

/// Configuration of TLS client connections.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    resumption: bool,
}

impl Client {
    /// Converts `spec`.
    ///
    /// # Errors
    /// [`LoadError::Spec`], which names the invalid field and says how to fix it.
    pub(crate) fn new(spec: &TlsSpec) -> Result<Self, LoadError> {
        let name = ServerName::try_from(spec.server_name.clone()).map_err(|_| {
            wrong(format!(
                "tls.server_name is {:?}, which is neither a host name nor an IP address; give one of these",
                spec.server_name
            ))
        })?;
        let provider = Arc::new(provider(&spec.cipher_suites)?);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions(&spec.versions)?)
            .map_err(|error| wrong(format!("tls.versions cannot be offered: {error}")))?;
        let trust = |roots, trusted, provider| {
            Trust::new(roots, trusted, provider).map_err(|error| wrong(format!("tls.verify: {error}")))
        };
        let verifier: Arc<dyn ServerCertVerifier> = match &spec.verify {
            Verify::System => Arc::new(trust(system_authorities()?, Vec::new(), provider)?),
            Verify::Authorities(pem) => {
                let trusted = certificates("tls.verify.authorities", pem)?;
                Arc::new(trust(authorities(&trusted)?, trusted, provider)?)
            }
            Verify::Nothing => Arc::new(AcceptAny(provider)),
        };
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = match &spec.client_certificate {
            None => builder.with_no_client_auth(),
            Some(certificate) => {
                let (chain, key) = identity(certificate)?;
                builder.with_client_auth_cert(chain, key).map_err(|error| wrong(unfit_key(&error)))?
            }
        };
        config.alpn_protocols = protocols(&spec.alpn)?;
        // rustls performs the handshake. `super::records` then encrypts and decrypts the data, in place and
        // without allocating.
        config.enable_secret_extraction = true;
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), name, resumption: spec.resumption })
    }

    /// Returns a copy for one worker with `connections` connections. Workers share nothing while a trial
    /// runs, so each worker has its own list of sessions that it can resume.
    pub(crate) fn for_one_worker(&self, connections: usize) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        if self.resumption {
            config.resumption = Resumption::store(Arc::new(Sessions::new(connections.min(MOST_TICKETS))));
        }
        Self { config: Arc::new(config), name: self.name.clone(), resumption: self.resumption }
    }

    /// Creates the TLS state of a new connection. No message has been sent yet.
    ///
    /// # Errors
    /// If the system provides no random numbers.
    pub(super) fn connection(&self) -> Result<UnbufferedClientConnection, Error> {
        UnbufferedClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }

    pub(super) fn resumes(&self) -> bool {
        self.resumption
    }
}

fn wrong(text: String) -> LoadError {
    LoadError::Spec(text)
}

/// Returns the cryptography of the library `ring`, restricted to the requested cipher suites.
fn provider(suites: &[String]) -> Result<CryptoProvider, LoadError> {
    let mut provider = ring::default_provider();
    // In rustls, the names of TLS 1.3 suites begin with `TLS13_`. The registered names begin with `TLS_`.
    let name =
        |suite: &rustls::SupportedCipherSuite| format!("{:?}", suite.suite()).replace("TLS13_", "TLS_");
    let known: Vec<String> = provider.cipher_suites.iter().map(name).collect();
    if let Some(unknown) = suites.iter().find(|asked| !known.contains(asked)) {
        return Err(wrong(format!("tls.cipher_suites has {unknown:?}; known suites: {}", known.join(", "))));
    }
    if !suites.is_empty() {
        // The order of the suites is the client's preference, so they are sorted in the requested order.
        provider.cipher_suites.retain(|suite| suites.contains(&name(suite)));
        provider.cipher_suites.sort_by_key(|suite| suites.iter().position(|asked| *asked == name(suite)));
    }
    Ok(provider)
}

/// Returns rustls's configuration for `spec`, for callers that send single requests without the generator.
///
/// # Errors
/// [`LoadError::Spec`], which names the invalid field and says how to fix it.
pub fn client_config(spec: &TlsSpec) -> Result<(Arc<ClientConfig>, ServerName<'static>), LoadError> {
    let client = Client::new(spec)?;
    Ok((client.config, client.name))
}

fn versions(asked: &[TlsVersion]) -> Result<Vec<&'static SupportedProtocolVersion>, LoadError> {
    if asked.is_empty() {
        return Err(wrong("tls.versions is empty; give \"1.2\", \"1.3\" or both".into()));
    }
    Ok(asked
        .iter()
        .map(|asked| match asked {
            TlsVersion::Tls12 => &version::TLS12,
            TlsVersion::Tls13 => &version::TLS13,
        })
        .collect())
}

fn protocols(asked: &[String]) -> Result<Vec<Vec<u8>>, LoadError> {
    for name in asked {
        if name.is_empty() || name.len() > LONGEST_PROTOCOL {
            return Err(wrong(format!(
                "tls.alpn has {name:?}; a protocol's name has 1 to {LONGEST_PROTOCOL} bytes, for instance \
                \"http/1.1\""
            )));
        }
    }
    Ok(asked.iter().map(|name| name.as_bytes().to_vec()).collect())
}

fn system_authorities() -> Result<RootCertStore, LoadError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some systems have certificates that cannot be parsed. These are ignored, because the other certificates
    // still work.
    let _ = roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
        return Err(wrong(format!(
            "tls.verify is system, but this system trusts no authority{why}; install its `ca-certificates`, \
             pass an authority (`--ca FILE`), or accept any certificate (`--insecure`)"
        )));
    }
    Ok(roots)
}

fn authorities(trusted: &[CertificateDer<'static>]) -> Result<RootCertStore, LoadError> {
    let mut roots = RootCertStore::empty();
    for (number, certificate) in (1..).zip(trusted) {
        roots.add(certificate.clone()).map_err(|error| {
            wrong(format!(
                "certificate {number} of tls.verify.authorities does not belong to an authority: {error}; \
                 give X.509 certificates in PEM"
            ))
        })?;
    }
    Ok(roots)
}

fn certificates(field: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match read {
        Err(error) => Err(wrong(format!("{field} is not PEM: {error}"))),
        Ok(none) if none.is_empty() => Err(wrong(format!(
            "{field} has no certificate; give PEM, with lines \"-----BEGIN CERTIFICATE-----\""
        ))),
        Ok(certificates) => Ok(certificates),
    }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(certificate: &ClientCertificate) -> Result<Identity, LoadError> {
    let chain = certificates("tls.client_certificate.chain", &certificate.chain)?;
    let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).map_err(|error| {
        wrong(format!(
            "tls.client_certificate.key has no private key: {error}; give an unencrypted PEM key (`openssl \
             pkey -in FILE` removes a passphrase)"
        ))
    })?;
    Ok((chain, key))
}

fn unfit_key(error: &Error) -> String {
    match error {
        Error::InconsistentKeys(_) => {
            "tls.client_certificate.key does not belong to the first certificate in \
             tls.client_certificate.chain; give a matching pair, with the client's own certificate first"
                .to_owned()
        }
        // This is the name of the error in webpki, which rustls does not export.
        Error::InvalidCertificate(CertificateError::Other(why))
            if why.to_string() == "UnsupportedCertVersion" =>
        {
            "the client certificate is an X.509 version 1 certificate, which is not supported; create a \
             version 3 certificate (`openssl x509 -req` with -extfile)"
                .to_owned()
        }
        other => format!("tls.client_certificate cannot be used: {other}; give an RSA, ECDSA or Ed25519 key"),
    }
}

/// Accepts every certificate without verifying it.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
