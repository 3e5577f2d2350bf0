//! `herd`: with constant arrivals, many requests are sent together or arrive together.
//!
//! If requests have a constant rate, they always meet other periodic events (timers, batches, ticks) at the
//! same phase. If the generator is late, it sends all due requests at once. The check looks for two signs.
//! Either the same load with jitter has shorter response times, or half of the requests are sent only after
//! the following request is due.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, most_in_flight};
use crate::{Case, Trial};
use hoptax_format::clock::SECOND;
use hoptax_stats::{Estimate, Statistic};

const CODE: &str = "herd";
/// Smallest number of connections to check. With fewer connections, only a few requests can be sent together.
const MANY: u64 = 8;
/// Smallest ratio to report: the p99 with constant arrivals ÷ the p99 with jitter. With few trials, the p99
/// varies by a third even without a cause.
const LONGER: f64 = 1.5;
/// Limit for the median send lag ÷ the time between two requests. Above this limit, at least half of the
/// requests are sent together with another request.
const TOGETHER: f64 = 1.0;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "an open loop has constant arrivals and at least {MANY} connections. Also, its p99 is above \
             {LONGER} times the p99 of the same load with jitter (in every round, and the intervals do not \
             overlap), or half of the requests are sent so late that the next one leaves with them"
        ),
        seen: "Requests that arrive together wait for each other; real users do not arrive in step.",
        advice: "Use `arrivals: jitter` (± 10 % by default) or `arrivals: poisson`.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let in_step = |(case, _): &Measured<'_>| {
        let load = &case.load;
        load.is_steady() && load.arrivals == Some("constant") && load.concurrency() >= MANY
    };
    subject
        .measured()
        .filter(in_step)
        .filter_map(|measured| against_jitter(subject, measured).or_else(|| together(measured)))
        .collect()
}

fn p99(case: &Case) -> Option<&Estimate> {
    case.response_time.as_ref()?.p99.as_ref()
}

/// True if, in every round, the p99 is longer with constant arrivals than with jitter. Otherwise the machine
/// is the cause.
fn longer_in_each_round(constant: &[Trial<'_>], jitter: &[Trial<'_>]) -> bool {
    constant.iter().all(|trial| {
        let p99 = trial.response_time_us(Statistic::P99);
        jitter
            .iter()
            .filter(|other| other.round() == trial.round())
            .all(|other| p99 > other.response_time_us(Statistic::P99))
    })
}

fn against_jitter(subject: &Subject<'_>, (case, trials): Measured<'_>) -> Option<Finding> {
    let (sibling, with_jitter) = subject.measured().find(|(other, _)| {
        let (a, b) = (&other.load, &case.load);
        other.gateway == case.gateway
            && a.arrivals == Some("jitter")
            && (a.rate, a.connections, a.streams, a.http, a.requests_per_connection, a.retry)
                == (b.rate, b.connections, b.streams, b.http, b.requests_per_connection, b.retry)
    })?;
    let (constant, jitter) = (p99(case)?, p99(sibling)?);
    let apart = constant.low? > jitter.high? && longer_in_each_round(trials, with_jitter);
    if !apart || constant.estimate <= LONGER * jitter.estimate {
        return None;
    }
    Some(finding(
        case,
        format!(
            "The p99 is {:.0} µs with constant arrivals and {:.0} µs with jitter at the same rate: requests \
             arrive in step and wait for each other.",
            constant.estimate, jitter.estimate
        ),
        [("p99_us", constant.estimate), ("p99_with_jitter_us", jitter.estimate)],
    ))
}

fn together((case, _): Measured<'_>) -> Option<Finding> {
    // If requests remain unsent, the requests had to wait for a free connection. In this case, the generator
    // is not the reason why they are late.
    if case.counts.as_ref()?.unsent > 0 {
        return None;
    }
    let busy = case.throughput.as_ref()?.estimate.estimate * case.service_time.as_ref()?.mean?.estimate / 1e6;
    let lag = case.send_lag.as_ref()?.p50?.estimate;
    let interval = SECOND as f64 / 1e3 / case.load.rate?;
    if lag <= TOGETHER * interval || busy > most_in_flight(case) as f64 / 2.0 {
        return None;
    }
    Some(finding(
        case,
        format!(
            "A request is due every {interval:.1} µs, and half of the requests left at least {lag:.1} µs \
             late. So requests left together, although connections were free."
        ),
        [("send_lag_p50_us", lag), ("interval_us", interval)],
    ))
}

fn finding(case: &Case, message: String, figures: [(&'static str, f64); 2]) -> Finding {
    let [first, second] = figures.map(|(name, value)| (name, value.into()));
    Finding {
        evidence: evidence([
            first,
            second,
            ("rate", case.load.rate.into()),
            ("connections", case.load.connections.into()),
        ]),
        message,
        advice:
            "Use `arrivals: jitter` or `arrivals: poisson`, because real users do not send requests in step."
                .into(),
        ..about(CODE, Severity::Warning, &case.case)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::record::Http2Tally;
    use hoptax_format::spec::{Arrivals, HttpVersion, Rate, Shape};
    use hoptax_plan::LoadPoint;

    fn constant(rate: f64, connections: u32) -> LoadPoint {
        let shape = Shape::Open { rate: Rate::Fixed(rate), arrivals: Arrivals::Constant };
        LoadPoint { shape, ..open_point(rate, connections, 1) }
    }

    fn both(constant_us: u64, jitter_us: u64) -> Run {
        let mut run = Run::with_load(vec![constant(1000.0, 64), open_point(1000.0, 64, 1)]);
        for round in 0..3 {
            run.push(via("envoy", round).all_at_us(constant_us + u64::from(round)));
            run.push(via("envoy", round).at_load(1).all_at_us(jitter_us + u64::from(round)));
        }
        run
    }

    #[test]
    fn raised_if_jitter_shortens_the_p99() {
        insta::assert_snapshot!(texts(&raised(&both(900, 300), CODE)));
        assert_eq!(raised(&both(300, 300), CODE), []);
    }

    #[test]
    fn raised_if_requests_leave_together_although_connections_are_free() {
        let run = Run::with_load(vec![constant(20_000.0, 64)]).with([via("envoy", 0).send_lag_us(500)]);
        assert_eq!(raised(&run, CODE).len(), 1);
        for (connections, lag, service) in [(64, 10, 200), (4, 500, 200), (8, 500, 5000)] {
            let mut run = Run::with_load(vec![constant(20_000.0, connections)]);
            run.push(via("envoy", 0).send_lag_us(lag).all_at_us(service));
            assert_eq!(raised(&run, CODE), [], "{connections}");
        }
        let mut jitter = Run::with_load(vec![open_point(20_000.0, 64, 1)]);
        jitter.push(via("envoy", 0).send_lag_us(500));
        assert_eq!(raised(&jitter, CODE), []);
    }

    /// Requests wait for a stream.
    #[test]
    fn not_raised_by_a_limit_of_streams() {
        for (stream_limit, expected) in [(None, 1), (Some(1), 0)] {
            let point = LoadPoint { http: HttpVersion::Http2, streams: 256, ..constant(20_000.0, 4) };
            let mut run = Run::with_load(vec![point]);
            let tally = Http2Tally { stream_limit, ..Http2Tally::default() };
            run.push(via("envoy", 0).send_lag_us(500).all_at_us(5000).http2(tally));
            assert_eq!(raised(&run, CODE).len(), expected, "{stream_limit:?}");
        }
    }
}
