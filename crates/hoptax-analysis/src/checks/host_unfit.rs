//! `host-unfit`: `hoptax doctor` rated an item of the host as bad, before the first trial or after the last
//! trial.

use super::subject::Looks;
use super::{Finding, Rule, Severity, Subject, about_run, evidence, with_host};
use hoptax_record::{Fitness, FitnessStatus, HostLook};
use std::collections::BTreeSet;

const CODE: &str = "host-unfit";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when:
            "a check of `hoptax doctor` had the result `bad` on a host of the run, before the first trial or \
               after the last"
                .into(),
        seen: "Such a host makes figures wrong without a sign.",
        advice: "Follow the advice of `hoptax doctor`, and measure again.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.looks().iter().filter_map(of_host).collect()
}

fn of_host(looks: &Looks<'_>) -> Option<Finding> {
    let both = [looks.start, looks.end].into_iter().flatten();
    let mut named = BTreeSet::new();
    let bad: Vec<&Fitness> =
        both.flat_map(bad_items).filter(|item| named.insert(item.name.clone())).collect();
    if bad.is_empty() {
        return None;
    }
    let each = |of: fn(&Fitness) -> String| bad.iter().map(|item| of(item)).collect::<Vec<_>>();
    let seen = each(|item| format!("{} ({})", item.name, item.seen)).join(", ");
    let why = each(|item| item.message.clone()).join(" ");
    let advice = each(|item| item.advice.clone().unwrap_or_default()).join(" ");
    let evidence = evidence([
        ("items", each(|item| item.name.clone()).into()),
        ("seen", each(|item| item.seen.clone()).into()),
    ]);
    let there = if looks.host.is_some() { " there" } else { "" };
    Some(Finding {
        evidence: with_host(evidence, "host", looks.host.clone()),
        message: format!("{} is not fit for measurements: {seen}. {why}", looks.named()),
        advice: format!("{advice} Then check with `hoptax doctor`{there}.").trim_start().to_owned(),
        ..about_run(CODE, Severity::Warning)
    })
}

fn bad_items(look: &HostLook) -> impl Iterator<Item = &Fitness> {
    look.items.iter().filter(|item| item.status == FitnessStatus::Bad)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::fixture::hosts::on_hosts;

    pub(in crate::checks) fn look(items: &[(&str, FitnessStatus, &str)]) -> Option<HostLook> {
        let item = |&(name, status, seen): &(&str, FitnessStatus, &str)| Fitness {
            name: name.into(),
            status,
            seen: seen.into(),
            message: "It matters.".into(),
            advice: Some("Fix it.".into()),
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
        assert_eq!(findings[0].evidence["items"], serde_json::json!(["clock-source", "memory"]));
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn raised_for_each_host() {
        let mut run = on_hosts(&[("nginx", 850)]);
        run.record.host_at_end = look(&[("memory", FitnessStatus::Bad, "12 MiB")]);
        for (name, status) in [("edge", FitnessStatus::Bad), ("app", FitnessStatus::Warning)] {
            let host = run.record.hosts.get_mut(name).expect("there");
            host.at_start = look(&[("clock-source", status, "acpi_pm")]);
        }
        let findings = raised(&run, CODE);
        insta::assert_snapshot!(texts(&findings));
        assert_eq!(findings[1].evidence["host"], "host edge (gateway)");
    }

    #[test]
    fn not_raised_for_warnings_or_without_a_look() {
        let mut run = Run::steady(3, 100, &[("nginx", 150)]);
        assert_eq!(raised(&run, CODE), []);
        run.record.host_at_start = look(&[
            ("governor", FitnessStatus::Warning, "powersave"),
            ("turbo", FitnessStatus::Unknown, "unknown"),
            ("cpus", FitnessStatus::Good, "8"),
        ]);
        assert_eq!(raised(&run, CODE), []);
    }
}
