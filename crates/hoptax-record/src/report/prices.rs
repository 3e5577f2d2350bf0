//! Prices of features.

use super::{Difference, Load, Summary};
use serde::Serialize;

/// Every price, with sentences.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PriceList {
    /// Definition of a price, in words.
    pub definition: &'static str,
    /// Number of prices that would look distinguishable by chance if no feature cost anything.
    pub expected_by_chance: f64,
    /// One or two sentences for each gateway with features.
    pub sentences: Vec<Summary>,
    /// Prices by load point, then in the plan's order.
    pub rows: Vec<Price>,
}

/// The price of one gateway's features at one load point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Price {
    /// Label of the gateway with features.
    pub gateway: String,
    /// Label of the same gateway without features.
    pub bare: String,
    /// The features, as in a plan: `key-auth`, `rate-limit=100/s`.
    pub features: Vec<String>,
    /// The load point.
    pub load: Load,
    /// With features − without; for throughput with ÷ without.
    #[serde(flatten)]
    pub prices: Prices,
    /// Cost beyond the sum of the parts; absent unless the gateway has several features that were also measured
    /// separately.
    pub beyond: Option<Beyond>,
}

/// One figure per metric; absent if it was not measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prices {
    /// Response time at the median, µs.
    pub added_p50: Option<Difference>,
    /// Response time at the 99th percentile, µs.
    pub added_p99: Option<Difference>,
    /// CPU time of the gateway per completed request, µs.
    pub cpu_us_per_request: Option<Difference>,
    /// Throughput with ÷ without: 1 means no cost.
    pub throughput_ratio: Option<Difference>,
    /// Resident set, bytes.
    pub memory_rss_bytes: Option<Difference>,
}

/// Cost of features together beyond the sum of their separate costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beyond {
    /// Labels of the gateways with one part of the features each.
    pub alone: [String; 2],
    /// Together − the sum of both; for throughput together ÷ the product of both.
    #[serde(flatten)]
    pub prices: Prices,
}
