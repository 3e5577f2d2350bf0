//! The gateways of a plan, and the facts about packs that are needed to check a plan.

use crate::{Access, Feature, HopDelay, HopKind, PackDriver, Prometheus, ProxyForm, WatchedPods};
use std::collections::BTreeMap;

/// Facts about a pack that are needed to check a plan. The lab reads them from the pack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackInfo {
    /// The pack's name.
    pub name: String,
    /// Names of the supported features.
    pub features: Vec<String>,
    /// Unsupported features, each with the reason why it is unsupported.
    pub unsupported: BTreeMap<String, String>,
    /// Names of the pack's variants. Empty if the pack has no variants.
    pub variants: Vec<String>,
    /// Whether the gateway accepts requests over TLS only, so that it always has the feature `tls`.
    pub always_tls: bool,
    /// Whether the gateway can start in a container.
    pub docker: bool,
    /// The image of that container.
    pub image: Option<String>,
    /// Whether the gateway can reload its configuration.
    pub reloads: bool,
    /// Whether the gateway has a page of metrics on its admin port.
    pub has_metrics: bool,
    /// Whether the gateway can forward to a Unix socket.
    pub unix_upstream: bool,
    /// The variants in which the gateway is a forward proxy, and how requests ask it.
    pub proxy: BTreeMap<String, ProxyForm>,
    /// Whether the gateway is a sidecar that intercepts traffic in a network namespace.
    pub intercepts: bool,
}

/// The name of a pack's variant in plans and records, such as `istio-sidecar@tuned`. Names of packs cannot
/// contain `@`.
pub fn variant_name(pack: &str, variant: &str) -> String {
    format!("{pack}@{variant}")
}

/// A gateway of the plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Gateway {
    /// Unique name of the gateway in this plan. The default is the pack's name.
    pub label: String,
    /// How the gateway is started or reached.
    pub kind: GatewayKind,
}

impl Gateway {
    /// Enabled features.
    pub fn features(&self) -> &[Feature] {
        match &self.kind {
            GatewayKind::Pack { features, .. } => features,
            _ => &[],
        }
    }
}

/// How a gateway is started or reached.
#[derive(Debug, Clone, PartialEq)]
pub enum GatewayKind {
    /// Started from a pack.
    Pack {
        /// The pack's name.
        pack: String,
        /// Number of worker threads or processes.
        workers: u32,
        /// Enabled features, without duplicates.
        features: Vec<Feature>,
        /// Number of upstream instances that the gateway uses. If absent, it uses all of them.
        instances: Option<u32>,
        /// Whether to start a process or a container, and its version.
        driver: PackDriver,
    },
    /// A built-in reference proxy.
    Hop(HopKind),
    /// `hop-l7` with a known delay, a known warm-up, or both.
    DelayingHop(HopDelay),
    /// `hop-l7` as a forward proxy.
    ForwardingHop {
        /// How requests ask it.
        proxy: ProxyForm,
        /// Known delay, known warm-up, or both, if requests name the whole URL.
        delay: Option<HopDelay>,
    },
    /// A gateway that already runs.
    External {
        /// `http://host:port` or `https://host:port`, without a path.
        url: String,
        /// Id of the gateway's process. The CPU time and the memory of this process and its descendants are
        /// measured.
        pid: Option<u32>,
        /// TLS settings and credentials.
        access: Access,
        /// Prometheus that knows the gateway's CPU time and memory. Only if `pid` is absent.
        prometheus: Option<Prometheus>,
        /// Pods whose control groups know the gateway's CPU time and memory. Only if the two before are
        /// absent.
        pods: Option<WatchedPods>,
    },
}
