//! `errors`: more than 0.1 % of the requests ended in an error or a timeout.

use super::{Finding, Severity, Subject, evidence, percent};
use crate::analysis::case::failures;

const CODE: &str = "errors";
/// Above this share the slow end of the distribution is made of failures.
const DOUBTFUL: f64 = 0.001;
/// Above this share most of the work that was asked for was not done.
const MOST: f64 = 0.5;

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject
        .measured()
        .filter_map(|(case, _)| {
            let counts = case.counts.as_ref()?;
            let share = case.error_share().filter(|share| *share > DOUBTFUL)?;
            let kinds = [
                ("timed out", counts.timeouts),
                ("could not connect", counts.connect_errors),
                ("were cut off", counts.resets),
                ("got no valid response", counts.bad_responses),
            ];
            let kinds: Vec<String> = kinds
                .iter()
                .filter(|(_, count)| *count > 0)
                .map(|(words, count)| format!("{count} {words}"))
                .collect();
            Some(Finding {
                code: CODE,
                severity: if share > MOST { Severity::Void } else { Severity::Warning },
                case: Some(case.case.clone()),
                evidence: evidence([
                    ("scheduled", counts.scheduled.into()),
                    ("failed", failures(counts).into()),
                    ("timeouts", counts.timeouts.into()),
                    ("connect_errors", counts.connect_errors.into()),
                    ("resets", counts.resets.into()),
                    ("bad_responses", counts.bad_responses.into()),
                    ("share", share.into()),
                ]),
                message: format!(
                    "{} of the requests failed: {}. Timeouts are in the percentiles at the moment they were given \
                     up; the other failures are not, so the percentiles are of the survivors.",
                    percent(share),
                    kinds.join(", ")
                ),
                advice: "Read the gateway's log in the run directory; lower the connections or the rate until the \
                         errors go, or judge the gateway by them."
                    .into(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::analysis::fixture::{Run, via};

    #[test]
    fn raised_by_two_in_a_thousand() {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).errors(2));
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].severity, Severity::Warning);
        assert_eq!(findings[0].evidence["resets"], 2);
        assert!(findings[0].message.contains("2 were cut off"), "{}", findings[0].message);
    }

    #[test]
    fn void_when_most_failed() {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).nothing_completed());
        assert_eq!(raised(&run, CODE)[0].severity, Severity::Void);
    }

    #[test]
    fn not_raised_by_one_in_a_thousand_or_none() {
        let mut run = Run::closed(1);
        run.push(via("nginx", 0).errors(1)).push(via("haproxy", 0));
        assert_eq!(raised(&run, CODE), []);
    }
}
