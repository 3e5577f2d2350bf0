//! Why requests failed, in the words of a plan.

use hoptax_load::record::Cause;

/// A cause, as it is told of requests: `3 were refused a connection`.
pub fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::ConnectRefused => "were refused a connection",
        Cause::ConnectTimeout => "got no connection in time",
        Cause::ConnectReset => "had their connect answered by a reset",
        Cause::Unreachable => "found no way to the address",
        Cause::PortsExhausted => "found every local port in use (`sources` gives more)",
        Cause::DescriptorsExhausted => "found no descriptor or memory for a socket",
        Cause::ConnectFailed => "could not connect for another reason",
        Cause::TlsTimeout => "got no TLS handshake in time",
        Cause::TlsCertificate => "met a certificate that is not acceptable",
        Cause::TlsRefused => "were refused by an alert in the TLS handshake",
        Cause::TlsClosed => "were cut off in the TLS handshake",
        Cause::TlsMalformed => "got what is not TLS",
        Cause::FirstByteTimeout => "got no byte of an answer in time",
        Cause::ResponseTimeout => "got no answer in time",
        Cause::ReadTimeout => "got an answer that was not whole in time",
        Cause::ResetBeforeResponse => "were reset before the answer",
        Cause::ResetInResponse => "were reset within the answer",
        Cause::ClosedBeforeResponse => "were closed before the answer",
        Cause::ClosedInResponse => "were closed within the answer",
        Cause::MalformedResponse => "got no valid answer",
    }
}
