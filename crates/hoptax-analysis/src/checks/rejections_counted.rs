//! `rejections-counted`: throughput includes responses with a status outside of 200 to 399.

use super::rate_limit::{INEXACT, Limited, TOO_MANY};
use super::{Finding, Rule, Severity, Subject, about, evidence, percent, tunnel_refused};
use crate::Case;
use crate::thresholds::{DOUBTFUL, MISDIRECTED, MOST};
use hoptax_plan::GatewayKind;
use hoptax_record::units::grouped;
use hoptax_stats::share;

const CODE: &str = "rejections-counted";
const ADVICE: &str = "Remove rate limits and circuit breakers, or lower the load until these limits no \
                      longer reject requests.";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!(
            "warning; void above {} of the responses; note if a `rate-limit` of the plan explains the \
            rejections",
            percent(MOST)
        ),
        when: format!(
            "more than {} of the responses have a status outside of 200 to 399 that neither the plan's \
             upstream sends nor a target expects. A `rate-limit` of N/s, or a target's `rate_limit`, \
             explains rejections with status {TOO_MANY} (`external` gateways: also 503) if more than N \
             requests/s were due, and at least N × (s − 1) requests, minus {}, got through in s seconds",
            percent(DOUBTFUL),
            percent(INEXACT)
        ),
        seen: "A rejection is faster than an answer, so it makes a gateway look better.",
        advice: ADVICE,
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject
        .measured()
        .filter(|(_, trials)| !subject.rejects_by_events_only(trials))
        .filter_map(|measured| match subject.limited(measured) {
            Some(limited) => Some(by_the_plan(measured.0, limited)),
            None if tunnel_refused::is_raised(subject, measured.0) => None,
            None => unexplained(subject, measured.0),
        })
        .collect()
}

/// A rate limit of the plan explains all rejections. The case then shows the price of rejecting requests, as
/// the plan requests it.
fn by_the_plan(case: &Case, limited: Limited) -> Finding {
    let Limited { per_second, rejected, passed, accepted, status } = limited;
    Finding {
        evidence: evidence([
            ("completed", case.counts.as_ref().map(|counts| counts.completed).into()),
            ("rejected", rejected.into()),
            ("accepted_per_second", accepted.into()),
            ("rate_limit", per_second.into()),
            ("share", (1.0 - passed).into()),
        ]),
        message: format!(
            "The rate limit of {}/s that the plan sets let {}/s ({}) of the requests through. The others \
             received status {status} from the gateway. The figures describe these answers too, which are \
             faster than normal answers.",
            grouped(f64::from(per_second)),
            grouped(accepted.round()),
            percent(passed)
        ),
        advice: "To measure only requests that reach the upstream, lower the load below the limit, or raise \
                 `rate-limit`."
            .into(),
        ..about(CODE, Severity::Note, &case.case)
    }
}

fn unexplained(subject: &Subject<'_>, case: &Case) -> Option<Finding> {
    let counts = case.counts.as_ref()?;
    let rejections = || counts.status.iter().filter(move |(status, _)| subject.is_rejection(**status));
    let rejected: u64 = rejections().map(|(_, count)| count).sum();
    let share = share(rejected as f64, counts.completed as f64).filter(|share| *share > DOUBTFUL)?;
    let commonest = rejections().max_by_key(|(_, count)| **count).map(|(status, _)| *status)?;
    Some(Finding {
        evidence: evidence([
            ("completed", counts.completed.into()),
            ("rejected", rejected.into()),
            ("commonest_status", commonest.into()),
            ("share", share.into()),
        ]),
        message: format!(
            "{} of the responses had a status outside of 200 to 399, most often {commonest}. A rejection is \
             faster than a normal answer, so throughput and response times look better than they are.",
            percent(share)
        ),
        advice: match (commonest, subject.gateway(&case.gateway).map(|gateway| &gateway.kind)) {
            (MISDIRECTED, _) => {
                "The gateway does not serve this host on this connection: correct the target's header \
                 `host`, or `server_name`."
                    .to_owned()
            }
            (TOO_MANY | 503, Some(GatewayKind::External { .. })) => format!(
                "{ADVICE} If it has a rate limit that you want to measure, say so in the target: expect: {{ \
                 rate_limit: 1000/s }}."
            ),
            _ => format!("{ADVICE} The gateway's log may show what it rejected."),
        },
        ..about(CODE, if share > MOST { Severity::Void } else { Severity::Warning }, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::fixture::features::gateway;
    use hoptax_plan::{Feature, LlmFailure, LlmFailureKind, Upstream, UpstreamLlm};

    #[test]
    fn a_limit_of_the_plan_is_a_note_with_the_share_that_passed() {
        let mut run = Run::closed(1);
        run.record.plan.gateways = vec![gateway("nginx", &[Feature::RateLimit { per_second: 100 }])];
        run.push(via("nginx", 0).status(429, 880)).push(via("nginx", 1).status(429, 900));
        let findings = raised(&run, CODE);
        insta::assert_snapshot!(texts(&findings));
        assert_eq!(findings[0].evidence["rejected"], 1780);
        assert_eq!(findings[0].evidence["completed"], 2000);
    }

    #[test]
    fn some_are_a_warning_and_most_are_void() {
        let run = Run::closed(1).with([via("nginx", 0).status(429, 20), via("envoy", 0).status(503, 700)]);
        let findings = raised(&run, CODE);
        let severities: Vec<Severity> = findings.iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, [Severity::Void, Severity::Warning]);
        assert_eq!(findings[0].evidence["commonest_status"], 503);
        assert_eq!(findings[1].evidence["share"], 0.02);
    }

    #[test]
    fn not_raised_by_redirects_or_by_expected_statuses() {
        let mut run = Run::closed(1).with([via("nginx", 0).status(302, 500)]);
        assert_eq!(raised(&run, CODE), []);

        let Upstream::BuiltIn(upstream) = &mut run.record.plan.upstream else { panic!("made with ours") };
        upstream.status = 404;
        let failures = vec![LlmFailure { kind: LlmFailureKind::RateLimit, share: 0.1, at: 0 }];
        upstream.llm = Some(UpstreamLlm { failures, ..UpstreamLlm::default() });
        run.push(via("nginx", 1).status(404, 900));
        assert_eq!(raised(&run, CODE), []);

        run.push(via("nginx", 2).status(429, 100));
        assert_eq!(raised(&run, CODE), []);

        run.record.plan.targets[0].checks = vec![hoptax_format::spec::Check::Status(vec![(404, 410)])];
        run.push(via("nginx", 3).status(410, 900));
        assert_eq!(raised(&run, CODE), []);
    }
}
