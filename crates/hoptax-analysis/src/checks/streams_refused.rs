//! `streams-refused`: the server refused more than 0.1 % of the streams.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use crate::thresholds::DOUBTFUL;
use hoptax_stats::share;

const CODE: &str = "streams-refused";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!("a server refused more than {} of the streams (REFUSED_STREAM)", percent(DOUBTFUL)),
        seen: "Clients in Go repeat refused requests after 1, 2 and 4 s, so refusals looked like latency.",
        advice: "Use fewer `streams`, or raise the server's limit of streams.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(of_case).collect()
}

fn of_case((case, trials): Measured<'_>) -> Option<Finding> {
    let http2 = case.http2.as_ref()?;
    let sent: u64 = trials.iter().map(|trial| trial.load.lifetime.sent).sum();
    let share = share(http2.refused as f64, sent as f64).filter(|share| *share > DOUBTFUL)?;
    let who = if case.is_direct() { "upstream" } else { "gateway" };
    Some(Finding {
        evidence: evidence([
            ("refused", http2.refused.into()),
            ("sent", sent.into()),
            ("sent_again", http2.unprocessed.into()),
            ("share", share.into()),
        ]),
        message: format!(
            "The {who} refused {} streams, which is {} of the number of requests. A refused request is sent \
             again once, and its response time counts from when it was first due.",
            http2.refused,
            percent(share)
        ),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::record::Http2Tally;

    fn run(refused: u64) -> Run {
        let mut run = Run::closed(1);
        let tally = Http2Tally { refused, resets: refused, unprocessed: refused, ..Http2Tally::default() };
        run.push(via("direct", 0).first().http2(Http2Tally::default()));
        run.push(via("nginx", 0).http2(tally));
        run
    }

    #[test]
    fn raised_by_two_in_a_thousand() {
        insta::assert_snapshot!(texts(&raised(&run(2), CODE)));
    }

    #[test]
    fn not_raised_by_one_in_a_thousand() {
        assert_eq!(raised(&run(1), CODE), []);
    }
}
