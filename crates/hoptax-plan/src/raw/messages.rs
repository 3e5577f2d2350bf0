//! Messages in YAML: those of gRPC calls, server-sent events and WebSockets.

use super::forms::one_of;
use super::{Bytes, BytesText, JsonText, MessagesText, Placed, Short, Text, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// A message. Give exactly one of `size`, `text`, `file` and `json`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "message", transform = one_of("size text file json"))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawMessage {
    /// Number of bytes. The message is a fixed printable pattern of this length.
    pub(crate) size: Option<Placed<Bytes>>,
    /// The bytes as a text.
    pub(crate) text: Option<Placed<Text>>,
    /// File with the bytes. A relative path starts from the plan's directory.
    pub(crate) file: Option<Placed<String>>,
    /// The message as JSON: a mapping, or a text. It needs `proto` in `grpc`.
    pub(crate) json: Option<Placed<JsonText>>,
}

/// Server-sent events of the built-in upstream. Each event has a number and the time when it was due.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "upstream-events")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawUpstreamEvents {
    /// Number of events of a response, or endless. Default: 10.
    pub(crate) count: Option<Placed<MessagesText>>,
    /// Time between two writes. Default: 0s, all events are due at once.
    pub(crate) gap: Option<Placed<Time>>,
    /// Length of the data of each event. Default: 64B.
    pub(crate) bytes: Option<Placed<BytesText>>,
    /// Time from the head of the response until the first event. Default: 0s.
    pub(crate) first: Option<Placed<Time>>,
    /// Number of events that are sent in one write. Default: 1.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) per_write: Option<Placed<u32>>,
    /// Number of writes that each event is sent in. Not with `per_write`. Default: 1.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) split: Option<Placed<u32>>,
    /// Time without data after which the upstream sends a comment. Default: none.
    pub(crate) heartbeat: Option<Placed<Time>>,
}

/// Server-sent events that a response has. For an upstream that already runs.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "events", extend("minProperties" = 1))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawEvents {
    /// Number of events of a response, or endless. Default: any number is right.
    pub(crate) count: Option<Placed<MessagesText>>,
    /// Time between two events. Default: 0s.
    pub(crate) every: Option<Placed<Time>>,
}

/// A WebSocket. Each request is a handshake, the messages, and the close frames of both sides.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "websocket")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawWebSocket {
    /// Who sends the messages. Default: echo.
    pub(crate) kind: Option<Placed<RawWebSocketKind>>,
    /// Number of messages, or endless. Default: 10; any number is right if an upstream that already runs
    /// pushes them.
    pub(crate) messages: Option<Placed<MessagesText>>,
    /// Time between two messages. Default: 0s; with `echo`, the next message is then sent when the answer to
    /// the last one has arrived.
    pub(crate) every: Option<Placed<Time>>,
    /// The message that the client sends: a size, or a mapping with one of `size`, `text` and `file`. Only
    /// with `echo`. Default: 64B.
    pub(crate) message: Option<Placed<Short<RawMessage, Bytes>>>,
    /// Whether the client offers to compress messages (permessage-deflate), and the built-in upstream
    /// accepts. Default: none.
    pub(crate) compression: Option<Placed<RawWebSocketCompression>>,
}

/// Who sends the messages of a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "websocket-kind")]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawWebSocketKind {
    /// The client, and the server sends each message back.
    Echo,
    /// The server. Each connection has its own schedule.
    Push,
    /// The server. All connections of an instance get each message at the same time.
    FanOut,
}

/// Compression of the messages of a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "websocket-compression")]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawWebSocketCompression {
    /// None.
    None,
    /// permessage-deflate; each message is compressed by itself.
    Deflate,
}
