//! `silence`: a gateway removes the comments that keep event streams alive, or a slow first token ends in a
//! timeout.

use super::frames_changed::in_each;
use super::{
    Finding, Measured, Rule, Severity, Subject, about, duration_in_words, evidence, is_more, percent,
    percent_or_none, tokens,
};
use crate::Case;
use hoptax_plan::Upstream;
use hoptax_stats::share;
use serde_json::json;
use std::time::Duration;

const CODE: &str = "silence";
/// Smallest number of comments that must be missing, and of timeouts. Fewer can be due to chance.
const FEWEST: f64 = 10.0;
/// Shortest wait for a token that can explain timeouts. The time limits of gateways are longer.
const SLOW: Duration = Duration::from_secs(1);
/// Status of a gateway whose upstream was silent for too long.
const GATEWAY_TIMEOUT: u16 = 504;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "event streams via a gateway have fewer than half of the comments that direct's have, and at \
             least {FEWEST} are missing. Or the upstream waits for at least {} before a token, and far more \
             streams end in a timeout or status {GATEWAY_TIMEOUT} via the gateway than directly",
            duration_in_words(SLOW)
        ),
        seen: "A model that thinks for a minute sends comments, so that no proxy takes the stream for dead.",
        advice: "Let the gateway pass comments, or send its own while it waits. Set its limits for silent \
                 responses above the longest wait.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let pairs = subject.pairs();
    pairs.filter_map(|(via, direct)| of_pair(via, direct, longest_wait(subject, via.0))).collect()
}

/// The longest wait for an event that the plan causes. `None` if there is none, or the upstream already runs.
fn longest_wait(subject: &Subject<'_>, case: &Case) -> Option<Duration> {
    let Upstream::BuiltIn(upstream) = &subject.run.plan.upstream else { return None };
    let wait = match (&upstream.llm, &upstream.events) {
        (Some(llm), _) if tokens::counts(case).is_some() => Some(llm.first_token.mean().max(llm.gap)),
        (_, events) => events.as_ref().map(|events| events.first.max(events.gap)),
    };
    wait.filter(|wait| !wait.is_zero())
}

/// Comments of each stream via the gateway and directly, if the gateway removes them.
fn removed((case, _): Measured<'_>, (direct, of_direct): Measured<'_>) -> Option<[f64; 2]> {
    let (via, directly) = (case.messages.as_ref()?.comments, direct.messages.as_ref()?.comments);
    let completed = |case: &Case| case.counts.as_ref().map(|counts| counts.completed as f64);
    let [streams, streams_directly] = [completed(case)?, completed(direct)?];
    // Answers of a cache have no waits.
    let is_cached = case.ledger.as_ref().is_some_and(|ledger| 2 * ledger.requests < ledger.sent);
    let [each, expected] = [share(via as f64, streams)?, share(directly as f64, streams_directly)?];
    let is_fewer = expected * streams - via as f64 >= FEWEST
        && is_more(directly, via, share(streams_directly, streams)?)
        && in_each(of_direct, |counts| counts.comments);
    (is_fewer && !is_cached).then_some([each, expected])
}

/// Shares of the streams of tokens that end in a timeout, via the gateway and directly. `None` unless
/// direct's share is far smaller.
fn timeouts(case: &Case, direct: &Case) -> Option<[f64; 2]> {
    tokens::counts(case)?;
    let of = |case: &Case| {
        let counts = case.counts.as_ref()?;
        let refused = counts.status.get(&GATEWAY_TIMEOUT).copied().unwrap_or(0);
        Some((counts.timeouts + refused, counts.scheduled as f64))
    };
    let ((via, streams), (directly, streams_directly)) = (of(case)?, of(direct)?);
    let is_slow = via as f64 >= FEWEST && is_more(via, directly, share(streams, streams_directly)?);
    is_slow.then_some([via as f64 / streams, directly as f64 / streams_directly])
}

fn of_pair(via: Measured<'_>, direct: Measured<'_>, wait: Option<Duration>) -> Option<Finding> {
    let removed = removed(via, direct);
    let slow = wait.filter(|wait| *wait >= SLOW);
    let slow = slow.and_then(|wait| Some((timeouts(via.0, direct.0)?, wait)));
    let silent = || {
        wait.map_or_else(
            || "until the next event".to_owned(),
            |wait| format!("for {}", duration_in_words(wait)),
        )
    };
    let message = match (removed, slow) {
        (Some([each, expected]), _) => format!(
            "Event streams have {each:.1} comments each via the gateway, and {expected:.1} directly. So the \
             gateway removes some: clients hear nothing {}, and proxies on the way to them may end the \
             streams.",
            silent()
        ),
        (None, Some(([timeouts, directly], wait))) => format!(
            "{} of the streams end in a timeout via the gateway, and {} directly. The upstream waits for {} \
             before a token. A limit of the gateway may be shorter.",
            percent(timeouts),
            percent_or_none(directly),
            duration_in_words(wait)
        ),
        (None, None) => return None,
    };
    Some(Finding {
        evidence: evidence([
            ("comments_per_stream", json!(removed.map(|[each, _]| each))),
            ("comments_per_stream_of_direct", json!(removed.map(|[_, expected]| expected))),
            ("timeouts", json!(slow.map(|([share, _], _)| share))),
            ("timeouts_of_direct", json!(slow.map(|([_, share], _)| share))),
            ("wait_ms", json!(wait.map(|wait| wait.as_secs_f64() * 1e3))),
        ]),
        message,
        ..about(CODE, Severity::Warning, &via.0.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_plan::{Delay, UpstreamLlm};

    /// 1,000 streams of tokens, with this number of comments. Some time out.
    fn trial(label: &str, comments: u64, timeouts: u64) -> MadeTrial {
        let trial = via(label, 0).server_stream_us(200, 1000).tokens_us([200, 200, 1000], 10);
        trial.message_counts(|counts| counts.comments = comments).timeouts(timeouts)
    }

    fn found(direct: (u64, u64), gateway: (u64, u64), first_token_ms: u64) -> Vec<Finding> {
        let mut run = Run::closed(1).token_streams(10);
        let Upstream::BuiltIn(upstream) = &mut run.record.plan.upstream else { panic!("built in") };
        let first_token = Delay::Fixed(Duration::from_millis(first_token_ms));
        upstream.llm = Some(UpstreamLlm { first_token, ..UpstreamLlm::default() });
        run.push(trial("direct", direct.0, direct.1).first());
        run.push(trial("portkey", gateway.0, gateway.1));
        assert_eq!(raised(&run, "frames-changed"), []);
        raised(&run, CODE)
    }

    #[test]
    fn raised_if_comments_are_removed() {
        let findings = found((3000, 0), (0, 0), 20_000);
        insta::assert_snapshot!(texts(&findings));
        assert_eq!(findings[0].evidence["comments_per_stream_of_direct"], 3.0);
        assert_eq!(found((3000, 0), (600, 0), 0).len(), 1, "one in five passes");
    }

    #[test]
    fn raised_if_a_slow_first_token_ends_in_a_timeout() {
        insta::assert_snapshot!(texts(&found((0, 0), (0, 250), 20_000)));
    }

    #[test]
    fn not_raised_by_comments_that_pass_or_timeouts_of_direct() {
        assert_eq!(found((3000, 0), (2500, 0), 20_000), []);
        assert_eq!(found((9, 0), (0, 0), 20_000), [], "nine are missing");
        assert_eq!(found((0, 250), (0, 300), 20_000), [], "direct's time out too");
        assert_eq!(found((0, 0), (0, 250), 50), [], "the first token is fast");
    }
}
