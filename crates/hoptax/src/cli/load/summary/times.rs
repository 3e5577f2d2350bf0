//! The table of times, and the spectrum of the response time.

use super::super::figures::{percent, round, thousands, time};
use super::super::spectrum::{bar, bars};
use super::Summary;
use crate::cli::paint::Ink;
use hdrhistogram::Histogram;
use std::fmt;

const ROWS: [(&str, Row); 11] = [
    ("mean", Row::Mean),
    ("sd", Row::Deviation),
    ("shortest", Row::Shortest),
    ("50 %", Row::Quantile(0.5)),
    ("75 %", Row::Quantile(0.75)),
    ("90 %", Row::Quantile(0.9)),
    ("95 %", Row::Quantile(0.95)),
    ("99 %", Row::Quantile(0.99)),
    ("99.9 %", Row::Quantile(0.999)),
    ("longest", Row::Longest),
    ("samples", Row::Samples),
];
/// Rows of the spectrum.
const SPECTRUM: usize = 10;
/// Width of the longest bar of the spectrum.
const BARS: usize = 32;

#[derive(Debug, Clone, Copy)]
enum Row {
    Mean,
    Deviation,
    Shortest,
    Quantile(f64),
    Longest,
    Samples,
}

impl Summary<'_> {
    pub(super) fn times(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = &self.columns.0;
        // With six columns, each column is too narrow for the long names.
        let (width, short) = if columns.len() > 5 { (11, true) } else { (14, false) };
        write!(f, "\n{:9}", "")?;
        for (name, _) in columns {
            let name = if short { name.trim_end_matches(" time") } else { name };
            write!(f, "{name:>width$}")?;
        }
        writeln!(f)?;
        for (name, row) in ROWS {
            write!(f, "{name:>9}")?;
            for (_, histogram) in columns {
                write!(f, "{:>width$}", row.of(histogram))?;
            }
            writeln!(f)?;
        }
        let counts = &self.record.counts;
        let timeouts = counts.timeouts;
        if timeouts > 0 {
            writeln!(
                f,
                "{} of these are timeouts, counted with the time until they timed out",
                thousands(timeouts)
            )?;
        }
        let missing = counts.scheduled - counts.completed - timeouts;
        if missing > 0 {
            writeln!(
                f,
                "{} more failed, were not sent or did not finish; they are not included",
                thousands(missing)
            )?;
        }
        Ok(())
    }

    pub(super) fn spectrum(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let histogram = &self.response_time;
        let bars = bars(histogram, SPECTRUM);
        let tallest = bars.iter().map(|bar| bar.count).max().unwrap_or(0);
        if tallest > 0 {
            writeln!(f, "\n{}", self.paint.ink(Ink::Faint, "Response times"))?;
        }
        for row in bars {
            let drawn = bar(row.count as f64 / tallest as f64, BARS);
            writeln!(
                f,
                "{:>9} – {:>9}  {drawn:BARS$}{:>12}{:>9}",
                round(row.from),
                round(row.to),
                thousands(row.count),
                percent(row.count, histogram.len())
            )?;
        }
        Ok(())
    }
}

impl Row {
    fn of(self, histogram: &Histogram<u64>) -> String {
        if let Row::Samples = self {
            return thousands(histogram.len());
        }
        if histogram.is_empty() {
            return "-".to_owned();
        }
        time(match self {
            Row::Mean => histogram.mean(),
            Row::Deviation => histogram.stdev(),
            Row::Shortest => histogram.min() as f64,
            Row::Quantile(quantile) => histogram.value_at_quantile(quantile) as f64,
            Row::Longest | Row::Samples => histogram.max() as f64,
        })
    }
}
