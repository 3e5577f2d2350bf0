//! Causes of failure in words.

use hoptax_load::record::Cause;

/// What a person calls it.
pub(super) fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::ConnectRefused => "connect refused: nobody listens",
        Cause::ConnectTimeout => "no connection within --connect-timeout",
        Cause::ConnectReset => "connect answered by a reset",
        Cause::Unreachable => "no way to the address",
        Cause::PortsExhausted => "all local ports in use (see --source)",
        Cause::DescriptorsExhausted => "no descriptor or memory for a socket",
        Cause::ConnectFailed => "connect failed otherwise",
        Cause::TlsTimeout => "no TLS handshake within --connect-timeout",
        Cause::TlsCertificate => "certificate not acceptable (see --ca)",
        Cause::TlsRefused => "TLS refused by the server",
        Cause::TlsClosed => "closed within the TLS handshake",
        Cause::TlsMalformed => "malformed TLS",
        Cause::FirstByteTimeout => "no byte within --first-byte-timeout",
        Cause::ResponseTimeout => "no response within --timeout",
        Cause::ReadTimeout => "response not whole within --timeout",
        Cause::ResetBeforeResponse => "reset before the response",
        Cause::ResetInResponse => "reset within the response",
        Cause::ClosedBeforeResponse => "closed before the response",
        Cause::ClosedInResponse => "closed within the response",
        Cause::MalformedResponse => "malformed response",
    }
}
