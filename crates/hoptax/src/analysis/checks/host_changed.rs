//! `host-changed`: something about the host that lasts was otherwise after the last trial than before the first: trials before
//! and after that were made on different machines, so to speak.

use super::{Finding, Rule, Severity, Subject, evidence};
use crate::record::{FitnessStatus, HostLook};

const CODE: &str = "host-changed";

/// What stays as it is until somebody changes it, and bears on figures. What is seen of the others is never twice the same.
const LASTING: [&str; 8] =
    ["cpus", "cpu-limit", "governor", "turbo", "smt", "clock-source", "huge-pages", "kernel"];

/// In words.
pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "something about the host that lasts was otherwise after the last trial than before the first: {}",
            LASTING.join(", ")
        ),
        seen: "A power profile that changed in the middle of a run: the trials before it and after it were made on different machines, so to speak.",
        advice: "Measure again, with whatever changes it (power management, another user) switched off.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let (Some(start), Some(end)) = (&subject.run.host_at_start, &subject.run.host_at_end) else {
        return Vec::new();
    };
    LASTING.into_iter().filter_map(|name| changed(name, start, end)).collect()
}

fn changed(name: &'static str, start: &HostLook, end: &HostLook) -> Option<Finding> {
    let item = |look: &HostLook| look.items.iter().find(|item| item.name == name).cloned();
    let (before, after) = (item(start)?, item(end)?);
    let told = before.status != FitnessStatus::Unknown && after.status != FitnessStatus::Unknown;
    if !told || before.seen == after.seen {
        return None;
    }
    Some(Finding {
        code: CODE,
        severity: Severity::Warning,
        case: None,
        evidence: evidence([
            ("item", name.into()),
            ("at_start", before.seen.clone().into()),
            ("at_end", after.seen.clone().into()),
        ]),
        message: format!(
            "The host changed during the run: {name} was {} before the first trial and {} after the last.",
            before.seen, after.seen
        ),
        advice: "Measure again, with whatever changes it (power management, another user) switched off."
            .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::host_unfit::tests::look;
    use super::super::tests::raised;
    use super::*;
    use crate::analysis::fixture::Run;
    use FitnessStatus::{Good, Unknown, Warning};

    fn run(start: Option<HostLook>, end: Option<HostLook>) -> Run {
        let mut run = Run::steady(3, 100, &[("nginx", 150)]);
        (run.record.host_at_start, run.record.host_at_end) = (start, end);
        run
    }

    #[test]
    fn raised_for_each_lasting_thing_that_changed() {
        let start =
            look(&[("governor", Good, "performance"), ("clock-source", Good, "tsc"), ("cpus", Good, "8")]);
        let end =
            look(&[("governor", Warning, "powersave"), ("clock-source", Good, "hpet"), ("cpus", Good, "8")]);
        let findings = raised(&run(start, end), CODE);
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[0].evidence["at_start"], "performance");
        assert_eq!(findings[0].evidence["at_end"], "powersave");
        assert!(findings[1].message.contains("clock-source was tsc before the first trial and hpet after"));
    }

    #[test]
    fn not_raised_for_what_always_changes_or_was_not_seen_twice() {
        let start =
            look(&[("memory", Good, "5 GiB"), ("governor", Good, "performance"), ("turbo", Unknown, "?")]);
        let end =
            look(&[("memory", Good, "4 GiB"), ("governor", Good, "performance"), ("turbo", Good, "off")]);
        assert_eq!(raised(&run(start.clone(), end), CODE), []);
        assert_eq!(raised(&run(start, None), CODE), []);
    }
}
