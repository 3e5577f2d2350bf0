//! `unpinned-version`: the version of a measured gateway is unknown.

use super::{Finding, Rule, Severity, Subject, about_run, evidence};
use hoptax_record::DIRECT;

const CODE: &str = "unpinned-version";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "note".into(),
        when: "the version of a measured gateway is not known: it is `external`, its pack has no `version` \
               command, or that printed none"
            .into(),
        seen: "Defaults change between releases, so the figures cannot be repeated.",
        advice: "Add the version to the label of an external gateway, or a `version` command to the pack.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let measured = |label: &str| subject.gateways().any(|(case, _)| case.gateway == label);
    let contenders = subject.run.contenders.iter().filter(|contender| contender.label != DIRECT);
    contenders
        .filter(|contender| contender.version.is_none() && measured(&contender.label))
        .map(|contender| Finding {
            evidence: evidence([
                ("gateway", contender.label.as_str().into()),
                ("kind", contender.kind.as_str().into()),
            ]),
            message: format!(
                "The version of {} is unknown, so these figures cannot be compared with later figures.",
                contender.label
            ),
            advice: match contender.kind.as_str() {
                "external" => "Add the version to the gateway's label.".into(),
                _ => "Check that the pack's `version` command works (`hoptax gateways` shows its output)."
                    .into(),
            },
            ..about_run(CODE, Severity::Note)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_record::Stage;

    fn run_without_version() -> Run {
        let mut run = Run::steady(2, 100, &[("nginx", 150), ("mine", 150)]);
        run.record.contenders[2].version = None;
        run.record.contenders[2].kind = "external".into();
        run
    }

    #[test]
    fn raised_once_per_gateway() {
        let findings = raised(&run_without_version(), CODE);
        insta::assert_snapshot!(texts(&findings));
        assert_eq!(findings[0].evidence["gateway"], "mine");
    }

    #[test]
    fn not_raised_by_direct_or_an_unmeasured_gateway() {
        let mut run = Run::steady(2, 100, &[("nginx", 150)]);
        run.record.contenders[0].version = None;
        run.contender("envoy", Some(failure(Stage::Missing, "not installed")));
        run.record.contenders[2].version = None;
        assert_eq!(raised(&run, CODE), []);
    }
}
