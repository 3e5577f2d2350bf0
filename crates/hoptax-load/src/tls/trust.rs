//! Verifies a server's certificate as curl does. rustls refuses two kinds of certificates that `openssl req
//! -x509` creates. This module accepts both. The first is a trusted certificate that is marked as the
//! certificate of an authority, although the server itself presents it. The second is a certificate whose
//! only name is its common name.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// DER of the object identifier of a common name, 2.5.4.3.
const COMMON_NAME: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];

#[derive(Debug)]
pub(super) struct Trust {
    chain: Arc<WebPkiServerVerifier>,
    /// The certificates that the user trusts. Empty if the user trusts the certificates of the system.
    trusted: Vec<CertificateDer<'static>>,
}

impl Trust {
    /// Trusts `roots`, and a server that presents one of `trusted` itself.
    ///
    /// # Errors
    /// If `roots` is empty.
    pub(super) fn new(
        roots: RootCertStore,
        trusted: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { chain: chain.map_err(|error| error.to_string())?, trusted })
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.chain.verify_server_cert(end_entity, intermediates, name, ocsp, now);
        let verified = match verified {
            // webpki has already checked the period of validity.
            Err(Error::InvalidCertificate(CertificateError::Other(why)))
                if is_authority(&why.to_string()) && self.trusted.iter().any(|one| one == end_entity) =>
            {
                ParsedCertificate::try_from(end_entity)
                    .and_then(|parsed| verify_server_name(&parsed, name))
                    .map(|()| ServerCertVerified::assertion())
            }
            verified => verified,
        };
        match verified {
            Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                presented, ..
            })) if presented.is_empty() && has_common_name(end_entity, &name.to_str()) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// True if `why` is webpki's error for the certificate of an authority that a server presents. rustls does
/// not export this error.
pub(super) fn is_authority(why: &str) -> bool {
    why.contains("CaUsedAsEndEntity")
}

/// True if the last common name in the subject of the certificate is `name`.
fn has_common_name(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let mut roots = RootCertStore::empty();
    if roots.add(certificate.clone().into_owned()).is_err() {
        return false;
    }
    let subject = roots.roots[0].subject.as_ref();
    let Some(at) = subject.windows(COMMON_NAME.len()).rposition(|part| part == COMMON_NAME) else {
        return false;
    };
    // A string: its type, its length and its text. A name of 128 bytes or more would have a longer length.
    let string = &subject[at + COMMON_NAME.len()..];
    let text = string.get(1).and_then(|&length| string.get(2..2 + usize::from(length)));
    text.is_some_and(|text| text.eq_ignore_ascii_case(name.as_bytes()))
}
