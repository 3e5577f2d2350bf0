//! Gateways of a plan, and the facts about packs that plans are checked against.

use crate::{Access, Feature, HopDelay, HopKind, PackDriver};
use std::collections::BTreeMap;

/// Facts about a pack that a plan is checked against. The lab reads them from packs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackInfo {
    /// The pack's name.
    pub name: String,
    /// Supported features.
    pub features: Vec<String>,
    /// Unsupported features, with reasons.
    pub unsupported: BTreeMap<String, String>,
    /// Configuration variants; can be empty.
    pub variants: Vec<String>,
    /// Whether the pack can start in a container.
    pub docker: bool,
    /// Whether the gateway can reload its configuration.
    pub reloads: bool,
    /// Whether the gateway is a sidecar that intercepts traffic in a network namespace.
    pub intercepts: bool,
}

/// The name of a pack's variant in plans and records, such as `istio-sidecar@tuned`. Names of packs cannot contain `@`.
pub fn variant_name(pack: &str, variant: &str) -> String {
    format!("{pack}@{variant}")
}

/// One system under test.
#[derive(Debug, Clone, PartialEq)]
pub struct Gateway {
    /// Unique name in this plan; by default the pack's name.
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
        /// Worker threads or processes.
        workers: u32,
        /// Enabled features, without duplicates.
        features: Vec<Feature>,
        /// Number of upstream instances to use; all if absent.
        instances: Option<u32>,
        /// Process or container.
        driver: PackDriver,
    },
    /// A built-in reference proxy.
    Hop(HopKind),
    /// `hop-l7` with a known delay.
    DelayingHop(HopDelay),
    /// A gateway that already runs.
    External {
        /// `http://host:port` or `https://host:port`, without a path.
        url: String,
        /// Process whose CPU and memory are measured, with its descendants.
        pid: Option<u32>,
        /// TLS and credentials.
        access: Access,
    },
}
