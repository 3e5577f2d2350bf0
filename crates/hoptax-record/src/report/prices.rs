//! Prices of features.

use super::{Difference, Load, Summary};
use serde::Serialize;

/// Every price, and the words around them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PriceList {
    /// How prices are computed.
    pub definition: &'static str,
    /// How many of them would stand out by chance alone if no feature cost anything.
    pub expected_by_chance: f64,
    /// A sentence or two for each gateway with features.
    pub sentences: Vec<Summary>,
    /// By load point, then in the plan's order.
    pub rows: Vec<Price>,
}

/// What the features of one gateway cost at one load point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Price {
    /// Label of the gateway with features.
    pub gateway: String,
    /// Label of the same gateway without.
    pub bare: String,
    /// The features, as a plan writes them: `key-auth`, `rate-limit=100/s`.
    pub features: Vec<String>,
    /// The load point.
    pub load: Load,
    /// With them less without them; of throughput with over without.
    #[serde(flatten)]
    pub prices: Prices,
    /// Of several features whose parts were measured as well: what they cost together beyond that.
    pub beyond: Option<Beyond>,
}

/// A figure of each kind; absent if it was not measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prices {
    /// Response time at the median, µs.
    pub added_p50: Option<Difference>,
    /// Response time at the 99th percentile, µs.
    pub added_p99: Option<Difference>,
    /// CPU time of the gateway per completed request, µs.
    pub cpu_us_per_request: Option<Difference>,
    /// A ratio of throughputs: 1 costs nothing.
    pub throughput_ratio: Option<Difference>,
    /// Resident set, bytes.
    pub memory_rss_bytes: Option<Difference>,
}

/// What features cost together, less what the parts cost alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beyond {
    /// Labels of the gateways with one part each.
    pub alone: [String; 2],
    /// Together less the sum of both alone; of throughput together over the product of both.
    #[serde(flatten)]
    pub prices: Prices,
}
