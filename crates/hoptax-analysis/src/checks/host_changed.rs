//! `host-changed`: a lasting property of the host changed during the run.

use super::subject::Looks;
use super::{Finding, Rule, Severity, Subject, about_run, evidence, with_host};
use hoptax_record::{FitnessStatus, HostLook};

const CODE: &str = "host-changed";

/// Items of `hoptax doctor` that affect figures, and that stay the same until somebody changes them. All
/// other items vary from check to check.
const LASTING: [&str; 8] =
    ["cpus", "cpu-limit", "governor", "turbo", "smt", "clock-source", "huge-pages", "kernel"];

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!("one of these properties of a host changed during the run: {}", LASTING.join(", ")),
        seen: "Trials before and after the change ran on different machines.",
        advice: "Switch off the cause, such as power management or another user's program, and measure \
            again.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.looks().iter().filter_map(of_host).collect()
}

fn of_host(looks: &Looks<'_>) -> Option<Finding> {
    let (start, end) = (looks.start?, looks.end?);
    let changed: Vec<Change> = LASTING.into_iter().filter_map(|name| change(name, start, end)).collect();
    if changed.is_empty() {
        return None;
    }
    let words = |(name, before, after): &Change| {
        format!("{name} was {before} before the first trial and {after} after the last trial")
    };
    let changes: Vec<String> = changed.iter().map(words).collect();
    let each = |of: fn(&Change) -> String| changed.iter().map(of).collect::<Vec<_>>();
    let evidence = evidence([
        ("items", each(|(name, ..)| (*name).to_owned()).into()),
        ("at_start", each(|(_, before, _)| before.clone()).into()),
        ("at_end", each(|(_, _, after)| after.clone()).into()),
    ]);
    Some(Finding {
        evidence: with_host(evidence, "host", looks.host.clone()),
        message: format!("{} changed during the run: {}.", looks.named(), changes.join("; ")),
        ..about_run(CODE, Severity::Warning)
    })
}

/// The name of a property, its value before the first trial, and its value after the last trial.
type Change = (&'static str, String, String);

fn change(name: &'static str, start: &HostLook, end: &HostLook) -> Option<Change> {
    let item = |look: &HostLook| look.items.iter().find(|item| item.name == name).cloned();
    let (before, after) = (item(start)?, item(end)?);
    let known = before.status != FitnessStatus::Unknown && after.status != FitnessStatus::Unknown;
    (known && before.seen != after.seen).then_some((name, before.seen, after.seen))
}

#[cfg(test)]
mod tests {
    use super::super::host_unfit::tests::look;
    use super::super::tests::*;
    use super::*;
    use crate::fixture::hosts::on_hosts;
    use FitnessStatus::{Good, Unknown, Warning};

    fn run(start: Option<HostLook>, end: Option<HostLook>) -> Run {
        let mut run = Run::steady(3, 100, &[("nginx", 150)]);
        (run.record.host_at_start, run.record.host_at_end) = (start, end);
        run
    }

    #[test]
    fn raised_once_with_every_changed_property() {
        let start =
            look(&[("governor", Good, "performance"), ("clock-source", Good, "tsc"), ("cpus", Good, "8")]);
        let end =
            look(&[("governor", Warning, "powersave"), ("clock-source", Good, "hpet"), ("cpus", Good, "8")]);
        let findings = raised(&run(start, end), CODE);
        assert_eq!(findings[0].evidence["items"], serde_json::json!(["governor", "clock-source"]));
        assert_eq!(findings[0].evidence["at_start"], serde_json::json!(["performance", "tsc"]));
        assert_eq!(findings[0].evidence["at_end"], serde_json::json!(["powersave", "hpet"]));
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn raised_for_the_host_that_changed() {
        let mut run = on_hosts(&[("nginx", 850)]);
        let edge = run.record.hosts.get_mut("edge").expect("there");
        edge.at_start = look(&[("governor", Good, "performance")]);
        edge.at_end = look(&[("governor", Warning, "powersave")]);
        let findings = raised(&run, CODE);
        assert_eq!(findings[0].evidence["host"], "host edge (gateway)");
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn not_raised_for_fluctuating_or_unknown_properties() {
        let start =
            look(&[("memory", Good, "5 GiB"), ("governor", Good, "performance"), ("turbo", Unknown, "?")]);
        let end =
            look(&[("memory", Good, "4 GiB"), ("governor", Good, "performance"), ("turbo", Good, "off")]);
        assert_eq!(raised(&run(start.clone(), end), CODE), []);
        assert_eq!(raised(&run(start, None), CODE), []);
    }
}
