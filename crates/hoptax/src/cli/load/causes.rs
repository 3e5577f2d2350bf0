//! Descriptions of the causes of failures.

use hoptax_format::record::Cause;

pub(super) fn describe(cause: Cause) -> &'static str {
    match cause {
        Cause::ConnectRefused => "connection refused: no server listens there",
        Cause::ConnectTimeout => "not connected within --connect-timeout",
        Cause::ConnectReset => "connect was reset",
        Cause::Unreachable => "no route to the address",
        Cause::PortsExhausted => "all local ports in use (see --source)",
        Cause::DescriptorsExhausted => "no file descriptor or memory for a socket",
        Cause::ConnectFailed => "connect failed for another reason",
        Cause::ProxyRefused => "no tunnel through the proxy (CONNECT)",
        Cause::TlsTimeout => "no TLS handshake within --connect-timeout",
        Cause::TlsCertificate => "certificate rejected (see --ca)",
        Cause::TlsRefused => "TLS refused by the server",
        Cause::TlsClosed => "closed during the TLS handshake",
        Cause::TlsMalformed => "malformed TLS",
        Cause::FirstByteTimeout => "no byte within --first-byte-timeout",
        Cause::ResponseTimeout => "no response within --timeout",
        Cause::ReadTimeout => "response not complete within --timeout",
        Cause::ResetBeforeResponse => "reset before the response",
        Cause::ResetInResponse => "reset during the response",
        Cause::ClosedBeforeResponse => "closed before the response",
        Cause::ClosedInResponse => "closed during the response",
        Cause::MalformedResponse => "malformed response",
        Cause::NotHttp2 => "the server does not speak HTTP/2 there",
        Cause::NoStream => "no stream allowed within --timeout",
        Cause::StreamRefused => "stream refused by the server",
        Cause::StreamReset => "stream reset by the server",
        Cause::GoawayUnprocessed => "connection closed (GOAWAY) unprocessed",
        Cause::NoWebSockets => "the server takes no WebSockets over HTTP/2",
        Cause::TunnelCut => "WebSocket ended without a close frame",
        Cause::TunnelClosed => "WebSocket closed by the server with an error",
        Cause::StreamUnended => "stream of tokens did not announce its end",
        Cause::StreamError => "error within a stream of tokens",
    }
}
