//! `generator-saturated`: the generator, not what it measures, may have been the limit.

use super::{Finding, Rule, Severity, Subject, evidence, percent};
use crate::Case;

const CODE: &str = "generator-saturated";
/// A worker that is on its CPU for longer than this share of the time cannot send when it should.
const BUSY: f64 = 0.85;
/// Send lag at p99 over response time at the median, above which lateness of the generator shows in the figures.
const LATE: f64 = 0.1;

/// In words.
pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "the generator's busiest worker was on a CPU for more than {} of a trial, or (open loop) the send lag at p99 is above {} of the response time at p50",
            percent(BUSY),
            percent(LATE)
        ),
        seen: "wrk at 100 % of its CPU against a server at 50 %: what was published as the server's limit was the client's.",
        advice: "Give the generator CPUs or a machine of its own (`cpus:` in the plan); for response times, use an open loop at a rate that it sends with ease.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(|(case, _)| busy(case).or_else(|| late(case))).collect()
}

fn busy(case: &Case) -> Option<Finding> {
    let utilisation = case.cpu.as_ref()?.generator_utilisation.filter(|share| *share > BUSY)?;
    let consequence = match case.is_direct() {
        true => "Direct is then quicker than it looks, and what gateways take away is more than it looks",
        false => "The gateway may carry more than this",
    };
    Some(Finding {
        code: CODE,
        severity: Severity::Warning,
        case: Some(case.case.clone()),
        evidence: evidence([("generator_utilisation", utilisation.into()), ("limit", BUSY.into())]),
        message: format!(
            "The generator's busiest worker was on a CPU for {} of a trial: the generator may have been the limit. \
             {consequence}.",
            percent(utilisation)
        ),
        advice:
            "Give the generator CPUs of its own (`cpus:` in the plan) or a machine of its own; for response \
                 times, use an open loop at a rate that it sends with ease."
                .into(),
    })
}

fn late(case: &Case) -> Option<Finding> {
    if !case.load.is_open() {
        return None;
    }
    let lag = case.send_lag.as_ref()?.p99?.estimate;
    let median = case.response_time.as_ref()?.p50?.estimate;
    if lag <= LATE * median {
        return None;
    }
    Some(Finding {
        code: CODE,
        severity: Severity::Warning,
        case: Some(case.case.clone()),
        evidence: evidence([
            ("send_lag_p99_us", lag.into()),
            ("response_time_p50_us", median.into()),
            ("limit", LATE.into()),
        ]),
        message: format!(
            "One request in a hundred left {lag:.0} µs or more after it was due, against a median response time of \
             {median:.0} µs: part of the response times is the generator's own lateness (or the wait for a free \
             connection)."
        ),
        advice: "Give the generator CPUs of its own (`cpus:` in the plan), more connections, or a lower rate; look \
                 at the service times, which leave the lag out."
            .into(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::raised;
    use super::*;
    use crate::fixture::{Run, open_point, via};

    #[test]
    fn raised_by_a_busy_worker() {
        let mut run = Run::closed(32);
        run.push(via("nginx", 0)).push(via("nginx", 1).generator_busy(93));
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].evidence["generator_utilisation"], 0.93);
        assert_eq!(findings[0].case.as_deref(), Some("nginx, closed loop, 32 connections"));
    }

    #[test]
    fn raised_by_lateness_in_an_open_loop_only() {
        for (load, expected) in [(open_point(1000.0, 8, 1), 1), (crate::fixture::closed_point(8, 1), 0)] {
            let mut run = Run::with_load(vec![load]);
            run.push(via("nginx", 0).all_at_us(200).send_lag_us(25));
            assert_eq!(raised(&run, CODE).len(), expected);
        }
    }

    #[test]
    fn not_raised_by_an_easy_load() {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
        run.push(via("nginx", 0).all_at_us(200).send_lag_us(15).generator_busy(80));
        assert_eq!(raised(&run, CODE), []);
    }
}
