//! `not-settled`: after a start, a gateway was still getting faster when its load ended.

use super::{Finding, Rule, Severity, Subject, about, evidence, percent};
use hoptax_record::report::StartUnderLoad;
use hoptax_stats::share;

const CODE: &str = "not-settled";

/// Share of unanswered requests above which the finding names it.
const UNANSWERED: f64 = 0.01;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "note".into(),
        when:
            "in at least half of its starts, a gateway's response time was still falling when the load after \
               the start ended, or became steady only in the second half of the load"
                .into(),
        seen: "The time until it has settled is then longer than the load.",
        advice: "Give it a longer load: `start: { for: 60s }`.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let finding = |starts: &crate::Starts| {
        let load = starts.figures.load.as_ref().filter(|load| load.unsettled > 0)?;
        (2 * load.unsettled >= load.starts).then(|| Finding {
            evidence: evidence([("starts", load.starts.into()), ("unsettled", load.unsettled.into())]),
            message: format!(
                "In {} of {} starts it had not settled when its load ended, so its times until then are only \
                bounds.{}",
                load.unsettled,
                load.starts,
                unanswered(load)
            ),
            advice: "Give it a longer load, `start: { for: 60s }`, or a lower rate.".into(),
            ..about(CODE, Severity::Note, &starts.case())
        })
    };
    subject.of_starts.iter().filter_map(finding).collect()
}

/// A sentence about requests that still waited when the load ended, if there were many.
fn unanswered(load: &StartUnderLoad) -> String {
    match share(load.unanswered as f64, load.scheduled as f64).filter(|share| *share > UNANSWERED) {
        Some(share) => format!(" {} of its requests had no answer by then.", percent(share)),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{raised, texts};
    use super::*;
    use crate::fixture::starts::{Cold, started};

    #[test]
    fn raised_for_what_needs_longer_than_its_load() {
        for (settled_s, count) in [(Some(4.0), 0), (None, 1)] {
            let run =
                started(6, &[("nginx", Cold::native()), ("yarp", Cold { settled_s, ..Cold::managed() })]);
            let findings = raised(&run, CODE);
            assert_eq!(findings.len(), count, "{findings:?}");
            assert!(findings.iter().all(|one| one.message.starts_with("In 6 of 6 starts")), "{findings:?}");
            assert!(findings.iter().all(|one| one.message.ends_with("only bounds.")), "{findings:?}");
        }
    }

    #[test]
    fn names_the_requests_that_still_waited() {
        let mut run = started(6, &[("yarp", Cold { settled_s: None, ..Cold::managed() })]);
        for load in run.starts.iter_mut().filter_map(|start| start.load.as_mut()) {
            load.unanswered = load.scheduled / 2;
        }
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
    }
}
