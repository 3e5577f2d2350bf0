//! `false-end`: the upstream breaks off a stream of tokens, and a gateway ends it as if it were complete.

use super::tokens::{self, BROKEN};
use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, is_more, percent, percent_or_none};
use crate::Case;
use crate::trials::counts::failures;
use hoptax_stats::share;

const CODE: &str = "false-end";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "void".into(),
        when: "the upstream failed within streams of tokens, far fewer of them failed for clients of a \
               gateway than directly, and tokens are missing in streams that announced their end"
            .into(),
        seen: "A client then takes a partial answer for a complete one, and no load generator notices.",
        advice: "Let the gateway pass the failure: an error event, or a connection that is closed within the \
                 response. Clients then know that the answer is incomplete.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.pairs().filter_map(|(via, direct)| of_pair(via, direct)).collect()
}

/// True if a gateway hides failures. This explains missing tokens.
pub(super) fn is_raised(via: Measured<'_>, direct: Measured<'_>) -> bool {
    of_pair(via, direct).is_some()
}

/// Streams that failed for clients ÷ streams.
fn failed_share(case: &Case) -> Option<f64> {
    let counts = case.counts.as_ref()?;
    share(failures(counts) as f64, counts.scheduled as f64)
}

fn of_pair((case, via): Measured<'_>, (direct, of_direct): Measured<'_>) -> Option<Finding> {
    let (upstream, upstream_directly) = (tokens::upstream(via)?, tokens::upstream(of_direct)?);
    let broken = |counts: &hoptax_record::LlmCounts| {
        share(tokens::failed(counts, BROKEN) as f64, counts.requests as f64)
    };
    let (broken_share, broken_directly) = (broken(&upstream)?, broken(&upstream_directly)?);
    let (failed, failed_directly) = (failed_share(case)?, failed_share(direct)?);
    let (counts, lost) = (case.counts.as_ref()?, case.messages.as_ref()?.lost);
    // Expected number of failures, if broken streams fail for clients as often as directly.
    let expected = share(failed_directly * broken_share, broken_directly)? * counts.scheduled as f64;
    let is_hidden = is_more(expected as u64, failures(counts), 1.0) && expected >= 1.0;
    let scale = share(counts.scheduled as f64, direct.counts.as_ref()?.scheduled as f64)?;
    if !is_hidden || !is_more(lost, direct.messages.as_ref()?.lost, scale) {
        return None;
    }
    Some(Finding {
        evidence: evidence([
            ("broken_by_upstream", tokens::failed(&upstream, BROKEN).into()),
            ("broken_share", broken_share.into()),
            ("failed_share", failed.into()),
            ("failed_share_of_direct", failed_directly.into()),
            ("tokens_lost", lost.into()),
        ]),
        message: format!(
            "The upstream broke off {} of the streams via the gateway, and {} failed for clients; directly, \
             it broke off {} and {} failed. {lost} tokens are missing in streams that announced their end. \
             So the gateway ends broken streams as if they were complete.",
            percent(broken_share),
            percent_or_none(failed),
            percent(broken_directly),
            percent_or_none(failed_directly)
        ),
        ..about(CODE, Severity::Void, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::record::Cause;

    /// 1,000 streams. The upstream cuts some, this number fails for clients, and this number of tokens is
    /// missing in the others.
    fn trial(label: &str, cut: u64, failed: u64, lost: u64) -> MadeTrial {
        let trial = via(label, 0).server_stream_us(200, 1000).tokens_us([200, 200, 1000], 10);
        let trial = trial.llm(|counts| {
            counts.requests = 1000;
            counts.failures.insert("cut".to_owned(), cut);
        });
        trial.message_counts(|counts| counts.lost = lost).failures(Cause::ClosedInResponse, failed)
    }

    fn run(gateway: MadeTrial) -> Run {
        Run::closed(1).token_streams(10).with([trial("direct", 100, 100, 0).first(), gateway])
    }

    #[test]
    fn raised_by_failures_that_clients_do_not_see() {
        let run = run(trial("litellm", 100, 0, 500).token_counts(|counts| counts.usage = 900));
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
        for code in ["messages-differ", "different-work", "usage-altered"] {
            assert_eq!(raised(&run, code), [], "{code}");
        }
    }

    #[test]
    fn not_raised_if_clients_see_the_failures_or_there_are_none() {
        assert_eq!(raised(&run(trial("nginx", 100, 95, 0)), CODE), []);
        assert_eq!(raised(&run(trial("nginx", 0, 0, 500)), CODE), [], "messages-differ");
        assert_eq!(raised(&run(trial("nginx", 0, 0, 500)), "messages-differ").len(), 1);
        assert_eq!(raised(&run(trial("nginx", 100, 0, 0)), CODE), [], "whole: sent again");
    }
}
