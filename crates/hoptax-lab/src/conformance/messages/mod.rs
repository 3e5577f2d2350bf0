//! Cases of server-sent events, of WebSockets and of requests to language models, over HTTP/1.1. The upstream
//! is scripted: it answers each path or prompt as one case needs, and records what it received. Each case
//! runs against the upstream itself and against the gateway.

mod events;
mod frames;
mod link;
mod llm;
mod model;
mod script;
mod sockets;
mod state;
#[cfg(test)]
mod tests;
mod upstream;

pub use llm::{ANTHROPIC_CASES, OPENAI_CASES};
pub use upstream::MessagesUpstream;

use super::case_of_rule::case_of_rule;
use super::http2::side::{AT_ONCE, Outcome, compare, on_both};
use crate::concurrent::concurrently;
use crate::features::Change;
use link::Side;
use std::net::SocketAddr;
use std::time::Duration;

/// How long to wait for data that a gateway may never pass on, such as an event. Only gateways that differ
/// cause this wait.
const PATIENCE: Duration = Duration::from_secs(3);

case_of_rule! {
    /// One rule of server-sent events, of WebSockets or of an API of language models.
    MessagesCase
}

/// Source of rules about event streams: the HTML standard.
const HTML: &str = "HTML, section 9.2";
/// Source of rules about WebSockets.
const RFC: &str = "RFC 6455";
/// Source of rules about the end of a WebSocket.
const CLOSING: &str = "RFC 6455, section 7";
/// Source of rules about the end of a TCP connection.
const TCP: &str = "RFC 9293, section 3.6";

/// All cases of server-sent events, in the order of the test.
pub const EVENTS_CASES: [MessagesCase; 11] = [
    case("events-head", "the head of the response before the first event", HTML, events::head),
    case("events-first", "the first event before the second is sent", HTML, events::first),
    case("events-each", "each event by itself", HTML, events::each),
    case("events-comment", "a comment without an event", HTML, events::comment),
    case("events-line-ends", "lines that end with CR, LF and CRLF", HTML, events::line_ends),
    case("events-mark", "a byte order mark", HTML, events::mark),
    case("events-last-id", "the headers of a client that connects again", HTML, events::last_id),
    case("events-silence", "a time without an event", HTML, events::silence),
    case("events-end", "the end of the stream", "RFC 9112, section 7.1", events::end),
    case("events-abort", "a stream that ends too early", "RFC 9112, section 8", events::abort),
    case("events-leave", "a client that leaves", "RFC 9112, section 9.6", events::leave),
];

/// All cases of WebSockets, in the order of the test.
pub const WEBSOCKET_CASES: [MessagesCase; 18] = [
    case("websocket-handshake", "the handshake", "RFC 6455, section 4", sockets::handshake),
    case("websocket-subprotocol", "an offered and a chosen subprotocol", RFC, sockets::subprotocol),
    case("websocket-extension", "an offered and a chosen extension", RFC, sockets::extension),
    case("websocket-refused", "a handshake that the upstream refuses", RFC, sockets::refused),
    case("websocket-early", "a message together with the answer to the handshake", RFC, sockets::early),
    case("websocket-types", "text and binary messages", RFC, sockets::types),
    case("websocket-1m", "a message of 1 MiB", RFC, sockets::large),
    case("websocket-fragments", "a message in three frames", RFC, sockets::fragments),
    case("websocket-1000", "1,000 small messages", RFC, sockets::many),
    case("websocket-client-ping", "a ping of the client", "RFC 6455, section 5.5", sockets::client_ping),
    case("websocket-server-ping", "a ping of the upstream", "RFC 6455, section 5.5", sockets::server_ping),
    case("websocket-client-close", "a close code of the client", CLOSING, sockets::client_close),
    case("websocket-server-close", "a close code of the upstream", CLOSING, sockets::server_close),
    case("websocket-silence", "a time without a message", RFC, sockets::silence),
    case("websocket-server-end", "an upstream that leaves without close frame", RFC, sockets::server_end),
    case("websocket-client-end", "a client that leaves without close frame", RFC, sockets::client_end),
    case("websocket-client-half", "a client that only stops sending", TCP, sockets::client_half),
    case("websocket-close-behind-data", "a close frame behind 256 KiB", RFC, sockets::close_behind_data),
];

/// Runs `cases` against the upstream itself and against the gateway. Returns the names of the cases, with how
/// the gateway differs. Several cases run at the same time, because the upstream knows each request by its
/// number.
///
/// # Errors
/// If the upstream does not keep a rule.
pub(super) fn observe(
    cases: &'static [MessagesCase],
    upstream: &MessagesUpstream,
    gateway: SocketAddr,
    change: &Change,
    model: &str,
    silence: Duration,
) -> anyhow::Result<Vec<(&'static str, Option<String>)>> {
    let (upstream_at, shared) = (upstream.address(), &upstream.shared);
    let patience = PATIENCE;
    let there =
        Side { address: upstream_at, upstream: shared, prefix: "", headers: &[], model, silence, patience };
    let headers = [&change.headers[..], &change.replacements].concat();
    let here = Side { address: gateway, prefix: &change.prefix, headers: &headers, ..there };
    let outcomes = on_both(&[there, here], |side| concurrently(AT_ONCE, cases, |case| (case.test)(side)));
    let cases = cases.iter().zip(outcomes);
    cases.map(|(case, outcomes)| compare((case.name, case.rule), outcomes)).collect()
}
