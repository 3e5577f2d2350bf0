//! `frames-changed`: a gateway adds or removes frames that keep streams alive: pings of WebSockets, and
//! comments of event streams. If comments are missing, `silence` is raised instead.
//!
//! If a gateway splits or merges messages, they lack their numbers or are lost, and `messages-differ` is
//! raised. Clients see only whole messages, so the check cannot see that a gateway changes fragments.
//!
//! Many servers send pings to all connections at once, at long intervals. Then one trial has many and another
//! has none, whatever the gateway does. So the side with more must have some in each trial.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, is_more};
use crate::Trial;
use hoptax_format::messages::MessageCounts;
use hoptax_stats::share;

const CODE: &str = "frames-changed";
/// Smallest number of pings that must be missing. Fewer can be due to chance.
const FEWEST: f64 = 10.0;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning; a note if they are added".into(),
        when: format!(
            "for the same number of messages, clients received far more or fewer pings of WebSockets, or far \
             more comments of event streams, via a gateway than directly. At least {FEWEST} must be missing, \
             and the side with more must have some in each trial"
        ),
        seen: "A gateway that answers pings itself hides from the server that a client is gone.",
        advice: "If pings are missing, idle limits behind the gateway may end streams: let it pass them. If \
                 it adds pings or comments, report their interval with the figures.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if subject.carrier().is_grpc() {
        return Vec::new();
    }
    subject.pairs().filter_map(|(via, direct)| of_pair(via, direct)).collect()
}

/// A kind of frame that has no message.
type Kind = (&'static str, fn(&MessageCounts) -> u64);

const KINDS: [Kind; 2] = [("pings", |counts| counts.pings), ("comments", |counts| counts.comments)];

/// True if each trial has some of these frames.
pub(super) fn in_each(trials: &[Trial<'_>], of: fn(&MessageCounts) -> u64) -> bool {
    trials.iter().all(|trial| trial.load.messages.as_ref().is_some_and(|messages| of(&messages.counts) > 0))
}

fn of_pair((case, trials): Measured<'_>, (direct, of_direct): Measured<'_>) -> Option<Finding> {
    let (via, directly) = (case.messages.as_ref()?, direct.messages.as_ref()?);
    let scale = share(via.received as f64, directly.received as f64).filter(|scale| *scale > 0.0)?;
    let changed = |(what, of): Kind| {
        let (arrived, expected) = (of(via), of(directly));
        let is_added = is_more(arrived, expected, scale) && in_each(trials, of);
        let missing = expected as f64 * scale - arrived as f64;
        let is_removed = what == "pings"
            && missing >= FEWEST
            && is_more(expected, arrived, 1.0 / scale)
            && in_each(of_direct, of);
        (is_added || is_removed).then_some((what, arrived, expected, is_removed))
    };
    let changed: Vec<_> = KINDS.into_iter().filter_map(changed).collect();
    let named: Vec<String> = changed
        .iter()
        .map(|(what, arrived, expected, _)| {
            format!("{arrived} {what} via the gateway and {expected} directly")
        })
        .collect();
    let is_removed = changed.iter().any(|(.., is_removed)| *is_removed);
    if changed.is_empty() {
        return None;
    }
    Some(Finding {
        evidence: evidence([
            ("received", via.received.into()),
            ("received_directly", directly.received.into()),
            ("pings", via.pings.into()),
            ("pings_directly", directly.pings.into()),
            ("comments", via.comments.into()),
            ("comments_directly", directly.comments.into()),
        ]),
        message: format!(
            "Clients received {}, with {} and {} messages. So the gateway {} some.",
            named.join(", and "),
            via.received,
            directly.received,
            if is_removed { "removes" } else { "adds" }
        ),
        ..about(CODE, if is_removed { Severity::Warning } else { Severity::Note }, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::messages::Carrier;

    /// 10,000 messages of each side, with these numbers of pings and comments.
    fn run(direct: (u64, u64), gateway: (u64, u64)) -> Run {
        let mut run = Run::closed(1).streams(Carrier::WebSocket, 10);
        let trial = |label: &str, (pings, comments): (u64, u64)| {
            let trial = via(label, 0).server_stream_us(40, 1000);
            trial.message_counts(|counts| (counts.pings, counts.comments) = (pings, comments))
        };
        run.push(trial("direct", direct).first()).push(trial("nginx", gateway));
        run
    }

    #[test]
    fn raised_if_frames_are_missing_or_added() {
        insta::assert_snapshot!(texts(&raised(&run((100, 0), (0, 0)), CODE)));
        let findings = raised(&run((0, 0), (0, 3)), CODE);
        assert_eq!((findings.len(), findings[0].severity), (1, Severity::Note));
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn not_raised_by_pings_of_some_trials_or_chance() {
        assert_eq!(raised(&run((100, 100), (80, 130)), CODE), []);
        assert_eq!(raised(&run((9, 0), (0, 0)), CODE), [], "nine are missing");
        let mut run = Run::closed(1).streams(Carrier::WebSocket, 10);
        for (round, pings) in [(0, 100), (1, 0)] {
            let direct = via("direct", round).first().server_stream_us(40, 1000);
            run.push(direct.message_counts(|counts| counts.pings = pings));
            run.push(via("nginx", round).server_stream_us(40, 1000));
        }
        assert_eq!(raised(&run, CODE), [], "pings of one trial");
    }
}
