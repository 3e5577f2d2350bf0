//! `--csv`: a time series with one row per window. Times are in microseconds. If a window has no responses,
//! the times in its row are empty.

use super::outcome::LoadOutcome;
use hoptax_format::histogram::Encoded;
use hoptax_format::record::{WINDOW_NS, Window};
use std::io::Write;

/// The columns in order. `docs/reference/load.md` explains them.
const COLUMNS: [&str; 12] = [
    "start_s",
    "length_s",
    "sent",
    "completed",
    "ok",
    "timeouts",
    "errors",
    "p50_us",
    "p90_us",
    "p99_us",
    "max_us",
    "mean_us",
];

pub(super) fn write(load: &LoadOutcome<'_>, out: &mut Vec<u8>) -> anyhow::Result<()> {
    writeln!(out, "{}", COLUMNS.join(","))?;
    for (index, window) in (0..).zip(&load.record.windows) {
        let start: u64 = index * WINDOW_NS;
        let length = WINDOW_NS.min(load.record.measured_ns.saturating_sub(start));
        writeln!(out, "{}", row(start, length, window)?)?;
    }
    Ok(())
}

fn row(start: u64, length: u64, window: &Window) -> anyhow::Result<String> {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut row = format!("{:.1},{:.3}", seconds(start), seconds(length));
    for count in [window.sent, window.completed, window.ok, window.timeouts, window.errors] {
        row.push_str(&format!(",{count}"));
    }
    let Some(histogram) = window.response_time.as_ref().map(Encoded::decode).transpose()? else {
        return Ok(row + ",,,,,");
    };
    let at = |quantile| histogram.value_at_quantile(quantile) as f64;
    for nanoseconds in [at(0.5), at(0.9), at(0.99), histogram.max() as f64, histogram.mean()] {
        row.push_str(&format!(",{:.1}", nanoseconds / 1e3));
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::histogram::{WINDOW_DIGITS, empty};

    #[test]
    fn each_row_has_each_column() {
        let mut histogram = empty(WINDOW_DIGITS);
        histogram.record(100_000).expect("in range");
        let busy = Window {
            sent: 2,
            completed: 1,
            ok: 1,
            response_time: Some(Encoded::new(&histogram)),
            ..Window::default()
        };
        let row_of = |window| row(200_000_000, WINDOW_NS, window).expect("readable");
        assert_eq!(row_of(&busy).split(',').count(), COLUMNS.len());
        assert!(row_of(&busy).starts_with("0.2,0.100,2,1,1,0,0,100."), "{}", row_of(&busy));
        assert_eq!(row_of(&Window::default()), "0.2,0.100,0,0,0,0,0,,,,,");
    }
}
