//! `grpc-failed`: gRPC calls ended with another status than OK, or than their target expects.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use crate::thresholds::{DOUBTFUL, MOST};
use hoptax_format::grpc::Status;
use hoptax_format::spec::Check;
use hoptax_stats::share;
use std::cmp::Reverse;

const CODE: &str = "grpc-failed";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!("warning; void above {} of the calls", percent(MOST)),
        when: format!(
            "more than {} of the gRPC calls ended with a status other than OK, or than `expect: {{ grpc: … \
             }}` accepts",
            percent(DOUBTFUL)
        ),
        seen: "A call that fails has the HTTP status 200, so counts of HTTP statuses show nothing. A load \
               generator counted `grpc-status: 13` as a success.",
        advice: "Read the gateway's log in the run directory. UNAVAILABLE often comes from the gateway, \
                 which cannot reach the upstream; UNIMPLEMENTED from a missing route.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let accepted = accepted(subject);
    subject.measured().filter_map(|measured| of_case(measured, &accepted)).collect()
}

/// The names of the statuses that some target accepts.
fn accepted(subject: &Subject<'_>) -> Vec<&'static str> {
    let mut names = Vec::new();
    for target in subject.run.plan.targets.iter().filter(|target| target.grpc) {
        let typed = target.checks.iter().find_map(|check| match check {
            Check::Grpc(statuses) => Some(statuses.as_slice()),
            _ => None,
        });
        names.extend(typed.unwrap_or(&[Status::Ok]).iter().map(|status| status.name()));
    }
    names
}

fn of_case((case, _): Measured<'_>, accepted: &[&str]) -> Option<Finding> {
    let counts = case.counts.as_ref()?;
    let calls: u64 = counts.grpc.values().sum();
    let is_failure = |(status, _): &(&String, &u64)| !accepted.contains(&status.as_str());
    let mut failures: Vec<(&String, &u64)> = counts.grpc.iter().filter(is_failure).collect();
    let failed: u64 = failures.iter().map(|(_, count)| **count).sum();
    let share = share(failed as f64, calls as f64).filter(|share| *share > DOUBTFUL)?;
    failures.sort_by_key(|(_, count)| Reverse(**count));
    let named: Vec<String> = failures.iter().map(|(status, count)| format!("{count} {status}")).collect();
    Some(Finding {
        evidence: evidence([
            ("calls", calls.into()),
            ("failed", failed.into()),
            ("statuses", serde_json::json!(counts.grpc)),
            ("share", share.into()),
        ]),
        message: format!(
            "{} of the gRPC calls failed: {}. Failures are often faster than normal answers, and count in \
             throughput and response times.",
            percent(share),
            named.join(", ")
        ),
        ..about(CODE, if share > MOST { Severity::Void } else { Severity::Warning }, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    fn run() -> Run {
        let mut run = Run::closed(1);
        run.record.plan.targets[0].grpc = true;
        run
    }

    #[test]
    fn raised_by_calls_with_another_status() {
        let mut run = run();
        run.push(via("nginx", 0).calls(&[("UNAVAILABLE", 12), ("INTERNAL", 8)], 0));
        run.push(via("envoy", 0).calls(&[("UNKNOWN", 700)], 0));
        let findings = raised(&run, CODE);
        let evidence = &findings[1].evidence;
        assert_eq!((evidence["failed"].as_u64(), evidence["calls"].as_u64()), (Some(20), Some(1000)));
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn not_raised_by_few_or_expected_statuses() {
        let mut run = run();
        run.push(via("nginx", 0).calls(&[("UNAVAILABLE", 1)], 0)).push(via("envoy", 0));
        assert_eq!(raised(&run, CODE), []);
        run.record.plan.targets[0].checks = vec![Check::Grpc(vec![Status::Ok, Status::NotFound])];
        run.push(via("haproxy", 0).calls(&[("NOT_FOUND", 400)], 0));
        assert_eq!(raised(&run, CODE), []);
    }
}
