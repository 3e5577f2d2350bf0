//! `amplification`: the upstream gets more or fewer requests than clients send.

use super::{Finding, Measured, Rule, Severity, Subject, evidence, percent};
use crate::Trial;
use hoptax_stats::share;

const CODE: &str = "amplification";
/// Share of the requests sent. Health checks of a gateway stay below it at a hundred requests per second and one check per
/// second; from here on the upstream's work is another than direct's.
const DIFFERENT: f64 = 0.01;
/// Above this share most answers do not come from the upstream.
const MOST: f64 = 0.5;
/// Fewer requests than this may be health checks of a load that sends next to nothing.
const FEWEST: u64 = 10;

/// In words.
pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!(
            "warning; void where more than {} of the answers do not come from the upstream",
            percent(MOST)
        ),
        when: format!(
            "the ledger counts more requests than the generator sent, or fewer than it got answers, by more than {} of \
             them",
            percent(DIFFERENT)
        ),
        seen: "A control plane's gateway got 5,000 requests per second, and the API server behind it 10,000: each cost a \
               token review. And a cache that answers by itself is quicker than any upstream.",
        advice: "More: look for retries, token reviews, mirrors and health checks. Fewer: switch caches off, and look for \
                 answers that the gateway makes itself.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let fewer =
        |measured: Measured<'_>| fewer(measured).filter(|_| !subject.rejects_by_events_only(measured.1));
    subject.measured().filter_map(|measured| more(measured).or_else(|| fewer(measured))).collect()
}

/// Upstream requests, requests sent, and answers, over the generator's whole life and all trials.
fn totals((case, trials): Measured<'_>) -> Option<(u64, u64, u64)> {
    let ledger = case.ledger.as_ref()?;
    Some((ledger.requests, ledger.sent, trials.iter().map(|trial| trial.load.lifetime.completed).sum()))
}

fn more(measured: Measured<'_>) -> Option<Finding> {
    let case = measured.0;
    let (upstream, sent, _) = totals(measured)?;
    let extra = upstream.saturating_sub(sent);
    let share = share(extra as f64, sent as f64).filter(|share| *share > DIFFERENT && extra >= FEWEST)?;
    let seconds: f64 = measured.1.iter().map(Trial::seconds).sum();
    let (who, advice) = match case.is_direct() {
        true => (
            "Something else sends requests to the upstream as well, and takes its time from direct",
            "Find what talks to the upstream's port: health checks of a gateway that idles, or another run.",
        ),
        false => (
            "The upstream does work that direct does not ask of it: retries, token reviews, mirrored requests, health \
             checks",
            "Switch off what sends them, or count them in: the upstream needs that much more.",
        ),
    };
    Some(Finding {
        code: CODE,
        severity: Severity::Warning,
        case: Some(case.case.clone()),
        evidence: evidence([
            ("upstream_requests", upstream.into()),
            ("sent", sent.into()),
            ("per_request", (1.0 + share).into()),
            ("measured_s", seconds.into()),
            ("limit", DIFFERENT.into()),
        ]),
        message: format!(
            "The upstream got {upstream} requests for {sent} that were sent, {:.2} for each. {who}.",
            1.0 + share
        ),
        advice: advice.into(),
    })
}

fn fewer(measured: Measured<'_>) -> Option<Finding> {
    let case = measured.0;
    let (upstream, sent, answered) = totals(measured)?;
    let missing = answered.saturating_sub(upstream);
    let share =
        share(missing as f64, answered as f64).filter(|share| *share > DIFFERENT && missing >= FEWEST)?;
    Some(Finding {
        code: CODE,
        severity: if share > MOST { Severity::Void } else { Severity::Warning },
        case: Some(case.case.clone()),
        evidence: evidence([
            ("upstream_requests", upstream.into()),
            ("sent", sent.into()),
            ("answered", answered.into()),
            ("share", share.into()),
            ("limit", DIFFERENT.into()),
        ]),
        message: format!(
            "{} of the {answered} answers did not come from the upstream, which got {upstream} requests: a cache, or \
             answers that something in between makes itself. They cost less than those that direct waits for.",
            percent(share)
        ),
        advice: "Switch caches and answers of the gateway's own off (rate limits, breakers, error pages), or measure them \
                 as what they are."
            .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::fixture::{Run, via};

    #[test]
    fn raised_by_a_token_review_for_each_request() {
        let mut run = Run::steady(2, 100, &[("nginx", 150)]);
        run.push(via("kubegateway", 0).ledger_requests(2000));
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1);
        assert_eq!(
            (findings[0].severity, &findings[0].evidence["per_request"]),
            (Severity::Warning, &2.0.into())
        );
    }

    #[test]
    fn raised_by_a_cache_void_when_it_answers_most() {
        let mut run = Run::closed(1);
        run.push(via("some", 0).ledger_requests(900)).push(via("most", 0).ledger_requests(1));
        let found: Vec<Severity> = raised(&run, CODE).iter().map(|finding| finding.severity).collect();
        assert_eq!(found, [Severity::Void, Severity::Warning]);
    }

    #[test]
    fn not_raised_by_requests_under_way_or_a_few_health_checks() {
        let mut run = Run::closed(1);
        // Fifty timed out: the upstream may have got them or not.
        run.push(via("slow", 0).timeouts(50)).push(via("checked", 0).ledger_requests(1008));
        run.push(via("mine", 0).unwatched());
        assert_eq!(raised(&run, CODE), []);
    }

    #[test]
    fn of_direct_it_says_that_something_else_talks_to_the_upstream() {
        let mut run = Run::closed(1);
        run.push(via("direct", 0).first().ledger_requests(1500));
        assert!(raised(&run, CODE)[0].message.contains("Something else"));
    }
}
