//! Messages of streams.

use super::super::figures::{decimals, percent, thousands, time};
use hoptax_format::histogram::DecodeError;
use hoptax_format::llm::TokenCounts;
use hoptax_format::messages::{MessageCounts, MessagesRecord};

/// What is counted, in the order of [`MessageCounts::all`].
const COUNTED: [&str; 13] = [
    "sent",
    "received",
    "lost",
    "repeated",
    "out of order",
    "without a number",
    "in the same read",
    "merged into one",
    "comments",
    "pings",
    "WebSockets cut",
    "handshakes refused",
    "WebSockets compressed",
];

/// Number of these counts that are shown even if they are zero.
const ALWAYS: usize = 2;

/// The messages of a load.
#[derive(Debug)]
pub(super) struct Messages {
    counts: MessageCounts,
    /// Absent without streams of tokens.
    tokens: Option<TokenCounts>,
    /// Names of times, each with its p50 and p99, nanoseconds. Times that were not recorded are left out.
    times: Vec<(&'static str, [u64; 2])>,
}

impl Messages {
    pub(super) fn new(record: &MessagesRecord) -> Result<Self, DecodeError> {
        let histograms = &record.histograms;
        let mut times = Vec::new();
        let tokens = record.tokens.as_ref().map(|tokens| &tokens.histograms);
        let first = if tokens.is_some() { "first content" } else { "first message" };
        let parts = [
            ("response time", Some(&histograms.response_time)),
            ("headers", histograms.headers.as_ref()),
            ("first event", tokens.map(|tokens| &tokens.first_event)),
            (first, Some(&histograms.first_message)),
            ("age of the first token", tokens.map(|tokens| &tokens.first_age)),
            ("age", Some(&histograms.age)),
            ("gap", Some(&histograms.gap)),
            ("time per token", tokens.map(|tokens| &tokens.per_token)),
            ("reach", histograms.reach.as_ref()),
        ];
        for (name, encoded) in parts.into_iter().filter_map(|(name, encoded)| Some((name, encoded?))) {
            let histogram = encoded.decode()?;
            if !histogram.is_empty() {
                times.push((name, [0.5, 0.99].map(|quantile| histogram.value_at_quantile(quantile))));
            }
        }
        let tokens = record.tokens.as_ref().map(|tokens| tokens.counts);
        Ok(Self { counts: record.counts, tokens, times })
    }

    /// The label of the lines.
    pub(super) fn label(&self) -> &'static str {
        if self.tokens.is_some() { "Tokens" } else { "Messages" }
    }

    /// A line about the streams of tokens. `seconds` is the measured time, in which `due` requests were due.
    fn streams(&self, seconds: f64, due: u64) -> Option<String> {
        let TokenCounts { ended, unended, errors, left, paused, other_events, usage, usage_tokens, good } =
            self.tokens?;
        let rate = |count: u64| decimals(if seconds > 0.0 { count as f64 / seconds } else { 0.0 });
        let rates = format!("{} tokens/s, {} streams/s", rate(self.counts.received), rate(ended + left));
        let rare = [
            (unended, "without an announced end"),
            (errors, "with an error event"),
            (left, "left"),
            (paused, "paused"),
            (other_events, "events without content"),
        ];
        let counts = std::iter::once((ended, "streams ended"))
            .chain(rare.into_iter().filter(|(count, _)| *count > 0))
            .map(|(count, what)| format!("{} {what}", thousands(count)));
        let claimed = format!("{} claimed {} tokens", thousands(usage), thousands(usage_tokens));
        let good =
            good.map(|good| format!("{} requests/s within all limits ({})", rate(good), percent(good, due)));
        let parts = std::iter::once(rates).chain(good).chain(counts).chain((usage > 0).then_some(claimed));
        Some(parts.collect::<Vec<_>>().join(", "))
    }

    /// The lines: the numbers of messages, the numbers of streams of tokens, then each kind of times.
    /// `seconds` is the measured time, in which `due` requests were due.
    pub(super) fn lines(&self, seconds: f64, due: u64) -> Vec<String> {
        let counts = self.counts.all().into_iter().zip(COUNTED).enumerate();
        let counts = counts.filter(|(at, (count, _))| *at < ALWAYS || *count > 0);
        let counts: Vec<String> =
            counts.map(|(_, (count, what))| format!("{} {what}", thousands(count))).collect();
        let times = self.times.iter().map(|(name, [p50, p99])| {
            format!("{name}: p50 {}, p99 {}", time(*p50 as f64), time(*p99 as f64))
        });
        std::iter::once(counts.join(", ")).chain(self.streams(seconds, due)).chain(times).collect()
    }
}
