//! The load spec: the input of the generator, one JSON document on standard input.
//!
//! The same document can start a generator locally, in a container, over ssh or in a pod. It includes the
//! contents of all files that the load needs: tokens, certificates, bodies.

use crate::address::Address;
use crate::clock::SECOND;
use crate::grpc::Status;
use crate::messages::StreamSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Version of the format of [`LoadSpec`].
pub const SPEC_SCHEMA: u32 = 2;

/// Maximum number of targets of a load. If there are several targets, each worker of the engine keeps two
/// histograms of 216 KiB per target.
pub const MOST_TARGETS: usize = 256;
/// Maximum number of streams on a connection. Most servers allow 100 to 250 streams, and Envoy 1,024, so more
/// streams would only wait.
pub const MOST_STREAMS: u32 = 1000;
/// Maximum number of requests in flight of a load with several streams on a connection. The generator needs
/// memory for each.
pub const MOST_IN_FLIGHT: u64 = 1_000_000;
/// Maximum rate accepted, requests per second. It is far more than any machine can serve.
pub const HIGHEST_RATE: f64 = 1e7;
/// Minimum rate accepted above zero, requests per second: one request in a thousand seconds.
pub const LOWEST_RATE: f64 = 1e-3;

/// A load for one set of addresses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// Version of this format: [`SPEC_SCHEMA`].
    pub schema: u32,
    /// Addresses to connect to. Connection `i` uses address `i mod n`, where `n` is the number of addresses.
    pub addresses: Vec<Address>,
    /// Local addresses to connect from. Connection `i` uses source `(i / n) mod m`, where `n` is the number
    /// of addresses and `m` is the number of sources. If empty, the kernel chooses.
    #[serde(default)]
    pub sources: Vec<IpAddr>,
    /// Tunnel that every connection opens first. `addresses` are then the addresses of a forward proxy.
    /// Absent if there is no tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<Tunnel>,
    /// TLS settings for every connection. Absent if connections do not use TLS.
    #[serde(default)]
    pub tls: Option<TlsSpec>,
    /// Version of the PROXY protocol's header that each connection begins with, before TLS. Absent if none is
    /// sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// HTTP version of the requests.
    #[serde(default)]
    pub http: HttpVersion,
    /// Maximum number of requests in flight on a connection; at least one. More than one needs HTTP/2. The
    /// server can allow fewer.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub streams: u32,
    /// Maximum number of requests on a connection. After the last request, the connection is replaced. With
    /// 1, there is no keep-alive. If absent, there is no limit.
    #[serde(default)]
    pub requests_per_connection: Option<u32>,
    /// Which requests are sent again instead of failing.
    #[serde(default)]
    pub retry: Retry,
    /// Targets to request; at least one.
    pub targets: Vec<TargetSpec>,
    /// Contents of the files that `{{line NAME}}` reads, by file name.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// When requests are due.
    pub shape: Shape,
    /// Number of connections of all workers together; at least one.
    pub connections: u32,
    /// Duration of the warm-up before the measured time, nanoseconds. The results of the warm-up are
    /// discarded.
    pub warmup_ns: u64,
    /// Duration of the measured time, which follows the warm-up, nanoseconds. With stages, it is the sum of
    /// their durations.
    pub duration_ns: u64,
    /// Maximum number of scheduled requests. The load stops at this number, even if `duration_ns` has not
    /// passed yet.
    pub requests: Option<u64>,
    /// Timeouts of connects and responses.
    pub timeouts: Timeouts,
    /// Number of threads; at least one. Each thread has its own connections, histograms and event loop.
    pub workers: u32,
    /// CPUs to pin the workers to: worker `i` runs on `cpus[i mod n]`. If empty, workers are not pinned.
    pub cpus: Vec<u32>,
    /// True if other processes that handle the requests run on `cpus` too.
    #[serde(default)]
    pub shares_cpus: bool,
    /// True to end the load early if every request fails: no response was ever complete, and five requests
    /// per connection have failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gives_up: bool,
    /// Seed of all random numbers.
    pub seed: u64,
    /// True to record windows.
    pub windows: bool,
    /// Length of a window, nanoseconds; at least 1 ms. Absent for [`crate::record::WINDOW_NS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ns: Option<u64>,
    /// True if responses carry the upstream's timestamps ([`crate::stamp`]). The timestamps split a service
    /// time into request path, the upstream's own time, and response path.
    #[serde(default)]
    pub stamps: bool,
    /// Number of requests whose moments are kept ([`crate::moments`]), of all workers together. Needs
    /// `stamps`. Absent if none are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moments: Option<u32>,
    /// The part of the load that this generator sends. Absent if it sends the whole load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<LoadPart>,
}

/// A part of a load that several generators send together.
///
/// `shape`, `connections` and `requests` of the spec are those of the whole load. `workers` and `cpus` are
/// those of this part; all parts must have the same number of workers. Worker `i` of this part is worker `i ·
/// of + index` of the whole load. So all parts together open the same connections and schedule the same
/// requests as one generator with `workers · of` workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPart {
    /// Number of this part, from 0.
    pub index: u32,
    /// Number of parts.
    pub of: u32,
}

impl LoadSpec {
    /// A closed loop over one connection for one second, with one worker and nothing optional. Callers change
    /// what they need.
    pub fn closed(addresses: Vec<Address>, targets: Vec<TargetSpec>) -> Self {
        Self {
            schema: SPEC_SCHEMA,
            addresses,
            sources: Vec::new(),
            tunnel: None,
            tls: None,
            proxy_protocol: None,
            http: HttpVersion::Http11,
            streams: 1,
            requests_per_connection: None,
            retry: Retry::Off,
            targets,
            files: BTreeMap::new(),
            shape: Shape::Closed,
            connections: 1,
            warmup_ns: 0,
            duration_ns: SECOND,
            requests: None,
            timeouts: Timeouts::all(SECOND),
            workers: 1,
            cpus: Vec::new(),
            shares_cpus: false,
            gives_up: false,
            seed: 1,
            windows: true,
            window_ns: None,
            stamps: false,
            moments: None,
            part: None,
        }
    }

    /// Longest time that a response takes, nanoseconds. The timeout begins again with each message of a
    /// stream, so the length of the longest stream is added to it.
    pub fn longest_response(&self) -> u64 {
        let streams = self.targets.iter().filter_map(|target| target.stream);
        let longest = streams.map(StreamSpec::length_ns).max().unwrap_or(0);
        self.timeouts.total_ns.saturating_add(longest)
    }

    /// Length of a window, nanoseconds.
    pub fn window_length(&self) -> u64 {
        self.window_ns.unwrap_or(crate::record::WINDOW_NS)
    }

    /// Maximum number of requests in flight: connections × streams.
    pub fn concurrency(&self) -> u64 {
        u64::from(self.connections) * u64::from(self.streams)
    }

    /// Number of workers that this generator starts: at most one for each connection.
    pub fn own_workers(&self) -> u32 {
        match self.part {
            Some(_) => self.workers,
            None => self.workers.min(self.connections),
        }
    }

    /// Number of workers that all parts together start.
    pub fn all_workers(&self) -> u32 {
        self.own_workers().saturating_mul(self.part.map_or(1, |part| part.of))
    }

    /// Number of a worker of this generator among the workers of all parts.
    pub fn place(&self, worker: u32) -> u32 {
        self.part.map_or(worker, |part| worker * part.of + part.index)
    }

    /// Number of connections that this generator opens.
    pub fn own_connections(&self) -> u32 {
        let (total, all) = (u64::from(self.connections), self.all_workers());
        let own = (0..self.own_workers()).map(|worker| share(total, self.place(worker), all));
        own.sum::<u64>() as u32
    }
}

/// The share of worker `place` if `workers` workers divide `total` connections or requests.
pub fn share(total: u64, place: u32, workers: u32) -> u64 {
    let workers = u64::from(workers);
    total / workers + u64::from(u64::from(place) < total % workers)
}

/// Timeouts, nanoseconds. Each of them must be at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// Time limit for each connect. The TLS handshake after it has a separate time limit of the same length.
    pub connect_ns: u64,
    /// Maximum time from sending the request to the first byte of its response. It has no effect if it is not
    /// shorter than `total_ns`.
    pub first_byte_ns: u64,
    /// Maximum time from sending the request to the end of its response. It begins again with each message of
    /// a stream. If both sides send a stream, messages of the client after an unanswered one do not count.
    pub total_ns: u64,
}

impl Timeouts {
    /// Creates timeouts that are all `ns` nanoseconds long.
    pub fn all(ns: u64) -> Self {
        Self { connect_ns: ns, first_byte_ns: ns, total_ns: ns }
    }
}

/// Version of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyProtocol {
    /// Version 1, a line of text.
    V1,
    /// Version 2, binary.
    V2,
}

/// HTTP version of the requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.0. The request has the header `connection: keep-alive` if its connection may carry more than
    /// one request.
    #[serde(rename = "1.0")]
    Http10,
    /// HTTP/1.1.
    #[default]
    #[serde(rename = "1.1")]
    Http11,
    /// HTTP/2, by ALPN over TLS, and by prior knowledge without TLS.
    #[serde(rename = "2")]
    Http2,
}

fn one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

/// Which requests are sent again instead of failing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Retry {
    /// None. Each request is sent once.
    #[default]
    Off,
    /// A request on a reused connection that the peer closed or reset before the first byte of the response.
    /// If the method is idempotent ([`is_idempotent`]), the request is sent once more, on a new connection,
    /// as HTTP clients do (RFC 9112, section 9.3.1).
    IdleClose,
}

/// True if a request with this method can be sent again without harm (RFC 9110, section 9.2.2). Methods that
/// hoptax does not know count as not idempotent.
pub fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE" | "TRACE")
}

/// A tunnel that a connection to a forward proxy opens before its first request.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunnel {
    /// Host and port at the other end, such as `app.test:443`.
    pub authority: String,
    /// Value of the header `proxy-authorization`. Absent if the proxy needs no credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization: Option<String>,
    /// TLS settings of the connection to the proxy, which contains the tunnel. Absent if this connection is
    /// plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,
}

impl std::fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tunnel").field("authority", &self.authority).finish_non_exhaustive()
    }
}

/// Settings of a TLS client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSpec {
    /// Host name or IP address that the server's certificate must match. A host name is also sent as SNI.
    pub server_name: String,
    /// How the server's certificate is verified.
    pub verify: Verify,
    /// Client certificate, for servers that request it.
    pub client_certificate: Option<ClientCertificate>,
    /// True to resume earlier TLS sessions on new connections.
    pub resumption: bool,
    /// Protocols to offer by ALPN, in order of preference. If empty, the ALPN extension is not sent.
    pub alpn: Vec<String>,
    /// TLS versions to offer; at least one.
    pub versions: Vec<TlsVersion>,
    /// Cipher suites to offer, in order of preference. Names are the registered names, for example
    /// `TLS_AES_128_GCM_SHA256`. If empty, all supported suites are offered.
    #[serde(default)]
    pub cipher_suites: Vec<String>,
}

/// Which server certificates are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// Certificates that were signed by an authority that the generator's system trusts.
    System,
    /// Certificates that were signed by one of these authorities (PEM).
    Authorities(String),
    /// Any certificate: the server's identity is not verified.
    Nothing,
}

/// Certificate chain and private key of a client (PEM).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientCertificate {
    /// The certificate chain. It begins with the client's own certificate.
    pub chain: String,
    /// Private key of the client's own certificate.
    pub key: String,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCertificate").field("chain", &self.chain).finish_non_exhaustive()
    }
}

/// TLS version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    Tls13,
}

/// When requests are due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "lowercase", deny_unknown_fields)]
pub enum Shape {
    /// Closed loop: each connection sends its next request when the previous response has ended.
    Closed,
    /// Open loop: requests are due at scheduled times, no matter when responses arrive.
    Open {
        /// Requests per second over all workers.
        rate: Rate,
        /// Distribution of the scheduled times.
        arrivals: Arrivals,
    },
}

/// Requests per second of all workers together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Rate {
    /// A constant rate above zero.
    Fixed(f64),
    /// Stages, one after another. There must be at least one stage with a rate above zero. A stage with rate
    /// zero is a pause. During the warm-up, the rate is the mean rate of the first stage. If the first stage
    /// is a pause, the warm-up therefore sends nothing.
    Stages(Vec<Stage>),
}

/// A stage: a period during which the rate changes linearly from one value to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Requests per second at the beginning of the stage; zero or more.
    pub from: f64,
    /// Requests per second at the end of the stage; zero or more. If the rate is constant, this is the same
    /// value as `from`.
    pub to: f64,
    /// Duration of the stage, nanoseconds; at least 1.
    pub for_ns: u64,
}

impl Rate {
    /// Mean rate over the whole duration, or 0 if the duration is zero.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(rate) => *rate,
            Self::Stages(stages) => {
                let time: f64 = stages.iter().map(|stage| stage.for_ns as f64).sum();
                let due: f64 =
                    stages.iter().map(|stage| (stage.from + stage.to) / 2.0 * stage.for_ns as f64).sum();
                if time > 0.0 { due / time } else { 0.0 }
            }
        }
    }

    /// Rate during the warm-up: the fixed rate, or the mean rate of the first stage.
    pub fn of_warmup(&self) -> f64 {
        match self {
            Self::Fixed(rate) => *rate,
            Self::Stages(stages) => stages.first().map_or(0.0, |first| (first.from + first.to) / 2.0),
        }
    }

    /// Rate at `passed_ns` nanoseconds after the start of the measured time. After the last stage, it is the
    /// rate at the end of that stage.
    pub fn at(&self, passed_ns: u64) -> f64 {
        let stages = match self {
            Self::Fixed(rate) => return *rate,
            Self::Stages(stages) => stages,
        };
        let mut start = 0;
        for stage in stages {
            if passed_ns < start + stage.for_ns {
                let share = (passed_ns - start) as f64 / stage.for_ns as f64;
                return stage.from + (stage.to - stage.from) * share;
            }
            start += stage.for_ns;
        }
        stages.last().map_or(0.0, |stage| stage.to)
    }

    /// Maximum rate over all stages.
    pub fn highest(&self) -> f64 {
        match self {
            Self::Fixed(rate) => *rate,
            Self::Stages(stages) => stages.iter().map(|stage| stage.from.max(stage.to)).fold(0.0, f64::max),
        }
    }
}

/// Distribution of the scheduled times of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// One request every `1 / rate` seconds.
    Constant,
    /// Like `Constant`, but each request is moved by a random part of the interval between requests. The
    /// value is the maximum part in each direction: 0.1 is ±10 %. The parts are uniformly distributed.
    Jitter(f64),
    /// Poisson arrivals: exponentially distributed gaps with mean `1 / rate`, as with independent users.
    Poisson,
}

/// A request of the mix, and the checks of its response.
///
/// The following texts can contain templates: `path`, the values of headers and, if `body_is_template` is
/// true, the body. Templates are `{{seq}}`, `{{uuid}}`, `{{random LOW HIGH}}`, `{{line FILE}}` and `{{base64
/// …}}`. `\{{` is a literal `{{`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetSpec {
    /// Name of the target. It must be unique within the spec.
    pub name: String,
    /// Weight of this target, at least 1. The target's share of the requests is this weight divided by the
    /// sum of all weights.
    pub weight: u32,
    /// HTTP method, for example `GET`.
    pub method: String,
    /// Path and query, beginning with `/` (origin form).
    pub path: String,
    /// Headers in the order in which they are sent. `host` must be among them. `content-length` or, with
    /// `chunked`, `transfer-encoding` is added if there is a body.
    pub headers: Vec<(String, String)>,
    /// Body of the request, in base64 in the JSON document. If empty, the request has no body.
    #[serde(with = "base64_bytes")]
    pub body: Vec<u8>,
    /// True to expand templates in the body.
    #[serde(default)]
    pub body_is_template: bool,
    /// How the body is divided into chunks. Absent if it has a `content-length` instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunked: Option<Chunked>,
    /// True if the request is a gRPC call. It needs HTTP/2, unless `grpc_web` is true. Its body is a message
    /// with its prefix of five bytes ([`crate::grpc::body`]). The status of the call says whether it
    /// succeeded, and not the status of the response.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub grpc: bool,
    /// True if the call uses gRPC-Web, which needs no HTTP trailers: the response's body ends with the status
    /// of the call. Such a call can use HTTP/1.1 too. Needs `grpc`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub grpc_web: bool,
    /// Who sends how many messages in the call. The body is then one message without its prefix, and begins
    /// with room for a [stamp](crate::messages::Stamp). Absent if the call has one message in each direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamSpec>,
    /// Conditions that a successful response must meet. If none of them checks the status, the status must be
    /// 200 to 399, or OK for a gRPC call.
    #[serde(default)]
    pub checks: Vec<Check>,
}

impl TargetSpec {
    /// Creates a target for a spec with a single target, without checks and without templates in the body.
    pub fn only(method: &str, path: &str, headers: Vec<(String, String)>, body: Vec<u8>) -> Self {
        Self {
            name: format!("{method} {path}"),
            weight: 1,
            method: method.to_owned(),
            path: path.to_owned(),
            headers,
            body,
            ..Self::default()
        }
    }

    /// Texts of the target that may contain templates. A body that is not UTF-8 is not included.
    pub fn templates(&self) -> impl Iterator<Item = &str> {
        let body = self.body_is_template.then(|| std::str::from_utf8(&self.body).ok()).flatten();
        let values = self.headers.iter().map(|(_, value)| value.as_str());
        [self.path.as_str()].into_iter().chain(values).chain(body)
    }
}

/// How a request sends its body in chunks (`transfer-encoding: chunked`, RFC 9112, section 7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chunked {
    /// Data in each chunk, bytes; at least 1. The last chunk can be shorter.
    pub chunk_bytes: u64,
    /// Time between the beginnings of two chunks, nanoseconds. With 0, the whole request is sent at once.
    /// Otherwise the head and the first chunk are sent together, and then one chunk at a time.
    #[serde(default)]
    pub pause_ns: u64,
}

impl Chunked {
    /// Default of `chunk_bytes`, about what HTTP clients use.
    pub const USUAL_BYTES: u64 = 16 * 1024;
    /// Maximum number of chunks of a body. Bodies are kept in memory, and each chunk adds some bytes.
    pub const MOST_CHUNKS: u64 = 1_000_000;

    /// Number of chunks of a body with this many bytes.
    pub fn chunks(self, body: u64) -> u64 {
        body.div_ceil(self.chunk_bytes.max(1))
    }

    /// Time from the first chunk to the last chunk of a body with this many bytes, nanoseconds.
    pub fn pauses_ns(self, body: u64) -> u64 {
        self.chunks(body).saturating_sub(1).saturating_mul(self.pause_ns)
    }
}

/// A condition that a response must meet to count as successful. A response that does not meet it still
/// counts as completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// The status is in one of these ranges. The bounds belong to the range.
    Status(Vec<(u16, u16)>),
    /// The body contains this text.
    BodyContains(String),
    /// The body is exactly this text.
    BodyEquals(String),
    /// The length of the body in bytes is in this range. The bounds belong to the range.
    BodyLength {
        /// Minimum length.
        least: u64,
        /// Maximum length.
        most: u64,
    },
    /// The header is present. If a value is given, the header has exactly this value.
    Header {
        /// Name of the header. The comparison ignores case.
        name: String,
        /// Value that the header must have. If absent, any value is accepted.
        value: Option<String>,
    },
    /// The status of the gRPC call is one of these. JSON has their names.
    Grpc(#[serde(with = "crate::grpc::names")] Vec<Status>),
}

/// Bytes as base64 in JSON.
pub mod base64_bytes {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Writes bytes.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// If the text is not base64.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
