//! The upstream, and how to connect to services that already run.

use super::delay::Delay;
use super::llm::UpstreamLlm;
use crate::units::show_sizes;
use hoptax_format::grpc::Status;
use hoptax_format::messages::{self, StreamSpec};
use hoptax_format::spec::ProxyProtocol;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The upstream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Upstream {
    /// `hoptax upstream`, which hoptax starts and stops in the run.
    BuiltIn(BuiltInUpstream),
    /// An upstream that already runs.
    Running(Running),
}

impl Upstream {
    /// Whether requests reach the upstream over a Unix socket.
    pub fn is_on_unix_socket(&self) -> bool {
        match self {
            Self::BuiltIn(built_in) => !built_in.listen.is_ports(),
            Self::Running(running) => running.is_on_unix_socket(),
        }
    }
}

/// Settings of the built-in upstream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BuiltInUpstream {
    /// Number of listeners.
    pub instances: u32,
    /// Status of responses.
    pub status: u16,
    /// Headers added to every response.
    pub headers: Vec<(String, String)>,
    /// Body of responses.
    pub body: Body,
    /// Delay of each response.
    pub delay: Delay,
    /// Share of requests that get a response with status 500 instead, 0 to 1.
    pub failures: f64,
    /// Port of the first instance; absent if the kernel chose it.
    pub port: Option<u16>,
    /// Whether it listens on ports or on Unix sockets.
    #[serde(default, skip_serializing_if = "Listen::is_ports")]
    pub listen: Listen,
    /// Answers to particular paths. Other requests get the answer above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answer>,
    /// Paths of gRPC methods and of WebSockets with many messages. Other calls get one message, and other
    /// WebSockets get each message back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<PathStream>,
    /// Answer to requests that accept `text/event-stream`. Absent if they get the same answer as others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<UpstreamEvents>,
    /// The language model that it plays. Absent if requests to language models get the same answer as others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<UpstreamLlm>,
    /// Whether WebSockets whose client offers to compress messages are compressed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub websocket_compression: bool,
    /// gRPC status of calls without one of the answers above; absent for OK. Other statuses have no message.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "hoptax_format::grpc::optional_name")]
    pub grpc_status: Option<Status>,
}

/// A path with many messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathStream {
    /// Path, without query. Of a gRPC method: `/SERVICE/METHOD`.
    pub path: String,
    /// The messages of a call or of a WebSocket. The carrier says which of the two the path is.
    pub stream: StreamSpec,
}

/// Server-sent events that the built-in upstream answers. The head of the response is sent after the usual
/// delay of responses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamEvents {
    /// Number of events of a response; [`messages::ENDLESS`] if they end only with the connection.
    pub count: u32,
    /// Time between the moments when two writes are due. With 0, all events are due at once.
    pub gap: Duration,
    /// Data of each event, bytes; at least [`Stamp::TEXT_LENGTH`](messages::Stamp::TEXT_LENGTH). They are one
    /// line, which begins with a stamp: the number of the event, from 0, and when it was due.
    pub bytes: u32,
    /// Time from the head of the response until the first event is due.
    pub first: Duration,
    /// Number of events that are due at the same time and are sent in one write; at least 1.
    pub per_write: u32,
    /// Number of writes that an event is sent in, one after another; at least 1. More than one only if
    /// `per_write` is 1.
    pub split: u32,
    /// Time without data after which the upstream sends a comment. Absent if it sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Duration>,
}

impl UpstreamEvents {
    /// Data of an event if the plan does not say otherwise, bytes.
    pub const USUAL_BYTES: u32 = 64;
    /// Number of events if the plan does not say otherwise.
    pub const USUAL_COUNT: u32 = 10;

    /// When the event with this number is due, counted from the head of the response.
    pub fn due(&self, number: u32) -> Duration {
        self.first + self.gap * (number / self.per_write.max(1))
    }

    /// Time from the head of the response until the last event is due. 0 if the events do not end.
    pub fn length(&self) -> Duration {
        if self.count == messages::ENDLESS {
            return Duration::ZERO;
        }
        let writes = self.count.saturating_sub(1) / self.per_write.max(1);
        self.first.saturating_add(self.gap.saturating_mul(writes))
    }

    /// The stream that a client expects.
    pub fn stream(&self) -> StreamSpec {
        StreamSpec::events(self.count, u64::try_from(self.gap.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl BuiltInUpstream {
    /// One instance on a port, which answers each request at once, with status 200 and this body.
    pub fn with_body(body: Body) -> Self {
        Self {
            instances: 1,
            status: 200,
            headers: Vec::new(),
            body,
            delay: Delay::Fixed(Duration::ZERO),
            failures: 0.0,
            port: None,
            listen: Listen::Ports,
            answers: Vec::new(),
            streams: Vec::new(),
            events: None,
            llm: None,
            websocket_compression: false,
            grpc_status: None,
        }
    }

    /// Whether two equal requests can get different answers because of [`BuiltInUpstream::answers`].
    pub fn varies(&self) -> bool {
        let same = |one: &Answer, other: &Answer| one.method == other.method && one.path == other.path;
        let repeated = |(index, answer): (usize, &Answer)| {
            self.answers[..index].iter().any(|earlier| same(earlier, answer))
        };
        self.answers.iter().any(|answer| answer.sizes.len() > 1)
            || self.answers.iter().enumerate().any(repeated)
    }
}

/// Where the built-in upstream listens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Listen {
    /// On ports.
    #[default]
    Ports,
    /// On Unix sockets. The path is that of the first instance; absent if hoptax chooses it.
    Unix(Option<PathBuf>),
}

impl Listen {
    /// Whether it listens on ports.
    pub fn is_ports(&self) -> bool {
        *self == Self::Ports
    }
}

/// What the built-in upstream answers to requests for one path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Method; absent for any.
    pub method: Option<String>,
    /// Path without query. `*` is one or more characters other than `/`.
    pub path: String,
    /// Answers with the same method and path are drawn by weight.
    pub weight: u32,
    /// Status of the response.
    pub status: u16,
    /// Sizes of the body, bytes, with their shares, which add up to 1.
    pub sizes: Vec<(f64, u64)>,
    /// Delay of the response.
    pub delay: Delay,
}

impl Answer {
    /// Mean size of the body, bytes.
    pub fn mean_size(&self) -> f64 {
        self.sizes.iter().map(|(share, size)| share * *size as f64).sum()
    }
}

/// A request or response body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Body {
    /// A fixed printable pattern with this number of bytes.
    Size(u64),
    /// Generated content that compresses like real content of this kind.
    Like {
        /// The kind of content.
        kind: BodyKind,
        /// Number of bytes.
        size: u64,
    },
    /// A text.
    Text(String),
    /// The content of a file. The file is read once, before any service is started.
    File(PathBuf),
}

/// Kind of a generated body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BodyKind {
    /// English words.
    Text,
    /// A JSON list of objects.
    Json,
}

impl BodyKind {
    /// Name in plans and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }

    /// The kind with this name.
    ///
    /// # Errors
    /// If there is no such kind. The message lists them.
    pub fn parse(name: &str) -> Result<Self, String> {
        let known = [Self::Text, Self::Json].into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| "use text or json".to_owned())
    }
}

/// Prints an answer as it is typed in a plan.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        f.write_str("{ ")?;
        if let Some(method) = &self.method {
            write!(f, "method: {method}, ")?;
        }
        let sizes = quoted(&show_sizes(&self.sizes));
        let (path, delay) = (quoted(&self.path), quoted(&self.delay.to_string()));
        write!(
            f,
            "path: {path}, weight: {}, status: {}, body: {sizes}, delay: {delay} }}",
            self.weight, self.status
        )
    }
}

/// An upstream that already runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// `http://host:port`, `https://host:port`, `http+unix:/path/to/socket` or `https+unix:…`, without a path
    /// of a request.
    pub url: String,
    /// TLS and credentials for connections to the upstream.
    #[serde(default)]
    pub access: Access,
    /// Id of the process for which CPU and memory are measured, together with its descendants. Absent if
    /// there is none.
    pub pid: Option<u32>,
    /// Where the upstream publishes its count of requests; absent if there is no ledger.
    pub ledger: Option<LedgerSource>,
}

impl Running {
    /// Whether the URL names a Unix socket.
    pub fn is_on_unix_socket(&self) -> bool {
        self.url.starts_with("http+unix:") || self.url.starts_with("https+unix:")
    }
}

/// TLS and credentials for a service that already runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// TLS; absent for plain connections.
    pub tls: Option<TlsAccess>,
    /// File that contains a bearer token on a single line; absent if no token is needed.
    pub token_file: Option<PathBuf>,
    /// Which addresses of the URL's name are used.
    #[serde(default)]
    pub resolve: Resolve,
    /// Version of the PROXY protocol's header at the start of each connection. Absent if none is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// How requests ask the gateway, if it is a forward proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyForm>,
    /// File with `USER:PASSWORD` for the forward proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_credentials: Option<PathBuf>,
}

/// How requests ask a forward proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProxyForm {
    /// They name the whole URL of the upstream (RFC 9112, section 3.2.2).
    Forward,
    /// They go through tunnels that CONNECT opens (RFC 9110, section 9.3.6).
    Connect,
}

/// Which addresses of a name are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Resolve {
    /// All that accept connections, in turn.
    #[default]
    All,
    /// The first that accepts connections.
    First,
}

/// TLS to a service that already runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsAccess {
    /// Name or address for which the service's certificate must be valid.
    pub server_name: String,
    /// PEM file with the authorities that are trusted to sign the service's certificate. If absent, the
    /// authorities that the system trusts are used.
    pub authority: Option<PathBuf>,
    /// Client certificate to present; absent if there is none.
    pub client_certificate: Option<CertificateFiles>,
    /// Whether any certificate of the service is accepted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
}

/// PEM files of a certificate chain and its private key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateFiles {
    /// The certificate chain. The client's own certificate comes first.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// A count of requests that an upstream publishes over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerSource {
    /// Address to read the count from: `http://host:port`. If absent, the count is read from the upstream's
    /// own address.
    pub url: Option<String>,
    /// Path, beginning with `/`.
    pub path: String,
    /// Format of the response.
    pub kind: SelectorKind,
    /// Selectors of the values in the response that count requests. The ledger is the sum of these values.
    pub select: Vec<String>,
}

impl LedgerSource {
    /// Default path of the metrics, the same as in Prometheus.
    pub const USUAL_PATH: &str = "/metrics";
}

/// Format that a number is read from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "selector-kind")]
#[serde(rename_all = "lowercase")]
pub enum SelectorKind {
    /// Prometheus text format.
    #[default]
    Prometheus,
    /// A table with a line of column names.
    Csv,
    /// A JSON document.
    Json,
    /// Any text.
    Regex,
}
