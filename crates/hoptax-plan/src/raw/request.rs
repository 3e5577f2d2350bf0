//! Targets, expectations and timeouts in YAML.

use super::forms::one_of;
use super::{
    ApiText, Bytes, Ordered, Placed, RawEvents, RawLlm, RawMessage, RawWebSocket, Short, StatusText,
    SteadyRate, Sweep, Text, Time,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// A request to send.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "target")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTarget {
    /// Unique name of the target. Default: its method and path; with `llm`, its API, model, prompt and
    /// tokens.
    pub(crate) name: Option<Placed<String>>,
    /// Weight of the target in the mix. The target gets this share of the requests: its weight ÷ the sum of
    /// all weights. Default: 1.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) weight: Option<Placed<u32>>,
    /// Method. Default: GET.
    pub(crate) method: Option<Placed<String>>,
    /// Path and query. They start with `/` and can contain templates. Default: /, or that of the API.
    #[schemars(with = "Option<String>")]
    pub(crate) path: Option<Placed<String>>,
    /// Headers, in the order in which they are sent. Values can contain templates, or be in a file. If the
    /// value is a list, the header is repeated. Default: none. If `host` is missing, hoptax adds it with the
    /// server's address.
    pub(crate) headers: Option<Ordered<Sweep<Short<RawHeaderFile, Text>>>>,
    /// Body of the request: a size, or a mapping with one of `size`, `text` and `file`. Default: none.
    pub(crate) body: Option<Placed<Short<RawRequestBody, Bytes>>>,
    /// A gRPC call instead of `method`, `path` and `body`; `headers` are its metadata. It needs `http: 2` in
    /// the load. Default: none.
    pub(crate) grpc: Option<Placed<RawGrpc>>,
    /// A WebSocket instead of `method` and `body`. Default: none.
    pub(crate) websocket: Option<Placed<RawWebSocket>>,
    /// Whether the response has server-sent events: true, false, or, if the upstream already runs, a mapping
    /// with `count`, `every` or both. Default: true for a GET if the built-in upstream has `events`.
    pub(crate) events: Option<Placed<Short<RawEvents, bool>>>,
    /// A request to a language model instead of `method` and `body`: its API, or a mapping. Default: none.
    pub(crate) llm: Option<Placed<Short<RawLlm, ApiText>>>,
    /// Checks that a response must pass to count as a success. Default: the status is 200 to 399, or OK for a
    /// gRPC call, or 101 for a WebSocket.
    pub(crate) expect: Option<RawExpect>,
}

/// A gRPC call.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "grpc")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawGrpc {
    /// Full name of the service, such as echo.Echo.
    pub(crate) service: Placed<String>,
    /// Name of the method, such as Say.
    pub(crate) method: Placed<String>,
    /// Which side sends a stream of messages. Default: that of the method in `proto`, or unary.
    pub(crate) kind: Option<Placed<RawCallKind>>,
    /// Number of messages in each stream of a call. Only with streams. Default: 10.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) messages: Option<Placed<u32>>,
    /// Time between two messages of a stream. Only with streams. Default: 0s; in both-way streams, the next
    /// message is then sent when the answer to the last one has arrived.
    pub(crate) every: Option<Placed<Time>>,
    /// The message that is sent: a size, or a mapping with one of `size`, `text`, `file` and `json`. Default:
    /// an empty message.
    pub(crate) message: Option<Placed<Short<RawMessage, Bytes>>>,
    /// The `.proto` file that declares the method. A relative path starts from the plan's directory. Default:
    /// none.
    pub(crate) proto: Option<Placed<String>>,
    /// Compression of the message. Not with streams. Default: off.
    pub(crate) compression: Option<Placed<RawCompression>>,
    /// Time limit that is sent to the server (`grpc-timeout`). Default: none; `timeout` limits the wait.
    pub(crate) deadline: Option<Placed<Time>>,
}

/// Which side of a call sends a stream of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "grpc-kind")]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawCallKind {
    /// Both sides send one message.
    Unary,
    /// The server sends a stream.
    ServerStream,
    /// The client sends a stream.
    ClientStream,
    /// Both sides send a stream.
    BothWays,
}

/// Compression of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "grpc-compression")]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawCompression {
    /// None.
    Off,
    /// gzip, and responses may be compressed too.
    Gzip,
}

/// A secret header value in a file, such as a bearer token. hoptax does not write the value into the run
/// directory.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "header-file")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawHeaderFile {
    /// File with one line, the value. A relative path starts from the plan's directory.
    pub(crate) file: Placed<String>,
    /// Text before the value, such as "Bearer ". Default: none.
    pub(crate) prefix: Option<Placed<Text>>,
}

/// Body of a request. Give exactly one of `size`, `text` and `file`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "request-body", transform = one_of("size text file"))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRequestBody {
    /// Number of bytes. The body is a fixed printable pattern of this length.
    pub(crate) size: Option<Placed<Bytes>>,
    /// The text of the body.
    pub(crate) text: Option<Placed<Text>>,
    /// File with the content of the body. A relative path starts from the plan's directory.
    pub(crate) file: Option<Placed<String>>,
    /// Whether templates such as `{{seq}}` in the body are expanded. Default: true for `text`, false for
    /// `file`.
    pub(crate) template: Option<Placed<bool>>,
    /// Whether the body is sent in chunks (`transfer-encoding: chunked`): true, or a mapping with
    /// `chunk_size`, `pause` or both. Default: false, with a `content-length`.
    pub(crate) chunked: Option<Placed<Short<RawChunked, bool>>>,
}

/// Chunks of a body.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "chunked", extend("minProperties" = 1))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawChunked {
    /// Data in each chunk. Default: 16KiB.
    pub(crate) chunk_size: Option<Placed<Bytes>>,
    /// Time between two chunks: a slow upload. Default: 0s, the whole request is sent at once.
    pub(crate) pause: Option<Placed<Time>>,
}

/// Checks of responses. A response must pass all given checks.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "expect")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawExpect {
    /// Accepted statuses: a status, a class, a range, or a list of these. Default: 200-399.
    pub(crate) status: Option<Sweep<StatusText>>,
    /// Accepted statuses of a gRPC call: a name such as ok or not-found, or a list. Default: ok.
    pub(crate) grpc: Option<Sweep<Text>>,
    /// Checks of the body. Default: none.
    pub(crate) body: Option<Placed<RawBodyExpect>>,
    /// Headers that the response must have, with their values. The value `any` accepts every value. Default:
    /// none.
    pub(crate) headers: Option<Ordered<Placed<Text>>>,
    /// Whether bodies differ between responses. If true, hoptax does not compare the gateway's bodies with
    /// direct's bodies. Default: false.
    pub(crate) varies: Option<bool>,
    /// Names of response headers that gateways may change: a name or a list. hoptax does not compare these
    /// headers with direct's headers, and the report shows how they differed. Default: none.
    pub(crate) ignore_headers: Option<Sweep<Text>>,
    /// Rate limit of `external` gateways, such as 1000/s. Their rejections (429, 503) then count as intended.
    pub(crate) rate_limit: Option<Placed<SteadyRate>>,
}

/// Checks of a response body.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "expect-body", extend("minProperties" = 1))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBodyExpect {
    /// Text that the body must contain. If this is a list, the body must contain every text of the list.
    pub(crate) contains: Option<Sweep<Text>>,
    /// Text that the body must be equal to.
    pub(crate) equals: Option<Placed<Text>>,
    /// Length of the body: a size, or a mapping with `least`, `most` or both.
    pub(crate) length: Option<Placed<Short<RawLength, Bytes>>>,
}

/// Bounds of a length. A length that equals a bound is accepted.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "length", extend("minProperties" = 1))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLength {
    /// Minimum length. Default: 0B.
    pub(crate) least: Option<Placed<Bytes>>,
    /// Maximum length. Default: no limit.
    pub(crate) most: Option<Placed<Bytes>>,
}

/// Limits of the warm-up of a process.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "warmup", extend("minProperties" = 1))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawWarmUp {
    /// Maximum time under load for each process. A process that has not settled by then gets the finding
    /// `still-warming`. Default: 60s.
    pub(crate) at_most: Option<Placed<Time>>,
    /// Whether services that already run get full load during their warm-up: as many requests as they can
    /// answer. Otherwise they never get more load than the plan says. Default: false.
    pub(crate) overload_external: Option<bool>,
}

/// Timeouts. `connect` and `first_byte` have the value of `total` by default.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "timeout", extend("minProperties" = 1))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTimeouts {
    /// Time limit for each connect. The TLS handshake that follows has a separate limit of the same length.
    pub(crate) connect: Option<Placed<Time>>,
    /// Time limit from sending a request to the first byte of its response.
    pub(crate) first_byte: Option<Placed<Time>>,
    /// Time limit from sending a request to the end of its response. Default: 3s.
    pub(crate) total: Option<Placed<Time>>,
}
