//! The difference between the starts of two contenders.

use super::Starts;
use hoptax_plan::Metric;
use hoptax_stats::{Estimate, Observed, resampled_median};

/// The medians of two contenders in one metric, for a comparison.
///
/// The intervals of the medians come from order statistics, which cannot be subtracted. So here both medians
/// get an interval from the bootstrap over starts, like all other figures, and are compared as two
/// independent figures. For contenders of one run, this is cautious: pairing them by round would only make
/// the difference more precise. If a gateway had not settled in a start, the end of the load counts as its
/// settled time. This makes a difference too small rather than too large.
///
/// `None` if the metric was not measured, or if a median is not known because a gateway had not settled.
pub(crate) fn medians(first: &Starts, second: &Starts, metric: Metric) -> Option<(Estimate, Estimate)> {
    let of = |starts: &Starts| {
        starts.measured(metric)?.estimate?;
        let values: Vec<f64> = starts.values(metric).iter().map(|one: &Observed| one.value).collect();
        resampled_median(&values).map(|estimate| estimate.at_least(0.0))
    };
    Some((of(first)?, of(second)?))
}
