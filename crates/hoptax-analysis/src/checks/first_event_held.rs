//! `first-event-held`: the first token or the first event of a stream waits in a gateway, and later ones do
//! not.
//!
//! If all wait, `stream-buffered` is raised.

use super::tokens::quantiles_us;
use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, time_in_words};
use hoptax_record::Times;

const CODE: &str = "first-event-held";
/// Shortest wait to report, µs. Shorter ones can be processing time, or chance.
const LEAST_US: f64 = 5_000.0;
/// Limit for the wait ÷ the median age of all tokens. Below it, the other tokens are late too.
const MORE: f64 = 5.0;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "via a gateway, the first token of at least nine in ten streams is more than {} older on its \
             arrival than directly, and the median of this wait is {MORE} times the median age of all \
             tokens. Or the first event, which has no content, arrives as late, not counting the delay of \
             requests",
            time_in_words(LEAST_US)
        ),
        seen: "One AI gateway sleeps for 25 ms before the first event of each stream.",
        advice: "Look in the gateway's settings or source for a sleep, a minimum number of bytes, or a check \
                 of the first bytes of responses. If it is intended, report it as a part of the time to the \
                 first content.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.pairs().filter_map(|(via, direct)| of_pair(via, direct)).collect()
}

/// True if a gateway holds the first token. Later tokens then wait behind it, and arrive with it.
pub(super) fn holds_token(via: Measured<'_>, direct: Measured<'_>) -> bool {
    of_pair(via, direct).is_some_and(|finding| finding.evidence["first"] == "token")
}

/// How long the first token and the first event of streams wait in a gateway, µs: the 10th, 50th and 90th
/// percentile.
fn waits((_, via): Measured<'_>, (_, direct): Measured<'_>) -> Option<[[f64; 3]; 2]> {
    let added = |times: Times| {
        let [of_direct] = quantiles_us(direct, times, [0.5])?;
        Some(quantiles_us(via, times, [0.1, 0.5, 0.9])?.map(|us| us - of_direct))
    };
    let [token, content] = [added(Times::FirstAge)?, added(Times::FirstMessage)?];
    // The gateway delays the first content on the way of the request and on the way back. The age of the
    // token is only the way back. The difference is the way of the request, which also delays the first
    // event.
    let way = content[1] - token[1];
    Some([token, added(Times::FirstEvent)?.map(|us| us - way)])
}

fn of_pair(via: Measured<'_>, direct: Measured<'_>) -> Option<Finding> {
    let [others] = quantiles_us(via.1, Times::Age, [0.5])?;
    let [token, event] = waits(via, direct)?;
    let is_held = |[p10, p50, _]: [f64; 3]| p10 > LEAST_US && p50 > MORE * others;
    let (what, held) = match (is_held(token), is_held(event)) {
        (true, _) => ("token", token),
        (false, true) if token[1] < LEAST_US => ("event", event),
        (false, _) => return None,
    };
    let [p10, p50, p90] = held;
    let effect = match what {
        "token" => "So clients see content later by this time.",
        _ => {
            "The first token does not wait, because the upstream sends it later. A gateway that leaves out \
             the events before the first token looks the same."
        }
    };
    Some(Finding {
        evidence: evidence([
            ("first", what.into()),
            ("held_us", p50.into()),
            ("held_us_p10", p10.into()),
            ("held_us_p90", p90.into()),
            ("age_us_p50", others.into()),
        ]),
        message: format!(
            "The first {what} of a stream waits in the gateway for {}, and in eight of ten streams for {} to \
             {}. Later tokens do not: the median age of all is {}. {effect}",
            time_in_words(p50),
            time_in_words(p10),
            time_in_words(p90),
            time_in_words(others)
        ),
        ..about(CODE, Severity::Warning, &via.0.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::messages::MessageCounts;

    fn run(gateway: MadeTrial) -> Run {
        let mut run = Run::closed(1).token_streams(10);
        let direct = via("direct", 0).first().server_stream_us(200, 10_000).first_message_us(50_200);
        run.push(direct.tokens_us([400, 200, 10_000], 10)).push(gateway);
        run
    }

    /// Tokens have this age. The first one has another age, and the first event arrives at this time.
    fn gateway(age: u64, first_age: u64, first_event: u64) -> MadeTrial {
        let trial = via("portkey", 0).server_stream_us(age, 10_000).first_message_us(50_300 + first_age);
        trial.tokens_us([first_event, first_age, 10_000], 10)
    }

    #[test]
    fn raised_by_a_first_token_that_waits() {
        let findings = raised(&run(gateway(800, 27_000, 27_500)), CODE);
        let held = findings[0].evidence["held_us"].as_f64().expect("a number");
        assert!((held - 26_800.0).abs() < 50.0, "{held}");
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn raised_by_a_first_event_without_content_that_waits() {
        let together = |counts: &mut MessageCounts| counts.merged_in_read = 2_000;
        let run = run(gateway(800, 1_000, 25_700).message_counts(together));
        let findings = raised(&run, CODE);
        assert_eq!(findings[0].evidence["first"], "event");
        assert_eq!(raised(&run, "events-bunched").len(), 1, "this is no reason for it");
        let held = findings[0].evidence["held_us"].as_f64().expect("a number");
        assert!((held - 25_000.0).abs() < 400.0, "{held}");
    }

    #[test]
    fn other_findings_do_not_repeat_it() {
        let together = |counts: &mut MessageCounts| counts.merged_in_read = 2_000;
        let run = run(gateway(800, 27_000, 27_500).message_counts(together));
        for code in ["stream-buffered", "events-bunched"] {
            assert_eq!(raised(&run, code), [], "{code}");
        }
        assert_eq!(raised(&run, CODE).len(), 1);
    }

    #[test]
    fn not_raised_if_nothing_or_everything_waits() {
        assert_eq!(raised(&run(gateway(800, 900, 600)), CODE), []);
        assert_eq!(raised(&run(gateway(27_000, 27_000, 27_500)), CODE), [], "each token waits");
        assert_eq!(raised(&run(gateway(95_000, 190_000, 190_500)), CODE), [], "stream-buffered");
        let slow = via("slow", 0).server_stream_us(800, 10_000).first_message_us(80_900);
        let slow = slow.tokens_us([30_600, 900, 10_000], 10);
        assert_eq!(raised(&run(slow), CODE), [], "the request is late");
    }
}
