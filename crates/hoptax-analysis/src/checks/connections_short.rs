//! `connections-short`: fewer connections were established than requested.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use hoptax_stats::share;

const CODE: &str = "connections-short";
/// Limit for established ÷ requested connections. Below this share the case is void, because its load differs
/// too much from the plan's load.
const ANOTHER_CASE: f64 = 0.9;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!("warning; void below {} of the requested connections", percent(ANOTHER_CASE)),
        when: "not all requested connections were established when the traffic of a trial began".into(),
        seen: "The load is lighter than the plan says.",
        advice: "Raise the limits (file descriptors, the gateway's connections, listen backlog), or request \
                 fewer connections.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(of_case).collect()
}

fn of_case((case, _): Measured<'_>) -> Option<Finding> {
    let connections = case.connections.as_ref()?;
    let (asked, established) = (connections.asked, connections.established);
    let share = share(established as f64, asked as f64).filter(|_| established < asked)?;
    Some(Finding {
        evidence: evidence([("asked", asked.into()), ("established", established.into())]),
        message: format!(
            "Only {established} of the {asked} connections were established when the traffic of a trial \
             began, so the load was lighter than the plan says."
        ),
        ..about(CODE, if share < ANOTHER_CASE { Severity::Void } else { Severity::Warning }, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn raised_by_one_missing_connection_and_void_by_many() {
        let mut run = Run::closed(32);
        run.push(via("nginx", 0)).push(via("nginx", 1).established(31));
        run.push(via("envoy", 0).established(20));
        let findings = raised(&run, CODE);
        insta::assert_snapshot!(texts(&findings));
        assert_eq!([0, 1].map(|at| findings[at].evidence["established"].as_u64()), [Some(20), Some(31)]);
    }
}
