//! The tax: a gateway's trials compared with the direct trials of the same rounds and load point.
//!
//! A tax is one figure over all rounds: the percentile of the gateway's merged trials minus the percentile of
//! direct's merged trials, or a ratio of sums. For the interval, each draw takes whole rounds with all trials
//! of these rounds. If a disturbance affects all trials of a round, it therefore cancels in each draw.

use crate::trials::metric::percentile;
use crate::trials::pairs::{Added, Pairs};
use crate::trials::trial::Trial;
use hoptax_plan::Metric;
use hoptax_record::report::{Difference, NoiseFloor, Tax};
use hoptax_stats::Estimate;

/// Compares the trials `via` a gateway with the `direct` trials of the same load point.
pub(crate) fn tax(via: &[Trial<'_>], direct: &[Trial<'_>], floor: &NoiseFloor) -> Tax {
    let pairs = Pairs::new(via, direct);
    let times = Added::new(&pairs, |trial| Some(&trial.response_time));
    let difference = |metric: Metric, estimate: Option<Estimate>| {
        Some(Difference::new(estimate?, metric.neutral(), floor.get(metric)))
    };
    let of = |metric: Metric| {
        let estimate = match percentile(metric) {
            Some(statistic) => times.at(statistic),
            None => pairs.of_sums(metric),
        };
        difference(metric, estimate)
    };
    let further = |metric: Metric| {
        let estimate = match metric.times().zip(percentile(metric)) {
            Some((times, statistic)) => Added::new(&pairs, |trial| trial.times(times)).at(statistic),
            None => pairs.of_sums(metric),
        };
        Some((metric, difference(metric, estimate)?))
    };
    Tax {
        added_p50: of(Metric::AddedP50),
        added_p90: of(Metric::AddedP90),
        added_p95: of(Metric::AddedP95),
        added_p99: of(Metric::AddedP99),
        throughput_ratio: of(Metric::ThroughputRatio),
        cpu_us_per_request: of(Metric::CpuUsPerRequest),
        extra_upstream_requests: of(Metric::ExtraUpstreamRequests),
        further: Metric::further().filter_map(further).collect(),
    }
}

#[cfg(test)]
mod tests;
