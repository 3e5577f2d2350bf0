//! A latency spectrum. It has a few rows, and each row shows the number of samples between two round times.

use hdrhistogram::Histogram;

/// The number of samples between two round times. Times are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bar {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) count: u64,
}

/// Series of round numbers between 1 and 10, from the finest series to the coarsest.
const SERIES: [&[f64]; 6] = [
    &[
        1.0, 1.12, 1.25, 1.4, 1.6, 1.8, 2.0, 2.24, 2.5, 2.8, 3.15, 3.55, 4.0, 4.5, 5.0, 5.6, 6.3, 7.1, 8.0,
        9.0,
    ],
    &[1.0, 1.25, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.3, 8.0],
    &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
    &[1.0, 2.0, 5.0],
    &[1.0, 3.0],
    &[1.0],
];

/// Quantile up to which bars are as fine as the number of rows allows. Without this limit, a few very slow
/// responses would push all other samples into one bar.
const BODY: f64 = 0.99;

/// Divides `histogram` into at most `rows` bars. There are fine bars for 99 % of the samples, and one bar for
/// all slower samples. Empty if the histogram is empty or `rows` is 0.
pub(super) fn bars(histogram: &Histogram<u64>, rows: usize) -> Vec<Bar> {
    if histogram.is_empty() || rows == 0 {
        return Vec::new();
    }
    let (least, most) = (histogram.min().max(1) as f64, histogram.max().max(1) as f64);
    let body = (histogram.value_at_quantile(BODY) as f64).clamp(least, most);
    let fitting = SERIES.iter().map(|series| edges(series, least, body)).find(|edges| edges.len() <= rows);
    let mut edges = fitting.unwrap_or_else(|| coarse(&edges(SERIES[SERIES.len() - 1], least, body), rows));
    if edges.last().is_some_and(|last| *last <= most) {
        edges.extend(self::edges(SERIES[2], most, most).last());
    }
    let mut bars: Vec<Bar> =
        edges.windows(2).map(|edge| Bar { from: edge[0], to: edge[1], count: 0 }).collect();
    let mut at = 0;
    for step in histogram.iter_recorded() {
        // Treat each sample as if it were at the lower end of its bucket, as `min` does.
        let value = histogram.lowest_equivalent(step.value_iterated_to()) as f64;
        while at + 1 < bars.len() && value >= bars[at].to {
            at += 1;
        }
        bars[at].count += step.count_at_value();
    }
    bars
}

/// Thins out `decades` to at most `rows` elements. Keeps every n-th element, with the smallest n that is
/// enough, and also the last element.
fn coarse(decades: &[f64], rows: usize) -> Vec<f64> {
    if rows < 2 {
        return decades[..1].to_vec();
    }
    let every = |step| {
        let mut edges: Vec<f64> = decades[..decades.len() - 1].iter().step_by(step).copied().collect();
        edges.extend(decades.last());
        edges
    };
    let steps = 2..=decades.len();
    steps.map(every).find(|edges| edges.len() <= rows).unwrap_or_else(|| decades[..1].to_vec())
}

/// Round numbers in ascending order. The first number is at or below `least`, and only the last number is
/// above `most`.
fn edges(series: &[f64], least: f64, most: f64) -> Vec<f64> {
    let mut edges = Vec::new();
    for decade in (least.log10().floor() as i32 - 1)..=(most.log10().floor() as i32 + 1) {
        for factor in series {
            let edge = factor * 10f64.powi(decade);
            if edge <= least {
                edges.clear();
            }
            edges.push(edge);
            if edge > most {
                return edges;
            }
        }
    }
    edges
}

/// A bar that fills `share` (0 to 1) of `width` columns, in steps of an eighth of a column. A share above 0
/// is always visible.
pub(in crate::cli) fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::histogram::empty;

    fn of(values: &[u64]) -> Histogram<u64> {
        let mut histogram = empty(3);
        values.iter().for_each(|value| histogram.record(*value).expect("in range"));
        histogram
    }

    #[test]
    fn bars_contain_every_sample_in_at_most_the_rows() {
        for values in [
            &[150][..],
            &[100, 3_600_000_000_000],
            &[50_000, 51_000, 52_000, 99_000],
            &[20_000, 2_000_000, 10_000_000_000],
            &[1_000_000, 999_999, 1_000_001],
        ] {
            for rows in [1, 2, 3, 5, 10, 30] {
                let bars = bars(&of(values), rows);
                assert!(!bars.is_empty());
                assert!(bars.len() <= rows, "{values:?} in {rows}: {bars:?}");
                assert_eq!(bars.iter().map(|bar| bar.count).sum::<u64>(), values.len() as u64);
                assert!(bars.windows(2).all(|pair| pair[0].to == pair[1].from), "{bars:?}");
                assert!(bars[0].from <= values.iter().copied().min().expect("some") as f64, "{bars:?}");
            }
        }
        assert!(bars(&empty(3), 10).is_empty());
        assert!(bars(&of(&[5]), 0).is_empty());
    }

    #[test]
    fn bars_are_as_fine_as_fits() {
        let counts = |rows| bars(&of(&[1_100_000, 1_700_000, 4_000_000]), rows).len();
        assert_eq!((counts(3), counts(20)), (2, 13));
    }

    #[test]
    fn few_rows_are_all_used() {
        let values = [20_000, 50_000, 400_000, 3_000_000, 70_000_000, 2_000_000_000];
        for (rows, expected) in [(1, 1), (2, 1), (3, 2), (4, 3)] {
            assert_eq!(bars(&of(&values), rows).len(), expected, "{rows}");
        }
    }

    #[test]
    fn one_very_long_sample_does_not_hide_the_others() {
        let mut values: Vec<u64> = (100..300).map(|microsecond| microsecond * 1000).collect();
        values.push(10_000_000_000);
        let bars = bars(&of(&values), 10);
        assert!(bars.len() > 5, "{bars:?}");
        let last = bars.last().expect("some");
        assert!(last.count <= 3 && last.from <= 320_000.0 && last.to > 10e9, "{last:?}");
    }

    #[test]
    fn bars_are_drawn_to_the_eighth() {
        assert_eq!(bar(0.0, 10), "");
        assert_eq!(bar(1e-9, 10), "▏");
        assert_eq!(bar(0.5, 3), "█▌");
        assert_eq!(bar(1.0, 3), "███");
        assert_eq!(bar(7.0, 3), "███");
    }
}
