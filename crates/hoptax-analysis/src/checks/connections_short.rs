//! `connections-short`: fewer connections stood than were asked for.

use super::{Finding, Rule, Severity, Subject, evidence, percent};
use hoptax_stats::share;

const CODE: &str = "connections-short";
/// Below this share of the connections it is another case than the one that was asked for.
const ANOTHER_CASE: f64 = 0.9;

/// In words.
pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!("warning; void below {} of them", percent(ANOTHER_CASE)),
        when: "fewer connections stood when the traffic of a trial began than were asked for".into(),
        seen: "Tools that silently connect fewer than they are told to: the load is lighter than its label.",
        advice: "Raise the limits in the way (descriptors, the gateway's own limit of connections, the listen backlog), or ask for fewer.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject
        .measured()
        .filter_map(|(case, _)| {
            let connections = case.connections.as_ref()?;
            let (asked, stood) = (connections.asked, connections.established);
            let share = share(stood as f64, asked as f64).filter(|_| stood < asked)?;
            Some(Finding {
                code: CODE,
                severity: if share < ANOTHER_CASE { Severity::Void } else { Severity::Warning },
                case: Some(case.case.clone()),
                evidence: evidence([("asked", asked.into()), ("established", stood.into())]),
                message: format!(
                    "Only {stood} of the {asked} connections stood when the traffic of a trial began: the load was \
                     lighter than it says."
                ),
                advice: "Raise the limits in the way (descriptors, the gateway's own limit of connections, the \
                         listen backlog), or ask for fewer connections."
                    .into(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::fixture::{Run, via};

    #[test]
    fn raised_by_one_missing_and_void_by_many() {
        let mut run = Run::closed(32);
        run.push(via("nginx", 0)).push(via("nginx", 1).established(31));
        run.push(via("envoy", 0).established(20));
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 2);
        assert_eq!(
            (findings[0].severity, &findings[0].evidence["established"]),
            (Severity::Void, &20.into())
        );
        assert_eq!(
            (findings[1].severity, &findings[1].evidence["established"]),
            (Severity::Warning, &31.into())
        );
    }

    #[test]
    fn not_raised_when_all_stood() {
        assert_eq!(raised(&Run::steady(2, 100, &[("nginx", 150)]), CODE), []);
    }
}
