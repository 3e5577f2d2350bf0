//! A percentile distribution in the format of HdrHistogram's `outputPercentileDistribution`, for its
//! plotters. Values are in milliseconds.

use hdrhistogram::Histogram;
use hoptax_format::histogram::rank;
use std::fmt::Write;

/// Number of steps in which the distance to 100 % is halved. 5 is HdrHistogram's default.
const TICKS: u32 = 5;
const MILLISECOND: f64 = 1e6;

/// Formats a histogram whose values are in nanoseconds.
pub fn hgrm(histogram: &Histogram<u64>) -> String {
    let mut out = String::new();
    // Writing to a string never fails.
    let _ = write(histogram, &mut out);
    out
}

fn write(histogram: &Histogram<u64>, out: &mut String) -> std::fmt::Result {
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    for Row { quantile, value, total } in rows(histogram) {
        let value = value as f64 / MILLISECOND;
        if quantile < 1.0 {
            writeln!(out, "{value:>12.6} {quantile:1.12} {total:>10} {:>14.2}", 1.0 / (1.0 - quantile))?;
        } else {
            writeln!(out, "{value:>12.6} {quantile:1.12} {total:>10}")?;
        }
    }
    writeln!(
        out,
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]",
        histogram.mean() / MILLISECOND,
        histogram.stdev() / MILLISECOND
    )?;
    let max = histogram.max() as f64 / MILLISECOND;
    writeln!(out, "#[Max     = {max:>12.3}, Total count    = {:>12}]", histogram.len())?;
    let (buckets, halves) =
        (histogram.buckets(), 2 * histogram.distinct_values() / (usize::from(histogram.buckets()) + 1));
    writeln!(out, "#[Buckets = {buckets:>12}, SubBuckets     = {halves:>12}]")
}

/// A line of the distribution: `total` values are at or below `value`.
struct Row {
    quantile: f64,
    value: u64,
    total: u64,
}

/// The lines. The first line in the bucket with the largest value is the last one before 100 %, as in
/// HdrHistogram. HdrHistogram's own iterator is not used, because it adds up the steps in floating point. At
/// many whole ranks, it therefore takes the value of the next rank.
fn rows(histogram: &Histogram<u64>) -> Vec<Row> {
    let mut total = 0;
    let buckets = histogram.iter_recorded().map(|step| {
        total += step.count_since_last_iteration();
        (step.value_iterated_to(), total)
    });
    let buckets: Vec<(u64, u64)> = buckets.collect();
    let Some(last) = buckets.last() else { return Vec::new() };
    let mut rows = Vec::new();
    for halving in 0.. {
        for tick in 0..TICKS {
            let left = f64::from(2 * TICKS - tick) / f64::from(2 * TICKS) * 0.5_f64.powi(halving);
            let quantile = 1.0 - left;
            let rank = rank(quantile, histogram.len());
            let (value, total) = buckets[buckets.partition_point(|(_, total)| *total < rank)];
            rows.push(Row { quantile, value, total });
            if total == last.1 {
                rows.push(Row { quantile: 1.0, value, total });
                return rows;
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::histogram::{TRIAL_DIGITS, empty};

    #[test]
    fn plotters_find_value_and_percentile() {
        let mut histogram = empty(TRIAL_DIGITS);
        for value in 1..=1000_u64 {
            histogram.record(value * 1_000_000).expect("in range");
        }
        let text = hgrm(&histogram);
        // Reads the lines in the same way as the plotter at hdrhistogram.github.io. The plotter skips
        // comments. It expects four columns, with numbers in the first column and in the last.
        let rows: Vec<Vec<f64>> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().map_while(|word| word.parse().ok()).collect())
            .filter(|row: &Vec<f64>| row.len() == 4)
            .collect();
        assert!(rows.len() > 20, "{text}");
        assert!(rows.windows(2).all(|pair| pair[0][0] <= pair[1][0] && pair[0][3] <= pair[1][3]), "{text}");
        let median = rows.iter().find(|row| row[1] >= 0.5).expect("a median");
        assert!((median[0] - 500.0).abs() < 1.0 && median[2] >= 500.0, "{median:?}");
        let end: Vec<&str> =
            text.lines().rfind(|line| !line.starts_with('#')).expect("rows").split_whitespace().collect();
        assert_eq!(end[1..], ["1.000000000000", "1000"], "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_line_has_the_value_of_its_whole_rank() {
        for samples in [20_u64, 2000, 100_000] {
            let mut histogram = empty(TRIAL_DIGITS);
            histogram.record_n(300_000, samples / 10 * 9).expect("in range");
            histogram.record_n(20_000_000, samples / 10).expect("in range");
            let rows = rows(&histogram);
            let at = |quantile: f64| {
                rows.iter().find(|row| (row.quantile - quantile).abs() < 1e-9).expect("a line")
            };
            assert!(at(0.9).value < 400_000 && at(0.9125).value > 19_000_000, "{samples}");
            assert_eq!((at(0.9).total, rows.last().map(|row| row.total)), (samples / 10 * 9, Some(samples)));
        }
    }

    #[test]
    fn without_responses_there_is_only_the_frame() {
        insta::assert_snapshot!(hgrm(&empty(TRIAL_DIGITS)));
    }
}
