//! `amplification`: the upstream received more or fewer requests than the clients sent.

use super::{
    Finding, Measured, Rule, Severity, Subject, about, evidence, percent, retries_after_abort,
    retries_multiply, tunnel_refused,
};
use crate::Trial;
use crate::thresholds::MOST;
use hoptax_stats::share;

const CODE: &str = "amplification";
/// Smallest difference to report, as a share of the requests. At 100 requests/s or more, one health check per
/// second is at most this share.
const DIFFERENT: f64 = 0.01;
/// Smallest difference to report, in requests. Under a very light load, health checks alone exceed
/// [`DIFFERENT`].
const FEWEST: u64 = 10;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!(
            "warning; void if more than {} of the answers did not come from the upstream",
            percent(MOST)
        ),
        when: format!(
            "the upstream received over {0} more requests than the generator sent, or over {0} fewer \
             requests than the generator got answers, unless a `rate-limit`, `retries-multiply` or \
             `retries-after-abort` explains that",
            percent(DIFFERENT)
        ),
        seen: "Extra requests make the upstream do more work than for direct; a cache makes it do less.",
        advice: "If the upstream received too many requests, look for retries, token reviews, mirrored \
                 requests and health checks. If too few, switch off caches, and look for answers that the \
                 gateway creates itself.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let fewer = |measured: Measured<'_>| {
        fewer(measured)
            .filter(|_| !subject.rejects_by_events_only(measured.1) && subject.limited(measured).is_none())
            // Handshakes that the gateway refuses do not reach the upstream.
            .filter(|_| !tunnel_refused::is_raised(subject, measured.0))
    };
    let more = |measured: Measured<'_>| {
        more(measured)
            .filter(|_| !retries_multiply::is_raised(measured))
            .filter(|_| !retries_after_abort::is_raised(subject, measured))
    };
    subject.measured().filter_map(|measured| more(measured).or_else(|| fewer(measured))).collect()
}

/// Returns the number of requests that the upstream received, the number of requests that the generator sent,
/// and the number of answers that the generator received. All three numbers include all trials and the
/// warm-up.
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
            "Another program also sends requests to the upstream. These requests slow direct down",
            "Find the program that uses the upstream's port, such as an idle gateway that sends health \
             checks, or another run.",
        ),
        false => (
            "With the extra requests (retries, token reviews, mirrored requests or health checks), the \
             upstream does more work for the gateway than for direct",
            "Switch off the source of the extra requests, or plan for an upstream that can handle them.",
        ),
    };
    Some(Finding {
        evidence: evidence([
            ("upstream_requests", upstream.into()),
            ("sent", sent.into()),
            ("per_request", (1.0 + share).into()),
            ("measured_s", seconds.into()),
            ("limit", DIFFERENT.into()),
        ]),
        message: format!(
            "The generator sent {sent} requests, and the upstream received {upstream} requests: {:.2} for \
             each request that the generator sent. {who}.",
            1.0 + share
        ),
        advice: advice.into(),
        ..about(CODE, Severity::Warning, &case.case)
    })
}

fn fewer(measured: Measured<'_>) -> Option<Finding> {
    let case = measured.0;
    let (upstream, sent, answered) = totals(measured)?;
    let missing = answered.saturating_sub(upstream);
    let share =
        share(missing as f64, answered as f64).filter(|share| *share > DIFFERENT && missing >= FEWEST)?;
    Some(Finding {
        evidence: evidence([
            ("upstream_requests", upstream.into()),
            ("sent", sent.into()),
            ("answered", answered.into()),
            ("share", share.into()),
            ("limit", DIFFERENT.into()),
        ]),
        message: format!(
            "{} of the {answered} answers did not come from the upstream, which received only {upstream} \
             requests. These answers came from a cache or from the gateway itself. Such answers cost less \
             than answers from the upstream, and all answers of direct come from the upstream.",
            percent(share)
        ),
        advice: "Switch off caches, and answers that the gateway creates without the upstream (rate limits, \
                 circuit breakers, error pages). Or publish the figures as the figures of a cache."
            .into(),
        ..about(CODE, if share > MOST { Severity::Void } else { Severity::Warning }, &case.case)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn raised_by_a_token_review_for_each_request() {
        let run = Run::steady(2, 100, &[("nginx", 150)]).with([via("kubegateway", 0).ledger_requests(2000)]);
        let findings = raised(&run, CODE);
        insta::assert_snapshot!(texts(&findings));
        assert_eq!(findings[0].evidence["per_request"], 2.0);
    }

    #[test]
    fn void_if_a_cache_answers_most_requests_and_names_another_client_of_direct() {
        let mut run = Run::closed(1);
        run.push(via("some", 0).ledger_requests(900)).push(via("most", 0).ledger_requests(1));
        let found: Vec<Severity> = raised(&run, CODE).iter().map(|finding| finding.severity).collect();
        assert_eq!(found, [Severity::Void, Severity::Warning]);
        let run = Run::closed(1).with([via("direct", 0).first().ledger_requests(1500)]);
        assert!(raised(&run, CODE)[0].message.contains("Another program"));
    }

    #[test]
    fn not_raised_by_requests_in_flight_or_a_few_health_checks() {
        let mut run = Run::closed(1);
        // Fifty requests timed out. It is unknown whether the upstream received them.
        run.push(via("slow", 0).timeouts(50)).push(via("checked", 0).ledger_requests(1008));
        run.push(via("mine", 0).unwatched());
        assert_eq!(raised(&run, CODE), []);
    }
}
