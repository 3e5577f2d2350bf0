//! `extension-differs`: WebSockets are compressed via a gateway and not directly, or the other way round.

use super::{Finding, Rule, Severity, Subject, about, evidence, percent};
use crate::Case;
use hoptax_stats::share;

const CODE: &str = "extension-differs";
/// Limit for the difference between the shares of compressed WebSockets. The handshake and the end of a
/// WebSocket can be in different trials, so the shares are not exact.
const DIFFERENT: f64 = 0.1;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "void".into(),
        when: format!(
            "the share of WebSockets that negotiate compression (permessage-deflate) via a gateway differs \
             by more than {} from direct's",
            percent(DIFFERENT)
        ),
        seen: "Compression costs more than forwarding, so only one side pays for it.",
        advice: "Let the gateway pass `sec-websocket-extensions` in both directions. Or measure without \
                 compression: `compression: none`.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if !subject.has_websockets() {
        return Vec::new();
    }
    subject.pairs().filter_map(|(via, direct)| of_pair(via.0, direct.0)).collect()
}

/// Share of the accepted WebSockets that are compressed. `None` if none was accepted.
fn compressed(case: &Case) -> Option<f64> {
    let (counts, messages) = (case.counts.as_ref()?, case.messages.as_ref()?);
    let accepted = (counts.completed + messages.cut).saturating_sub(messages.refused);
    Some(share(messages.compressed as f64, accepted as f64)?.min(1.0))
}

fn of_pair(case: &Case, direct: &Case) -> Option<Finding> {
    let (via, directly) = (compressed(case)?, compressed(direct)?);
    if (via - directly).abs() <= DIFFERENT {
        return None;
    }
    let shown = |share: f64| if share > 0.0 { percent(share) } else { "none".to_owned() };
    let count = |case: &Case| case.messages.as_ref().map(|counts| counts.compressed);
    Some(Finding {
        evidence: evidence([
            ("compressed", count(case).into()),
            ("compressed_directly", count(direct).into()),
            ("share", via.into()),
            ("share_of_direct", directly.into()),
        ]),
        message: format!(
            "{} of the WebSockets via the gateway are compressed (permessage-deflate), and {} of direct's. \
             So the two sides do different work.",
            sentence_start(&shown(via)),
            shown(directly)
        ),
        ..about(CODE, Severity::Void, &case.case)
    })
}

fn sentence_start(shown: &str) -> &str {
    if shown == "none" { "None" } else { shown }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::messages::Carrier;

    /// 1,000 WebSockets of each side.
    fn run(direct: u64, gateway: u64) -> Run {
        let mut run = Run::closed(1).streams(Carrier::WebSocket, 10);
        let trial = |label: &str, compressed: u64| {
            let trial = via(label, 0).server_stream_us(40, 1000);
            trial.message_counts(|counts| counts.compressed = compressed)
        };
        run.push(trial("direct", direct).first()).push(trial("nginx", gateway));
        run
    }

    #[test]
    fn raised_in_both_directions() {
        insta::assert_snapshot!(texts(&raised(&run(1000, 0), CODE)));
        let findings = raised(&run(0, 500), CODE);
        assert_eq!(findings[0].evidence["share"].as_f64(), Some(0.5));
    }

    #[test]
    fn not_raised_if_both_compress_or_neither_does() {
        for (direct, gateway) in [(0, 0), (1000, 1000), (1001, 930)] {
            assert_eq!(raised(&run(direct, gateway), CODE), [], "{direct} {gateway}");
        }
    }
}
