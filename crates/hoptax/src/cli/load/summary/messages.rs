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
        for (name, encoded) in [
            ("response time", &histograms.response_time),
            ("first message", &histograms.first_message),
            ("age", &histograms.age),
            ("gap", &histograms.gap),
        ] {
            let histogram = encoded.decode()?;
            if !histogram.is_empty() {
                times.push((name, [0.5, 0.99].map(|quantile| histogram.value_at_quantile(quantile))));
            }
        }
        Ok(Self { counts: record.counts, times })
    }

    /// The lines: the numbers of messages, then each kind of times.
    pub(super) fn lines(&self) -> Vec<String> {
        let MessageCounts { sent, received, lost, repeated, reordered, unnumbered, merged_in_read, .. } =
            self.counts;
        let faults = [
            (lost, "lost"),
            (repeated, "repeated"),
            (reordered, "out of order"),
            (unnumbered, "without a number"),
            (merged_in_read, "in the same read"),
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
