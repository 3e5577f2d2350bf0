//! `abort-ignored`: clients leave, and the upstream keeps sending tokens to the gateway.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent, tokens};
use crate::Trial;
use hoptax_stats::share;

const CODE: &str = "abort-ignored";
/// Smallest number of extra tokens to report, per stream that a client left. Via any gateway, the upstream
/// notices one or two tokens later than directly that the client has left.
const FEWEST: f64 = 4.0;
/// Limit for the extra tokens ÷ the tokens that the upstream sent.
const SHARE: f64 = 0.1;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "clients left streams of tokens, and for each such stream the upstream sent at least {FEWEST} \
             tokens more via a gateway than directly. These are more than {} of all tokens that it sent",
            percent(SHARE)
        ),
        seen: "Model providers charge for tokens that nobody reads.",
        advice: "Let the gateway close its request to the upstream when the client has left (nginx: \
                 `proxy_ignore_client_abort off`). If it keeps reading to fill a cache or a log, report the \
                 tokens as a cost of its settings.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.pairs().filter_map(|(via, direct)| of_pair(via, direct)).collect()
}

/// Tokens that the upstream sent for each stream.
fn per_stream(trials: &[Trial<'_>]) -> Option<f64> {
    let counts = tokens::upstream(trials)?;
    share(counts.tokens as f64, counts.streams as f64)
}

fn of_pair((case, via): Measured<'_>, (_, direct): Measured<'_>) -> Option<Finding> {
    let counts = tokens::counts(case).filter(|counts| counts.left > 0)?;
    let left = share(counts.left as f64, (counts.left + counts.ended) as f64)?;
    let (sent, directly) = (per_stream(via)?, per_stream(direct)?);
    let extra = (sent - directly) / left;
    let share_of_all = share(sent - directly, sent).filter(|share| *share > SHARE && extra >= FEWEST)?;
    Some(Finding {
        evidence: evidence([
            ("left", counts.left.into()),
            ("tokens_per_stream", sent.into()),
            ("tokens_per_stream_of_direct", directly.into()),
            ("extra_tokens_per_left_stream", extra.into()),
            ("share", share_of_all.into()),
        ]),
        message: format!(
            "Clients left {} of the streams. For each of them, the upstream sent {extra:.1} tokens more via \
             the gateway than directly: nobody read {} of its tokens. So the gateway keeps reading responses \
             after the client has left.",
            percent(left),
            percent(share_of_all)
        ),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    /// 1,000 streams. Clients leave this number, and the upstream sends this number of tokens for each.
    fn trial(label: &str, left: u64, sent: u64) -> MadeTrial {
        let trial = via(label, 0).server_stream_us(200, 1000).tokens_us([200, 200, 1000], sent);
        trial.token_counts(|counts| (counts.left, counts.ended) = (left, 1000 - left))
    }

    fn found(left: u64, directly: u64, gateway: u64) -> Vec<Finding> {
        let mut run = Run::closed(1).token_streams(20);
        run.push(trial("direct", left, directly).first()).push(trial("litellm", left, gateway));
        raised(&run, CODE)
    }

    #[test]
    fn raised_by_tokens_that_are_sent_for_nobody() {
        insta::assert_snapshot!(texts(&found(1000, 6, 20)));
        let some = found(500, 13, 20);
        assert_eq!(some[0].evidence["extra_tokens_per_left_stream"], 14.0);
    }

    #[test]
    fn not_raised_by_a_few_tokens_or_if_nobody_leaves() {
        assert_eq!(found(1000, 6, 8), [], "noticed two tokens later");
        assert_eq!(found(1000, 100, 106), [], "6 %");
        assert_eq!(found(0, 6, 20), [], "nobody left");
    }
}
