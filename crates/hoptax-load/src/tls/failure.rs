//! Describes TLS failures, with advice on how to fix them.

use super::trust::is_authority;
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

    /// Describes a failed handshake. `answer` is the data that the server has sent. It is needed because a
    /// server without TLS answers in plain text.
    pub(super) fn of_handshake(error: &Error, answer: &[u8]) -> Self {
        match error {
            Error::InvalidCertificate(error) => Self::Certificate(unacceptable(error)),
            Error::NoCertificatesPresented => {
                Self::Certificate("TLS: the server sent no certificate".to_owned())
            }
            Error::AlertReceived(alert) => Self::alert(*alert),
            Error::PeerIncompatible(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig) => Self::Refused(
                "TLS: the server requires a version that was not offered; offer both 1.2 and 1.3 (`--tls \
                    1.2,1.3`)"
                    .to_owned(),
            ),
            Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon) => {
                Self::Refused("TLS: the two sides have no cipher suite in common".to_owned())
            }
            Error::PeerIncompatible(_) => {
                Self::Refused("TLS: the two sides have no parameters in common".to_owned())
            }
            _ if answer.starts_with(b"HTTP/") => Self::Malformed(
                "TLS: the server answers in plain HTTP; use http://, or the port that serves TLS".to_owned(),
            ),
            Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => {
                Self::malformed("the server's answer is not valid TLS; check that this port serves TLS")
            }
            Error::DecryptError => Self::malformed("a record cannot be decrypted"),
            Error::PeerMisbehaved(_) => Self::malformed("the server breaks the rules of the protocol"),
            _ => Self::malformed("the handshake failed"),
        }
    }
}

/// Describes why a certificate is not accepted. Each reason has a fixed text, without dates and names,
/// because the number of different texts must be limited.
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
        E::Other(other) if is_authority(&other.to_string()) => {
            ("belongs to an authority", "pass this certificate itself (`--ca FILE`)")
        }
        E::Other(other) if other.to_string().contains("UnsupportedCertVersion") => {
            ("has X.509 version 1", "create a version 3 certificate")
        }
        E::Revoked => ("is revoked", "renew it"),
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => {
            ("is not for servers", "add `serverAuth` to its extended key usage")
        }
        _ => ("is not acceptable", "create an X.509 version 3 certificate with an RSA or ECDSA key"),
    };
    format!("TLS: the server's certificate {what}; {remedy}, or accept any certificate (`--insecure`)")
}

/// Describes an error of rustls in the same words as a load, for callers that do not run a load.
pub fn describe(error: &Error) -> String {
    Failure::of_handshake(error, b"").text().to_owned()
}

/// Changes the description of a TLS failure so that it names the proxy instead of the server.
pub fn of_proxy(text: &str) -> String {
    let text = text.strip_prefix("TLS: ").unwrap_or(text);
    format!("TLS to the proxy: {}", text.replace("the server", "the proxy"))
}

/// The name of an alert as in RFC 8446, section 6: `handshake_failure`.
fn name(alert: AlertDescription) -> String {
    if let AlertDescription::Unknown(number) = alert {
        return number.to_string();
    }
    let mut name = String::new();
    // rustls has the same names in another form: `HandshakeFailure`, `UnknownCA`.
    for letter in format!("{alert:?}").replace("CA", "Ca").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

fn refusal(alert: AlertDescription) -> String {
    use AlertDescription as A;
    let known = name(alert);
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
            "it shares no cipher or version (`--tls`), or requires a client certificate (`--cert FILE --key \
            FILE`)"
        }
        A::UnrecognisedName => "it does not know the requested name (`--server-name NAME`)",
        A::NoApplicationProtocol => "it supports none of the protocols that ALPN offered (`--alpn`)",
        _ => return format!("TLS: the server closed the connection with alert {known}"),
    };
    format!("TLS: the server refused with alert {known}: {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_errors_include_a_remedy() {
        use CertificateError as Wrong;
        let told =
            [Wrong::UnknownIssuer, Wrong::Expired, Wrong::NotValidForName, Wrong::Revoked].map(|error| {
                let failure = Failure::of_handshake(&Error::InvalidCertificate(error), b"");
                assert!(matches!(failure, Failure::Certificate(_)), "{failure:?}");
                failure.text().to_owned() + "\n"
            });
        insta::assert_snapshot!(told.concat());
    }

    #[test]
    fn texts_have_the_names_of_the_standard_and_no_names_of_the_library() {
        let told =
            [AlertDescription::HandshakeFailure, AlertDescription::UnknownCA, AlertDescription::Unknown(250)]
                .map(|alert| Failure::alert(alert).text().to_owned() + "\n");
        insta::assert_snapshot!(told.concat());
        for error in [
            Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType),
            Error::PeerIncompatible(PeerIncompatible::NoSignatureSchemesInCommon),
            Error::PeerMisbehaved(rustls::PeerMisbehaved::InvalidMaxEarlyDataSize),
            Error::InvalidCertificate(CertificateError::UnhandledCriticalExtension),
            Error::General("Some(Text)".into()),
        ] {
            let text = describe(&error);
            let is_debug = |word: &str| word.chars().filter(char::is_ascii_uppercase).count() > 1;
            let odd = text.split(' ').filter(|word| is_debug(word) && !word.starts_with("TLS")).count();
            assert!(odd <= 3 && !text.contains("Some(") && !text.contains("::"), "{text}");
            assert!(!text.contains(&format!("{error}")), "{text}");
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
