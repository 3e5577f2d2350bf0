//! `events-bunched`: messages of event streams or WebSockets that were due at different times arrive together
//! via a gateway, although the first arrives in time.
//!
//! A busy generator reads several messages at a time, too. Direct's trials of the same load show how often.

use super::stream_buffered::{self, TOGETHER, Together, gap_us};
use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, first_event_held, percent};
use hoptax_format::messages::Carrier;

const CODE: &str = "events-bunched";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "in most trials via a gateway, more than {} of the messages of event streams or WebSockets, and \
             more than twice direct's share, arrived in one read with the message before them or inside it, \
             although they were due at different times. Not raised together with `stream-buffered`, or with \
             `first-event-held` for a token",
            percent(TOGETHER)
        ),
        seen: "Pages that show each event as it arrives then show several at once.",
        advice: stream_buffered::advice(Carrier::Events),
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let carrier = subject.carrier();
    if carrier.is_grpc() {
        return Vec::new();
    }
    let pairs = subject.pairs().filter(|(via, direct)| {
        !stream_buffered::is_raised(carrier, *via, *direct) && !first_event_held::holds_token(*via, *direct)
    });
    pairs.filter_map(|(via, direct)| of_pair(carrier, via, direct)).collect()
}

fn of_pair(carrier: Carrier, via: Measured<'_>, direct: Measured<'_>) -> Option<Finding> {
    let together = Together::of(via, direct)?;
    let counts = via.0.messages.as_ref()?;
    let one = stream_buffered::message_in_words(carrier);
    let merged = match counts.merged_into_one {
        0 => String::new(),
        merged => format!(" The gateway merged {merged} of them into the {one} before."),
    };
    Some(Finding {
        evidence: evidence([
            ("received", counts.received.into()),
            ("merged_in_read", counts.merged_in_read.into()),
            ("merged_into_one", counts.merged_into_one.into()),
            ("share", together.share.into()),
            ("share_of_direct", together.of_direct.into()),
            ("gap_p50_us", gap_us(via.0).into()),
            ("gap_p50_us_of_direct", gap_us(direct.0).into()),
        ]),
        message: format!(
            "{} of the {one}s arrived together with the {one} before them via the gateway, although they \
             were due at different times. Directly, at most {} did.{merged}",
            percent(together.share),
            percent(together.of_direct)
        ),
        advice: stream_buffered::advice(carrier).to_owned(),
        ..about(CODE, Severity::Warning, &via.0.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::messages::MessageCounts;

    fn run(carrier: Carrier, direct: u64, gateway: MadeTrial) -> Run {
        let mut run = Run::closed(1).streams(carrier, 10);
        let of_direct = via("direct", 0).first().server_stream_us(40, 1000);
        run.push(of_direct.message_counts(|counts| counts.merged_in_read = direct)).push(gateway);
        run
    }

    fn gateway(change: impl FnOnce(&mut MessageCounts)) -> MadeTrial {
        via("nginx", 0).server_stream_us(60, 1000).message_counts(change)
    }

    #[test]
    fn raised_by_messages_in_one_read_or_in_one_event() {
        let in_read = gateway(|counts| counts.merged_in_read = 4_000);
        let findings = raised(&run(Carrier::WebSocket, 20, in_read), CODE);
        assert_eq!((findings.len(), findings[0].severity), (1, Severity::Warning));
        let in_one = gateway(|counts| (counts.merged_in_read, counts.merged_into_one) = (0, 500));
        let findings = raised(&run(Carrier::Events, 20, in_one), CODE);
        assert_eq!(findings[0].evidence["share"].as_f64(), Some(0.05));
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn not_raised_by_a_busy_generator_by_few_or_for_other_findings() {
        let busy = gateway(|counts| counts.merged_in_read = 4_000);
        assert_eq!(raised(&run(Carrier::Events, 2_500, busy), CODE), [], "less than twice direct's");
        let few = gateway(|counts| counts.merged_in_read = 100);
        assert_eq!(raised(&run(Carrier::Events, 0, few), CODE), [], "1 %");
        let buffered = gateway(|counts| counts.merged_in_read = 9_000).first_message_us(9_000);
        assert_eq!(raised(&run(Carrier::Events, 0, buffered), CODE), [], "stream-buffered");
        let call = gateway(|counts| counts.merged_in_read = 4_000);
        assert_eq!(raised(&run(Carrier::Grpc, 0, call), CODE), [], "stream-buffered says so of calls");
    }
}
