//! The systems under test.

use super::Access;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One system under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gateway {
    /// Distinct name in this plan.
    pub label: String,
    /// How it comes to run.
    pub kind: GatewayKind,
}

/// How a gateway comes to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatewayKind {
    /// Started from a pack.
    Pack {
        /// The pack's name.
        pack: String,
        /// Worker threads or processes.
        workers: u32,
        /// Features switched on.
        #[serde(default)]
        features: Vec<Feature>,
        /// Instances of the upstream that it passes requests on to; all when absent.
        #[serde(default)]
        instances: Option<u32>,
        /// What it runs in.
        #[serde(default)]
        driver: PackDriver,
    },
    /// A built-in reference proxy.
    Hop(HopKind),
    /// `hop-l7` with delays that are known.
    DelayingHop(HopDelay),
    /// Something that already runs.
    External {
        /// `http://host:port` or `https://host:port`, without a path.
        url: String,
        /// A process whose CPU and memory are watched.
        pid: Option<u32>,
        /// How one is let in.
        #[serde(default)]
        access: Access,
    },
}

/// A feature with its settings as one word: `key-auth`, `routes=1000:last`.
pub type Feature = String;

/// What a gateway of a pack runs in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackDriver {
    /// Processes of this machine.
    #[default]
    Process,
    /// A container on this machine's network.
    Docker {
        /// Another image than the pack's.
        image: Option<String>,
    },
}

/// The two built-in reference proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HopKind {
    /// Forwards bytes without reading them.
    #[serde(rename = "hop-l4")]
    L4,
    /// Parses HTTP/1.1, pools upstream connections, forwards.
    #[serde(rename = "hop-l7")]
    L7,
}

/// What `hop-l7` adds on purpose to the requests that it delays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HopDelay {
    /// How long a request is held back before it goes upstream.
    pub inbound: Duration,
    /// How long an answer is held back before it goes to the client.
    pub outbound: Duration,
    /// Share of the requests to which both happen, above 0 and at most 1.
    pub share: f64,
    /// How the time is spent.
    pub how: HopDelayHow,
}

/// How a planted delay is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HopDelayHow {
    /// On a timer.
    Sleep,
    /// By a busy CPU.
    Spin,
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Running, Upstream};
    use super::*;

    #[test]
    fn records_from_before_there_was_tls_can_be_read() {
        let read: Upstream =
            serde_json::from_str(r#"{"running":{"url":"http://127.0.0.1:1"}}"#).expect("read");
        let expected = Running { url: "http://127.0.0.1:1".into(), ..Running::default() };
        assert_eq!(read, Upstream::Running(expected));
        let read: GatewayKind =
            serde_json::from_str(r#"{"external":{"url":"http://a:1","pid":null}}"#).expect("read");
        assert!(matches!(read, GatewayKind::External { access: Access { tls: None, token_file: None }, .. }));
    }
}
