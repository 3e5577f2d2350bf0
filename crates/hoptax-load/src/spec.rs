//! What the generator is asked to do: the load spec, one JSON document on its standard input.
//!
//! The same document starts a generator here, in a container, over ssh or in a pod: whatever it needs from files (tokens,
//! certificates, bodies) is in it.

use crate::address::Address;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Version of [`LoadSpec`].
pub const SPEC_SCHEMA: u32 = 2;

/// One load point against one set of addresses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// [`SPEC_SCHEMA`].
    pub schema: u32,
    /// Where to connect: connection `i` goes to address `i mod n`.
    pub addresses: Vec<Address>,
    /// Local addresses to connect from; connection `i` leaves from `i / addresses mod n`. Empty: the kernel chooses.
    #[serde(default)]
    pub sources: Vec<IpAddr>,
    /// TLS on every connection; absent: plain.
    #[serde(default)]
    pub tls: Option<TlsSpec>,
    /// Version of HTTP spoken.
    #[serde(default)]
    pub http: HttpVersion,
    /// Requests that a connection carries before it is replaced; 1 is keep-alive off, absent is no limit.
    #[serde(default)]
    pub requests_per_connection: Option<u32>,
    /// What to request; at least one.
    pub targets: Vec<TargetSpec>,
    /// Files that `{{line NAME}}` in a template takes its lines from, by name.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// When to request it.
    pub shape: Shape,
    /// Connections over all workers; at least one.
    pub connections: u32,
    /// Traffic before the measured time, thrown away.
    pub warmup_ns: u64,
    /// How long requests are scheduled, after the warm-up; with stages, the sum of theirs.
    pub duration_ns: u64,
    /// Stop after this many scheduled requests, if that comes before `duration_ns`.
    pub requests: Option<u64>,
    /// When to give up.
    pub timeouts: Timeouts,
    /// Threads, each with its own connections, histograms and event loop; at least one.
    pub workers: u32,
    /// CPUs to pin the workers to, worker `i` to `cpus[i mod n]`; empty: not pinned.
    pub cpus: Vec<u32>,
    /// Seed of everything random.
    pub seed: u64,
    /// Whether to record windows of [`crate::record::WINDOW_NS`].
    pub windows: bool,
    /// Whether responses carry the upstream's stamps ([`crate::stamp`]), which split response times into the way there and the
    /// way back.
    #[serde(default)]
    pub stamps: bool,
    /// Says nothing, as there is one event loop. It is still read because specs could once choose between two.
    #[serde(default)]
    pub event_loop: EventLoopName,
}

/// The event loop, as a spec names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventLoopName {
    /// epoll; `auto` in older specs.
    #[default]
    #[serde(alias = "auto")]
    Epoll,
}

/// When to give up, nanoseconds; each at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeouts {
    /// Given to each connect, and after it to each TLS handshake.
    pub connect_ns: u64,
    /// From the moment a request was sent to the first byte of its response. At or above `total_ns` it has no effect.
    pub first_byte_ns: u64,
    /// From the moment a request was sent to the end of its response.
    pub total_ns: u64,
}

impl Timeouts {
    /// The same for all three.
    pub fn all(ns: u64) -> Self {
        Self { connect_ns: ns, first_byte_ns: ns, total_ns: ns }
    }
}

/// Version of HTTP spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.0; connections are kept alive by `connection: keep-alive` where more than one request may use them.
    #[serde(rename = "1.0")]
    Http10,
    /// HTTP/1.1.
    #[default]
    #[serde(rename = "1.1")]
    Http11,
}

/// TLS as a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSpec {
    /// Name (or address) that the certificate must be for, and that is sent as SNI where it is a name.
    pub server_name: String,
    /// Which certificates are accepted.
    pub verify: Verify,
    /// Shown to servers that ask for one.
    pub client_certificate: Option<ClientCertificate>,
    /// Whether connections resume earlier ones' sessions.
    pub resumption: bool,
    /// Protocols offered by ALPN, in order of preference; empty: the extension is left out.
    pub alpn: Vec<String>,
    /// Versions offered; at least one.
    pub versions: Vec<TlsVersion>,
    /// Cipher suites offered, in order of preference, by their registered names (`TLS_AES_128_GCM_SHA256`); empty: all.
    #[serde(default)]
    pub cipher_suites: Vec<String>,
}

/// Which server certificates are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// Those that the generator's system trusts.
    System,
    /// Those signed by one of these authorities, PEM.
    Authorities(String),
    /// Any: whatever is measured then may not be who it says it is.
    Nothing,
}

/// A client's certificate chain and private key, PEM.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientCertificate {
    /// The chain, the client's own first.
    pub chain: String,
    /// Its private key.
    pub key: String,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCertificate").field("chain", &self.chain).finish_non_exhaustive()
    }
}

/// A version of TLS.
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
    /// Requests are due at scheduled times whatever the responses do.
    Open {
        /// Requests per second over all workers.
        rate: Rate,
        /// How the scheduled times are spread.
        arrivals: Arrivals,
    },
}

/// Requests per second over all workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Rate {
    /// The same all the time; above zero.
    Fixed(f64),
    /// One stage after the other; at least one, and one of them above zero. A stage of rate zero is a pause. The warm-up
    /// has the mean rate of the first, so that before a pause nothing is sent.
    Stages(Vec<Stage>),
}

/// A stretch of time over which the rate goes from one value to another in a straight line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Requests per second at its beginning; zero or more.
    pub from: f64,
    /// Requests per second at its end; zero or more. A stage of a steady rate ends as it begins.
    pub to: f64,
    /// How long it takes, nanoseconds; at least 1.
    pub for_ns: u64,
}

impl Rate {
    /// Requests due over all, divided by the time that takes; for stages that take no time, 0.
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

    /// The rate of the warm-up: the only one, or the mean of the first stage.
    pub fn of_warmup(&self) -> f64 {
        match self {
            Self::Fixed(rate) => *rate,
            Self::Stages(stages) => stages.first().map_or(0.0, |first| (first.from + first.to) / 2.0),
        }
    }

    /// The rate this many nanoseconds after the measured time began; after the last stage, that at its end.
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

    /// The highest rate that occurs.
    pub fn highest(&self) -> f64 {
        match self {
            Self::Fixed(rate) => *rate,
            Self::Stages(stages) => stages.iter().map(|stage| stage.from.max(stage.to)).fold(0.0, f64::max),
        }
    }
}

/// How the scheduled times of an open loop are spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// One every `1 / rate` seconds.
    Constant,
    /// As constant, each moved by a uniform share of the interval, at most this much either way (0.1 is ±10 %).
    Jitter(f64),
    /// Exponential gaps with mean `1 / rate`: independent users.
    Poisson,
}

/// One of the requests that are sent, and what its response must be like.
///
/// `path` and header values may hold templates, and so may the body where it says so: `{{seq}}`, `{{uuid}}`,
/// `{{random LOW HIGH}}`, `{{line FILE}}`, `{{base64 …}}`; `\{{` stands for `{{`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetSpec {
    /// Distinct among the targets of a spec.
    pub name: String,
    /// Share of the requests: weight over the sum of weights; at least 1.
    pub weight: u32,
    /// Method, e.g. `GET`.
    pub method: String,
    /// Origin form: path and query, beginning with `/`.
    pub path: String,
    /// Headers in order. `host` must be among them; `content-length` is added where there is a body.
    pub headers: Vec<(String, String)>,
    /// Body, base64 in JSON; empty: none.
    #[serde(with = "base64_bytes")]
    pub body: Vec<u8>,
    /// Whether templates in the body are expanded.
    #[serde(default)]
    pub body_is_template: bool,
    /// What makes a response a success. Without one that is about the status, statuses 200 to 399 are.
    #[serde(default)]
    pub checks: Vec<Check>,
}

impl TargetSpec {
    /// The only target of a spec: no templates in its body, no checks.
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

/// What a response must be like to count as a success; one that is not is still a whole response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// Its status lies in one of these ranges, ends included.
    Status(Vec<(u16, u16)>),
    /// Its body contains this text.
    BodyContains(String),
    /// Its body is this text.
    BodyEquals(String),
    /// The length of its body, bytes, ends included.
    BodyLength {
        /// Least.
        least: u64,
        /// Most.
        most: u64,
    },
    /// It has this header, and where a value is given, with that value.
    Header {
        /// Name, in any case.
        name: String,
        /// Value, to the letter.
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
