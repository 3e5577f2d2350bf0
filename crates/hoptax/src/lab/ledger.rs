//! The upstream's ledger: what it counted, as it is told on the control socket (`GET /ledger`, JSON).

use crate::record::LedgerDelta;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts since the upstream started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// One per instance, in the order of their ports.
    pub instances: Vec<InstanceCounts>,
}

/// Counts of one instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceCounts {
    /// Requests answered.
    pub requests: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections open now.
    pub open: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Requests by HTTP version: `1.0`, `1.1`.
    pub http_version: BTreeMap<String, u64>,
}

impl Ledger {
    /// What was counted between `earlier` and now.
    pub fn since(&self, earlier: &Self) -> LedgerDelta {
        let mut delta = LedgerDelta::default();
        for (index, now) in self.instances.iter().enumerate() {
            let before = earlier.instances.get(index).cloned().unwrap_or_default();
            let requests = now.requests - before.requests;
            delta.requests += requests;
            delta.by_instance.push(requests);
            delta.connections += now.connections - before.connections;
            delta.bytes_in += now.bytes_in - before.bytes_in;
            delta.bytes_out += now.bytes_out - before.bytes_out;
            for (version, count) in &now.http_version {
                let count = count - before.http_version.get(version).copied().unwrap_or(0);
                if count > 0 {
                    *delta.http_version.entry(version.clone()).or_default() += count;
                }
            }
        }
        delta
    }
}
