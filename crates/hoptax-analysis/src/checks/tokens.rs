//! Streams of tokens, and requests to the language model that the upstream plays, over the trials of a case.

use crate::{Case, Trial};
use hoptax_format::histogram::{TRIAL_DIGITS, empty};
use hoptax_format::llm::TokenCounts;
use hoptax_record::{LlmCounts, Times};

/// The names of failures within a stream.
pub(super) const BROKEN: [&str; 3] = ["cut", "error-event", "silence"];
/// The names of failures that a gateway may answer with another attempt.
pub(super) const REFUSED: [&str; 3] = ["rate-limit", "server-error", "overloaded"];

/// What the clients counted. `None` without streams of tokens.
pub(super) fn counts(case: &Case) -> Option<&TokenCounts> {
    Some(&case.messages.as_ref()?.tokens.as_ref()?.counts)
}

/// What the upstream counted, including warm-up. `None` if it had no request to a language model, or did not
/// count them.
pub(super) fn upstream(trials: &[Trial<'_>]) -> Option<LlmCounts> {
    let mut sum = LlmCounts::default();
    for counts in trials.iter().filter_map(|trial| trial.record.ledger.as_ref()?.llm.as_ref()) {
        sum.requests += counts.requests;
        sum.streams += counts.streams;
        sum.tokens += counts.tokens;
        for (sum, counts) in [(&mut sum.failures, &counts.failures), (&mut sum.fields, &counts.fields)] {
            for (name, count) in counts {
                *sum.entry(name.clone()).or_default() += count;
            }
        }
    }
    (sum != LlmCounts::default()).then_some(sum)
}

/// Number of responses that the upstream let fail in these ways.
pub(super) fn failed(counts: &LlmCounts, kinds: [&str; 3]) -> u64 {
    kinds.iter().filter_map(|kind| counts.failures.get(*kind)).sum()
}

/// Quantiles of these times over all trials, µs. `None` if none were recorded.
pub(super) fn quantiles_us<const N: usize>(
    trials: &[Trial<'_>],
    times: Times,
    quantiles: [f64; N],
) -> Option<[f64; N]> {
    let mut all = empty(TRIAL_DIGITS);
    for one in trials.iter().filter_map(|trial| trial.times(times)) {
        all.add(one).ok()?;
    }
    (!all.is_empty()).then(|| quantiles.map(|quantile| all.value_at_quantile(quantile) as f64 / 1e3))
}
