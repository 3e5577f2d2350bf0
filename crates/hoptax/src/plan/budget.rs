//! Limits on what was measured.

use super::LoadPoint;
use hoptax_load::spec::Shape;
use serde::{Deserialize, Serialize};

/// A limit on one metric of one gateway, or of every gateway; at every load point, or at those selected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// A label; every gateway when absent.
    pub gateway: Option<String>,
    /// What is limited.
    pub metric: Metric,
    /// At which load points; at all of them when it selects nothing.
    #[serde(default)]
    pub load: LoadSelector,
    /// The contender of the same run that changes are relative to; the baseline run's gateway of the same label when
    /// absent.
    #[serde(default)]
    pub against: Option<String>,
    /// A breach is above this, in the metric's own unit.
    pub max: Option<f64>,
    /// A breach is below this.
    pub min: Option<f64>,
    /// A breach has grown by more than this share of the reference: 0.1 for `+10%`.
    #[serde(default)]
    pub max_change: Option<f64>,
    /// A breach has grown by less than this share of the reference: −0.05 for `-5%`.
    #[serde(default)]
    pub min_change: Option<f64>,
}

impl Budget {
    /// Limits `metric` of every gateway everywhere by nothing yet.
    pub fn of(metric: Metric) -> Self {
        Self {
            gateway: None,
            metric,
            load: LoadSelector::default(),
            against: None,
            max: None,
            min: None,
            max_change: None,
            min_change: None,
        }
    }

    /// Whether a limit of it is relative to something else that was measured.
    pub fn is_relative(&self) -> bool {
        self.max_change.is_some() || self.min_change.is_some()
    }
}

/// Selects load points: what is given must be so. Nothing given selects all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadSelector {
    /// Open loops (`true`) or closed ones.
    pub open: Option<bool>,
    /// So many connections.
    pub connections: Option<u32>,
    /// This rate, requests/s; of stages their mean.
    pub rate: Option<f64>,
}

impl LoadSelector {
    /// Whether it selects this load point.
    pub fn selects(&self, point: &LoadPoint) -> bool {
        let rate = match &point.shape {
            Shape::Closed => None,
            Shape::Open { rate, .. } => Some(rate.mean()),
        };
        self.open.is_none_or(|open| open == rate.is_some())
            && self.connections.is_none_or(|connections| connections == point.connections)
            && self.rate.is_none_or(|wanted| rate.is_some_and(|rate| (rate - wanted).abs() <= 1e-6 * wanted))
    }
}

/// What a budget can limit and a comparison compares. Times are in microseconds, ratios are 1 for no loss, shares are
/// 0 to 1.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Added response time at the median, µs.
    AddedP50,
    /// Added response time at the 90th percentile, µs.
    AddedP90,
    /// Added response time at the 95th percentile, µs.
    AddedP95,
    /// Added response time at the 99th percentile, µs.
    AddedP99,
    /// Throughput via the gateway over direct throughput.
    ThroughputRatio,
    /// Gateway CPU per request, µs.
    CpuUsPerRequest,
    /// Upstream requests per client request, minus 1.
    ExtraUpstreamRequests,
    /// Errors and timeouts over scheduled requests.
    ErrorShare,
    /// Largest resident set of the gateway's processes, bytes; of several trials their mean.
    MemoryRssBytes,
    /// Largest proportional set of the gateway's processes, bytes; of several trials their mean.
    MemoryPssBytes,
    /// Response time at the median, µs.
    P50,
    /// Response time at the 90th percentile, µs.
    P90,
    /// Response time at the 95th percentile, µs.
    P95,
    /// Response time at the 99th percentile, µs.
    P99,
    /// Response time at the 99.9th percentile, µs.
    #[serde(rename = "p99.9")]
    P999,
    /// Throughput, requests/s.
    Throughput,
}

impl Metric {
    /// Every metric, as reports order them.
    pub const ALL: [Self; 16] = [
        Self::AddedP50,
        Self::AddedP90,
        Self::AddedP95,
        Self::AddedP99,
        Self::ThroughputRatio,
        Self::CpuUsPerRequest,
        Self::ExtraUpstreamRequests,
        Self::ErrorShare,
        Self::MemoryRssBytes,
        Self::MemoryPssBytes,
        Self::P50,
        Self::P90,
        Self::P95,
        Self::P99,
        Self::P999,
        Self::Throughput,
    ];

    /// As it is written in plans and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::AddedP50 => "added_p50",
            Self::AddedP90 => "added_p90",
            Self::AddedP95 => "added_p95",
            Self::AddedP99 => "added_p99",
            Self::ThroughputRatio => "throughput_ratio",
            Self::CpuUsPerRequest => "cpu_us_per_request",
            Self::ExtraUpstreamRequests => "extra_upstream_requests",
            Self::ErrorShare => "error_share",
            Self::MemoryRssBytes => "memory_rss_bytes",
            Self::MemoryPssBytes => "memory_pss_bytes",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Throughput => "throughput",
        }
    }

    /// Whether it is worse when it is larger.
    pub fn grows_worse(self) -> bool {
        !matches!(self, Self::ThroughputRatio | Self::Throughput)
    }

    /// Whether it is a time, µs.
    pub fn is_time(self) -> bool {
        !matches!(
            self,
            Self::ThroughputRatio
                | Self::ExtraUpstreamRequests
                | Self::ErrorShare
                | Self::MemoryRssBytes
                | Self::MemoryPssBytes
                | Self::Throughput
        )
    }

    /// The unit of its values in JSON; `1` for a ratio, a share and a count per request.
    pub fn unit(self) -> &'static str {
        match self {
            _ if self.is_time() => "us",
            Self::MemoryRssBytes | Self::MemoryPssBytes => "bytes",
            Self::Throughput => "requests/s",
            _ => "1",
        }
    }

    /// Whether it is zero for most gateways, so that nothing can be told as a share of it.
    pub fn is_mostly_zero(self) -> bool {
        matches!(self, Self::ErrorShare | Self::ExtraUpstreamRequests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_load::spec::{Arrivals, Rate};
    use std::time::Duration;

    #[test]
    fn names_are_those_of_plans() {
        for name in ["added_p50", "p99.9", "throughput", "memory_pss_bytes", "cpu_us_per_request"] {
            let metric: Metric = serde_json::from_value(name.into()).expect("a metric");
            assert_eq!(metric.name(), name);
        }
        let mut distinct: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), Metric::ALL.len());
        for metric in Metric::ALL {
            assert_eq!(serde_json::from_value::<Metric>(metric.name().into()).expect("a metric"), metric);
        }
    }

    #[test]
    fn selects_what_agrees_with_all_that_is_given() {
        let closed = LoadPoint::closed(16, Duration::from_secs(1));
        let shape = Shape::Open { rate: Rate::Fixed(1000.0), arrivals: Arrivals::Constant };
        let open = LoadPoint { shape, ..closed.clone() };
        let selected = |selector: &LoadSelector| (selector.selects(&closed), selector.selects(&open));
        assert_eq!(selected(&LoadSelector::default()), (true, true));
        let of_open = LoadSelector { open: Some(true), ..LoadSelector::default() };
        assert_eq!(selected(&of_open), (false, true));
        assert_eq!(selected(&LoadSelector { open: Some(false), ..of_open.clone() }), (true, false));
        assert_eq!(selected(&LoadSelector { connections: Some(8), ..of_open.clone() }), (false, false));
        let of_rate = |rate| LoadSelector { rate: Some(rate), ..LoadSelector::default() };
        assert_eq!(selected(&of_rate(1000.0)), (false, true));
        assert_eq!(selected(&of_rate(999.0)), (false, false));
    }
}
