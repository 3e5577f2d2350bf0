//! `not-ready`: a start could not be measured, because the gateway was not ready or its traffic failed.

use super::{Finding, MANY, Rule, Severity, Subject, about, evidence, percent};
use hoptax_stats::share;

const CODE: &str = "not-ready";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!("warning; void above {} of the starts", percent(MANY)),
        when: "a start or reload of a gateway could not be measured, for example because it gave no right \
               answer in time"
            .into(),
        seen: "The medians are those of the other starts.",
        advice: "Read the gateway's log in the run directory. If the gateway only needs longer, raise its \
            time limit for starting.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let finding = |starts: &crate::Starts| {
        let figures = &starts.figures;
        let all = figures.measured + figures.failed;
        let share = share(f64::from(figures.failed), f64::from(all)).filter(|share| *share > 0.0)?;
        Some(Finding {
            evidence: evidence([("starts", all.into()), ("failed", figures.failed.into())]),
            message: format!(
                "{} of {all} starts could not be measured: {}",
                figures.failed,
                figures.failure.as_deref().unwrap_or("no reason is recorded")
            ),
            advice: "Read the gateway's log in the run directory.".into(),
            ..about(CODE, if share > MANY { Severity::Void } else { Severity::Warning }, &starts.case())
        })
    };
    subject.of_starts.iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{raised, texts};
    use super::*;
    use crate::fixture::starts::{Cold, fail, started};

    #[test]
    fn raised_for_starts_without_figures() {
        for failed in [0, 1, 5] {
            let mut run = started(20, &[("nginx", Cold::native())]);
            let starts = run.starts.iter_mut().filter(|start| start.contender == "nginx");
            starts.take(failed).for_each(|start| fail(start, "nginx exited with code 1"));
            insta::assert_snapshot!(texts(&raised(&run, CODE)));
        }
    }
}
