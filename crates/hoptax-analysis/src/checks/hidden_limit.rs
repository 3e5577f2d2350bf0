//! `hidden-limit`: the gateway refused connections, requests or retries because of one of its own limits.

use super::{Finding, Rule, Severity, Subject, about, evidence};
use crate::{Case, Trial};
use hoptax_record::Counter;

const CODE: &str = "hidden-limit";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when:
            "a counter that the gateway's pack marks as overflow grew during a trial: the gateway reached a \
               limit, and refused connections, requests or retries"
                .into(),
        seen: "Refusing is faster than forwarding. Envoy's circuit breakers have a default limit of 1,024.",
        advice: "Raise the limit that the counter names, or lower the load below it.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (case, trials) in subject.measured() {
        let contender = subject.run.contenders.iter().find(|contender| contender.label == case.gateway);
        let limits =
            contender.iter().flat_map(|contender| &contender.counters).filter(|counter| counter.overflow);
        findings.extend(limits.filter_map(|counter| grew(case, trials, counter)));
    }
    findings
}

/// Reports a counter if it grew at all. Even if a limit is reached only once, it changes the tail of the
/// response times.
fn grew(case: &Case, trials: &[Trial<'_>], counter: &Counter) -> Option<Finding> {
    let grown: Vec<f64> = trials
        .iter()
        .filter_map(|trial| trial.record.gateway_counters.get(&counter.name).copied())
        .filter(|grown| *grown > 0.0)
        .collect();
    let total: f64 = grown.iter().sum();
    (total > 0.0).then(|| Finding {
        evidence: evidence([
            ("counter", counter.name.clone().into()),
            ("grown", total.into()),
            ("trials", trials.len().into()),
            ("trials_hit", grown.len().into()),
        ]),
        message: format!(
            "{} reached one of its own limits in {} of {} trials: {total:.0} {}.",
            case.gateway,
            grown.len(),
            trials.len(),
            counter.meaning
        ),
        advice: match &counter.advice {
            Some(advice) => format!("Use `profile: equalised`, which lifts such limits, or {advice}."),
            None => {
                "Use `profile: equalised`, which lifts such limits, or a load that stays below the limit."
                    .into()
            }
        },
        ..about(CODE, Severity::Warning, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    fn run(grown: f64, overflow: bool) -> Run {
        let mut trial = via("envoy", 0);
        trial.0.gateway_counters.insert("refused".into(), grown);
        let mut run = Run::closed(1).with([trial, via("envoy", 1)]);
        for contender in &mut run.record.contenders {
            contender.counters = vec![Counter {
                name: "refused".into(),
                meaning: "requests refused".into(),
                overflow,
                advice: Some("raise max".into()),
            }];
        }
        run
    }

    #[test]
    fn raised_by_a_limit_that_was_hit() {
        let found = raised(&run(12.0, true), CODE);
        assert_eq!(found[0].evidence["grown"], 12.0);
        assert_eq!(found[0].evidence["trials_hit"], 1);
        insta::assert_snapshot!(texts(&found));
    }

    #[test]
    fn not_raised_by_counters_that_do_not_grow_or_are_no_overflow() {
        assert_eq!(raised(&run(0.0, true), CODE), []);
        assert_eq!(raised(&run(12.0, false), CODE), []);
    }
}
