//! `failed-checks`: complete answers did not meet the plan's expectations.

use super::{Finding, Rule, Severity, Subject, about, evidence, percent};
use crate::thresholds::{DOUBTFUL, MOST};
use hoptax_format::grpc;
use hoptax_stats::share;

const CODE: &str = "failed-checks";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!("warning; void above {} of the answers", percent(MOST)),
        when: format!(
            "more than {} of the answers did not meet the `expect` of their target",
            percent(DOUBTFUL)
        ),
        seen: "Unexpected answers are often faster, and count in throughput and response times like all \
            others.",
        advice: "Send the request by hand and look at the answer. Remove the limit or filter that changes \
                 answers under load, or correct `expect`.",
    }
}

/// Reports nothing if no target has expectations. For targets without expectations, `rejections-counted`
/// reports unsuccessful answers. `grpc-failed` reports the statuses of gRPC calls.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    if subject.run.plan.targets.iter().all(|target| target.checks.is_empty()) {
        return Vec::new();
    }
    subject
        .measured()
        .filter_map(|(case, _)| {
            let counts = case.counts.as_ref()?;
            let failures = || counts.failed_checks.iter().filter(|(text, _)| !text.starts_with(grpc::FAILED));
            let failed: u64 = failures().map(|(_, count)| count).sum();
            let share = share(failed as f64, counts.completed as f64).filter(|share| *share > DOUBTFUL)?;
            let (commonest, count) = failures().max_by_key(|(_, count)| **count)?;
            Some(Finding {
                evidence: evidence([
                    ("completed", counts.completed.into()),
                    ("failed", failed.into()),
                    ("commonest", commonest.as_str().into()),
                    ("share", share.into()),
                ]),
                message: format!(
                    "{} of the answers did not meet `expect`. The most frequent reason ({count} times): \
                     {commonest}. These answers are complete, so they count in throughput and response \
                     times.",
                    percent(share)
                ),
                ..about(CODE, if share > MOST { Severity::Void } else { Severity::Warning }, &case.case)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::spec::Check;

    fn expecting() -> Run {
        let mut run = Run::closed(1);
        run.record.plan.targets[0].checks = vec![Check::BodyContains("hello".into())];
        run
    }

    #[test]
    fn some_are_a_warning_and_most_are_void() {
        let mut run = expecting();
        run.push(via("nginx", 0).failed_check("the body lacks `hello`", 20));
        run.push(via("envoy", 0).failed_check("the body lacks `hello`", 700).failed_check("other", 5));
        let findings = raised(&run, CODE);
        assert_eq!(findings[0].evidence["failed"], 705);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn not_raised_by_few_or_without_expectations() {
        let mut run = expecting();
        run.push(via("nginx", 0).failed_check("the body lacks `hello`", 1));
        run.push(via("envoy", 0).failed_check("gRPC status UNAVAILABLE is not OK", 700));
        assert_eq!(raised(&run, CODE), []);
        let run = Run::closed(1).with([via("nginx", 0).failed_check("status 503", 700)]);
        assert_eq!(raised(&run, CODE), []);
    }
}
