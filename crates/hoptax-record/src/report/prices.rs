//! Prices of features.

use super::super::Metric;
use super::{Difference, Load, Summary};
use crate::plan::Feature;
use serde::Serialize;

/// All prices, with sentences about them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PriceList {
    /// Definition of a price, in words.
    pub definition: &'static str,
    /// Number of prices that would seem distinguishable by chance even if no feature cost anything.
    pub expected_by_chance: f64,
    /// One or two sentences for each gateway with features.
    pub sentences: Vec<Summary>,
    /// The prices, sorted by load point, then in the order of the plan.
    pub rows: Vec<Price>,
}

/// The price of one gateway's features at one load point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Price {
    /// Label of the gateway with features.
    pub gateway: String,
    /// Label of the same gateway without features.
    pub bare: String,
    /// The features, written as in a plan: `key-auth`, `rate-limit=100/s`.
    pub features: Vec<Feature>,
    /// The load point.
    pub load: Load,
    /// The value with features − the value without features. For throughput: the value with features ÷ the
    /// value without features.
    #[serde(flatten)]
    pub prices: Prices,
    /// What several features cost together beyond the sum of their separate prices. Present only if the
    /// features were also measured separately.
    pub beyond: Option<Beyond>,
}

/// One price for each metric. A price is absent if it was not measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prices {
    /// Response time at the median, µs.
    pub added_p50: Option<Difference>,
    /// Response time at the 99th percentile, µs.
    pub added_p99: Option<Difference>,
    /// CPU time of the gateway per completed request, µs.
    pub cpu_us_per_request: Option<Difference>,
    /// Throughput with features ÷ throughput without features; 1 means no cost.
    pub throughput_ratio: Option<Difference>,
    /// Resident set, bytes.
    pub memory_rss_bytes: Option<Difference>,
}

impl Prices {
    /// How much the features change this metric. Absent if the metric is not a field of [`Prices`], or if it
    /// was not measured.
    pub fn get(&self, metric: Metric) -> Option<&Difference> {
        match metric {
            Metric::AddedP50 => self.added_p50.as_ref(),
            Metric::AddedP99 => self.added_p99.as_ref(),
            Metric::CpuUsPerRequest => self.cpu_us_per_request.as_ref(),
            Metric::ThroughputRatio => self.throughput_ratio.as_ref(),
            Metric::MemoryRssBytes => self.memory_rss_bytes.as_ref(),
            _ => None,
        }
    }
}

/// What several features cost together beyond the sum of their separate prices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beyond {
    /// Labels of the two gateways that have one part of the features each.
    pub alone: [String; 2],
    /// Price of all features together − the sum of the prices of both parts. For throughput: price of all
    /// features together ÷ the product of the prices of both parts.
    #[serde(flatten)]
    pub prices: Prices,
}
