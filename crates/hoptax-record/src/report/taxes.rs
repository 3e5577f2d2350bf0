//! The tax of a hop, and the noise floor. Only a tax above the noise floor is distinguishable from noise.

use super::super::Metric;
use super::{Difference, Load};
use serde::Serialize;
use std::collections::BTreeMap;

/// The tax of one gateway at one load point. Members are absent if they were not measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tax {
    /// Added response time at the median, µs.
    pub added_p50: Option<Difference>,
    /// Added response time at the 90th percentile, µs.
    pub added_p90: Option<Difference>,
    /// Added response time at the 95th percentile, µs.
    pub added_p95: Option<Difference>,
    /// Added response time at the 99th percentile, µs.
    pub added_p99: Option<Difference>,
    /// Throughput via the gateway ÷ direct throughput.
    pub throughput_ratio: Option<Difference>,
    /// CPU time of the gateway per completed request, µs.
    pub cpu_us_per_request: Option<Difference>,
    /// Upstream requests per client request, minus 1.
    pub extra_upstream_requests: Option<Difference>,
    /// Figures of [`Metric::further`]. Only taxes of streams have more than the first byte.
    #[serde(flatten)]
    pub further: BTreeMap<Metric, Difference>,
}

impl Tax {
    /// The figure of a metric. Absent for metrics that are not taxes.
    pub fn get(&self, metric: Metric) -> Option<&Difference> {
        match metric {
            Metric::AddedP50 => self.added_p50.as_ref(),
            Metric::AddedP90 => self.added_p90.as_ref(),
            Metric::AddedP95 => self.added_p95.as_ref(),
            Metric::AddedP99 => self.added_p99.as_ref(),
            Metric::ThroughputRatio => self.throughput_ratio.as_ref(),
            Metric::CpuUsPerRequest => self.cpu_us_per_request.as_ref(),
            Metric::ExtraUpstreamRequests => self.extra_upstream_requests.as_ref(),
            _ => self.further.get(&metric),
        }
    }
}

/// The noise floor of each load point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NoiseFloors {
    /// Definition of the noise floor, in words.
    pub definition: &'static str,
    /// One noise floor for each load point.
    pub by_load: Vec<NoiseFloor>,
}

/// The noise floor of one load point, for each metric of the tax. Members are absent if no round has both
/// direct trials.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NoiseFloor {
    /// The load point.
    pub load: Load,
    /// Number of rounds that have both direct trials.
    pub rounds: u32,
    /// Added response time at the median, µs.
    pub added_p50: Option<f64>,
    /// Added response time at the 90th percentile, µs.
    pub added_p90: Option<f64>,
    /// Added response time at the 95th percentile, µs.
    pub added_p95: Option<f64>,
    /// Added response time at the 99th percentile, µs.
    pub added_p99: Option<f64>,
    /// Distance of the throughput ratio from 1.
    pub throughput_ratio: Option<f64>,
    /// Gateway CPU time per request, µs; zero, because direct has no gateway.
    pub cpu_us_per_request: f64,
    /// Extra upstream requests per request.
    pub extra_upstream_requests: Option<f64>,
    /// The same for [`Metric::further`]; zero for CPU time. Only load points of streams have more than the
    /// first byte.
    #[serde(flatten)]
    pub further: BTreeMap<Metric, f64>,
}

impl NoiseFloor {
    /// The noise floor of one metric. Absent for a metric that is not a tax.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::AddedP50 => self.added_p50,
            Metric::AddedP90 => self.added_p90,
            Metric::AddedP95 => self.added_p95,
            Metric::AddedP99 => self.added_p99,
            Metric::ThroughputRatio => self.throughput_ratio,
            Metric::CpuUsPerRequest => Some(self.cpu_us_per_request),
            Metric::ExtraUpstreamRequests => self.extra_upstream_requests,
            _ => self.further.get(&metric).copied(),
        }
    }
}
