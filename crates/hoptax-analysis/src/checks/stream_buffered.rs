//! `stream-buffered`: messages that the sender spaced arrive together via a gateway, and the first arrives
//! late.
//!
//! For gRPC calls, it is enough that messages arrive together. For event streams and WebSockets, the first
//! message must be late too. Otherwise `events-bunched` is raised.

use super::{
    Finding, Measured, Rule, Severity, Subject, about, evidence, first_event_held, percent, time_in_words,
    tokens,
};
use crate::{Case, Trial};
use hoptax_format::messages::Carrier;
use hoptax_record::report::{Latency, MessageTimes};
use hoptax_stats::share;

const CODE: &str = "stream-buffered";
/// Limit for the share of messages that arrived with the message before them. Below it, the p99 of the
/// messages is not affected.
pub(super) const TOGETHER: f64 = 0.01;
/// Limit for the gateway's share ÷ direct's largest share. A busy client reads several messages at a time,
/// too, and then direct's share scatters by about a half.
const MORE: f64 = 2.0;
/// Limit for how late the first message is ÷ direct's mean time between messages. A buffered
/// message arrives when a later one is due. The limit is below 1, because messages are not sent exactly when
/// they are due.
const LATE: f64 = 0.9;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning; void if the first token arrives when the last one was due".into(),
        when: format!(
            "in most trials via a gateway, more than {} of the messages of streams, and more than twice \
             direct's share, arrived together with the message before them, although they were due at \
             different times. For event streams and WebSockets, the first message must also arrive later \
             than directly, by at least {} of the time between messages. Also raised if no message arrives \
             before the stream ends, and direct's do. Not raised together with `first-event-held` for a \
             token",
            percent(TOGETHER),
            percent(LATE)
        ),
        seen: "A gateway that collects messages looks cheap, because it writes less often, while each \
               message arrives late.",
        advice: "Turn the gateway's buffering of responses off (nginx: `grpc_pass` for gRPC, \
                 `proxy_buffering off` or `X-Accel-Buffering: no` for events; Apache: `flushpackets=on`, \
                 `H2OutputBuffering off`), or report it as a cost of its settings.",
    }
}

/// What to do about a gateway that collects messages.
pub(super) fn advice(carrier: Carrier) -> &'static str {
    match carrier {
        Carrier::Grpc => {
            "Turn the gateway's buffering of responses off (nginx: `grpc_pass` instead of `proxy_pass`, \
             Apache: `H2OutputBuffering off`), or report it as a cost of its settings."
        }
        Carrier::Events => {
            "Turn the gateway's buffering of responses off (nginx: `proxy_buffering off`, or the header \
             `X-Accel-Buffering: no` of the response; Apache: `flushpackets=on`, `H2OutputBuffering off`), \
             and its compression of event streams. Or report it as a cost of its settings."
        }
        Carrier::WebSocket => {
            "Look for a filter or a limit of the gateway that collects the data of tunnels, or report it as \
             a cost of its settings."
        }
    }
}

/// A message of a carrier in words.
pub(super) fn message_in_words(carrier: Carrier) -> &'static str {
    match carrier {
        Carrier::Events => "event",
        Carrier::Grpc | Carrier::WebSocket => "message",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let carrier = subject.carrier();
    subject.pairs().filter_map(|(via, direct)| of_pair(carrier, via, direct)).collect()
}

/// For each trial, the share of messages that arrived with the message before them. The smallest comes first.
fn together(trials: &[Trial<'_>]) -> Vec<f64> {
    let of = |trial: &Trial<'_>| {
        let counts = trial.load.messages.as_ref()?.counts;
        share((counts.merged_in_read + counts.merged_into_one) as f64, counts.received as f64)
    };
    let mut shares: Vec<f64> = trials.iter().filter_map(of).collect();
    shares.sort_by(f64::total_cmp);
    shares
}

/// How many messages arrived with the message before them, if a gateway is the cause.
#[derive(Debug, Clone, Copy)]
pub(super) struct Together {
    /// Share of all messages via the gateway.
    pub(super) share: f64,
    /// Largest share of a direct trial.
    pub(super) of_direct: f64,
}

impl Together {
    pub(super) fn of((case, trials): Measured<'_>, (_, direct): Measured<'_>) -> Option<Self> {
        let shares = together(trials);
        // If the number of trials is even, more than half are at or above this share.
        let typical = *shares.get(shares.len().saturating_sub(1) / 2)?;
        let of_direct = *together(direct).last()?;
        let counts = case.messages.as_ref()?;
        let share = share((counts.merged_in_read + counts.merged_into_one) as f64, counts.received as f64)?;
        (typical > TOGETHER && typical > MORE * of_direct).then_some(Self { share, of_direct })
    }
}

/// Times of messages, if they were recorded.
fn times(case: &Case, of: fn(&MessageTimes) -> Option<&Latency>) -> Option<&Latency> {
    of(case.message.as_ref()?)
}

pub(super) fn gap_us(case: &Case) -> Option<f64> {
    Some(times(case, |times| times.gap.as_ref())?.p50.as_ref()?.estimate)
}

/// How late the first message of a stream arrives via a gateway.
#[derive(Debug, Clone, Copy)]
struct Late {
    /// Median delay compared with direct, µs.
    added_us: f64,
    /// Mean time between messages directly, µs.
    spacing_us: f64,
}

impl Late {
    fn of(via: &Case, direct: &Case) -> Option<Self> {
        let first =
            |case: &Case| Some(times(case, |times| times.first_message.as_ref())?.p50.as_ref()?.estimate);
        let added_us = first(via)? - first(direct)?;
        let spacing_us = times(direct, |times| times.gap.as_ref())?.mean.as_ref()?.estimate;
        (spacing_us > 0.0 && added_us >= LATE * spacing_us).then_some(Self { added_us, spacing_us })
    }

    /// True if the first token is late by as long as direct's streams last.
    fn is_whole(self, direct: &Case) -> bool {
        let per_stream = || {
            let streams = tokens::counts(direct)?;
            share(direct.messages.as_ref()?.received as f64, (streams.ended + streams.left) as f64)
        };
        per_stream().is_some_and(|tokens| self.added_us >= LATE * (tokens - 1.0) * self.spacing_us)
    }
}

/// True if no message arrived via the gateway, although streams ended well.
fn is_silent(via: &Case, direct: &Case) -> bool {
    let received = |case: &Case| case.messages.as_ref().map(|counts| (counts.received, counts.lost));
    let ended_well = via.counts.as_ref().is_some_and(|counts| counts.ok > 0);
    ended_well && received(via) == Some((0, 0)) && received(direct).is_some_and(|(count, _)| count > 0)
}

/// True if a gateway buffers event streams or WebSockets.
pub(super) fn is_raised(carrier: Carrier, via: Measured<'_>, direct: Measured<'_>) -> bool {
    of_pair(carrier, via, direct).is_some()
}

fn of_pair(carrier: Carrier, via: Measured<'_>, direct: Measured<'_>) -> Option<Finding> {
    let is_silent = !carrier.is_grpc() && is_silent(via.0, direct.0);
    if first_event_held::holds_token(via, direct) {
        return None;
    }
    let together = Together::of(via, direct);
    let late = Late::of(via.0, direct.0).filter(|_| !carrier.is_grpc());
    let one = message_in_words(carrier);
    let message = match (is_silent, together, late) {
        (true, ..) => format!(
            "No {one} arrived via the gateway before its stream ended, and {one}s arrived directly. So the \
             gateway keeps {one}s back."
        ),
        (false, Some(together), Some(late)) => format!(
            "The first {one} of a stream arrived {} later via the gateway than directly, and {one}s are {} \
             apart. {} arrived together with the {one} before them, and directly at most {}. So the gateway \
             keeps {one}s back until later ones are due.",
            time_in_words(late.added_us),
            time_in_words(late.spacing_us),
            percent(together.share),
            percent(together.of_direct)
        ),
        (false, Some(together), None) if carrier.is_grpc() => format!(
            "{} of the messages of streams arrived together with the message before them via the gateway, \
             although they were due at different times. Directly, at most {} did. So the gateway keeps \
             messages back.",
            percent(together.share),
            percent(together.of_direct)
        ),
        (false, ..) => return None,
    };
    let counts = via.0.messages.as_ref()?;
    let is_whole = late.is_some_and(|late| late.is_whole(direct.0));
    let (severity, effect) = match is_whole {
        true => (Severity::Void, " So no token arrives before the last one is due."),
        false => (Severity::Warning, ""),
    };
    let mut evidence = evidence([
        ("received", counts.received.into()),
        ("together", (counts.merged_in_read + counts.merged_into_one).into()),
        ("share", together.map(|together| together.share).into()),
        ("share_of_direct", together.map(|together| together.of_direct).into()),
        ("gap_p50_us", gap_us(via.0).into()),
        ("gap_p50_us_of_direct", gap_us(direct.0).into()),
    ]);
    if let Some(Late { added_us, spacing_us }) = late {
        evidence.extend([("first_message_late_us", added_us.into()), ("spacing_us", spacing_us.into())]);
    }
    Some(Finding {
        evidence,
        message: message + effect,
        advice: advice(carrier).to_owned(),
        ..about(CODE, severity, &via.0.case)
    })
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "`events-bunched`): over {} of messages, and" percent(TOGETHER);
    METHODOLOGY "buffered if the first is {} of a gap late" percent(LATE);
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::messages::{ENDLESS, MessageCounts};

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

    /// Ten events, 1 ms apart. The first arrives after 40 µs directly.
    fn events(gateway: MadeTrial, messages: u32) -> Run {
        let mut run = Run::closed(1).streams(Carrier::Events, messages);
        run.push(via("direct", 0).first().server_stream_us(40, 1000)).push(gateway);
        run
    }

    #[test]
    fn raised_if_messages_arrive_together_in_most_trials() {
        let findings = raised(&run([20, 10], [4000, 0, 4400]), CODE);
        let evidence = &findings[0].evidence;
        assert_eq!((evidence["together"].as_u64(), evidence["share"].as_f64()), (Some(8400), Some(0.28)));
        assert_eq!(evidence["share_of_direct"].as_f64(), Some(0.002));
        let gaps = ["gap_p50_us", "gap_p50_us_of_direct"].map(|name| evidence[name].as_f64());
        let gaps = gaps.map(|gap| gap.expect("a number").round());
        assert_eq!(gaps, [100.0, 1000.0]);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn raised_by_events_that_wait_for_the_last() {
        let together = |counts: &mut MessageCounts| counts.merged_in_read = 9_000;
        let gateway = via("nginx", 0).server_stream_us(40, 1).first_message_us(9_040);
        let findings = raised(&events(gateway.message_counts(together), 10), CODE);
        let late = findings[0].evidence["first_message_late_us"].as_f64().expect("a number");
        assert!((late - 9000.0).abs() < 20.0, "{late}");
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn void_if_the_first_token_arrives_when_the_last_one_is_due() {
        for (late_us, severity) in [(9_000, Severity::Void), (5_000, Severity::Warning)] {
            let mut run = Run::closed(1).token_streams(10);
            let trial = |label: &str, us: u64| {
                let trial = via(label, 0).server_stream_us(us / 2, 1000).first_message_us(us);
                trial.tokens_us([40, us, 1000], 10)
            };
            let together = |counts: &mut MessageCounts| counts.merged_in_read = 9_000;
            run.push(trial("direct", 40).first()).push(trial("nginx", 40 + late_us).message_counts(together));
            let findings = raised(&run, CODE);
            assert_eq!((findings.len(), findings[0].severity), (1, severity), "{late_us}");
        }
    }

    #[test]
    fn raised_if_no_event_arrives_before_the_end() {
        let gateway = via("nginx", 0).server_stream_us(40, 1000);
        let run = events(gateway.message_counts(|counts| counts.received = 0), ENDLESS);
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
    }

    #[test]
    fn not_raised_by_few_messages_one_trial_or_events_that_are_in_time() {
        assert_eq!(raised(&run([0, 0], [100, 100, 100]), CODE), [], "1 %");
        assert_eq!(raised(&run([0, 0], [9000, 10, 20]), CODE), [], "one trial");
        assert_eq!(raised(&run([10, 2100], [4000, 4000, 4000]), CODE), [], "less than twice direct's");
        let slow = via("nginx", 0).server_stream_us(40, 1000).first_message_us(9_040);
        assert_eq!(raised(&events(slow, 10), CODE), [], "each event is late");
        let bunched = via("nginx", 0).server_stream_us(40, 1000);
        let bunched = bunched.message_counts(|counts| counts.merged_in_read = 5_000);
        assert_eq!(raised(&events(bunched, 10), CODE), [], "the first is in time");
    }
}
