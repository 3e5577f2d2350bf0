//! `tunnel-cut`: WebSockets end without a close frame, or event streams before their end, via a gateway.

use super::{
    Finding, Measured, Rule, Severity, Subject, about, duration_in_words, evidence, is_more, percent,
    percent_or_none,
};
use crate::Trial;
use crate::thresholds::DOUBTFUL;
use hoptax_format::record::Cause;
use hoptax_stats::share;
use std::time::Duration;

const CODE: &str = "tunnel-cut";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "more than {} of the streams via a gateway were cut (WebSockets without a close frame, event \
             streams before their end), and direct's were not, or far less often. Trials with events of the \
             plan do not count",
            percent(DOUBTFUL)
        ),
        seen: "Clients then connect again, often all at once, and miss the messages in between.",
        advice: "Raise the gateway's limits of idle time and of a stream's length (nginx: \
                 `proxy_read_timeout`, HAProxy: `timeout tunnel`, Envoy: `stream_idle_timeout`), or send \
                 pings or comments more often. Many load balancers cut after 60 s of silence.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if subject.carrier().is_grpc() {
        return Vec::new();
    }
    subject.pairs().filter_map(|(via, direct)| of_pair(subject, via, direct)).collect()
}

/// WebSockets and event streams, over the trials without events of the plan.
#[derive(Debug, Clone, Copy, Default)]
struct Streams {
    all: u64,
    /// WebSockets without a close frame.
    websockets: u64,
    /// Responses that ended in the middle.
    responses: u64,
}

impl Streams {
    /// `has_events` is true if targets have event streams. Otherwise, responses that end in the middle do not
    /// count.
    fn of(trials: &[Trial<'_>], has_events: bool) -> Self {
        let mut sum = Self::default();
        for load in trials.iter().filter(|trial| trial.record.events.is_empty()).map(|trial| trial.load) {
            let causes = &load.counts.causes;
            let of_cause = |cause| causes.get(&cause).copied().unwrap_or(0);
            sum.all += load.counts.scheduled;
            sum.websockets += load.messages.as_ref().map_or(0, |messages| messages.counts.cut);
            if has_events {
                sum.responses += of_cause(Cause::ClosedInResponse)
                    + of_cause(Cause::ResetInResponse)
                    + of_cause(Cause::StreamReset)
                    + of_cause(Cause::StreamUnended);
            }
        }
        sum
    }

    fn cut(self) -> u64 {
        self.websockets + self.responses
    }
}

fn of_pair(subject: &Subject<'_>, (case, via): Measured<'_>, (_, direct): Measured<'_>) -> Option<Finding> {
    let has_events = subject.has_events();
    let (via, direct) = (Streams::of(via, has_events), Streams::of(direct, has_events));
    let share_of_all = share(via.cut() as f64, via.all as f64).filter(|share| *share > DOUBTFUL)?;
    let scale = share(via.all as f64, direct.all as f64)?;
    if !is_more(via.cut(), direct.cut(), scale) {
        return None;
    }
    let named = [(via.websockets, "WebSockets without a close frame"), (via.responses, "event streams")];
    let named: Vec<String> = named
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let silence_ns = subject.longest_silence_ns();
    let silence = match silence_ns {
        0 => String::new(),
        ns => format!(" Their messages are up to {} apart.", duration_in_words(Duration::from_nanos(ns))),
    };
    let of_direct = share(direct.cut() as f64, direct.all as f64).unwrap_or(0.0);
    Some(Finding {
        evidence: evidence([
            ("streams", via.all.into()),
            ("websockets_cut", via.websockets.into()),
            ("responses_cut", via.responses.into()),
            ("share", share_of_all.into()),
            ("share_of_direct", of_direct.into()),
            ("messages_apart_ns", silence_ns.into()),
        ]),
        message: format!(
            "{} of the streams were cut via the gateway, and {} directly: {}.{silence}",
            percent(share_of_all),
            percent_or_none(of_direct),
            named.join(", ")
        ),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::messages::Carrier;

    fn run(carrier: Carrier, direct: MadeTrial, gateway: MadeTrial) -> Run {
        Run::closed(1).streams(carrier, 10).with([direct.first(), gateway])
    }

    /// 1,000 WebSockets, and more that were cut.
    fn websockets(label: &str, cut: u64) -> MadeTrial {
        let trial = via(label, 0).server_stream_us(40, 1000).message_counts(|counts| counts.cut = cut);
        trial.failures(Cause::TunnelCut, cut)
    }

    /// 1,000 event streams, and more that were cut.
    fn events(label: &str, cut: u64) -> MadeTrial {
        via(label, 0).server_stream_us(40, 1000).failures(Cause::ClosedInResponse, cut)
    }

    #[test]
    fn raised_by_websockets_and_event_streams() {
        let findings =
            raised(&run(Carrier::WebSocket, websockets("direct", 0), websockets("nginx", 10)), CODE);
        assert_eq!(findings[0].evidence["websockets_cut"], 10);
        insta::assert_snapshot!(texts(&findings));
        let findings = raised(&run(Carrier::Events, events("direct", 0), events("nginx", 250)), CODE);
        assert_eq!(findings[0].evidence["share"].as_f64(), Some(0.2));
    }

    #[test]
    fn not_raised_by_few_or_if_the_upstream_cuts_as_many() {
        let one = run(Carrier::WebSocket, websockets("direct", 0), websockets("nginx", 1));
        assert_eq!(raised(&one, CODE), []);
        assert_eq!(raised(&run(Carrier::Events, events("direct", 90), events("nginx", 100)), CODE), []);
        assert_eq!(raised(&run(Carrier::Events, events("direct", 0), events("nginx", 0)), CODE), []);
        let reset = |label: &str, count| via(label, 0).failures(Cause::ResetInResponse, count);
        let refused = run(Carrier::WebSocket, reset("direct", 0), reset("nginx", 250));
        assert_eq!(raised(&refused, CODE), [], "responses to handshakes");
        let mut plain = Run::closed(1);
        plain.push(via("direct", 0).first()).push(via("nginx", 0).failures(Cause::ClosedInResponse, 250));
        assert_eq!(raised(&plain, CODE), [], "no streams");
    }
}
