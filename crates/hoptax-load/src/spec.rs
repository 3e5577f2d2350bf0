//! What the generator is asked to do: the load spec, one JSON document on its standard input.
//!
//! The same document starts a generator here, in a container, over ssh or in a pod.

use crate::event_loop::Choice;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Version of [`LoadSpec`].
pub const SPEC_SCHEMA: u32 = 1;

/// One load point against one set of addresses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// [`SPEC_SCHEMA`].
    pub schema: u32,
    /// Where to connect: connection `i` goes to address `i mod n`.
    pub addresses: Vec<SocketAddr>,
    /// What to request.
    pub request: RequestSpec,
    /// When to request it.
    pub shape: Shape,
    /// Connections over all workers; at least one.
    pub connections: u32,
    /// Traffic before the measured time, thrown away.
    pub warmup_ns: u64,
    /// How long requests are scheduled, after the warm-up.
    pub duration_ns: u64,
    /// Stop after this many scheduled requests, if that comes before `duration_ns`.
    pub requests: Option<u64>,
    /// Given to each connect and to each request from the moment it was sent.
    pub timeout_ns: u64,
    /// Threads, each with its own connections, histograms and event loop; at least one.
    pub workers: u32,
    /// CPUs to pin the workers to, worker `i` to `cpus[i mod n]`; empty: not pinned.
    pub cpus: Vec<u32>,
    /// Seed of everything random.
    pub seed: u64,
    /// Whether to record windows of [`crate::record::WINDOW_NS`].
    pub windows: bool,
    /// Which event loop to use; specs that do not say leave it to the generator.
    #[serde(default)]
    pub event_loop: Choice,
}

/// When requests are due.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loop", rename_all = "lowercase", deny_unknown_fields)]
pub enum Shape {
    /// Each connection sends its next request when the previous response ends.
    Closed,
    /// Requests are due at scheduled times whatever the responses do.
    Open {
        /// Requests per second over all workers; above zero.
        rate: f64,
        /// How the scheduled times are spread.
        arrivals: Arrivals,
    },
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

/// The request that is sent, already as it stands on the wire but for its encoding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    /// Method, e.g. `GET`.
    pub method: String,
    /// Origin form: path and query, beginning with `/`.
    pub path: String,
    /// Headers in order. `host` must be among them; `content-length` is added where there is a body.
    pub headers: Vec<(String, String)>,
    /// Body, base64 in JSON; empty: none.
    #[serde(with = "base64_bytes")]
    pub body: Vec<u8>,
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
