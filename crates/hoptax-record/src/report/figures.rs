//! Figures with their intervals.

use schemars::JsonSchema;
use serde::Serialize;

/// A value, its 95 % interval, and the number of trials from which it is calculated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// The value.
    pub estimate: f64,
    /// Lower end of the interval. Absent if there is only one round, and for a maximum.
    pub low: Option<f64>,
    /// Upper end of the interval. Absent if there is only one round, and for a maximum.
    pub high: Option<f64>,
    /// Number of trials from which the value is calculated. For a tax, the number of rounds.
    pub trials: u32,
}

/// Difference of two means (second − first), with its 95 % interval and its p-value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Contrast {
    /// Mean of the second group − mean of the first group.
    pub estimate: f64,
    /// Lower end of the interval. Absent if a group has only one round.
    pub low: Option<f64>,
    /// Upper end of the interval. Absent if a group has only one round.
    pub high: Option<f64>,
    /// Two-sided p-value of the hypothesis "no difference". Absent if a group has only one round.
    pub p_value: Option<f64>,
    /// Number of pairs, if the values are paired by round. Otherwise the number of rounds in the smaller
    /// group.
    pub rounds: u32,
}

/// A tax or a price, and whether it is distinguishable from noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// The value. Its interval holds for another run of the same plan on this machine.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Half of the width of the interval that the rounds of this run give. Absent if there is only one round.
    pub half_width_in_run: Option<f64>,
    /// Whether the interval excludes "no tax" and the estimate exceeds the noise floor.
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
    /// Number of samples from which the percentiles are calculated.
    pub samples: u64,
    /// Unit: `us`.
    pub unit: &'static str,
}

/// Throughput with its unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Throughput {
    /// Completed requests ÷ measured time, over all trials.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Unit: `requests/s`.
    pub unit: &'static str,
}
