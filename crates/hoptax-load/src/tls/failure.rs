//! Describes TLS failures, with advice on how to fix them.

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

/// Reason why a TLS connection cannot continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    Certificate(String),
    /// The server sent a fatal alert, or client and server have no TLS parameters in common.
    Refused(String),
    /// The received bytes are not TLS, or they violate the protocol.
    Malformed(String),
}

impl Failure {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Certificate(text) | Self::Refused(text) | Self::Malformed(text) => text,
        }
    }

    pub(super) fn alert(alert: AlertDescription) -> Self {
        Self::Refused(refusal(alert))
    }

    pub(super) fn malformed(what: &str) -> Self {
        Self::Malformed(format!("TLS: {what}"))
    }

    /// Describes a failed handshake. `answer` is the data that the server has sent. It is needed because a server
    /// without TLS answers in plain text.
    pub(super) fn of_handshake(error: &Error, answer: &[u8]) -> Self {
        match error {
            Error::InvalidCertificate(error) => Self::Certificate(unacceptable(error)),
            Error::NoCertificatesPresented => {
                Self::Certificate("TLS: the server sent no certificate".to_owned())
            }
            Error::AlertReceived(alert) => Self::alert(*alert),
            Error::PeerIncompatible(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig) => {
                Self::Refused(
                    "TLS: the server requires a version that was not offered; offer both 1.2 and 1.3 (`--tls 1.2,1.3`)".to_owned(),
                )
            }
            Error::PeerIncompatible(_) => {
                Self::Refused(format!("TLS: the two sides have no parameters in common ({error})"))
            }
            _ if answer.starts_with(b"HTTP/") => Self::Malformed(
                "TLS: the server answers in plain HTTP; use http://, or the port that serves TLS"
                    .to_owned(),
            ),
            _ => Self::Malformed(format!("TLS: {error}")),
        }
    }
}

/// Describes why a certificate is not accepted. Each reason has a fixed text, without dates and names, because the
/// number of different texts must be limited.
fn unacceptable(error: &CertificateError) -> String {
    use CertificateError as E;
    let (what, remedy) = match error {
        E::UnknownIssuer => ("is not signed by a trusted authority", "pass its authority (`--ca FILE`)"),
        E::Expired | E::ExpiredContext { .. } => ("has expired", "renew it"),
        E::NotValidYet | E::NotValidYetContext { .. } => ("is not valid yet", "check this machine's clock"),
        E::NotValidForName | E::NotValidForNameContext { .. } => {
            ("is for another name", "pass the name in the certificate (`--server-name NAME`)")
        }
        E::BadSignature => ("has a bad signature", "sign it again"),
        E::BadEncoding => ("cannot be read", "create an X.509 version 3 certificate"),
        E::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            ("belongs to an authority", "use that authority to sign a certificate for the server")
        }
        other => {
            return format!(
                "TLS: the server's certificate is not acceptable ({other}); `--insecure` accepts any certificate"
            );
        }
    };
    format!("TLS: the server's certificate {what}; {remedy}, or accept any certificate (`--insecure`)")
}

fn refusal(alert: AlertDescription) -> String {
    use AlertDescription as A;
    let remedy = match alert {
        A::CertificateRequired => "it requires a client certificate (`--cert FILE --key FILE`)",
        A::BadCertificate
        | A::UnsupportedCertificate
        | A::CertificateRevoked
        | A::CertificateExpired
        | A::CertificateUnknown
        | A::UnknownCA
        | A::AccessDenied => {
            "it requires a client certificate, or does not accept the given certificate (`--cert FILE`)"
        }
        A::ProtocolVersion => "it supports none of the offered versions (`--tls`)",
        A::HandshakeFailure | A::InsufficientSecurity => {
            "it shares no cipher or version (`--tls`), or requires a client certificate (`--cert FILE --key FILE`)"
        }
        A::UnrecognisedName => "it does not know the requested name (`--server-name NAME`)",
        A::NoApplicationProtocol => "it supports none of the protocols that ALPN offered (`--alpn`)",
        _ => return format!("TLS: the server closed the connection with alert {alert:?}"),
    };
    format!("TLS: the server refused with alert {alert:?}: {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_errors_include_a_remedy() {
        for (error, remedy) in [
            (CertificateError::UnknownIssuer, "--ca FILE"),
            (CertificateError::Expired, "renew"),
            (CertificateError::NotValidForName, "another name"),
            (CertificateError::Revoked, "--insecure"),
        ] {
            let failure = Failure::of_handshake(&Error::InvalidCertificate(error), b"");
            assert!(matches!(failure, Failure::Certificate(_)), "{failure:?}");
            assert!(failure.text().contains(remedy) && failure.text().contains("--insecure"), "{failure:?}");
        }
    }

    #[test]
    fn a_server_without_tls_is_recognized() {
        let error = Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        let plain = Failure::of_handshake(&error, b"HTTP/1.1 400 Bad Request\r\n");
        assert!(matches!(&plain, Failure::Malformed(text) if text.contains("http://")), "{plain:?}");
        let other = Failure::of_handshake(&error, b"SSH-2.0");
        assert!(matches!(&other, Failure::Malformed(text) if !text.contains("http://")), "{other:?}");
    }
}
