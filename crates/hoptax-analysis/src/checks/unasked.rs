//! `unasked`: bytes came on connections while no request was under way.

use super::{Finding, Rule, Severity, Subject, evidence};
use hoptax_stats::share;

const CODE: &str = "unasked";
/// Share of the requests above which answers may as well belong to other requests.
const MOST: f64 = 0.01;

/// In words.
pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!("warning; void above one in {:.0} requests", 1.0 / MOST),
        when: "bytes came on a connection while no request was under way on it. The generator then closes it"
            .into(),
        seen: "A server that answers before it is asked, or sends more than its `content-length`, has answers to requests that \
               it has not had: response times near zero.",
        advice: "Look at the answer with `curl -v`: more body than announced, a second answer, or a body to HEAD or 304.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject
        .measured()
        .filter_map(|(case, trials)| {
            let unasked: u64 = trials.iter().map(|trial| trial.load.connections.unasked).sum();
            let sent: u64 = trials.iter().map(|trial| trial.load.lifetime.sent).sum();
            let share = share(unasked as f64, sent as f64).filter(|_| unasked > 0)?;
            Some(Finding {
                code: CODE,
                severity: if share > MOST { Severity::Void } else { Severity::Warning },
                case: Some(case.case.clone()),
                evidence: evidence([("unasked", unasked.into()), ("sent", sent.into()), ("share", share.into())]),
                message: format!(
                    "On {unasked} connections bytes came while no request was under way. They were closed; but answers may \
                     also have come before their requests, whose response times are then too short."
                ),
                advice: "Look at the answer with `curl -v`: more body than its length announces, or two answers.".into(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::fixture::{Run, via};

    #[test]
    fn raised_by_one_and_void_by_many() {
        let mut run = Run::closed(1);
        run.push(via("one", 0).unasked(1)).push(via("many", 0).unasked(20));
        let found: Vec<Severity> = raised(&run, CODE).iter().map(|finding| finding.severity).collect();
        assert_eq!(found, [Severity::Void, Severity::Warning]);
    }

    #[test]
    fn not_raised_by_none() {
        assert_eq!(raised(&Run::steady(2, 100, &[("nginx", 150)]), CODE), []);
    }
}
