//! `stream-buffered`: messages that the sender spaced arrive together via a gateway.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use crate::{Case, Trial};
use hoptax_stats::share;

const CODE: &str = "stream-buffered";
const ADVICE: &str = "Turn the gateway's buffering of responses off (nginx: `grpc_pass` instead of \
                      `proxy_pass`, Apache: `H2OutputBuffering off`), or report it as a cost of its \
                      settings.";
/// Limit for the share of messages that arrived with the message before them. Below it, the p99 of the
/// messages is not affected.
const TOGETHER: f64 = 0.01;
/// Limit for the gateway's share ÷ direct's largest share. A busy client reads several messages at a time,
/// too, and then direct's share scatters by about a half.
const MORE: f64 = 2.0;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "in most trials via a gateway, more than {} of the messages of streams, and more than twice \
             direct's share, arrived together with the message before them, although they were due at \
             different times",
            percent(TOGETHER)
        ),
        seen: "A gateway that collects messages looks cheap, because it writes less often, while each \
               message arrives late.",
        advice: ADVICE,
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.pairs().filter_map(|(via, direct)| of_pair(via, direct)).collect()
}

/// The shares of messages that arrived with the message before them: of each trial, the smallest first.
fn together(trials: &[Trial<'_>]) -> Vec<f64> {
    let of = |trial: &Trial<'_>| {
        let counts = trial.load.messages.as_ref()?.counts;
        share(counts.merged_in_read as f64, counts.received as f64)
    };
    let mut shares: Vec<f64> = trials.iter().filter_map(of).collect();
    shares.sort_by(f64::total_cmp);
    shares
}

fn gap_us(case: &Case) -> Option<f64> {
    Some(case.message.as_ref()?.gap.as_ref()?.p50.as_ref()?.estimate)
}

fn of_pair((case, trials): Measured<'_>, (direct, of_direct): Measured<'_>) -> Option<Finding> {
    let shares = together(trials);
    // Of an even number of trials, more than half are at or above this share.
    let typical = *shares.get(shares.len().saturating_sub(1) / 2)?;
    let largest = *together(of_direct).last()?;
    if typical <= TOGETHER || typical <= MORE * largest {
        return None;
    }
    let counts = case.messages.as_ref()?;
    let all = share(counts.merged_in_read as f64, counts.received as f64)?;
    Some(Finding {
        evidence: evidence([
            ("received", counts.received.into()),
            ("together", counts.merged_in_read.into()),
            ("share", all.into()),
            ("share_of_direct", largest.into()),
            ("gap_p50_us", gap_us(case).into()),
            ("gap_p50_us_of_direct", gap_us(direct).into()),
        ]),
        message: format!(
            "{} of the messages of streams arrived together with the message before them via the gateway, \
             although they were due at different times. Directly, at most {} did. So the gateway keeps \
             messages back.",
            percent(all),
            percent(largest)
        ),
        advice: ADVICE.to_owned(),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{raised, texts};
    use super::*;
    use crate::fixture::{Run, via};

    /// Two direct trials and three of a gateway, with these numbers of the 10,000 messages of each that
    /// arrived with the message before them.
    fn run(direct: [u64; 2], gateway: [u64; 3]) -> Run {
        let mut run = Run::closed(1);
        let merged = |label: &str, round: u32, merged: u64, gap_us: u64| {
            let trial = via(label, round).server_stream_us(40, gap_us);
            trial.message_counts(|counts| counts.merged_in_read = merged)
        };
        for (round, together) in (0..).zip(direct) {
            run.push(merged("direct", round, together, 1000).first());
        }
        for (round, together) in (0..).zip(gateway) {
            run.push(merged("nginx", round, together, 100));
        }
        run
    }

    #[test]
    fn raised_if_messages_arrive_together_in_most_trials() {
        let findings = raised(&run([20, 10], [4000, 0, 4400]), CODE);
        assert_eq!((findings.len(), findings[0].severity), (1, Severity::Warning));
        let evidence = &findings[0].evidence;
        assert_eq!((evidence["together"].as_u64(), evidence["share"].as_f64()), (Some(8400), Some(0.28)));
        assert_eq!(evidence["share_of_direct"].as_f64(), Some(0.002));
        let gaps = ["gap_p50_us", "gap_p50_us_of_direct"].map(|name| evidence[name].as_f64());
        let gaps = gaps.map(|gap| gap.expect("a number").round());
        assert_eq!(gaps, [100.0, 1000.0]);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn not_raised_by_few_by_one_trial_or_if_direct_is_alike() {
        assert_eq!(raised(&run([0, 0], [100, 100, 100]), CODE), [], "1 %");
        assert_eq!(raised(&run([0, 0], [9000, 10, 20]), CODE), [], "one trial");
        assert_eq!(raised(&run([10, 2100], [4000, 4000, 4000]), CODE), [], "less than twice direct's");
        assert_eq!(raised(&Run::steady(3, 100, &[("nginx", 150)]), CODE), [], "no streams");
    }
}
