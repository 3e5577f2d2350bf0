//! Figures with their intervals.

use schemars::JsonSchema;
use serde::Serialize;

/// A value with its 95 % interval and the number of trials behind it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// The value.
    pub estimate: f64,
    /// Lower end; absent with one round, and for a maximum.
    pub low: Option<f64>,
    /// Upper end; absent with one round, and for a maximum.
    pub high: Option<f64>,
    /// Trials (for a tax: rounds) behind it.
    pub trials: u32,
}

/// Second less first, with its 95 % interval, and how probable one as large is where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Contrast {
    /// Mean of the second less mean of the first.
    pub estimate: f64,
    /// Lower end; absent with a single round on a side.
    pub low: Option<f64>,
    /// Upper end; absent with a single round on a side.
    pub high: Option<f64>,
    /// Two-sided p-value of "no difference"; absent with a single round on a side.
    pub p_value: Option<f64>,
    /// Rounds behind it: pairs, or those of the side that has fewer.
    pub rounds: u32,
}

/// A tax or a price, and whether it stands out of the noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// The value with its interval over rounds.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Whether the interval excludes "no tax" and the estimate is larger than the noise floor.
    pub distinguishable: bool,
}

/// A distribution of times, µs. Members are absent if nothing was recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// Median.
    pub p50: Option<Estimate>,
    /// 90th percentile.
    pub p90: Option<Estimate>,
    /// 95th percentile.
    pub p95: Option<Estimate>,
    /// 99th percentile.
    pub p99: Option<Estimate>,
    /// 99.9th percentile.
    #[serde(rename = "p99.9")]
    pub p999: Option<Estimate>,
    /// Largest.
    pub max: Option<Estimate>,
    /// Mean.
    pub mean: Option<Estimate>,
    /// Samples behind the percentiles.
    pub samples: u64,
    /// `us`.
    pub unit: &'static str,
}

/// Throughput with its unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Throughput {
    /// Completed requests over measured time, all trials together.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// `requests/s`.
    pub unit: &'static str,
}
