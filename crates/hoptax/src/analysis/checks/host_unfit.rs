//! `host-unfit`: the look that a run takes at its host before the first trial, and after the last, found something bad.

use super::{Finding, Rule, Severity, Subject, evidence};
use crate::record::{Fitness, FitnessStatus, HostLook};
use std::collections::BTreeSet;

const CODE: &str = "host-unfit";

/// In words.
pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: "the look that a run takes at its host, before the first trial and after the last, found something bad: what `hoptax doctor` shows as such".into(),
        seen: "Figures from a host that cannot be measured on are wrong before the first request is sent, and nothing in them says so.",
        advice: "Do what `hoptax doctor` says, and measure again.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let looks = [&subject.run.host_at_start, &subject.run.host_at_end];
    let mut told = BTreeSet::new();
    let bad = looks.into_iter().flatten().flat_map(bad_items).filter(|item| told.insert(item.name.clone()));
    bad.map(finding).collect()
}

fn bad_items(look: &HostLook) -> impl Iterator<Item = &Fitness> {
    look.items.iter().filter(|item| item.status == FitnessStatus::Bad)
}

fn finding(item: &Fitness) -> Finding {
    Finding {
        code: CODE,
        severity: Severity::Warning,
        case: None,
        evidence: evidence([("item", item.name.clone().into()), ("seen", item.seen.clone().into())]),
        message: format!(
            "The host was not fit to be measured on: {} ({}). {}",
            item.name, item.seen, item.message
        ),
        advice: item.advice.clone().unwrap_or_else(|| "`hoptax doctor` looks at it again.".into()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::analysis::fixture::Run;

    pub(in crate::analysis::checks) fn look(items: &[(&str, FitnessStatus, &str)]) -> Option<HostLook> {
        let item = |&(name, status, seen): &(&str, FitnessStatus, &str)| Fitness {
            name: name.into(),
            status,
            seen: seen.into(),
            message: "It matters.".into(),
            advice: Some("Mend it.".into()),
        };
        Some(HostLook { at_unix_ns: 1, items: items.iter().map(item).collect() })
    }

    #[test]
    fn raised_once_for_each_bad_item() {
        let mut run = Run::steady(3, 100, &[("nginx", 150)]);
        run.record.host_at_start = look(&[("clock-source", FitnessStatus::Bad, "acpi_pm")]);
        run.record.host_at_end = look(&[
            ("clock-source", FitnessStatus::Bad, "acpi_pm"),
            ("memory", FitnessStatus::Bad, "12 MiB of 2 GiB"),
        ]);
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[0].severity, Severity::Warning);
        assert_eq!(findings[0].evidence["seen"], "acpi_pm");
        assert_eq!(findings[0].advice, "Mend it.");
        assert!(findings[1].message.contains("memory (12 MiB of 2 GiB). It matters."), "{findings:?}");
    }

    #[test]
    fn not_raised_for_warnings_or_where_nobody_looked() {
        let mut run = Run::steady(3, 100, &[("nginx", 150)]);
        assert_eq!(raised(&run, CODE), []);
        run.record.host_at_start = look(&[
            ("governor", FitnessStatus::Warning, "powersave"),
            ("turbo", FitnessStatus::Unknown, "cannot be told"),
            ("cpus", FitnessStatus::Good, "8"),
        ]);
        assert_eq!(raised(&run, CODE), []);
    }
}
