//! The systems under test, and what is known of their packs.

use crate::{Access, Feature, HopDelay, HopKind, PackDriver};
use std::collections::BTreeMap;

/// What a plan may say of one gateway pack; the lab knows the packs, the plan only checks against this.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackInfo {
    /// The pack's name.
    pub name: String,
    /// Features it can switch on.
    pub features: Vec<String>,
    /// Features that it lacks and says why.
    pub unsupported: BTreeMap<String, String>,
    /// Ways in which it can be configured; empty: one.
    pub variants: Vec<String>,
    /// Whether it says how it is started in a container.
    pub docker: bool,
    /// Whether it says how its gateway reads its configuration again.
    pub reloads: bool,
    /// Whether it intercepts what comes for the application, in a network namespace.
    pub intercepts: bool,
}

/// How a pack is called in one of its variants, in plans that were understood and in records: `istio-sidecar@tuned`. No pack's own
/// name holds the sign between the two.
pub fn variant_name(pack: &str, variant: &str) -> String {
    format!("{pack}@{variant}")
}

/// One system under test.
#[derive(Debug, Clone, PartialEq)]
pub struct Gateway {
    /// Distinct name in this plan: the pack's name unless given.
    pub label: String,
    /// How it comes to run.
    pub kind: GatewayKind,
}

impl Gateway {
    /// Features switched on.
    pub fn features(&self) -> &[Feature] {
        match &self.kind {
            GatewayKind::Pack { features, .. } => features,
            _ => &[],
        }
    }
}

/// How a gateway comes to run.
#[derive(Debug, Clone, PartialEq)]
pub enum GatewayKind {
    /// Started from a pack.
    Pack {
        /// The pack's name.
        pack: String,
        /// Worker threads or processes.
        workers: u32,
        /// Features switched on, each once.
        features: Vec<Feature>,
        /// Instances of the upstream that it passes requests on to; all when absent.
        instances: Option<u32>,
        /// What it runs in.
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
        /// A process whose CPU and memory (with its descendants') are watched.
        pid: Option<u32>,
        /// How one is let in.
        access: Access,
    },
}
