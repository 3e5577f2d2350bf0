//! Statistics of latency histograms. Percentiles are always read from merged histograms, because the average
//! of several percentiles is not a percentile.

use hdrhistogram::Histogram;
use hoptax_format::histogram::{LOWEST, TRIAL_DIGITS, empty};

/// A statistic of a distribution of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statistic {
    /// Median.
    P50,
    /// 90th percentile.
    P90,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// Largest value.
    Max,
    /// Mean.
    Mean,
}

impl Statistic {
    /// All statistics, in the order of reports.
    pub const ALL: [Self; 7] =
        [Self::P50, Self::P90, Self::P95, Self::P99, Self::P999, Self::Max, Self::Mean];

    /// Name in JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Max => "max",
            Self::Mean => "mean",
        }
    }

    /// The share of samples below the percentile. Absent if the statistic is not a percentile.
    pub fn quantile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
            Self::Max | Self::Mean => None,
        }
    }

    /// The value of this statistic in µs. Absent if the histogram has no samples.
    pub fn of(self, nanoseconds: &Histogram<u64>) -> Option<f64> {
        if nanoseconds.is_empty() {
            return None;
        }
        let value = match self.quantile() {
            Some(quantile) => nanoseconds.value_at_quantile(quantile) as f64,
            None if self == Self::Max => nanoseconds.max() as f64,
            None => nanoseconds.mean(),
        };
        // A histogram cannot distinguish values below its lowest value from zero.
        Some(if value < LOWEST as f64 { 0.0 } else { value / 1e3 })
    }
}

/// The sum of histograms, with the precision of a trial's histogram.
pub fn merge<'a>(histograms: impl IntoIterator<Item = &'a Histogram<u64>>) -> Histogram<u64> {
    let mut sum = empty(TRIAL_DIGITS);
    for histogram in histograms {
        if sum.add(histogram).is_err() {
            // Adding fails only if the histogram has another range because another tool wrote it. In this
            // case, the values are added one by one. Values outside of our range are counted at the nearest
            // end of the range.
            for step in histogram.iter_recorded() {
                sum.saturating_record_n(step.value_iterated_to(), step.count_at_value());
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_below_the_lowest_are_zero() {
        let mut histogram = empty(TRIAL_DIGITS);
        histogram.record_n(0, 1000).expect("in range");
        for statistic in Statistic::ALL {
            assert_eq!(statistic.of(&histogram), Some(0.0), "{}", statistic.name());
        }
    }

    fn of_microseconds(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = empty(TRIAL_DIGITS);
        for value in values {
            histogram.record(value * 1000).expect("in range");
        }
        histogram
    }

    #[test]
    fn percentiles_of_one_to_a_thousand() {
        let histogram = of_microseconds(1..=1000);
        for (statistic, exact) in [
            (Statistic::P50, 500.0),
            (Statistic::P90, 900.0),
            (Statistic::P95, 950.0),
            (Statistic::P99, 990.0),
            (Statistic::P999, 999.0),
            (Statistic::Max, 1000.0),
            (Statistic::Mean, 500.5),
        ] {
            let read = statistic.of(&histogram).expect("a thousand samples");
            assert!((read - exact).abs() <= exact * 0.001, "{}: {read}", statistic.name());
        }
    }

    #[test]
    fn without_samples_there_is_no_value() {
        for statistic in Statistic::ALL {
            assert_eq!(statistic.of(&empty(TRIAL_DIGITS)), None);
        }
    }

    #[test]
    fn merging_is_not_averaging() {
        // 900 requests are fast and 100 requests are slow, so the p99 is the time of a slow request. The mean
        // of the two histograms' p99s would lie between the fast time and the slow time.
        let (fast, slow) = (of_microseconds([100; 900]), of_microseconds([10_000; 100]));
        let merged = merge([&fast, &slow]);
        assert_eq!(merged.len(), 1000);
        let p99 = Statistic::P99.of(&merged).expect("samples");
        assert!((p99 - 10_000.0).abs() <= 10.0, "{p99}");
        let p50 = Statistic::P50.of(&merged).expect("samples");
        assert!((p50 - 100.0).abs() <= 0.1, "{p50}");
    }

    #[test]
    fn histograms_of_another_range_are_merged_too() {
        let mut wide = Histogram::<u64>::new_with_bounds(1, u64::MAX / 4, 2).expect("valid bounds");
        wide.record(5_000).expect("in range");
        wide.record(u64::MAX / 8).expect("in range");
        let merged = merge([&wide]);
        assert_eq!(merged.len(), 2);
    }
}
