//! Describes in words why requests failed.

use hoptax_format::record::Cause;

/// Describes a cause. The text follows a number of requests, as in `3 were refused a connection`.
pub fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::ConnectRefused => "were refused a connection",
        Cause::ConnectTimeout => "got no connection in time",
        Cause::ConnectReset => "had their connection attempt reset",
        Cause::Unreachable => "could not reach the address",
        Cause::PortsExhausted => "found every local port in use (`sources` gives more)",
        Cause::DescriptorsExhausted => "had no file descriptor or memory for a socket",
        Cause::ConnectFailed => "could not connect for another reason",
        Cause::ProxyRefused => "got no tunnel through the proxy",
        Cause::TlsTimeout => "got no TLS handshake in time",
        Cause::TlsCertificate => "were stopped by an unacceptable certificate",
        Cause::TlsRefused => "were refused by a TLS alert in the handshake",
        Cause::TlsClosed => "were closed during the TLS handshake",
        Cause::TlsMalformed => "received bytes that are not TLS",
        Cause::FirstByteTimeout => "got no first byte of an answer in time",
        Cause::ResponseTimeout => "got no answer in time",
        Cause::ReadTimeout => "got only part of an answer in time",
        Cause::ResetBeforeResponse => "were reset before the answer",
        Cause::ResetInResponse => "were reset during the answer",
        Cause::ClosedBeforeResponse => "were closed before the answer",
        Cause::ClosedInResponse => "were closed during the answer",
        Cause::MalformedResponse => "got no valid answer",
        Cause::NotHttp2 => "found no HTTP/2 on the connection",
        Cause::NoStream => "got no stream in time",
        Cause::StreamRefused => "were refused a stream",
        Cause::StreamReset => "had their stream reset",
        Cause::GoawayUnprocessed => "were left unprocessed when the server closed the connection (GOAWAY)",
        Cause::NoWebSockets => "found a server that takes no WebSockets over HTTP/2",
        Cause::TunnelCut => "were WebSockets that ended without a close frame",
        Cause::TunnelClosed => "were WebSockets that the server closed with an error",
        Cause::StreamUnended => "got a stream of tokens that did not announce its end",
        Cause::StreamError => "got an error within a stream of tokens",
    }
}
