//! The systems under test.

use super::Access;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One system under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gateway {
    /// Unique name in this plan.
    pub label: String,
    /// How hoptax runs or reaches the gateway.
    pub kind: GatewayKind,
}

/// How hoptax runs or reaches a gateway.
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
        /// Number of upstream instances that the gateway forwards to. If absent, it forwards to all instances.
        #[serde(default)]
        instances: Option<u32>,
        /// Driver that runs the gateway.
        #[serde(default)]
        driver: PackDriver,
    },
    /// A built-in reference proxy.
    Hop(HopKind),
    /// `hop-l7` with known delays or a known warm-up.
    DelayingHop(HopDelay),
    /// Already running.
    External {
        /// `http://host:port` or `https://host:port`, without a path.
        url: String,
        /// Id of the process for which CPU and memory are measured; absent if there is none.
        pid: Option<u32>,
        /// TLS and credentials for connections to the gateway.
        #[serde(default)]
        access: Access,
    },
}

/// A feature with its settings: `key-auth`, `routes=1000:last`.
pub type Feature = String;

/// Driver of a gateway from a pack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackDriver {
    /// Processes on this machine.
    #[default]
    Process,
    /// A container on this machine's network.
    Docker {
        /// Image to use instead of the pack's image; absent if the pack's image is used.
        image: Option<String>,
    },
}

/// The two built-in reference proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HopKind {
    /// Forwards bytes without reading them.
    #[serde(rename = "hop-l4")]
    L4,
    /// Parses and forwards HTTP/1.1, and pools upstream connections.
    #[serde(rename = "hop-l7")]
    L7,
}

/// Delays that `hop-l7` adds to some requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HopDelay {
    /// Delay of a request before it is sent upstream.
    pub inbound: Duration,
    /// Delay of a response before it is sent to the client.
    pub outbound: Duration,
    /// Share of the requests that get both delays, above 0 and at most 1.
    pub share: f64,
    /// How the hop waits.
    pub how: HopDelayHow,
    /// Warm-up in addition to the delays; absent if there is none, and in runs of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warming: Option<HopWarming>,
}

/// How a hop waits for a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HopDelayHow {
    /// Sleep on a timer.
    Sleep,
    /// Keep a CPU busy.
    Spin,
}

/// Extra CPU time of the first requests of `hop-l7`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopWarming {
    /// Number of requests with extra time, counted over all workers since the hop started.
    pub requests: u64,
    /// Extra CPU time of the first request.
    pub extra: Duration,
    /// How the extra time falls to zero.
    pub fall: HopWarmingFall,
}

/// How extra CPU time falls to zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HopWarmingFall {
    /// By the same amount with each request.
    Linear,
    /// At once, after the last request with extra time.
    Step,
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Running, Upstream};
    use super::*;

    #[test]
    fn records_from_before_tls_can_be_read() {
        let read: Upstream =
            serde_json::from_str(r#"{"running":{"url":"http://127.0.0.1:1"}}"#).expect("read");
        let expected = Running { url: "http://127.0.0.1:1".into(), ..Running::default() };
        assert_eq!(read, Upstream::Running(expected));
        let read: GatewayKind =
            serde_json::from_str(r#"{"external":{"url":"http://a:1","pid":null}}"#).expect("read");
        assert!(matches!(read, GatewayKind::External { access: Access { tls: None, token_file: None }, .. }));
    }

    #[test]
    fn records_from_before_warm_ups_can_be_read_and_do_not_change() {
        let kept = r#"{"delaying-hop":{"inbound":{"secs":0,"nanos":5},"outbound":{"secs":0,"nanos":0},"share":1.0,"how":"spin"}}"#;
        let read: GatewayKind = serde_json::from_str(kept).expect("read");
        assert!(matches!(read, GatewayKind::DelayingHop(HopDelay { warming: None, .. })));
        assert_eq!(serde_json::to_string(&read).expect("JSON"), kept);
    }
}
