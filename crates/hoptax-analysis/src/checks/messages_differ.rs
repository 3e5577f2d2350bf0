//! `messages-differ`: a gateway lost, repeated or reordered messages of streams.

use super::{
    Finding, Measured, Rule, Severity, Subject, about, evidence, false_end, is_more, percent,
    percent_or_none, tokens,
};
use hoptax_format::messages::MessageCounts;
use hoptax_stats::share;

const CODE: &str = "messages-differ";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "void".into(),
        when: "successful streams via a gateway lost, repeated, reordered or changed messages, and direct's \
               did not, or far less often"
            .into(),
        seen: "A stream can end well although messages are missing, and no load generator counts them.",
        advice: "Check the gateway's log, its retries and its filters of bodies. Gateways must pass each \
                 message of a stream once and in order.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.pairs().filter_map(|(via, direct)| of_pair(via, direct)).collect()
}

/// What is wrong with messages, in words. Their content has changed if they lack their number.
fn faults(counts: &MessageCounts) -> [(&'static str, u64); 4] {
    [
        ("lost", counts.lost),
        ("repeated", counts.repeated),
        ("out of order", counts.reordered),
        ("without their number", counts.unnumbered),
    ]
}

fn of_pair(via: Measured<'_>, direct: Measured<'_>) -> Option<Finding> {
    // `false-end` says that tokens are missing.
    let are_explained = false_end::is_raised(via, direct);
    let (case, counts, direct) = (via.0, via.0.messages.as_ref()?, direct.0.messages.as_ref()?);
    let all = |counts: &MessageCounts| (counts.received + counts.lost) as f64;
    let scale = share(all(counts), all(direct))?;
    let is_new = |((what, count), (_, of_direct)): &((&str, u64), (&str, u64))| {
        is_more(*count, *of_direct, scale) && !(are_explained && *what == "lost")
    };
    let new: Vec<_> = faults(counts).into_iter().zip(faults(direct)).filter(is_new).collect();
    let wrong: u64 = new.iter().map(|((_, count), _)| count).sum();
    let wrong_directly: u64 = new.iter().map(|(_, (_, count))| count).sum();
    let share_directly = share(wrong_directly as f64, all(direct)).unwrap_or(0.0);
    let share = share(wrong as f64, all(counts)).filter(|share| *share > 0.0)?;
    let named: Vec<String> = new.iter().map(|((what, count), _)| format!("{count} {what}")).collect();
    let messages = if tokens::counts(case).is_some() { "tokens" } else { "messages" };
    Some(Finding {
        evidence: evidence([
            ("sent", counts.sent.into()),
            ("received", counts.received.into()),
            ("lost", counts.lost.into()),
            ("repeated", counts.repeated.into()),
            ("reordered", counts.reordered.into()),
            ("unnumbered", counts.unnumbered.into()),
            ("share", share.into()),
        ]),
        message: format!(
            "{} of the {messages} of streams differ via the gateway, and {} directly: {}. So the gateway \
             does not do the same work.",
            percent(share),
            percent_or_none(share_directly),
            named.join(", ")
        ),
        ..about(CODE, Severity::Void, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::messages::{Carrier, UNKNOWN};

    fn run(direct: impl FnOnce(&mut MessageCounts), gateway: impl FnOnce(&mut MessageCounts)) -> Run {
        let mut run = Run::closed(1);
        run.push(via("direct", 0).first().both_ways_us(100, 1000).message_counts(direct));
        run.push(via("nginx", 0).both_ways_us(150, 1000).message_counts(gateway));
        run
    }

    #[test]
    fn raised_by_a_single_message() {
        let changes: [fn(&mut MessageCounts); 4] = [
            |counts| counts.lost = 1,
            |counts| counts.repeated = 1,
            |counts| counts.reordered = 1,
            |counts| counts.unnumbered = 1,
        ];
        for change in changes {
            let findings = raised(&run(|_| (), change), CODE);
            assert_eq!((findings.len(), findings[0].severity), (1, Severity::Void));
        }
        let several = |counts: &mut MessageCounts| {
            (counts.received, counts.lost, counts.repeated) = (9_995, 10, 5);
        };
        let findings = raised(&run(|_| (), several), CODE);
        let evidence = &findings[0].evidence;
        assert_eq!((evidence["lost"].as_u64(), evidence["repeated"].as_u64()), (Some(10), Some(5)));
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn messages_name_the_share_of_direct_and_tokens() {
        let both = run(|counts| counts.lost = 4, |counts| counts.lost = 1000);
        insta::assert_snapshot!(texts(&raised(&both, CODE)));
        let mut run = Run::closed(1).token_streams(10);
        let trial = |label: &str| via(label, 0).server_stream_us(40, 1000).tokens_us([40, 40, 1000], 10);
        run.push(trial("direct").first());
        run.push(trial("nginx").message_counts(|counts| counts.reordered = 10));
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
    }

    #[test]
    fn not_raised_by_faults_of_the_upstream_chance_or_any_number_of_events() {
        let unnumbered = |counts: &mut MessageCounts| counts.unnumbered = 10_000;
        assert_eq!(raised(&run(unnumbered, unnumbered), CODE), []);
        assert_eq!(raised(&run(|counts| counts.lost = 4, |counts| counts.lost = 18), CODE), [], "chance");
        assert_eq!(raised(&run(|_| (), |counts| counts.merged_in_read = 500), CODE), []);
        let mut run = Run::closed(1).streams(Carrier::Events, UNKNOWN);
        run.push(via("direct", 0).first().server_stream_us(40, 1000));
        run.push(via("nginx", 0).server_stream_us(90, 1000).message_counts(|counts| counts.received = 9_000));
        assert_eq!(raised(&run, CODE), [], "any number is right");
    }
}
