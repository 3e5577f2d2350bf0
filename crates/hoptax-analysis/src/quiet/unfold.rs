//! Converts the coarse histograms of windows to the precision of a whole trial's histogram.

use hdrhistogram::Histogram;
use hoptax_format::histogram::{TRIAL_DIGITS, empty};

/// The sum of the histograms of windows, at the precision of a trial's histogram. The count of each coarse
/// bucket is spread evenly over the fine buckets that it covers, so that percentiles are interpolated inside
/// the bucket. Using the upper end of a coarse bucket instead would add up to 0.8 % to each percentile, which
/// is more than many taxes. If values are spread over several buckets, the remaining error is a small part of
/// a bucket's width. If all values are equal, the remaining error is up to 0.8 %.
pub(super) fn unfold(coarse: &Histogram<u64>) -> Histogram<u64> {
    let mut fine = empty(TRIAL_DIGITS);
    for bucket in coarse.iter_recorded() {
        let value = bucket.value_iterated_to();
        let lowest = coarse.lowest_equivalent(value);
        let highest = coarse.highest_equivalent(value);
        let parts =
            (highest - lowest) / (fine.highest_equivalent(lowest) - fine.lowest_equivalent(lowest) + 1) + 1;
        let count = bucket.count_at_value();
        // The first `part` fine buckets together get `count · part / parts`, rounded. A single sample
        // therefore goes to the middle.
        let until = |part: u64| (2 * count * part + parts) / (2 * parts);
        let mut edge = lowest;
        for part in 0..parts {
            fine.saturating_record_n(edge, until(part + 1) - until(part));
            edge = fine.next_non_equivalent(edge);
        }
    }
    fine
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::histogram::WINDOW_DIGITS;
    use hoptax_format::random::Random;
    use hoptax_stats::Statistic;

    /// Histograms of the same values in both precisions.
    fn both(values: impl Iterator<Item = u64>) -> (Histogram<u64>, Histogram<u64>) {
        let (mut fine, mut coarse) = (empty(TRIAL_DIGITS), empty(WINDOW_DIGITS));
        for value in values {
            fine.saturating_record(value);
            coarse.saturating_record(value);
        }
        (fine, coarse)
    }

    #[test]
    fn keeps_every_value_in_its_bucket() {
        let (_, coarse) = both((0..5000).map(|index| 90 + index * index * 37));
        let unfolded = unfold(&coarse);
        assert_eq!(unfolded.len(), coarse.len());
        let mut folded = empty(WINDOW_DIGITS);
        for bucket in unfolded.iter_recorded() {
            folded.saturating_record_n(bucket.value_iterated_to(), bucket.count_at_value());
        }
        for bucket in coarse.iter_recorded() {
            let value = bucket.value_iterated_to();
            assert_eq!(folded.count_at(value), bucket.count_at_value(), "at {value}");
        }
    }

    #[test]
    fn percentiles_of_scattered_values_are_those_of_a_whole_trial() {
        // A skewed distribution like that of response times: a minimum plus an exponential part.
        let mut random = Random::new(11);
        for (floor, mean) in [(20e3, 9e3), (180e3, 60e3), (2e6, 5e6)] {
            let (fine, coarse) = both((0..50_000).map(|_| (floor + mean * random.exponential()) as u64));
            let unfolded = unfold(&coarse);
            for statistic in [Statistic::P50, Statistic::P90, Statistic::P95, Statistic::P99] {
                let [whole, unfolded, raw] =
                    [&fine, &unfolded, &coarse].map(|one| statistic.of(one).expect("samples"));
                assert!(
                    (unfolded / whole - 1.0).abs() < 0.002,
                    "{}: {unfolded} for {whole}",
                    statistic.name()
                );
                assert!(raw >= whole, "coarse buckets are read at their upper ends: {raw} for {whole}");
            }
        }
    }

    #[test]
    fn equal_values_are_accurate_to_a_bucket_and_an_empty_histogram_remains_empty() {
        for value in [15_000, 150_000, 3_333_333] {
            let (_, coarse) = both(std::iter::repeat_n(value, 1000));
            for statistic in [Statistic::P50, Statistic::P99] {
                let read = statistic.of(&unfold(&coarse)).expect("samples") * 1e3;
                assert!((read / value as f64 - 1.0).abs() < 0.008, "{read} for {value}");
            }
        }
        assert!(unfold(&empty(WINDOW_DIGITS)).is_empty());
    }
}
