//! Records the events and outcomes of token streams. Their messages are recorded like all others.

use super::token_tally::Tokens;
use super::{Recorder, Times};
use hoptax_format::llm::TokenCounts;

impl Recorder {
    /// Records tokens too, if `asked` is true. Messages must be recorded.
    pub(crate) fn with_tokens(mut self, asked: bool) -> Self {
        if let Some(messages) = &mut self.tally.messages {
            messages.tokens = asked.then(|| Box::new(Tokens::new()));
        }
        self
    }

    /// Records the arrival of an event. `is_first` is true for the first one of its stream. An event with
    /// content is a message too.
    pub(crate) fn token_event(&mut self, times: Times, now: u64, is_first: bool, has_content: bool) {
        let sent = self.sent_in_time(times).filter(|_| is_first);
        let counts = self.counts(times.scheduled);
        self.has_heard = true;
        self.tally.busy.heard(now, (self.start, self.end));
        let Some(tokens) = self.token_record() else { return };
        if let Some(sent) = sent {
            tokens.first_event.saturating_record(now.saturating_sub(sent));
        }
        tokens.counts.other_events += u64::from(counts && !has_content);
    }

    /// Records the counts of a stream that has ended, and its time per token (nanoseconds) if known.
    pub(crate) fn tokens_ended(&mut self, scheduled: u64, (seen, per_token): (TokenCounts, Option<u64>)) {
        if !self.counts(scheduled) {
            return;
        }
        let Some(tokens) = self.token_record() else { return };
        tokens.counts.add(&seen);
        if let Some(ns) = per_token {
            tokens.per_token.saturating_record(ns);
        }
    }

    fn token_record(&mut self) -> Option<&mut Tokens> {
        self.tally.messages.as_mut()?.tokens.as_deref_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::histogram::Encoded;
    use hoptax_format::llm::TokensRecord;

    #[test]
    fn streams_count_if_they_were_scheduled_in_the_measured_time() {
        let mut recorder = Recorder::new(false, 1).with_messages(true).with_tokens(true);
        recorder.measure(10, 20_000);
        for (scheduled, now) in [(9, 5_000), (10, 5_000), (19_999, 25_000), (20_000, 25_000)] {
            let times = Times { sent: Some(scheduled + 1), ..Times::new(scheduled, 0) };
            for (is_first, has_content) in [(true, false), (false, true), (false, false)] {
                recorder.token_event(times, now, is_first, has_content);
            }
            let seen = TokenCounts { ended: 1, usage: 1, usage_tokens: 20, ..TokenCounts::default() };
            recorder.tokens_ended(scheduled, (seen, (scheduled == 10).then_some(500)));
        }
        let one = recorder.token_record().expect("recorded");
        let mut sum = Tokens::new();
        sum.add(one);
        sum.add(one);
        let TokensRecord { counts, histograms } = sum.record();
        let expected =
            TokenCounts { ended: 4, other_events: 8, usage: 4, usage_tokens: 80, ..TokenCounts::default() };
        assert_eq!(counts, expected);
        let length = |encoded: &Encoded| encoded.decode().expect("our own").len();
        assert_eq!((length(&histograms.first_event), length(&histograms.per_token)), (4, 2));
        assert!(Recorder::new(false, 1).with_messages(true).with_tokens(false).token_record().is_none());
    }
}
