//! Targets, checks of responses, and timeouts.

use super::Body;
use hoptax_format::spec::{Check, Chunked};
use serde::{Deserialize, Deserializer, Serialize};
use std::time::Duration;

/// The traffic that `hoptax import` made the targets from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Imported {
    /// Name of the file.
    pub from: String,
    /// Number of requests that the file has.
    pub requests: u64,
    /// Share of these requests that have a target of their own kind, 0 to 1.
    pub represented: f64,
}

/// A target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Unique name among the targets.
    #[serde(default)]
    pub name: String,
    /// Weight, at least 1. The target's share of requests is its weight ÷ the sum of weights.
    #[serde(default = "one")]
    pub weight: u32,
    /// Method.
    pub method: String,
    /// Path and query, as a template.
    pub path: String,
    /// Headers in order; their values are templates.
    pub headers: Vec<(String, String)>,
    /// Request body; absent if there is none.
    pub body: Option<Body>,
    /// Whether templates in the body are expanded.
    #[serde(default)]
    pub body_is_template: bool,
    /// How the body is sent in chunks. Absent if it has a `content-length`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunked: Option<Chunked>,
    /// Checks of the response.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// Whether the response body differs from one response to the next.
    #[serde(default)]
    pub varies: bool,
    /// Names of response headers that are not compared with direct's headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_headers: Vec<String>,
    /// Rate limit of gateways that already run, requests per second. Absent if they have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<u32>,
}

fn one() -> u32 {
    1
}

/// Reads the list of targets. In a run of version 1, reads the single target.
pub(super) fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Target>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        More(Vec<Target>),
        One(Target),
    }
    let mut targets = match Either::deserialize(deserializer)? {
        Either::More(targets) => targets,
        Either::One(target) => vec![target],
    };
    for target in targets.iter_mut().filter(|target| target.name.is_empty()) {
        target.name = format!("{} {}", target.method, target.path);
    }
    Ok(targets)
}

/// Timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timeouts {
    /// Time limit for each connect. The TLS handshake that follows has a separate limit of the same length.
    pub connect: Duration,
    /// Time limit from sending a request to the first byte of the response.
    pub first_byte: Duration,
    /// Time limit from sending a request to the end of the response.
    pub total: Duration,
}

impl Timeouts {
    /// Sets all three timeouts to the same limit.
    pub fn all(timeout: Duration) -> Self {
        Self { connect: timeout, first_byte: timeout, total: timeout }
    }
}

impl<'de> Deserialize<'de> for Timeouts {
    /// Reads three timeouts. In a run of version 1, reads the single timeout.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Each { connect: Duration, first_byte: Duration, total: Duration },
            All(Duration),
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::Each { connect, first_byte, total } => Self { connect, first_byte, total },
            Either::All(timeout) => Self::all(timeout),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Held {
        #[serde(alias = "target", deserialize_with = "one_or_more")]
        targets: Vec<Target>,
        timeout: Timeouts,
    }

    fn target(name: &str) -> Target {
        Target {
            name: name.into(),
            weight: 1,
            method: "PUT".into(),
            path: "/a".into(),
            headers: vec![("host".into(), "x".into())],
            body: Some(Body::Size(5)),
            body_is_template: false,
            chunked: None,
            checks: Vec::new(),
            varies: false,
            ignore_headers: Vec::new(),
            rate_limit: None,
        }
    }

    #[test]
    fn a_run_of_version_1_still_reads() {
        let old = r#"{"target":{"method":"PUT","path":"/a","headers":[["host","x"]],"body":{"size":5}},
            "timeout":{"secs":3,"nanos":0}}"#;
        let held: Held = serde_json::from_str(old).expect("an older form");
        assert_eq!(held.targets, [target("PUT /a")]);
        assert_eq!(held.timeout, Timeouts::all(Duration::from_secs(3)));
    }

    #[test]
    fn a_written_plan_reads_back() {
        let ignore_headers = vec!["age".into()];
        let checks = vec![Check::BodyContains("x".into())];
        let chunked = Some(Chunked { chunk_bytes: 2, pause_ns: 3 });
        let checked = Target { checks, weight: 7, ignore_headers, chunked, ..target("a") };
        let held = Held {
            targets: vec![checked, target("b")],
            timeout: Timeouts { connect: Duration::from_millis(5), ..Timeouts::all(Duration::from_secs(1)) },
        };
        let json = serde_json::to_string(&held).expect("plain data");
        assert_eq!(serde_json::from_str::<Held>(&json).expect("its own form"), held);
    }
}
