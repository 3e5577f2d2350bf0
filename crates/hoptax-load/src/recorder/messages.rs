//! Messages of exchanges with streams.

use super::reach::Reach;
use super::token_tally::Tokens;
use hdrhistogram::Histogram;
use hoptax_format::histogram::{self, Encoded, TRIAL_DIGITS};
use hoptax_format::messages::{MessageCounts, MessageHistograms, MessagesRecord, StreamKind, StreamSpec};

/// Results of one worker. Its five histograms need 216 KiB each.
#[derive(Debug)]
pub(crate) struct Messages {
    pub(super) counts: MessageCounts,
    response_time: Histogram<u64>,
    first_message: Histogram<u64>,
    age: Histogram<u64>,
    gap: Histogram<u64>,
    headers: Histogram<u64>,
    /// Absent unless the load has a fan-out.
    pub(super) reach: Option<Reach>,
    /// Absent unless the load has streams of tokens.
    pub(super) tokens: Option<Box<Tokens>>,
}

/// A message that has arrived whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) now: u64,
    /// Its number in its stream. Absent if the message has no stamp.
    pub(crate) number: Option<u64>,
    /// When it was due. Absent if the message has no stamp.
    pub(crate) due: Option<u64>,
    pub(crate) spec: StreamSpec,
    pub(crate) repeated: bool,
    pub(crate) reordered: bool,
    /// When the message before it arrived. Absent for the first of a call.
    pub(crate) before: Option<u64>,
    /// True if it came in the same read as the message before it, and was due at another time.
    pub(crate) merged: bool,
    /// True if it came inside the message before it.
    pub(crate) merged_into_one: bool,
    /// True if the client paused before ([`hoptax_format::llm::Pause`]). The times then say nothing about the
    /// server.
    pub(crate) after_pause: bool,
}

impl Messages {
    pub(super) fn new() -> Self {
        let empty = || histogram::empty(TRIAL_DIGITS);
        Self {
            counts: MessageCounts::default(),
            response_time: empty(),
            first_message: empty(),
            age: empty(),
            gap: empty(),
            headers: empty(),
            reach: None,
            tokens: None,
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        for (mine, theirs) in [
            (&mut self.response_time, &other.response_time),
            (&mut self.first_message, &other.first_message),
            (&mut self.age, &other.age),
            (&mut self.gap, &other.gap),
            (&mut self.headers, &other.headers),
        ] {
            mine.add(theirs).expect("all have the same bounds");
        }
        if let Some(theirs) = &other.reach {
            self.reach.get_or_insert_default().add(theirs);
        }
        if let Some(theirs) = &other.tokens {
            self.tokens.get_or_insert_with(|| Box::new(Tokens::new())).add(theirs);
        }
    }

    /// The record. `mixed` is true if the load also had requests without streams.
    pub(crate) fn record(&self, mixed: bool) -> MessagesRecord {
        let histograms = MessageHistograms {
            response_time: Encoded::new(&self.response_time),
            first_message: Encoded::new(&self.first_message),
            age: Encoded::new(&self.age),
            gap: Encoded::new(&self.gap),
            headers: Some(Encoded::new(&self.headers)),
            reach: self.reach.as_ref().map(Reach::record),
        };
        let tokens = self.tokens.as_deref().map(Tokens::record);
        MessagesRecord { counts: self.counts, histograms, mixed, tokens }
    }

    pub(super) fn sent(&mut self) {
        self.counts.sent += 1;
    }

    /// Records the time from sending a request until the head of its response had arrived.
    pub(super) fn head(&mut self, ns: u64) {
        self.headers.saturating_record(ns);
    }

    /// Records the time from sending a request until its first message arrived.
    pub(super) fn first(&mut self, ns: u64) {
        self.first_message.saturating_record(ns);
    }

    /// Records a message that was due in the measured time. `due` is absent if that time is not of our clock.
    pub(super) fn arrived(&mut self, arrival: Arrival, due: Option<u64>) {
        let Arrival { now, number, spec, repeated, reordered, before, merged, after_pause, .. } = arrival;
        self.counts.received += 1;
        self.counts.repeated += u64::from(repeated);
        self.counts.reordered += u64::from(reordered);
        self.counts.merged_in_read += u64::from(merged && !after_pause);
        self.counts.merged_into_one += u64::from(arrival.merged_into_one);
        if after_pause {
            return;
        }
        if let Some(before) = before {
            self.gap.saturating_record(now.saturating_sub(before));
        }
        match due {
            _ if repeated => {}
            Some(due) if spec.kind == StreamKind::BothWays => {
                self.response_time.saturating_record(now.saturating_sub(due));
            }
            Some(due) => {
                self.age.saturating_record(now.saturating_sub(due));
                if let (true, Some(reach), Some(number)) = (spec.fan_out, &mut self.reach, number) {
                    reach.arrived(number, due, now);
                }
            }
            None => {}
        }
    }

    pub(super) fn lost(&mut self, lost: u64, unnumbered: u64) {
        self.counts.lost += lost;
        self.counts.unnumbered += unnumbered;
    }
}
