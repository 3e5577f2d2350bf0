//! `usage-altered`: streams via a gateway state another number of tokens than direct's, or none.

use super::{
    Finding, Measured, Rule, Severity, Subject, about, evidence, false_end, is_chance, percent, tokens,
};
use crate::Trial;
use hoptax_plan::Upstream;
use hoptax_stats::share;

const CODE: &str = "usage-altered";
/// Smallest difference to report between the shares of streams that state a number of tokens.
const DIFFERENT: f64 = 0.01;
/// Smallest relative difference to report between the mean numbers. With the built-in upstream and a single
/// target, all streams state the same number, unless a gateway changes it.
const EXACT: f64 = 0.001;
/// The same, if numbers vary. [`ERRORS`] standard errors are added.
const LOOSE: f64 = 0.1;
/// A difference of the means by this many standard errors is not due to chance. The rule assumes that numbers
/// scatter by as much as their mean.
const ERRORS: f64 = 5.0;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "clients requested the number of tokens, and the share of streams that state it differs from \
             direct's by more than {}, or the mean of the stated numbers by more than {} ({} if there are \
             several targets or the upstream already runs; both must then also differ by more than chance \
             explains)",
            percent(DIFFERENT),
            percent(EXACT),
            percent(LOOSE)
        ),
        seen: "Bills and limits of users depend on this number. Some gateways count tokens again, with \
               another tokenizer.",
        advice: "Compare the last events of a stream with those of direct. Let the gateway pass the \
                 provider's numbers instead of counting tokens itself.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let plan = &subject.run.plan;
    let mut specs = plan.targets.iter().filter_map(|target| target.stream?.tokens);
    if !specs.any(|spec| spec.usage) {
        return Vec::new();
    }
    let is_exact = plan.targets.len() == 1 && matches!(plan.upstream, Upstream::BuiltIn(_));
    // A stream with a false end has no number.
    let pairs = subject.pairs().filter(|(via, direct)| !false_end::is_raised(*via, *direct));
    pairs.filter_map(|(via, direct)| of_pair(via, direct, is_exact)).collect()
}

/// True if the upstream sends more or fewer tokens via the gateway, by about this ratio. The stated number is
/// then right, although it differs from direct's.
fn is_explained(ratio: f64, via: &[Trial<'_>], direct: &[Trial<'_>]) -> bool {
    let sent = |trials: &[Trial<'_>]| {
        let counts = tokens::upstream(trials)?;
        share(counts.tokens as f64, counts.streams as f64).filter(|tokens| *tokens > 0.0)
    };
    let sent = sent(via).zip(sent(direct)).map_or(1.0, |(via, direct)| via / direct);
    (sent - 1.0).abs() > LOOSE && (ratio - sent).abs() <= LOOSE * sent
}

fn of_pair((case, via): Measured<'_>, (direct, directly): Measured<'_>, is_exact: bool) -> Option<Finding> {
    let (counts, of_direct) = (tokens::counts(case)?, tokens::counts(direct)?);
    let said = share(counts.usage as f64, counts.ended as f64)?;
    let said_directly = share(of_direct.usage as f64, of_direct.ended as f64)?;
    let sayings = [(counts.usage, counts.ended), (of_direct.usage, of_direct.ended)];
    let is_random = !is_exact && is_chance(sayings);
    let scatter = (1.0 / counts.usage as f64 + 1.0 / of_direct.usage as f64).sqrt();
    let limit = if is_exact { EXACT } else { LOOSE + ERRORS * scatter };
    let mean = share(counts.usage_tokens as f64, counts.usage as f64);
    let mean_directly = share(of_direct.usage_tokens as f64, of_direct.usage as f64);
    let numbers = mean.zip(mean_directly).filter(|(said, said_directly)| {
        let ratio = said / said_directly;
        (ratio - 1.0).abs() > limit && !is_explained(ratio, via, directly)
    });
    let message = match numbers {
        _ if (said - said_directly).abs() > DIFFERENT && !is_random => format!(
            "{} of the streams via the gateway state their number of tokens, and {} directly, although \
             clients requested it.",
            percent(said),
            percent(said_directly)
        ),
        Some((via, direct)) => format!(
            "Streams state {via:.1} tokens on average via the gateway, and {direct:.1} directly. So the \
             gateway does not pass the upstream's number."
        ),
        None => return None,
    };
    Some(Finding {
        evidence: evidence([
            ("share", said.into()),
            ("share_of_direct", said_directly.into()),
            ("mean_tokens", mean.into()),
            ("mean_tokens_of_direct", mean_directly.into()),
        ]),
        message,
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    /// 1,000 streams. Some say this number of tokens.
    fn trial(label: &str, usage: u64, tokens: u64) -> MadeTrial {
        let trial = via(label, 0).server_stream_us(200, 1000).tokens_us([200, 200, 1000], 10);
        trial.token_counts(|counts| (counts.usage, counts.usage_tokens) = (usage, usage * tokens))
    }

    fn run(gateway: MadeTrial) -> Run {
        Run::closed(1).token_streams(10).with([trial("direct", 1000, 10).first(), gateway])
    }

    #[test]
    fn raised_by_other_numbers_and_by_missing_ones() {
        insta::assert_snapshot!(texts(&raised(&run(trial("litellm", 1000, 12)), CODE)));
        insta::assert_snapshot!(texts(&raised(&run(trial("litellm", 500, 10)), CODE)));
    }

    #[test]
    fn not_raised_by_the_same_numbers_by_chance_or_if_nobody_asked() {
        assert_eq!(raised(&run(trial("nginx", 995, 10)), CODE), []);
        let longer = trial("nginx", 1000, 20).llm(|counts| counts.tokens *= 2);
        assert_eq!(raised(&run(longer), CODE), [], "the gateway drops `max_tokens`");
        let varied = |usage, tokens| {
            let mut run = run(trial("nginx", usage, tokens));
            run.record.plan.targets.push(run.record.plan.targets[0].clone());
            raised(&run, CODE).len()
        };
        assert_eq!((varied(1000, 11), varied(1000, 13)), (0, 0), "numbers vary");
        assert_eq!((varied(985, 10), varied(500, 10), varied(1000, 20)), (0, 1, 1));
        let mut unasked = run(trial("nginx", 0, 0));
        let stream = unasked.record.plan.targets[0].stream.as_mut().expect("tokens");
        stream.tokens.as_mut().expect("tokens").usage = false;
        assert_eq!(raised(&unasked, CODE), []);
    }
}
