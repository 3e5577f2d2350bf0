//! The load spec: the generator's input, one JSON document on standard input.
//!
//! The same document starts a generator locally, in a container, over ssh or in a pod. It contains the contents of all
//! files that the load needs: tokens, certificates, bodies.

use crate::address::Address;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Version of [`LoadSpec`].
pub const SPEC_SCHEMA: u32 = 2;

/// One load point for one set of addresses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// [`SPEC_SCHEMA`].
    pub schema: u32,
    /// Addresses to connect to: connection `i` goes to address `i mod n`.
    pub addresses: Vec<Address>,
    /// Local addresses to connect from: connection `i` uses source `i / addresses mod n`. If empty, the kernel
    /// chooses.
    #[serde(default)]
    pub sources: Vec<IpAddr>,
    /// TLS settings for every connection. Absent for plain text.
    #[serde(default)]
    pub tls: Option<TlsSpec>,
    /// HTTP version of the requests.
    #[serde(default)]
    pub http: HttpVersion,
    /// Number of requests per connection before it is replaced. 1 disables keep-alive; absent means no limit.
    #[serde(default)]
    pub requests_per_connection: Option<u32>,
    /// Targets to request; at least one.
    pub targets: Vec<TargetSpec>,
    /// Contents of the files that `{{line NAME}}` reads, by name.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// When requests are due.
    pub shape: Shape,
    /// Connections of all workers together; at least one.
    pub connections: u32,
    /// Traffic before the measured time, nanoseconds; its results are discarded.
    pub warmup_ns: u64,
    /// Measured time, nanoseconds, after the warm-up; with stages, the sum of their durations.
    pub duration_ns: u64,
    /// Stops the load after this many scheduled requests, if that is earlier than `duration_ns`.
    pub requests: Option<u64>,
    /// Timeouts of connects and responses.
    pub timeouts: Timeouts,
    /// Threads, each with its own connections, histograms and event loop; at least one.
    pub workers: u32,
    /// CPUs to pin the workers to: worker `i` runs on `cpus[i mod n]`. If empty, workers are not pinned.
    pub cpus: Vec<u32>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// True to record windows of [`crate::record::WINDOW_NS`].
    pub windows: bool,
    /// True if responses carry the upstream's timestamps ([`crate::stamp`]), which split service times into request
    /// path, the upstream's own time, and response path.
    #[serde(default)]
    pub stamps: bool,
    /// Ignored: there is only one event loop. Accepted because older specs could choose between two.
    #[serde(default)]
    pub event_loop: EventLoopName,
}

/// Name of the event loop in a spec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventLoopName {
    /// epoll; `auto` in older specs.
    #[default]
    #[serde(alias = "auto")]
    Epoll,
}

/// Timeouts, nanoseconds; each at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// Timeout of each connect, and again of each TLS handshake.
    pub connect_ns: u64,
    /// Time from sending the request to the first byte of its response. Has no effect if it is not shorter than
    /// `total_ns`.
    pub first_byte_ns: u64,
    /// Time from sending the request to the end of its response.
    pub total_ns: u64,
}

impl Timeouts {
    /// Uses the same timeout for all three.
    pub fn all(ns: u64) -> Self {
        Self { connect_ns: ns, first_byte_ns: ns, total_ns: ns }
    }
}

/// HTTP version of the requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.0, with `connection: keep-alive` if a connection may carry more than one request.
    #[serde(rename = "1.0")]
    Http10,
    /// HTTP/1.1.
    #[default]
    #[serde(rename = "1.1")]
    Http11,
}

/// Settings of a TLS client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSpec {
    /// Host name (or IP address) that the certificate must match. A host name is also sent as SNI.
    pub server_name: String,
    /// How the server's certificate is verified.
    pub verify: Verify,
    /// Client certificate, for servers that request one.
    pub client_certificate: Option<ClientCertificate>,
    /// True if connections resume earlier sessions.
    pub resumption: bool,
    /// Protocols offered by ALPN, in order of preference. If empty, the extension is not sent.
    pub alpn: Vec<String>,
    /// Versions offered; at least one.
    pub versions: Vec<TlsVersion>,
    /// Cipher suites offered, in order of preference, by their registered names (`TLS_AES_128_GCM_SHA256`). If empty,
    /// all are offered.
    #[serde(default)]
    pub cipher_suites: Vec<String>,
}

/// Accepted server certificates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// Certificates signed by an authority that the generator's system trusts.
    System,
    /// Certificates signed by one of these authorities, PEM.
    Authorities(String),
    /// Any certificate: the server's identity is not verified.
    Nothing,
}

/// Certificate chain and private key of a client, PEM.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientCertificate {
    /// The chain, beginning with the client's own certificate.
    pub chain: String,
    /// Private key of the first certificate.
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
    /// Each connection sends its next request when the previous response ends.
    Closed,
    /// Requests are due at scheduled times, independent of the responses.
    Open {
        /// Requests per second over all workers.
        rate: Rate,
        /// Distribution of the scheduled times.
        arrivals: Arrivals,
    },
}

/// Requests per second, all workers together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Rate {
    /// A constant rate above zero.
    Fixed(f64),
    /// Stages in sequence; at least one, and at least one with a rate above zero. A stage of rate zero is a pause.
    /// The warm-up has the mean rate of the first stage, so if the first stage is a pause, the warm-up sends nothing.
    Stages(Vec<Stage>),
}

/// A period during which the rate changes linearly from one value to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Requests per second at the beginning; zero or more.
    pub from: f64,
    /// Requests per second at the end; zero or more. Equal to `from` for a constant rate.
    pub to: f64,
    /// Duration, nanoseconds; at least 1.
    pub for_ns: u64,
}

impl Rate {
    /// Mean rate over the whole duration; 0 if the stages have no duration.
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

    /// Rate of the warm-up: the fixed rate, or the mean of the first stage.
    pub fn of_warmup(&self) -> f64 {
        match self {
            Self::Fixed(rate) => *rate,
            Self::Stages(stages) => stages.first().map_or(0.0, |first| (first.from + first.to) / 2.0),
        }
    }

    /// Rate at this many nanoseconds after the start of the measured time. After the last stage, this is its final
    /// rate.
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

    /// The highest rate of all stages.
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
    /// Like `Constant`, but each request is moved by a random share of the interval, uniformly distributed, at most
    /// this much in each direction (0.1 is ±10 %).
    Jitter(f64),
    /// Exponentially distributed gaps with mean `1 / rate`: independent users.
    Poisson,
}

/// A request of the mix, and the checks of its response.
///
/// `path`, header values and, with `body_is_template`, the body can contain templates: `{{seq}}`, `{{uuid}}`,
/// `{{random LOW HIGH}}`, `{{line FILE}}`, `{{base64 …}}`; `\{{` is a literal `{{`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetSpec {
    /// Unique name among the targets of a spec.
    pub name: String,
    /// Weight of this target, at least 1. Its share of the requests is this weight divided by the sum of all weights.
    pub weight: u32,
    /// Method, e.g. `GET`.
    pub method: String,
    /// Path and query, beginning with `/` (origin form).
    pub path: String,
    /// Headers in order. `host` must be included; `content-length` is added if there is a body.
    pub headers: Vec<(String, String)>,
    /// Body, written in base64 in JSON. If empty, there is no body.
    #[serde(with = "base64_bytes")]
    pub body: Vec<u8>,
    /// True to expand templates in the body.
    #[serde(default)]
    pub body_is_template: bool,
    /// Conditions of success. If none is about the status, statuses 200 to 399 are required.
    #[serde(default)]
    pub checks: Vec<Check>,
}

impl TargetSpec {
    /// A target that is the only one of its spec, with no checks and no templates in the body.
    pub fn only(method: &str, path: &str, headers: Vec<(String, String)>, body: Vec<u8>) -> Self {
        Self {
            name: format!("{method} {path}"),
            weight: 1,
            method: method.to_owned(),
            path: path.to_owned(),
            headers,
            body,
            body_is_template: false,
            checks: Vec::new(),
        }
    }
}

/// A condition that a response must meet to count as a success. A response that fails it still counts as completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// The status is in one of these ranges, bounds included.
    Status(Vec<(u16, u16)>),
    /// The body contains this text.
    BodyContains(String),
    /// The body is exactly this text.
    BodyEquals(String),
    /// The body has this length, bytes, bounds included.
    BodyLength {
        /// Smallest length.
        least: u64,
        /// Greatest length.
        most: u64,
    },
    /// The header is present and, if a value is given, has that value.
    Header {
        /// Name, not case-sensitive.
        name: String,
        /// Exact value.
        value: Option<String>,
    },
}

mod base64_bytes {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
