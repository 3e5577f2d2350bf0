//! `impossible`: figures that contradict each other, or that can only occur if something other than the
//! gateway answered.

use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent};
use crate::{Case, Trial};
use hdrhistogram::Histogram;
use hoptax_format::record::Counts;
use hoptax_plan::Metric;
use hoptax_stats::Statistic;
use serde_json::{Map, Value, json};

const CODE: &str = "impossible";
/// Shortest possible response time. A request and its response cross the kernel four times and wake two
/// processes, which takes longer than 1 µs on any machine.
const QUICKEST_NS: u64 = 1_000;
/// Allowance for rounding. Histograms are accurate to 0.1 %, and two figures may be rounded in opposite
/// directions.
const ROUNDING: f64 = 1.005;
/// Largest allowed ratio of requests in flight to connections. The function [`edges`] adds an allowance for
/// requests at the start and the end of the measured time.
const IN_FLIGHT: f64 = 1.1;
/// Smallest allowed ratio of requests in flight to connections in a closed loop. If the ratio is lower,
/// requests were delayed by something other than waiting for responses.
const IDLE: f64 = 0.5;
/// Limit for the mean response time ÷ the measured time. Up to this ratio, the effect of requests at the
/// start and the end of the measured time is small.
const EDGES: f64 = 0.1;
/// Smallest allowed ratio: shortest service time via the gateway ÷ shortest service time of direct. A hop
/// cannot halve the shortest time.
const SHORTEST: f64 = 0.5;
/// Number of samples needed to compare the shortest times.
const SAMPLES: u64 = 1_000;

/// A contradiction: its name in the evidence, its description, and its figures.
type Contradiction = (&'static str, String, Value);

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity:
            "void; a warning if a gateway is faster than direct, or if connections of a closed loop were idle"
                .into(),
        when: format!(
            "one of these is true. (1) Outcomes do not add up to the requests that were due. (2) A response \
             has not exactly one status and one response time. (3) A response took less than {} µs. (4) A \
             percentile of the service time is above that of the response time. (5) In a closed loop, \
             throughput × mean response time (Little's law) is above {} of connections × streams, or (6) \
             without errors below {}. (7) In an open loop, or with one connection, the shortest service time \
             via a gateway is below {} of direct's. (8) A gateway is better than direct by a whole interval \
             beyond the noise floor: in median response time (open loop) or throughput (closed loop). (9) In \
             all trials, the median response time via a gateway is below {} of direct's",
            QUICKEST_NS / 1000,
            percent(IN_FLIGHT),
            percent(IDLE),
            percent(SHORTEST),
            percent(SHORTEST)
        ),
        seen: "Such figures are wrong, or something other than the gateway answered.",
        advice: "If records contradict each other, keep the run directory and report a bug. If a gateway is \
                 faster than direct, look for a cache, a generator at its limit, or an upstream that gets \
                 slower with many connections (direct opens more of them than a gateway with a pool).",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    // A stream that ends with the load is shorter if it began later.
    let is_compared = !subject.has_open_ended_streams();
    let pairs = subject.pairs().filter(|_| is_compared);
    subject
        .measured()
        .filter_map(|measured| contradictions(measured).or_else(|| littles_law(measured)))
        .chain(pairs.filter_map(|(via, direct)| faster(subject, via, direct)))
        .collect()
}

fn finding(case: &Case, severity: Severity, seen: Vec<Contradiction>) -> Finding {
    let advice = match severity {
        Severity::Void => {
            "Do not use this case. Keep the run directory. Report a bug in the generator, or in the program \
             that wrote the records."
        }
        _ => {
            "Look for a cache, for answers that the gateway creates without the upstream, and for a \
             generator or upstream at its limit. Measure in an open loop at a rate well below the limit of \
             direct."
        }
    };
    let described: Vec<String> = seen.iter().map(|(_, words, _)| words.clone()).collect();
    let numbers: Map<String, Value> =
        seen.into_iter().map(|(name, _, value)| (name.to_owned(), value)).collect();
    Finding {
        evidence: evidence([("seen", Value::Object(numbers))]),
        message: format!("This is impossible: {}.", described.join("; ")),
        advice: advice.into(),
        ..about(CODE, severity, &case.case)
    }
}

/// Looks for contradictions within the records of a case, and reports each kind at most once.
fn contradictions((case, trials): Measured<'_>) -> Option<Finding> {
    let looks: [fn(&Trial<'_>) -> Option<Contradiction>; 4] = [sums, samples, order, shortest];
    let seen: Vec<_> = looks.iter().filter_map(|look| trials.iter().find_map(look)).collect();
    (!seen.is_empty()).then(|| finding(case, Severity::Void, seen))
}

fn outcomes(counts: &Counts) -> u64 {
    counts.completed
        + counts.timeouts
        + counts.connect_errors
        + counts.resets
        + counts.bad_responses
        + counts.unsent
        + counts.in_flight
}

fn sums(trial: &Trial<'_>) -> Option<Contradiction> {
    let counts = &trial.load.counts;
    let (due, all, by_status) = (counts.scheduled, outcomes(counts), counts.status.values().sum::<u64>());
    let adds_up = due == all && by_status == counts.completed;
    (!adds_up).then(|| {
        let words = format!(
            "in round {}, {due} requests were due but {all} requests have an outcome, and {} requests were \
             answered but {by_status} requests have a status",
            trial.round() + 1,
            counts.completed
        );
        (
            "counts",
            words,
            json!({ "scheduled": due, "outcomes": all, "completed": counts.completed, "status": by_status }),
        )
    })
}

/// Checks that each answer and each timeout has exactly one response time. Streams that the client ended have
/// none.
fn samples(trial: &Trial<'_>) -> Option<Contradiction> {
    let counts = &trial.load.counts;
    let ended = counts.completed.saturating_sub(counts.ended_by_client);
    let (timed, expected) = (trial.response_time.len(), ended + counts.timeouts);
    (timed != expected).then(|| {
        let words = format!(
            "in round {}, there are {timed} response times for {expected} answers and timeouts",
            trial.round() + 1
        );
        ("samples", words, json!({ "samples": timed, "requests": expected }))
    })
}

/// Checks that no percentile of the service time is longer than the same percentile of the response time. The
/// response time of a request includes its service time.
fn order(trial: &Trial<'_>) -> Option<Contradiction> {
    let (response, service) = (&trial.response_time, &trial.service_time);
    let longer = |statistic: Statistic| -> Option<(Statistic, f64, f64)> {
        let (response, service) = (statistic.of(response)?, statistic.of(service)?);
        (service > response * ROUNDING + 1.0).then_some((statistic, service, response))
    };
    if response.len() != service.len() {
        return None;
    }
    let (statistic, service, response) = Statistic::ALL.into_iter().find_map(longer)?;
    let name = statistic.name();
    let words = format!(
        "the {name} of the service time is {service:.1} µs, which is longer than the {name} of the response \
         time ({response:.1} µs)"
    );
    Some((
        "service_above_response",
        words,
        json!({ "statistic": name, "service_us": service, "response_us": response }),
    ))
}

fn shortest(trial: &Trial<'_>) -> Option<Contradiction> {
    let least = least(&trial.service_time).filter(|least| *least < QUICKEST_NS)?;
    let words = format!(
        "a response took only {least} ns, from the first byte of the request to the last byte of the \
                         response"
    );
    Some(("shortest_ns", words, least.into()))
}

/// The shortest time, ns. A time below the histogram's lowest value counts as zero.
fn least(times: &Histogram<u64>) -> Option<u64> {
    (!times.is_empty()).then(|| times.min())
}

/// Checks Little's law (J. D. C. Little, 1961): in a closed loop, throughput × mean response time equals the
/// number of connections × streams.
fn littles_law((case, trials): Measured<'_>) -> Option<Finding> {
    // Streams that the client has left have no response time.
    let has_left = case.counts.as_ref().is_some_and(|counts| counts.ended_by_client > 0);
    if case.load.is_open() || case.load.requests.is_some() || has_left {
        return None;
    }
    let without_errors = crate::error_share(case).is_some_and(|share| share == 0.0);
    let (connections, streams) = (f64::from(case.load.connections), f64::from(case.load.streams));
    let asked = connections * streams;
    let off = |trial: &Trial<'_>| {
        let mean = trial.response_time_us(Statistic::Mean)? / 1e6;
        let in_flight = trial.throughput() * mean;
        // The server may allow fewer streams.
        let limit = trial.load.http2.and_then(|http2| http2.stream_limit);
        // Streams that the client ended have no response time.
        let is_timed = trial.load.counts.ended_by_client == 0;
        let allowed = limit.map_or(streams, |limit| streams.min(f64::from(limit)));
        let established = connections.min(trial.load.connections.established as f64) * allowed;
        let too_many = in_flight > IN_FLIGHT * asked * edges(trial, asked);
        let idle = without_errors && in_flight < IDLE * established;
        let is_short = mean < EDGES * trial.seconds();
        (is_timed && is_short && (too_many || idle)).then_some((in_flight, too_many))
    };
    let (in_flight, too_many) = trials.iter().find_map(off)?;
    let each = match case.load.streams {
        1 => "one request".to_owned(),
        streams => format!("{streams} requests"),
    };
    let words = format!(
        "throughput × mean response time gives {in_flight:.1} requests in flight (Little's law), but each \
         of the {connections} connections should have {each} in flight at all times"
    );
    let severity = if too_many { Severity::Void } else { Severity::Warning };
    Some(finding(
        case,
        severity,
        vec![("in_flight", words, json!({ "in_flight": in_flight, "connections": connections }))],
    ))
}

/// The largest ratio of requests in flight to connections × streams that is possible because of the start and
/// the end of the measured time. On each stream, the requests that were due in the measured time fill that
/// time, and the last of these requests can end later. In units of the measured time, all these requests
/// together last at most `streams × (1 + longest ÷ measured)`. In addition, on each stream, one request may
/// be counted only in the throughput or only in the response times. `streams` is the number of streams of all
/// connections together.
fn edges(trial: &Trial<'_>, streams: f64) -> f64 {
    let longest = trial.response_time_us(Statistic::Max).unwrap_or(0.0) / 1e6;
    (1.0 + longest / trial.seconds()) * (1.0 + streams / (trial.completed as f64).max(1.0))
}

/// Checks that the gateway is not faster than direct, because a hop only adds work.
fn faster(subject: &Subject<'_>, via: Measured<'_>, direct: Measured<'_>) -> Option<Finding> {
    let faster = better(subject, via.0).or_else(|| shorter_median(via, direct));
    let seen: Vec<_> = [shorter_way(via, direct.1), faster].into_iter().flatten().collect();
    (!seen.is_empty()).then(|| finding(via.0, Severity::Warning, seen))
}

/// Checks that the shortest time via the gateway is not much shorter than direct's shortest time. Skipped in
/// a closed loop with several connections, because requests wait in queues there. Direct gets more load, so
/// its queue is longer, and the shortest time depends on chance.
fn shorter_way((case, via): Measured<'_>, direct: &[Trial<'_>]) -> Option<Contradiction> {
    if !case.load.is_open() && case.load.concurrency() > 1 {
        return None;
    }
    let of = |trials: &[Trial<'_>]| {
        let enough = trials.iter().map(|trial| trial.service_time.len()).sum::<u64>() >= SAMPLES;
        let least = trials.iter().filter_map(|trial| least(&trial.service_time)).min();
        least.filter(|_| enough)
    };
    let (via, direct) = (of(via)?, of(direct)?);
    ((via as f64) < SHORTEST * direct as f64).then(|| {
        let us = |ns: u64| ns as f64 / 1e3;
        let words = format!(
            "the fastest answer via the gateway took {:.1} µs, and the fastest answer of direct took {:.1} \
            µs",
            us(via),
            us(direct)
        );
        ("shorter_way", words, json!({ "via_us": us(via), "direct_us": us(direct) }))
    })
}

/// Checks that the median response time via the gateway is not below half of direct's in all trials. In a
/// closed loop, the check of throughput alone can miss this, because the interval of throughput is wide if
/// direct's figures scatter.
fn shorter_median((_, via): Measured<'_>, (_, direct): Measured<'_>) -> Option<Contradiction> {
    let medians = |trials: &[Trial<'_>]| -> Option<Vec<f64>> {
        trials.iter().map(|trial| trial.response_time_us(Statistic::P50)).collect()
    };
    let slowest = medians(via)?.into_iter().fold(0.0, f64::max);
    let fastest = medians(direct)?.into_iter().fold(f64::INFINITY, f64::min);
    (via.len() >= 2 && slowest < SHORTEST * fastest).then(|| {
        let words = format!(
            "the median response time via the gateway is at most {slowest:.1} µs, and that of direct at \
            least {fastest:.1} µs"
        );
        ("shorter_median", words, json!({ "via_us": slowest, "direct_us": fastest }))
    })
}

/// Checks that the gateway is not better than direct. The gateway counts as better if its whole interval lies
/// beyond the noise floor. In a closed loop, the check compares throughput, because response times only
/// mirror throughput in a saturated closed loop. In an open loop, the check compares the median response
/// time, because throughput depends on the rate.
fn better(subject: &Subject<'_>, case: &Case) -> Option<Contradiction> {
    let metric = if case.load.is_open() { Metric::AddedP50 } else { Metric::ThroughputRatio };
    let estimate = case.tax.as_ref()?.get(metric)?.estimate;
    let (low, high) = estimate.interval()?;
    let floor = subject.noise_floor.get(case.load.index)?.get(metric)?;
    let words = match metric {
        Metric::ThroughputRatio if low > 1.0 + floor => {
            format!("throughput via the gateway is {:.3} times the throughput of direct", estimate.estimate)
        }
        Metric::AddedP50 if high < -floor => {
            format!(
                "the median response time via the gateway is {:.1} µs shorter than that of direct",
                -estimate.estimate
            )
        }
        _ => return None,
    };
    let numbers = json!({ "metric": metric.name(), "low": low, "high": high, "noise_floor": floor });
    Some(("faster_than_direct", format!("{words}, which is more than noise explains"), numbers))
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "More than {} above it is impossible" fraction(IN_FLIGHT - 1.0);
    METHODOLOGY "less than {} of it, without errors" fraction(IDLE);
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::messages::{Carrier, ENDLESS};

    fn only(made: MadeTrial) -> Finding {
        let run = Run::with_load(vec![open_point(1000.0, 8, 1)]).with([made]);
        let mut findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1, "{findings:?}");
        findings.remove(0)
    }

    fn with(change: impl FnOnce(&mut hoptax_format::record::LoadRecord)) -> MadeTrial {
        let mut made = via("nginx", 0);
        change(made.0.load_record.as_mut().expect("made with one"));
        made
    }

    #[test]
    fn raised_by_counts_that_do_not_add_up() {
        let lost = only(with(|load| load.counts.scheduled += 7));
        assert_eq!(lost.severity, Severity::Void);
        assert_eq!(lost.evidence["seen"]["counts"]["scheduled"], 1007);
        let without_status = only(with(|load| load.counts.status.clear()));
        assert_eq!(without_status.evidence["seen"]["counts"]["status"], 0);
        let timed = only(with(|load| {
            load.counts.completed += 5;
            load.counts.scheduled += 5;
            load.counts.status.insert(200, 1005);
        }));
        assert_eq!(timed.evidence["seen"]["samples"]["requests"], 1005);
    }

    #[test]
    fn raised_by_a_minimum_of_73_ns_and_by_service_times_above_response_times() {
        let mut found = only(via("nginx", 0).response_times_ns((0..1000).map(|index| 73 + index * 1000)));
        assert_eq!(found.severity, Severity::Void);
        assert!(found.evidence.remove("seen").expect("numbers")["shortest_ns"].as_u64().expect("ns") < 128);
        let mut made = via("nginx", 0).all_at_us(400);
        let quick = via("nginx", 0).all_at_us(300).0.load_record.expect("loaded").histograms.response_time;
        made.0.load_record.as_mut().expect("loaded").histograms.response_time = quick;
        assert_eq!(only(made).evidence["seen"]["service_above_response"]["statistic"], "p50");
    }

    #[test]
    fn raised_by_more_requests_in_flight_than_connections_and_by_idle_ones() {
        for (connections, response_us, severity) in [(1, 2000, Severity::Void), (32, 100, Severity::Warning)]
        {
            let mut run = Run::closed(connections);
            run.push(via("nginx", 0).all_at_us(response_us).established(u64::from(connections)));
            let findings = raised(&run, CODE);
            assert_eq!(findings.len(), 1, "{connections}");
            assert_eq!(findings[0].severity, severity);
        }
        let run = Run::closed(1).with([via("nginx", 0).all_at_us(999).established(1)]);
        assert_eq!(raised(&run, CODE), []);
    }

    #[test]
    fn raised_by_a_median_far_below_directs_in_a_closed_loop() {
        let mut run = Run::closed(2);
        for round in 0..2 {
            // Direct's throughput scatters so much that it proves nothing.
            run.direct(round, 48_000, 48_000).push(via("nginx", round).all_at_us(560));
        }
        let findings = raised(&run, CODE);
        let of_times = findings.iter().filter(|finding| finding.message.contains("the median response"));
        assert_eq!(of_times.count(), 1, "{findings:?}");
    }

    #[test]
    fn raised_by_a_gateway_faster_than_direct() {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
        for round in 0..4 {
            run.direct(round, 500, 500 + u64::from(round));
            run.push(via("cache", round).all_at_us(100)).push(via("better", round).all_at_us(450));
            run.push(via("alike", round).all_at_us(499 + u64::from(round)));
        }
        let findings = raised(&run, CODE);
        assert!(findings[0].evidence["seen"]["shorter_way"]["via_us"].as_f64().expect("µs") < 101.0);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn streams_that_end_with_the_load_may_be_shorter() {
        let found = |messages: u32| {
            let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]).streams(Carrier::Events, messages);
            run.push(via("direct", 0).first().all_at_us(900)).push(via("nginx", 0).all_at_us(200));
            raised(&run, CODE).len()
        };
        assert_eq!([found(10), found(ENDLESS)], [1, 0]);
    }
}
