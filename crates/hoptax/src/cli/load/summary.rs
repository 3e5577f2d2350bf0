//! The summary for people: the figures in which users of wrk, ab and siege find theirs, in at most 80 columns.

use crate::plan::units;
use hdrhistogram::Histogram;
use hoptax_load::histogram::{DecodeError, LOWEST};
use hoptax_load::record::LoadRecord;
use hoptax_load::spec::{LoadSpec, Shape};
use std::fmt;
use std::time::Duration;

const SECOND: f64 = 1e9;

/// Rows of the table of times.
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

#[derive(Debug, Clone, Copy)]
enum Row {
    Mean,
    Deviation,
    Shortest,
    Quantile(f64),
    Longest,
    Samples,
}

/// A record, ready to be written for people.
#[derive(Debug)]
pub(super) struct Summary<'a> {
    url: &'a str,
    spec: &'a LoadSpec,
    record: &'a LoadRecord,
    /// Columns of the table of times.
    columns: Vec<(&'static str, Histogram<u64>)>,
}

impl<'a> Summary<'a> {
    /// What `record` says about `spec`.
    pub(super) fn new(url: &'a str, spec: &'a LoadSpec, record: &'a LoadRecord) -> Result<Self, DecodeError> {
        let histograms = &record.histograms;
        let mut columns = vec![("response time", histograms.response_time.decode()?)];
        let send_lag = histograms.send_lag.decode()?;
        // In a closed loop they say the same as the response time, unless connections had to be made anew.
        if matches!(spec.shape, Shape::Open { .. }) || send_lag.max() >= LOWEST {
            columns.push(("service time", histograms.service_time.decode()?));
            columns.push(("send lag", send_lag));
        }
        columns.push(("first byte", histograms.first_byte.decode()?));
        columns.push(("connect", histograms.connect.decode()?));
        Ok(Self { url, spec, record, columns })
    }

    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = self.spec;
        writeln!(f, "{}", self.url)?;
        match &spec.shape {
            Shape::Closed => write!(f, "closed loop")?,
            Shape::Open { rate, arrivals } => {
                let (rate, arrivals) = (units::show_pace(rate), units::show_arrivals(*arrivals));
                write!(f, "open loop at {rate}, {arrivals} arrivals")?;
            }
        }
        let workers = self.record.workers;
        let (connections, s) = (spec.connections, if workers == 1 { "" } else { "s" });
        write!(f, ", {connections} connections, {workers} worker{s} on {}", self.record.event_loop)?;
        if spec.warmup_ns > 0 {
            write!(f, ", warm-up {}", units::show_duration(Duration::from_nanos(spec.warmup_ns)))?;
        }
        writeln!(f, "{}\n", if self.record.interrupted { "\nINTERRUPTED before its time" } else { "" })
    }

    fn totals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = self.record;
        let counts = &record.counts;
        let seconds = record.measured_ns as f64 / SECOND;
        let per_second = |value: u64| if seconds > 0.0 { value as f64 / seconds } else { 0.0 };
        let completed = record.completed_in_time;
        let throughput = per_second(completed);
        let bytes = record.bytes;
        line(f, "Duration", &format!("{seconds:.3} s"))?;
        line(
            f,
            "Requests",
            &format!("{} completed, {} scheduled", thousands(counts.completed), thousands(counts.scheduled)),
        )?;
        line(f, "Throughput", &format!("{} requests/s", decimals(throughput)))?;
        let received = format!(
            "{}/s received, {} in all",
            size(per_second(bytes.received)),
            size(bytes.received as f64)
        );
        line(f, "Transfer", &received)?;
        if completed > 0 {
            let mean = bytes.received as f64 / completed as f64;
            line(
                f,
                "Response",
                &format!(
                    "{} bytes on average, {:.0} of them body",
                    decimals(mean),
                    bytes.body as f64 / completed as f64
                ),
            )?;
        }
        let in_flight = throughput * self.columns[0].1.mean() / SECOND;
        line(f, "Concurrency", &format!("{in_flight:.2} requests under way on average"))?;
        let due = counts.scheduled - counts.in_flight;
        let available = if due > 0 { 100.0 * counts.completed as f64 / due as f64 } else { 0.0 };
        line(f, "Availability", &format!("{available:.2} %"))?;
        self.generator(f)
    }

    fn generator(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = self.record;
        let cpu = record.cpu;
        let per_request = cpu.used_ns as f64 / 1e3 / record.completed_in_time.max(1) as f64;
        let busy = 100.0 * cpu.busiest_worker_ns as f64 / record.measured_ns.max(1) as f64;
        line(
            f,
            "Generator",
            &format!("{per_request:.2} µs of CPU per request, busiest worker {busy:.0} % busy"),
        )
    }

    fn times(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{:9}", "")?;
        for (name, _) in &self.columns {
            write!(f, "{name:>14}")?;
        }
        writeln!(f)?;
        for (name, row) in ROWS {
            write!(f, "{name:>9}")?;
            for (_, histogram) in &self.columns {
                write!(f, "{:>14}", row.of(histogram))?;
            }
            writeln!(f)?;
        }
        let timeouts = self.record.counts.timeouts;
        if timeouts > 0 {
            writeln!(
                f,
                "{} of these are timeouts, taken at the moment they were given up",
                thousands(timeouts)
            )?;
        }
        let counts = &self.record.counts;
        let missing = counts.scheduled - counts.completed - timeouts;
        if missing > 0 {
            writeln!(
                f,
                "{} more requests failed or were not sent, and are not in these",
                thousands(missing)
            )?;
        }
        Ok(())
    }

    fn connections(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = self.record.connections;
        writeln!(f)?;
        let (asked, established) = (thousands(connections.asked), thousands(connections.established));
        line(f, "Connections", &format!("{asked} asked, {established} established when traffic began"))?;
        let (opened, closed) = (thousands(connections.opened), thousands(connections.closed_by_peer));
        line(f, "", &format!("{opened} opened while measuring, {closed} closed by the other side"))
    }

    fn outcomes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.record.counts;
        let statuses = counts.status.iter().map(|(status, count)| format!("{status}: {}", thousands(*count)));
        let statuses = statuses.collect::<Vec<_>>().join("  ");
        line(f, "Status", if statuses.is_empty() { "none" } else { &statuses })?;
        for (name, count) in [
            ("Timeouts", counts.timeouts),
            ("Connect errors", counts.connect_errors),
            ("Resets", counts.resets),
            ("Bad responses", counts.bad_responses),
            ("Unsent", counts.unsent),
            ("In flight", counts.in_flight),
        ] {
            if count > 0 {
                line(f, name, &thousands(count))?;
            }
        }
        for (text, count) in &counts.errors {
            writeln!(f, "  {:>12} × {text}", thousands(*count))?;
        }
        Ok(())
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        self.totals(f)?;
        self.times(f)?;
        self.connections(f)?;
        self.outcomes(f)
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

fn line(f: &mut fmt::Formatter<'_>, name: &str, text: &str) -> fmt::Result {
    writeln!(f, "{name:14} {text}")
}

/// Nanoseconds in the unit that suits them. Histograms do not tell what is below [`LOWEST`] from zero.
fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ns if ns < LOWEST as f64 => "0".to_owned(),
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

fn size(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1024.0 => format!("{bytes:.0} B"),
        bytes if bytes < 1024.0 * 1024.0 => format!("{:.2} KiB", bytes / 1024.0),
        bytes if bytes < 1024.0 * 1024.0 * 1024.0 => format!("{:.2} MiB", bytes / 1024.0 / 1024.0),
        bytes => format!("{:.2} GiB", bytes / 1024.0 / 1024.0 / 1024.0),
    }
}

/// One decimal, and commas between thousands.
fn decimals(value: f64) -> String {
    let tenths = (value * 10.0).round() as u64;
    format!("{}.{}", thousands(tenths / 10), tenths % 10)
}

fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(thousands),
            ["0", "999", "1,000", "1,234,567"].map(str::to_owned)
        );
        assert_eq!(decimals(12_345.67), "12,345.7");
        assert_eq!(
            [63.0, 350.0, 1_500.0, 2_340_000.0, 61e9].map(time),
            ["0", "350 ns", "1.5 µs", "2.34 ms", "61.00 s"].map(str::to_owned)
        );
        assert_eq!([10.0, 2048.0, 3.5e6].map(size), ["10 B", "2.00 KiB", "3.34 MiB"].map(str::to_owned));
    }
}
