//! The text summary, in at most 80 columns. It contains the figures that wrk, ab and siege print.

use super::figures::{decimals, size, thousands};
use super::outcome::LoadOutcome;
use crate::cli::paint::{Ink, Paint};
use hdrhistogram::Histogram;
use hoptax_format::Address;
use hoptax_format::histogram::{DecodeError, Encoded, LOWEST};
use hoptax_format::record::LoadRecord;
use hoptax_format::spec::{HttpVersion, LoadSpec, Rate, Retry, Shape, Tunnel};
use hoptax_plan::{connections_in_words, units};
use std::fmt;
use std::time::Duration;

mod messages;
mod outcomes;
mod parts;
mod times;

const SECOND: f64 = 1e9;
const WIDTH: usize = 80;
/// Width of the labels.
const LABEL: usize = 15;

/// Columns of the table of times. Each column has a title and a histogram.
#[derive(Debug)]
struct Columns(Vec<(&'static str, Histogram<u64>)>);

/// A record, prepared for printing.
#[derive(Debug)]
pub(super) struct Summary<'a> {
    url: &'a str,
    spec: &'a LoadSpec,
    record: &'a LoadRecord,
    paint: Paint,
    response_time: Histogram<u64>,
    columns: Columns,
    /// p99 of the waits for a connection, a stream and a window, nanoseconds. Absent for HTTP/1.
    waits: Option<[u64; 3]>,
    /// Absent without streams of messages.
    messages: Option<messages::Messages>,
    targets: Vec<parts::Row>,
    stages: Vec<parts::Row>,
    outcome: &'a LoadOutcome<'a>,
}

impl<'a> Summary<'a> {
    pub(super) fn new(load: &'a LoadOutcome<'a>, paint: Paint) -> Result<Self, DecodeError> {
        let (spec, record) = (load.spec, load.record);
        let histograms = &record.histograms;
        let response_time = histograms.response_time.decode()?;
        let service_time = histograms.service_time.decode()?;
        let send_lag = histograms.send_lag.decode()?;
        let mut columns = vec![("response time", response_time.clone())];
        // In a closed loop, service times equal response times unless a connection has to be opened again.
        if matches!(spec.shape, Shape::Open { .. }) || send_lag.max() >= LOWEST {
            columns.push(("service time", service_time));
            columns.push(("send lag", send_lag));
        }
        columns.push(("first byte", histograms.first_byte.decode()?));
        columns.push(("connect", histograms.connect.decode()?));
        if let Some(handshake) = &histograms.tls_handshake {
            columns.push(("TLS", handshake.decode()?));
        }
        let stages = match &spec.shape {
            Shape::Open { rate: Rate::Stages(stages), .. } => parts::stages(stages, record)?,
            _ => Vec::new(),
        };
        let (targets, columns) = (parts::targets(&record.targets)?, Columns(columns));
        let waits = [&histograms.connection_wait, &histograms.stream_wait, &histograms.window_wait];
        let p99 = |wait: &Encoded| wait.decode().map(|wait| wait.value_at_quantile(0.99));
        let waits = match waits {
            [Some(connection), Some(stream), Some(window)] => {
                Some([p99(connection)?, p99(stream)?, p99(window)?])
            }
            _ => None,
        };
        let messages = record.messages.as_ref().map(messages::Messages::new).transpose()?;
        Ok(Self {
            url: load.url,
            spec,
            record,
            paint,
            response_time,
            columns,
            waits,
            messages,
            targets,
            stages,
            outcome: load,
        })
    }

    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = self.spec;
        writeln!(f, "{}", self.paint.ink(Ink::Strong, self.url))?;
        let mut words = Vec::new();
        match &spec.shape {
            Shape::Closed => words.push("closed loop".to_owned()),
            Shape::Open { rate: Rate::Stages(stages), arrivals } => {
                let s = if stages.len() == 1 { "" } else { "s" };
                words.push(format!("open loop in {} stage{s}", stages.len()));
                words.push(format!("{} arrivals", units::show_arrivals(*arrivals)));
            }
            Shape::Open { rate, arrivals } => {
                words.push(format!("open loop at {}", units::show_pace(rate)));
                words.push(format!("{} arrivals", units::show_arrivals(*arrivals)));
            }
        }
        let s = |count: u32| if count == 1 { "" } else { "s" };
        words.push(connections_in_words(spec.connections, spec.streams));
        let workers = self.record.workers;
        words.push(format!("{workers} worker{} on {}", s(workers), self.record.event_loop));
        if let [Address::Unix(path)] = spec.addresses.as_slice() {
            words.push(format!("Unix socket {}", path.display()));
        }
        if let Some(how) = proxy(spec) {
            words.push(how.to_owned());
        }
        if spec.addresses.len() > 1 {
            words.push(format!("to {} addresses in turn", spec.addresses.len()));
        }
        match spec.sources.as_slice() {
            [] => {}
            [only] => words.push(format!("from {only}")),
            several => words.push(format!("from {} addresses", several.len())),
        }
        match spec.http {
            HttpVersion::Http10 => words.push("HTTP/1.0".to_owned()),
            HttpVersion::Http11 => {}
            HttpVersion::Http2 => words.push("HTTP/2".to_owned()),
        }
        match spec.requests_per_connection {
            Some(1) => words.push("no keep-alive".to_owned()),
            Some(most) => words.push(format!("{most} requests per connection")),
            None => {}
        }
        if spec.retry == Retry::IdleClose {
            words.push("retry idle-close".to_owned());
        }
        if spec.warmup_ns > 0 {
            words.push(format!("warm-up {}", units::show_duration(Duration::from_nanos(spec.warmup_ns))));
        }
        write_wrapped(f, &words.join(", "), "")?;
        if self.record.interrupted {
            writeln!(f, "{}", self.paint.ink(Ink::Doubt, "INTERRUPTED: ended early"))?;
        }
        if self.record.gave_up {
            let text = "ENDED EARLY: every request failed, five or more on each connection";
            writeln!(f, "{}", self.paint.ink(Ink::Doubt, text))?;
        }
        writeln!(f)
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
        line(f, "Throughput", &self.paint.ink(Ink::Strong, format!("{} requests/s", decimals(throughput))))?;
        let received = format!(
            "{}/s received, {} in total",
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
        if let Some(in_flight) = self.outcome.concurrency() {
            line(f, "Concurrency", &format!("{in_flight:.2} requests in flight on average"))?;
        }
        let due = counts.scheduled - counts.in_flight;
        let share = |part: u64| if due > 0 { 100.0 * part as f64 / due as f64 } else { 0.0 };
        let mut available = format!("{:.2} %", share(counts.completed));
        if counts.ok < counts.completed {
            available += &format!(" answered, {:.2} % successful", share(counts.ok));
        }
        line(f, "Availability", &available)?;
        self.generator(f)
    }

    fn messages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(messages) = &self.messages else { return Ok(()) };
        let seconds = self.record.measured_ns as f64 / SECOND;
        let counts = &self.record.counts;
        let due = counts.scheduled.saturating_sub(counts.in_flight);
        for (index, text) in messages.lines(seconds, due).into_iter().enumerate() {
            write!(f, "{:LABEL$}", if index == 0 { messages.label() } else { "" })?;
            write_wrapped(f, &text, &" ".repeat(LABEL))?;
        }
        Ok(())
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

    fn doubts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.outcome.doubts.is_empty() {
            writeln!(f)?;
        }
        for doubt in &self.outcome.doubts {
            let mark = self.paint.ink(Ink::Doubt, "!");
            let text = format!("{doubt} {}", doubt.advice());
            for (index, line) in wrapped(&text, WIDTH - 2).iter().enumerate() {
                writeln!(f, "{} {line}", if index == 0 { &mark } else { " " })?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        self.totals(f)?;
        self.times(f)?;
        self.spectrum(f)?;
        self.connections(f)?;
        self.http2(f)?;
        self.messages(f)?;
        self.tls(f)?;
        self.outcomes(f)?;
        parts::write(f, "target", &self.targets)?;
        parts::write(f, "stage", &self.stages)?;
        self.limits(f)?;
        self.doubts(f)
    }
}

/// How requests use a forward proxy. `None` if they do not.
fn proxy(spec: &LoadSpec) -> Option<&'static str> {
    let has_whole_url = spec.targets.first().is_some_and(|target| target.path.starts_with("http://"));
    match (&spec.tunnel, has_whole_url) {
        (Some(Tunnel { tls: Some(_), .. }), _) => {
            Some("through CONNECT tunnels of a forward proxy, over TLS")
        }
        (Some(_), _) => Some("through CONNECT tunnels of a forward proxy"),
        (None, true) if spec.tls.is_some() => Some("through a forward proxy, over TLS"),
        (None, true) => Some("through a forward proxy"),
        (None, false) => None,
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, text: &str) -> fmt::Result {
    writeln!(f, "{name:LABEL$}{text}")
}

/// Writes `text` in lines of at most [`WIDTH`] characters. All lines except the first line start with
/// `indent`.
fn write_wrapped(f: &mut fmt::Formatter<'_>, text: &str, indent: &str) -> fmt::Result {
    for (index, line) in wrapped(text, WIDTH - indent.len()).iter().enumerate() {
        writeln!(f, "{}{line}", if index == 0 { "" } else { indent })?;
    }
    Ok(())
}

/// Wraps `text` at spaces, with at most `width` characters per line. A word longer than `width` gets a line
/// of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always one");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests;
