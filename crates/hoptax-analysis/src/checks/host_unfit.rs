//! `host-unfit`: the look that a run takes at its host before the first trial, and after the last, found something bad.

use super::{Finding, Rule, Severity, Subject, evidence};
use hoptax_record::{Fitness, FitnessStatus, HostLook};
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
    let bad: Vec<&Fitness> = bad.collect();
    if bad.is_empty() {
        return Vec::new();
    }
    let each = |of: fn(&Fitness) -> String| bad.iter().map(|item| of(item)).collect::<Vec<_>>();
    let seen = each(|item| format!("{} ({})", item.name, item.seen)).join(", ");
    let why = each(|item| item.message.clone()).join(" ");
    let advice = each(|item| item.advice.clone().unwrap_or_default()).join(" ");
    vec![Finding {
        code: CODE,
        severity: Severity::Warning,
        case: None,
        evidence: evidence([
            ("items", each(|item| item.name.clone()).into()),
            ("seen", each(|item| item.seen.clone()).into()),
        ]),
        message: format!("The host was not fit to be measured on: {seen}. {why}"),
        advice: format!("{advice} `hoptax doctor` looks at it again.").trim_start().to_owned(),
    }]
}

fn bad_items(look: &HostLook) -> impl Iterator<Item = &Fitness> {
    look.items.iter().filter(|item| item.status == FitnessStatus::Bad)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::fixture::Run;

    pub(in crate::checks) fn look(items: &[(&str, FitnessStatus, &str)]) -> Option<HostLook> {
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
    fn raised_once_with_every_bad_item() {
        let mut run = Run::steady(3, 100, &[("nginx", 150)]);
        run.record.host_at_start = look(&[("clock-source", FitnessStatus::Bad, "acpi_pm")]);
        run.record.host_at_end = look(&[
            ("clock-source", FitnessStatus::Bad, "acpi_pm"),
            ("memory", FitnessStatus::Bad, "12 MiB of 2 GiB"),
        ]);
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].severity, Severity::Warning);
        assert_eq!(findings[0].evidence["items"], serde_json::json!(["clock-source", "memory"]));
        let told = "clock-source (acpi_pm), memory (12 MiB of 2 GiB). It matters. It matters.";
        assert!(findings[0].message.contains(told), "{findings:?}");
        assert!(findings[0].advice.starts_with("Mend it. Mend it. "), "{findings:?}");
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
