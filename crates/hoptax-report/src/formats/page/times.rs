//! The trials of a case over time, in a compact form for charts.

use hoptax_analysis::Series;
use hoptax_record::DirectTrial;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Times {
    /// Round, counted from 0.
    round: u32,
    /// True for the second of the two direct trials of a round.
    last: bool,
    /// Time between two points, s.
    step_s: f64,
    /// Throughput at each point, requests/s.
    throughput: Vec<f64>,
    /// Median response time at each point, µs.
    p50_us: Vec<Option<f64>>,
    /// 99th percentile of the response time at each point, µs.
    p99_us: Vec<Option<f64>>,
}

impl Times {
    pub(super) fn new(series: &Series) -> Self {
        let short_all = |times: &[Option<f64>]| times.iter().map(|time| time.map(short)).collect();
        Self {
            round: series.round,
            last: series.direct == Some(DirectTrial::Last),
            step_s: short(series.step_s),
            throughput: series.throughput.iter().copied().map(short).collect(),
            p50_us: short_all(&series.p50_us),
            p99_us: short_all(&series.p99_us),
        }
    }
}

/// Rounds to four significant digits, because a chart cannot show more.
pub(super) fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    match digits {
        0.. => (value * 10_f64.powi(digits)).round() / 10_f64.powi(digits),
        _ => (value / 10_f64.powi(-digits)).round() * 10_f64.powi(-digits),
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn four_digits_stay() {
        for (value, expected) in
            [(123_456.0, 123_500.0), (0.123_456, 0.1235), (-98.765, -98.77), (0.0, 0.0), (7.0, 7.0)]
        {
            assert_eq!(short(value), expected);
        }
    }
}
