//! Results of streams of tokens.

use hdrhistogram::Histogram;
use hoptax_format::histogram::{self, Encoded, TRIAL_DIGITS};
use hoptax_format::llm::{TokenCounts, TokenHistograms, TokensRecord};

/// Results of one worker. Its three histograms need 216 KiB each.
#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) counts: TokenCounts,
    pub(super) first_event: Histogram<u64>,
    pub(super) first_age: Histogram<u64>,
    pub(super) per_token: Histogram<u64>,
}

impl Tokens {
    pub(super) fn new() -> Self {
        let [first_event, first_age, per_token] = [(); 3].map(|()| histogram::empty(TRIAL_DIGITS));
        Self { counts: TokenCounts::default(), first_event, first_age, per_token }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        for (mine, theirs) in [
            (&mut self.first_event, &other.first_event),
            (&mut self.first_age, &other.first_age),
            (&mut self.per_token, &other.per_token),
        ] {
            mine.add(theirs).expect("all have the same bounds");
        }
    }

    pub(super) fn record(&self) -> TokensRecord {
        let histograms = TokenHistograms {
            first_event: Encoded::new(&self.first_event),
            first_age: Encoded::new(&self.first_age),
            per_token: Encoded::new(&self.per_token),
        };
        TokensRecord { counts: self.counts, histograms }
    }
}
