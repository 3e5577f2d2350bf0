//! Messages of streams.

use super::super::figures::{thousands, time};
use hoptax_format::histogram::DecodeError;
use hoptax_format::messages::{MessageCounts, MessagesRecord};

/// The messages of a load.
#[derive(Debug)]
pub(super) struct Messages {
    counts: MessageCounts,
    /// Names of times, each with its p50 and p99, nanoseconds. Times that were not recorded are left out.
    times: Vec<(&'static str, [u64; 2])>,
}

impl Messages {
    pub(super) fn new(record: &MessagesRecord) -> Result<Self, DecodeError> {
        let histograms = &record.histograms;
        let mut times = Vec::new();
        let parts = [
            ("response time", Some(&histograms.response_time)),
            ("headers", histograms.headers.as_ref()),
            ("first message", Some(&histograms.first_message)),
            ("age", Some(&histograms.age)),
            ("gap", Some(&histograms.gap)),
            ("reach", histograms.reach.as_ref()),
        ];
        for (name, encoded) in parts.into_iter().filter_map(|(name, encoded)| Some((name, encoded?))) {
            let histogram = encoded.decode()?;
            if !histogram.is_empty() {
                times.push((name, [0.5, 0.99].map(|quantile| histogram.value_at_quantile(quantile))));
            }
        }
        Ok(Self { counts: record.counts, times })
    }

    /// The lines: the numbers of messages, then each kind of times.
    pub(super) fn lines(&self) -> Vec<String> {
        let MessageCounts {
            sent,
            received,
            lost,
            repeated,
            reordered,
            unnumbered,
            merged_in_read,
            merged_into_one,
            comments,
            pings,
            cut,
            refused,
            compressed,
        } = self.counts;
        let faults = [
            (lost, "lost"),
            (repeated, "repeated"),
            (reordered, "out of order"),
            (unnumbered, "without a number"),
            (merged_in_read, "in the same read"),
            (merged_into_one, "merged into one"),
            (comments, "comments"),
            (pings, "pings"),
            (cut, "WebSockets cut"),
            (refused, "handshakes refused"),
            (compressed, "WebSockets compressed"),
        ];
        let always = [(sent, "sent"), (received, "received")];
        let counts = always.into_iter().chain(faults.into_iter().filter(|(count, _)| *count > 0));
        let counted = |(count, what): (u64, &str)| format!("{} {what}", thousands(count));
        let counts: Vec<String> = counts.map(counted).collect();
        let times = self.times.iter().map(|(name, [p50, p99])| {
            format!("{name}: p50 {}, p99 {}", time(*p50 as f64), time(*p99 as f64))
        });
        std::iter::once(counts.join(", ")).chain(times).collect()
    }
}
