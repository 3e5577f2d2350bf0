//! `tunnel-refused`: handshakes of WebSockets are refused via a gateway, and not directly.

use super::{Finding, Rule, Severity, Subject, about, evidence, is_more, percent};
use crate::Case;
use hoptax_format::record::{Cause, Counts};
use hoptax_stats::share;
use std::cmp::Reverse;

const CODE: &str = "tunnel-refused";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "void".into(),
        when: "a gateway refused WebSocket handshakes, and direct's were accepted, or refused far less \
               often. A handshake is refused if it gets another status or a wrong answer to its key, or if \
               the gateway takes no WebSockets over HTTP/2"
            .into(),
        seen: "A refused handshake is a fast answer, so it makes a gateway look better. A gateway without \
               settings for upgrades asks the upstream for a page instead.",
        advice: "Let the gateway pass upgrades. nginx needs `proxy_http_version 1.1` and the headers \
                 `Upgrade` and `Connection`, Envoy `upgrade_configs`, Apache `upgrade=websocket`. Over \
                 HTTP/2, it must allow extended CONNECT (RFC 8441).",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.pairs().filter_map(|(via, direct)| of_pair(via.0, direct.0)).collect()
}

/// True if a gateway refuses WebSockets that direct accepts. Its answers then differ for this reason.
pub(super) fn is_raised(subject: &Subject<'_>, case: &Case) -> bool {
    let direct = subject.direct(case.load.index);
    !case.is_direct() && direct.is_some_and(|(direct, _)| of_pair(case, direct).is_some())
}

/// Handshakes that were refused. Over HTTP/2, a server that takes no WebSockets says so before any handshake.
fn refused(case: &Case) -> u64 {
    let by_answer = case.messages.as_ref().map_or(0, |messages| messages.refused);
    let causes = case.counts.as_ref().map(|counts| &counts.causes);
    by_answer + causes.and_then(|causes| causes.get(&Cause::NoWebSockets)).copied().unwrap_or(0)
}

/// The statuses that a gateway sends, and direct does not, or far less often. The most frequent come first.
fn statuses(via: &Counts, direct: &Counts) -> Vec<(u16, u64)> {
    let scale = share(via.completed as f64, direct.completed as f64).unwrap_or(0.0);
    let of_direct = |status: u16| direct.status.get(&status).copied().unwrap_or(0);
    let all = via.status.iter().map(|(status, count)| (*status, *count));
    let mut new: Vec<(u16, u64)> =
        all.filter(|(status, count)| is_more(*count, of_direct(*status), scale)).collect();
    new.sort_by_key(|(_, count)| Reverse(*count));
    new
}

fn of_pair(case: &Case, direct: &Case) -> Option<Finding> {
    let (counts, of_direct) = (case.counts.as_ref()?, direct.counts.as_ref()?);
    let [refused, refused_directly] = [case, direct].map(refused);
    let scale = share(counts.sent as f64, of_direct.sent as f64)?;
    if refused == 0 || !is_more(refused, refused_directly, scale) {
        return None;
    }
    // Handshakes in flight at the edges of the measured time can be counted as refused only.
    let share = share(refused as f64, counts.sent.max(refused) as f64)?;
    let statuses = statuses(counts, of_direct);
    let seen: Vec<String> = statuses.iter().map(|(status, count)| format!("{status} ({count})")).collect();
    let seen = match seen.is_empty() {
        true => String::new(),
        false => format!(" The statuses that direct does not send: {}.", seen.join(", ")),
    };
    let directly = match refused_directly {
        0 => "Direct's were accepted".to_owned(),
        count => format!("{count} of direct's were, too"),
    };
    Some(Finding {
        evidence: evidence([
            ("refused", refused.into()),
            ("refused_directly", refused_directly.into()),
            ("requests", counts.sent.into()),
            ("share", share.into()),
            ("statuses", serde_json::json!(statuses)),
        ]),
        message: format!(
            "{refused} WebSocket handshakes were refused via the gateway ({} of the requests). \
             {directly}.{seen}",
            percent(share)
        ),
        ..about(CODE, Severity::Void, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::messages::Carrier;

    fn trial(label: &str, status: u16, refused: u64) -> MadeTrial {
        let trial = via(label, 0).server_stream_us(40, 1000).status(101, 1000 - refused);
        let trial = trial.message_counts(|counts| counts.refused = refused);
        if refused > 0 { trial.status(status, refused) } else { trial }
    }

    fn run(direct: MadeTrial, gateway: MadeTrial) -> Run {
        Run::closed(1).streams(Carrier::WebSocket, 10).with([direct.first(), gateway])
    }

    #[test]
    fn raised_by_a_single_handshake_and_with_its_status() {
        let findings = raised(&run(trial("direct", 101, 0), trial("nginx", 400, 1)), CODE);
        assert_eq!((findings.len(), findings[0].severity), (1, Severity::Void));
        let findings = raised(&run(trial("direct", 101, 0), trial("nginx", 502, 1000)), CODE);
        assert_eq!(findings[0].evidence["statuses"], serde_json::json!([[502, 1000]]));
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn not_raised_or_repeated_without_reason() {
        let accepted = run(trial("direct", 101, 0), trial("nginx", 101, 0));
        for code in [CODE, "different-work", "rejections-counted"] {
            assert_eq!(raised(&accepted, code), [], "{code}");
        }
        assert_eq!(raised(&run(trial("direct", 403, 300), trial("nginx", 403, 310)), CODE), []);
        let run = run(trial("direct", 101, 0), trial("nginx", 404, 900).ledger_requests(100));
        for code in ["amplification", "different-work", "rejections-counted"] {
            assert_eq!(raised(&run, code), [], "{code}");
        }
    }
}
