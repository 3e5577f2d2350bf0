//! `rejections-counted`: throughput includes responses with a status outside of 200 to 399.

use super::{Concerns, Finding, Rule, Severity, Subject, evidence, percent};
use hoptax_load::record::Counts;
use hoptax_plan::Upstream;
use hoptax_stats::share;

const CODE: &str = "rejections-counted";
/// Limit for the share of rejected requests. Above this share, they change the figures.
const DOUBTFUL: f64 = 0.001;
/// Limit for the share of rejected requests. Above this share, the case is void.
const MOST: f64 = 0.5;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!("warning; void above {} of the responses", percent(MOST)),
        when: format!(
            "more than {} of the responses have a status outside of 200 to 399. A status that the plan's upstream \
             sends, or that a target expects, does not count",
            percent(DOUBTFUL)
        ),
        seen: "A rejection is faster than a normal answer. A gateway that rejects requests therefore looks better \
               than a gateway that serves them.",
        advice: "Remove rate limits and circuit breakers, or lower the load until these limits no longer reject \
                 requests.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let plan = &subject.run.plan;
    let asked_for = |status: u16| {
        let answered = matches!(&plan.upstream, Upstream::BuiltIn(upstream) if upstream.status == status);
        answered || plan.targets.iter().any(|target| target.expects_status(status))
    };
    subject
        .measured()
        .filter(|(_, trials)| !subject.rejects_by_events_only(trials))
        .filter_map(|(case, _)| {
            let counts = case.counts.as_ref()?;
            let rejected = rejected(counts, asked_for);
            let share = share(rejected as f64, counts.completed as f64).filter(|share| *share > DOUBTFUL)?;
            let commonest = counts.status.iter().filter(|(status, _)| is_rejection(**status, asked_for));
            let commonest = commonest.max_by_key(|(_, count)| **count).map(|(status, _)| *status)?;
            Some(Finding {
                code: CODE,
                severity: if share > MOST { Severity::Void } else { Severity::Warning },
                concerns: Concerns::ALL,
                case: Some(case.case.clone()),
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
                advice: "Remove rate limits and circuit breakers, or lower the load until these limits no longer \
                         reject requests. The gateway's log may show what it rejected."
                    .into(),
            })
        })
        .collect()
}

fn is_rejection(status: u16, asked_for: impl Fn(u16) -> bool) -> bool {
    !(200..400).contains(&status) && !asked_for(status)
}

fn rejected(counts: &Counts, asked_for: impl Fn(u16) -> bool) -> u64 {
    counts
        .status
        .iter()
        .filter(|(status, _)| is_rejection(**status, &asked_for))
        .map(|(_, count)| count)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::fixture::{Run, via};

    #[test]
    fn some_are_a_warning_and_most_are_void() {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).status(429, 20)).push(via("envoy", 0).status(503, 700));
        let findings = raised(&run, CODE);
        let severities: Vec<Severity> = findings.iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, [Severity::Void, Severity::Warning]);
        assert_eq!(findings[0].evidence["commonest_status"], 503);
        assert_eq!(findings[1].evidence["share"], 0.02);
    }

    #[test]
    fn not_raised_by_redirects_or_by_expected_statuses() {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).status(302, 500));
        assert_eq!(raised(&run, CODE), []);

        let Upstream::BuiltIn(upstream) = &mut run.record.plan.upstream else { panic!("made with ours") };
        upstream.status = 404;
        run.push(via("nginx", 1).status(404, 900));
        assert_eq!(raised(&run, CODE), []);

        run.record.plan.targets[0].checks = vec![hoptax_load::spec::Check::Status(vec![(404, 410)])];
        run.push(via("nginx", 2).status(410, 900));
        assert_eq!(raised(&run, CODE), []);
    }
}
