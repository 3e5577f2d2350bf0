//! Streams of tokens that wait while a gateway handles a long prompt: a sign of `head-of-line`.
//!
//! In a mix, the figures of each target are known. Some gateways handle a whole prompt at once, in the thread
//! that forwards tokens. This delays only streams that are open at that time: few of them, and by no more
//! than the prompt itself is delayed.

use super::{Subject, time_in_words};
use crate::Case;
use hoptax_plan::{Body, Target};
use hoptax_record::report::Difference;
use serde_json::Value;

/// Smallest length of a long prompt ÷ that of a short one.
pub(super) const LENGTHS: u64 = 16;
/// Shortest wait to report, µs. A plain proxy needs one or two ms to read 1 MiB.
pub(super) const LEAST_US: f64 = 5_000.0;
/// Limit for the wait of short prompts ÷ what the gateway adds to long ones. It is above 1, because two long
/// prompts can follow each other.
const MOST: f64 = 2.0;
pub(super) const ADVICE: &str = "Measure again without the long prompts. If the others then do not wait, \
                                 give the gateway more workers, or let it forward prompts without parsing \
                                 them.";

/// What a gateway adds to streams with short and with long prompts, µs.
#[derive(Debug)]
pub(super) struct Waits<'a> {
    short: &'a str,
    long: &'a str,
    short_p50: f64,
    short_p99: f64,
    long_p50: f64,
}

/// Length of a prompt, bytes. `None` if it is in a file.
fn length(target: &Target) -> Option<u64> {
    match target.body.as_ref()? {
        Body::Size(size) | Body::Like { size, .. } => Some(*size),
        Body::Text(text) => Some(text.len() as u64),
        Body::File(_) => None,
    }
}

/// Returns the waits if some streams with the shortest prompt wait for streams with the longest one.
pub(super) fn waits<'a>(subject: &Subject<'_>, case: &'a Case) -> Option<Waits<'a>> {
    let is_stream = |target: &&Target| target.llm.as_ref().is_some_and(|llm| llm.stream);
    let targets = subject.run.plan.targets.iter().filter(is_stream);
    let lengths: Vec<(u64, &str)> =
        targets.filter_map(|target| Some((length(target)?, target.name.as_str()))).collect();
    let (shortest, longest) = (lengths.iter().min()?, lengths.iter().max()?);
    if longest.0 < LENGTHS * shortest.0.max(1) {
        return None;
    }
    let of = |name: &str| case.targets.iter().find(|target| target.name == name);
    let (short, long) = (of(shortest.1)?, of(longest.1)?);
    let known = |added: Option<Difference>| added.filter(|added| added.distinguishable);
    let us = |added: Difference| added.estimate.estimate;
    let (long_p50, short_p99) = (us(known(long.added_p50)?), us(known(short.added_p99)?));
    let short_p50 = us(short.added_p50?);
    let wait = short_p99 - short_p50;
    let is_meant = wait >= LEAST_US && long_p50 >= LEAST_US && wait <= MOST * long_p50;
    is_meant.then_some(Waits { short: &short.name, long: &long.name, short_p50, short_p99, long_p50 })
}

impl Waits<'_> {
    pub(super) fn in_words(&self) -> String {
        format!(
            "The gateway adds {} to the p50 of the streams with short prompts ({}), and {} to their p99. To \
             those with long prompts ({}), it adds {} at p50. So a few streams seem to wait while the \
             gateway handles a long prompt.",
            time_in_words(self.short_p50.max(1.0)),
            self.short,
            time_in_words(self.short_p99),
            self.long,
            time_in_words(self.long_p50)
        )
    }

    pub(super) fn evidence(&self) -> [(&'static str, Value); 5] {
        [
            ("short", self.short.into()),
            ("long", self.long.into()),
            ("added_p50_us_of_short", self.short_p50.into()),
            ("added_p99_us_of_short", self.short_p99.into()),
            ("added_p50_us_of_long", self.long_p50.into()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use hoptax_format::llm::Api;
    use hoptax_plan::{Body, LlmRequest};
    use std::iter::repeat_n;

    const CODE: &str = "head-of-line";
    /// Time of a stream, µs.
    const STREAM: u64 = 250_000;

    /// A trial in which 30 of 980 streams with a short prompt take longer by `late`, and those with a long
    /// one by `long`, µs.
    fn trial(label: &str, round: u32, late: u64, long: u64) -> MadeTrial {
        let times = repeat_n(STREAM + 1_000, 950).chain(repeat_n(STREAM + 1_000 + late, 30));
        let made = via(label, round).response_times_us(times);
        let mut made = made.target("short", 980, STREAM).target("long", 20, STREAM + long);
        let load = made.0.load_record.as_mut().expect("made with one");
        load.targets[0].response_time = load.histograms.response_time.clone();
        made
    }

    /// Five rounds via a gateway. The long prompt has this length.
    fn run(late: u64, long: u64, bytes: u64) -> Run {
        let mut run = Run::mix(&[("short", 49), ("long", 1)]);
        for (target, bytes) in run.record.plan.targets.iter_mut().zip([1 << 10, bytes]) {
            target.llm = Some(LlmRequest::usual(Api::OpenAi));
            target.body = Some(Body::Size(bytes));
        }
        for round in 0..5 {
            let jitter = u64::from(round % 2) * 500;
            run.push(trial("direct", round, 0, 0).first()).push(trial("direct", round, 0, 0).last());
            run.push(trial("litellm", round, late + jitter, long + jitter));
        }
        run
    }

    #[test]
    fn raised_if_a_few_streams_wait_as_long_as_a_long_prompt_takes() {
        let findings = raised(&run(40_000, 45_000, 1 << 20), CODE);
        assert_eq!(findings.len(), 1);
        let wait = findings[0].evidence["added_p99_us_of_short"].as_f64().expect("a number");
        assert!((39_500.0..41_000.0).contains(&wait), "{wait}");
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn not_raised_if_nobody_waits_or_long_prompts_do_not_explain_it() {
        assert_eq!(raised(&run(3_000, 45_000, 1 << 20), CODE), [], "3 ms");
        assert_eq!(raised(&run(40_000, 1_500, 1 << 20), CODE), [], "long prompts take 1.5 ms more");
        assert_eq!(raised(&run(40_000, 45_000, 8 << 10), CODE), [], "8 KiB and 1 KiB");
        let mut others = run(40_000, 45_000, 1 << 20);
        others.record.plan.targets.iter_mut().for_each(|target| target.llm = None);
        assert_eq!(raised(&others, CODE), [], "no tokens");
    }
}
