//! What each of several generators did in a trial.

use crate::role_usage::RoleUsage;
use hoptax_format::histogram::Encoded;
use hoptax_format::record::{Connections, Counts, GeneratorCpu, Lifetime, LoadRecord};
use serde::{Deserialize, Serialize};

/// One of several generators, in one trial. The trial's `load_record` is the sum of all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeneratorTrial {
    /// Name of its host.
    pub host: String,
    /// Length of its measured time, ns.
    pub measured_ns: u64,
    /// Number of requests that completed in its measured time.
    pub completed_in_time: u64,
    /// Outcomes of its requests.
    pub counts: Counts,
    /// Totals over its whole life.
    pub lifetime: Lifetime,
    /// Its connections.
    pub connections: Connections,
    /// CPU time in the measured time, as the generator itself counted it.
    pub cpu: GeneratorCpu,
    /// CPU and memory of its process.
    pub usage: Option<RoleUsage>,
    /// Response times (completed − scheduled), ns.
    pub response_time: Encoded,
    /// Send lags (sent − scheduled), ns.
    pub send_lag: Encoded,
}

impl GeneratorTrial {
    /// The generator on `host`, from its record.
    pub fn new(host: &str, record: &LoadRecord, usage: Option<RoleUsage>) -> Self {
        Self {
            host: host.to_owned(),
            measured_ns: record.measured_ns,
            completed_in_time: record.completed_in_time,
            counts: record.counts.clone(),
            lifetime: record.lifetime,
            connections: record.connections,
            cpu: record.cpu,
            usage,
            response_time: record.histograms.response_time.clone(),
            send_lag: record.histograms.send_lag.clone(),
        }
    }
}
