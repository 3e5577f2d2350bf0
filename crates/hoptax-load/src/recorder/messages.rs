//! Messages of calls with streams.

use super::Recorder;
use super::times::Times;
use hdrhistogram::Histogram;
use hoptax_format::histogram::{self, Encoded, TRIAL_DIGITS};
use hoptax_format::messages::{MessageCounts, MessageHistograms, MessagesRecord, StreamKind, StreamSpec};

/// Results of one worker. Its four histograms need 216 KiB each.
#[derive(Debug)]
pub(crate) struct Messages {
    counts: MessageCounts,
    response_time: Histogram<u64>,
    first_message: Histogram<u64>,
    age: Histogram<u64>,
    gap: Histogram<u64>,
}

/// A message that has arrived whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) now: u64,
    /// When it was due. Absent if the message has no stamp.
    pub(crate) due: Option<u64>,
    pub(crate) spec: StreamSpec,
    pub(crate) repeated: bool,
    pub(crate) reordered: bool,
    /// When the message before it arrived. Absent for the first of a call.
    pub(crate) before: Option<u64>,
    /// True if it came in the same read as the message before it, and was due at another time.
    pub(crate) merged: bool,
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
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        for (mine, theirs) in [
            (&mut self.response_time, &other.response_time),
            (&mut self.first_message, &other.first_message),
            (&mut self.age, &other.age),
            (&mut self.gap, &other.gap),
        ] {
            mine.add(theirs).expect("all have the same bounds");
        }
    }

    /// The record. `mixed` is true if the load also had requests without streams.
    pub(crate) fn record(&self, mixed: bool) -> MessagesRecord {
        let histograms = MessageHistograms {
            response_time: Encoded::new(&self.response_time),
            first_message: Encoded::new(&self.first_message),
            age: Encoded::new(&self.age),
            gap: Encoded::new(&self.gap),
        };
        MessagesRecord { counts: self.counts, histograms, mixed }
    }
}

impl Recorder {
    /// Records that a message was sent that was due at `due`.
    pub(crate) fn message_sent(&mut self, due: u64) {
        if self.counts(due)
            && let Some(messages) = &mut self.tally.messages
        {
            messages.counts.sent += 1;
        }
    }

    /// Records the arrival of a message of the call with these times.
    pub(crate) fn message_arrived(&mut self, times: Times, arrival: Arrival) {
        let Arrival { now, due, spec, repeated, reordered, before, merged } = arrival;
        let is_echo = spec.kind == StreamKind::BothWays;
        // The clock of another host says nothing about this one.
        let due = due.filter(|_| is_echo || spec.same_clock);
        let (counts, call_counts) = (self.counts(due.unwrap_or(now)), self.counts(times.scheduled));
        let Some(messages) = &mut self.tally.messages else { return };
        if before.is_none()
            && call_counts
            && let Some(sent) = times.sent
        {
            messages.first_message.saturating_record(now.saturating_sub(sent));
        }
        if !counts {
            return;
        }
        messages.counts.received += 1;
        messages.counts.repeated += u64::from(repeated);
        messages.counts.reordered += u64::from(reordered);
        messages.counts.merged_in_read += u64::from(merged);
        if let Some(before) = before {
            messages.gap.saturating_record(now.saturating_sub(before));
        }
        match due {
            _ if repeated => {}
            Some(due) if is_echo => messages.response_time.saturating_record(now.saturating_sub(due)),
            Some(due) => messages.age.saturating_record(now.saturating_sub(due)),
            None => {}
        }
    }

    /// Records how many messages a successful call should have received and did not, and how many had no
    /// number.
    pub(crate) fn messages_lost(&mut self, scheduled: u64, now: u64, lost: u64, unnumbered: u64) {
        if scheduled < self.end
            && now >= self.start
            && let Some(messages) = &mut self.tally.messages
        {
            messages.counts.lost += lost;
            messages.counts.unnumbered += unnumbered;
        }
    }
}
