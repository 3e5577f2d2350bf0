//! The difference between the starts of two contenders.

use super::Starts;
use hoptax_plan::Metric;
use hoptax_stats::{Estimate, Observed, resampled_median};

/// The medians of two contenders in one metric, for a comparison.
///
/// The intervals of the medians come from order statistics, which cannot be subtracted. So both medians get
/// the interval of all other figures here, from the bootstrap over starts, and are compared as two
/// independent figures. That is careful within one run too: what both contenders of a round share would only
/// make a difference more precise. A start in which a gateway had not settled counts with the end of its
/// load, which makes a difference too small rather than too large. `None` if the metric was not measured, or
/// if a median is not known because a gateway had not settled.
pub(crate) fn medians(first: &Starts, second: &Starts, metric: Metric) -> Option<(Estimate, Estimate)> {
    let of = |starts: &Starts| {
        starts.measured(metric)?.estimate?;
        let values: Vec<f64> = starts.values(metric).iter().map(|one: &Observed| one.value).collect();
        resampled_median(&values).map(|estimate| estimate.at_least(0.0))
    };
    Some((of(first)?, of(second)?))
}
