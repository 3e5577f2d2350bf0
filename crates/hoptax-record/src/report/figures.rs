//! Figures with their intervals.

pub use hoptax_stats::{Contrast, Estimate};

use hoptax_stats::Statistic;
use serde::{Serialize, Serializer};

/// A tax or a price, and whether it is distinguishable from noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// The value. Its interval holds for another run of the same plan on this machine. If the value does not
    /// exceed the noise floor, the interval is at least ± the noise floor.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// The value with the interval that the rounds of this run give. JSON has only half of this interval's
    /// width, which is absent if there is only one round.
    #[serde(rename = "half_width_in_run", serialize_with = "half_width")]
    pub in_run: Estimate,
    /// Whether the interval excludes "no tax".
    pub distinguishable: bool,
}

impl Difference {
    /// A difference whose interval comes from the rounds of a run. It is distinguishable if its interval
    /// excludes `neutral`. An estimate that differs from `neutral` by at most `floor` has an interval of at
    /// least ± `floor`. Without a floor, nothing is distinguishable.
    pub fn new(in_run: Estimate, neutral: f64, floor: Option<f64>) -> Self {
        let distance = (in_run.estimate - neutral).abs();
        let floor = floor.unwrap_or(distance);
        let estimate =
            if distance > floor { in_run } else { including(in_run.at_least_half(floor), neutral) };
        Self { estimate, in_run, distinguishable: estimate.excludes(neutral) }
    }

    /// The same difference with an interval that also contains `wider`.
    #[must_use]
    pub fn with_interval(self, wider: Estimate, neutral: f64) -> Self {
        let [low, high] = [(wider.low, self.estimate.low), (wider.high, self.estimate.high)]
            .map(|(one, other)| one.zip(other));
        let low = low.map(|(one, other)| one.min(other));
        let high = high.map(|(one, other)| one.max(other));
        let estimate = Estimate { low, high, ..self.estimate };
        Self { estimate, distinguishable: estimate.excludes(neutral), ..self }
    }
}

/// The estimate with an interval that contains `value`, if there is an interval. Without this, rounding could
/// leave `value` just outside.
fn including(estimate: Estimate, value: f64) -> Estimate {
    let Estimate { low, high, .. } = estimate;
    Estimate { low: low.map(|low| low.min(value)), high: high.map(|high| high.max(value)), ..estimate }
}

fn half_width<S: Serializer>(in_run: &Estimate, serializer: S) -> Result<S::Ok, S::Error> {
    in_run.half_width().serialize(serializer)
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

impl Latency {
    /// The figure of a statistic.
    pub fn get(&self, statistic: Statistic) -> Option<&Estimate> {
        match statistic {
            Statistic::P50 => self.p50.as_ref(),
            Statistic::P90 => self.p90.as_ref(),
            Statistic::P95 => self.p95.as_ref(),
            Statistic::P99 => self.p99.as_ref(),
            Statistic::P999 => self.p999.as_ref(),
            Statistic::Max => self.max.as_ref(),
            Statistic::Mean => self.mean.as_ref(),
        }
    }
}

/// Throughput with its unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Throughput {
    /// Completed requests (or streams, or tokens) ÷ measured time, over all trials.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Unit: `requests/s`, `streams/s` or `tokens/s`.
    pub unit: &'static str,
}
