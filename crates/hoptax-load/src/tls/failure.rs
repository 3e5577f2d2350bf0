//! What goes wrong with TLS, in words that say what to do.

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

/// Why a TLS connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server's certificate is not acceptable.
    Certificate(String),
    /// The server ended the connection with an alert, or there is nothing that both sides could agree on.
    Refused(String),
    /// What came is not TLS, or contradicts itself.
    Malformed(String),
}

impl Failure {
    /// What went wrong, for people.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Certificate(text) | Self::Refused(text) | Self::Malformed(text) => text,
        }
    }

    /// A fatal alert came.
    pub(super) fn alert(alert: AlertDescription) -> Self {
        Self::Refused(refusal(alert))
    }

    pub(super) fn malformed(what: &str) -> Self {
        Self::Malformed(format!("TLS: {what}"))
    }

    /// What a handshake failed with. `answer` is what had come: a server without TLS answers in clear.
    pub(super) fn of_handshake(error: &Error, answer: &[u8]) -> Self {
        match error {
            Error::InvalidCertificate(error) => Self::Certificate(unacceptable(error)),
            Error::NoCertificatesPresented => {
                Self::Certificate("TLS: the server showed no certificate".to_owned())
            }
            Error::AlertReceived(alert) => Self::alert(*alert),
            Error::PeerIncompatible(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig) => {
                Self::Refused(
                    "TLS: the server wants a version that was not offered; offer both 1.2 and 1.3".to_owned(),
                )
            }
            Error::PeerIncompatible(_) => {
                Self::Refused(format!("TLS: there is nothing that both sides could agree on ({error})"))
            }
            _ if answer.starts_with(b"HTTP/") => Self::Malformed(
                "TLS: the server answers in plain HTTP; ask for http://, or for the port that speaks TLS"
                    .to_owned(),
            ),
            _ => Self::Malformed(format!("TLS: {error}")),
        }
    }
}

/// Why a certificate is not acceptable. One text for each reason: moments and names that vary would make texts without
/// number.
fn unacceptable(error: &CertificateError) -> String {
    use CertificateError as E;
    let (what, remedy) = match error {
        E::UnknownIssuer => ("is signed by nobody who is trusted", "give its authority (`--ca FILE`)"),
        E::Expired | E::ExpiredContext { .. } => ("has expired", "renew it"),
        E::NotValidYet | E::NotValidYetContext { .. } => ("is not valid yet", "look at this machine's clock"),
        E::NotValidForName | E::NotValidForNameContext { .. } => {
            ("is for another name", "ask for the name that it is for")
        }
        E::BadSignature => ("has a bad signature", "have it signed anew"),
        E::BadEncoding => ("cannot be read", "make it anew (X.509 version 3)"),
        E::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            ("is an authority's own", "sign one for the server with it")
        }
        other => {
            return format!(
                "TLS: the server's certificate is not acceptable ({other}); `--insecure` accepts any"
            );
        }
    };
    format!("TLS: the server's certificate {what}; {remedy}, or accept any certificate (`--insecure`)")
}

fn refusal(alert: AlertDescription) -> String {
    use AlertDescription as A;
    let remedy = match alert {
        A::CertificateRequired => "it wants a client's certificate",
        A::BadCertificate
        | A::UnsupportedCertificate
        | A::CertificateRevoked
        | A::CertificateExpired
        | A::CertificateUnknown
        | A::UnknownCA
        | A::AccessDenied => "it does not accept the client's certificate, or the want of one",
        A::ProtocolVersion => "it speaks none of the versions that were offered",
        A::HandshakeFailure | A::InsufficientSecurity => {
            "it shares no version, cipher or certificate type, or wants a client's certificate"
        }
        A::UnrecognisedName => "it does not know the name that was asked for",
        A::NoApplicationProtocol => "it speaks none of the protocols that ALPN offered",
        _ => return format!("TLS: the server ended the connection with the alert {alert:?}"),
    };
    format!("TLS: the server refused with the alert {alert:?}: {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_refused_comes_with_a_remedy() {
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
    fn a_server_without_tls_is_told_from_a_broken_one() {
        let error = Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        let plain = Failure::of_handshake(&error, b"HTTP/1.1 400 Bad Request\r\n");
        assert!(matches!(&plain, Failure::Malformed(text) if text.contains("http://")), "{plain:?}");
        let other = Failure::of_handshake(&error, b"SSH-2.0");
        assert!(matches!(&other, Failure::Malformed(text) if !text.contains("http://")), "{other:?}");
    }
}
