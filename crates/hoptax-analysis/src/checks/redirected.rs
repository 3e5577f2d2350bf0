//! `redirected`: most answers are redirects, which hoptax does not follow.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use crate::thresholds::REDIRECTED;
use hoptax_format::record::is_redirect;
use hoptax_plan::Upstream;
use hoptax_stats::share;

const CODE: &str = "redirected";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "void".into(),
        when: format!(
            "more than {} of the answers are redirects (status 301, 302, 303, 307 or 308) that no target's \
             `expect` names and the plan's upstream does not send",
            percent(REDIRECTED)
        ),
        seen: "hoptax does not follow redirects, so the figures describe the redirect.",
        advice: "Request the address that the redirect points to. To measure redirects, add `expect: { \
                 status: 302 }`, with their status, to the target.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(|measured| of_case(subject, measured)).collect()
}

fn of_case(subject: &Subject<'_>, (case, trials): Measured<'_>) -> Option<Finding> {
    let counts = case.counts.as_ref()?;
    let plan = &subject.run.plan;
    let is_meant = &|status: u16| {
        matches!(&plan.upstream, Upstream::BuiltIn(upstream) if upstream.status == status)
            || plan.targets.iter().any(|target| target.expects_status(status))
    };
    let redirects =
        || counts.status.iter().filter(move |(status, _)| is_redirect(**status) && !is_meant(**status));
    let redirected: u64 = redirects().map(|(_, count)| count).sum();
    let share = share(redirected as f64, counts.completed as f64).filter(|share| *share > REDIRECTED)?;
    let status = redirects().max_by_key(|(_, count)| **count).map(|(status, _)| *status)?;
    let to = trials.iter().find_map(|trial| trial.load.redirected_to.as_deref());
    let to_where = to.map_or_else(String::new, |to| format!(" to {to}"));
    Some(Finding {
        evidence: evidence([
            ("completed", counts.completed.into()),
            ("redirected", redirected.into()),
            ("commonest_status", status.into()),
            ("to", to.into()),
            ("share", share.into()),
        ]),
        message: format!(
            "{} of the answers were redirects: status {status}{to_where}. hoptax does not follow redirects, \
             so the figures describe the redirect, and not the service behind it.",
            percent(share)
        ),
        advice: format!(
            "Request the address that the redirect points to. If redirects are what you measure, add \
             `expect: {{ status: {status} }}` to the target."
        ),
        ..about(CODE, Severity::Void, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::spec::Check;

    #[test]
    fn raised_if_direct_and_gateway_redirect() {
        let mut run = Run::closed(32);
        run.push(via("direct", 0).first().status(302, 1000)).push(via("nginx", 0).status(302, 1000));
        run.trials.iter_mut().for_each(|trial| {
            trial.load_record.as_mut().expect("made with one").redirected_to = Some("/login".into());
        });
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
    }

    #[test]
    fn not_raised_by_some_or_expected_redirects() {
        let run = Run::closed(32).with([via("nginx", 0).status(302, 400), via("mine", 0).status(304, 1000)]);
        assert_eq!(raised(&run, CODE), []);
        let mut run = Run::closed(32);
        run.record.plan.targets[0].checks = vec![Check::Status(vec![(300, 399)])];
        run.push(via("nginx", 0).status(302, 1000));
        assert_eq!(raised(&run, CODE), []);
    }
}
