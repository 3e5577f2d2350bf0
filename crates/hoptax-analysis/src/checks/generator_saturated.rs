//! `generator-saturated`: the load generator may have been the limit.

use super::{Concerns, Figures, Finding, Rule, Severity, Subject, evidence, percent};
use crate::Case;

const CODE: &str = "generator-saturated";
/// Limit for the share of the time that a worker spends on a CPU. Above this share, the worker cannot send requests on
/// time.
const BUSY: f64 = 0.85;
/// Limit for the p99 of the send lag ÷ the median response time. Above this ratio, delays in the generator are visible
/// in the figures.
const LATE: f64 = 0.1;

/// What a limit of direct means in a closed loop, whatever the limit is.
pub(super) const LIMIT_OF_DIRECT: &str = "A throughput ratio then compares a gateway with this limit: with more head-room, direct would be faster, and the \
     ratio would be lower";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity:
            "warning; a note for direct in a closed loop, because a closed loop always reaches some limit"
                .into(),
        when: format!(
            "any of these holds. (1) The generator's busiest worker was on a CPU for more than {} of a trial. (2) In \
             an open loop, the p99 of the send lag is above {} of the p50 of the response time",
            percent(BUSY),
            percent(LATE)
        ),
        seen: "The limit of the generator then looks like the limit of the gateway. One published limit of a server \
               was measured while wrk used 100 % of its CPU and the server used only 50 %.",
        advice: "Give the generator its own CPUs (`cpus:` in the plan) or its own machine. For response times, use an \
                 open loop at a rate well below the generator's limit.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(|(case, _)| busy(case).or_else(|| late(subject, case))).collect()
}

fn busy(case: &Case) -> Option<Finding> {
    let utilisation = case.cpu.as_ref()?.generator_utilisation.filter(|share| *share > BUSY)?;
    let (severity, consequence) = match (case.is_direct(), case.load.is_open()) {
        // A closed loop always reaches some limit.
        (true, false) => (Severity::Note, LIMIT_OF_DIRECT),
        (true, true) => {
            (Severity::Warning, "Direct may be faster than measured, and the tax of gateways may be larger")
        }
        (false, _) => (Severity::Warning, "The gateway may be able to handle more load"),
    };
    Some(Finding {
        code: CODE,
        severity,
        concerns: Concerns::ALL,
        case: Some(case.case.clone()),
        evidence: evidence([("generator_utilisation", utilisation.into()), ("limit", BUSY.into())]),
        message: format!(
            "The generator's busiest worker was on a CPU for {} of a trial, so the generator may have been the limit. \
             {consequence}.",
            percent(utilisation)
        ),
        advice:
            "Give the generator its own CPUs (`cpus:` in the plan) or its own machine. For response times, use an open \
             loop at a rate well below the generator's limit."
                .into(),
    })
}

/// True if the median send lag of a gateway is like direct's, so that it cancels in the tax at the median. After an idle
/// time, a virtual machine often needs as long to wake up as a request takes, but it needs as long for direct.
fn cancels(subject: &Subject<'_>, case: &Case) -> Option<bool> {
    let usual = |case: &Case| Some(case.send_lag.as_ref()?.p50?.estimate);
    let (direct, _) = subject.direct(case.load.index)?;
    if case.is_direct() {
        return Some(true);
    }
    let tax = case.tax.as_ref()?.added_p50.as_ref()?.estimate.estimate;
    Some((usual(case)? - usual(direct)?).abs() <= LATE * tax.abs())
}

fn late(subject: &Subject<'_>, case: &Case) -> Option<Finding> {
    if !case.load.is_open() {
        return None;
    }
    let lag = case.send_lag.as_ref()?.p99?.estimate;
    let median = case.response_time.as_ref()?.p50?.estimate;
    if lag <= LATE * median {
        return None;
    }
    let cancels = cancels(subject, case).unwrap_or(false);
    let figures = if cancels { Figures::Tails } else { Figures::All };
    let cause = match cancels {
        true => {
            "The median delay is the same with and without a gateway, so the tax at the median does not contain it"
        }
        false => "The median delay of direct is different, so the tax at the median contains the difference",
    };
    Some(Finding {
        code: CODE,
        severity: Severity::Warning,
        concerns: Concerns::only(figures),
        case: Some(case.case.clone()),
        evidence: evidence([
            ("send_lag_p99_us", lag.into()),
            ("response_time_p50_us", median.into()),
            ("limit", LATE.into()),
        ]),
        message: format!(
            "One request in a hundred was sent at least {lag:.0} µs late, and the median response time is \
             {median:.0} µs. Response times include this delay. The generator causes the delay, or requests wait \
             for a free connection. {cause}."
        ),
        advice: "Give the generator its own CPUs (`cpus:` in the plan), more connections, or a lower rate. Service \
                 times do not include the delay."
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
    fn raised_by_send_lag_in_an_open_loop_only() {
        for (load, expected) in [(open_point(1000.0, 8, 1), 1), (crate::fixture::closed_point(8, 1), 0)] {
            let mut run = Run::with_load(vec![load]);
            run.push(via("nginx", 0).all_at_us(200).send_lag_us(25));
            assert_eq!(raised(&run, CODE).len(), expected);
        }
    }

    #[test]
    fn a_delay_that_direct_has_too_concerns_the_tails_only() {
        for (of_gateway, expected) in [(25, Figures::Tails), (35, Figures::All)] {
            let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
            run.push(via("direct", 0).first().all_at_us(150).send_lag_us(25));
            run.push(via("nginx", 0).all_at_us(200).send_lag_us(of_gateway));
            let findings = raised(&run, CODE);
            let figures: Vec<Figures> = findings.iter().map(|finding| finding.concerns.figures).collect();
            assert_eq!(figures, [Figures::Tails, expected], "the tax is 50 µs");
        }
    }

    #[test]
    fn not_raised_by_a_light_load() {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
        run.push(via("nginx", 0).all_at_us(200).send_lag_us(15).generator_busy(80));
        assert_eq!(raised(&run, CODE), []);
    }
}
