//! `head-of-line`: streams of a connection wait for each other.
//!
//! The check looks for three signs. If a gateway answers the requests of a connection in their order, a slow
//! response delays those behind it: responses of direct overtake each other, and those of the gateway do not.
//! If streams wait for another reason, such as a lost segment or a full window, the gateway adds more to
//! requests that share few connections than to the same number of requests in flight on many connections. The
//! third sign is in [`long_prompts`].

use super::long_prompts::{self, Waits};
use super::workers_starved::busy_threads;
use super::{Finding, Measured, Rule, Severity, Subject, about, evidence, percent, time_in_words};
use crate::figures::contrasts::contrasts;
use crate::taxes::difference::ALPHA;
use crate::trials::pairs::{Added, Pairs};
use crate::{Case, Load, Trial};
use hoptax_plan::{Metric, connections_in_words};
use hoptax_stats::{Contrast, Estimate, Statistic, holm, share};
use serde_json::{Value, json};

const CODE: &str = "head-of-line";
const ADVICE: &str = "Use more connections with fewer streams each, or report this as a cost of the \
    gateway. Load points with equal connections × streams, such as 1 × 8 and 8 × 1, show its size.";
/// Limit for the share of direct's responses that are overtaken. Below it, slow responses are rarer than the
/// responses above the p99.
const OVERTAKEN: f64 = 0.01;
/// Limit for the gateway's share of overtaken responses ÷ direct's share.
const IN_ORDER: f64 = 0.1;
/// Smallest number of overtaken responses to expect of the gateway, computed from direct's share. If 50 are
/// expected, chance leaves 5 or fewer with a probability below 10⁻¹⁵ (Poisson).
const EXPECTED: f64 = 50.0;
/// Limit for the time that requests wait ÷ the response time. It is chosen, not derived: a shorter wait
/// hardly changes which gateway a user prefers. The intervals decide whether there is a wait at all.
const LONGER: f64 = 0.1;
/// The percentiles at which loads are compared. Depending on how often responses are slow, many requests
/// wait, or only a few.
const COMPARED: [(Statistic, Metric); 3] = [
    (Statistic::P50, Metric::AddedP50),
    (Statistic::P90, Metric::AddedP90),
    (Statistic::P99, Metric::AddedP99),
];

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: format!(
            "at least {} of direct's responses came after the response to a later request of their \
             connection, but less than a tenth as many of the gateway's did, and the gateway's mean response \
             time is more than {} longer. Or the gateway adds more time if the same number of requests in \
             flight share fewer HTTP/2 connections. The difference is larger than chance explains (p < \
             {ALPHA}, adjusted for p50, p90 and p99 of all cases), and larger than {} of the response time \
             and than the noise floor, although no fewer of its threads are busy. Or prompts of streams of \
             tokens differ in length by a factor of {lengths}, the gateway adds at least {least} to the p50 \
             of the longest, and at least {least} more to the p99 of the shortest than to their p50, but at \
             most twice as much as to the longest",
            percent(OVERTAKEN),
            percent(LONGER),
            percent(LONGER),
            lengths = long_prompts::LENGTHS,
            least = time_in_words(long_prompts::LEAST_US)
        ),
        seen: "A slow response, a full window or a lost segment then delays all streams of its connection.",
        advice: ADVICE,
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let longer = longer_over_fewer(subject);
    let of_pair = |(via, direct): (Measured<'_>, Measured<'_>)| {
        let in_order = in_order(via, direct);
        let longer: Vec<&Longer<'_>> = longer.iter().filter(|one| one.few.case == via.0.case).collect();
        let waits = long_prompts::waits(subject, via.0);
        let is_found = in_order.is_some() || !longer.is_empty() || waits.is_some();
        is_found.then(|| finding(via.0, in_order, &longer, waits.as_ref()))
    };
    subject.pairs().filter_map(of_pair).collect()
}

/// The shares of responses that were overtaken, if those of the gateway arrive in order.
#[derive(Debug, Clone, Copy)]
struct InOrder {
    of_gateway: f64,
    of_direct: f64,
}

/// The number of responses that were overtaken, and of all responses. `None` if a trial did not count them.
fn overtaken(trials: &[Trial<'_>]) -> Option<(f64, f64)> {
    let of = |trial: &Trial<'_>| Some((trial.load.http2?.overtaken, trial.load.counts.completed));
    let counts: Vec<(u64, u64)> = trials.iter().map(of).collect::<Option<_>>()?;
    let sum = |of: fn(&(u64, u64)) -> u64| counts.iter().map(of).sum::<u64>() as f64;
    Some((sum(|one| one.0), sum(|one| one.1)))
}

fn in_order(via: Measured<'_>, direct: Measured<'_>) -> Option<InOrder> {
    let (mine, responses) = overtaken(via.1)?;
    let (of_direct, of_gateway) = (overtaken(direct.1)?, share(mine, responses)?);
    let of_direct = share(of_direct.0, of_direct.1)?;
    // If the gateway allows one stream at a time, `streams-capped` says so.
    let has_streams = via.0.http2.is_some_and(|http2| http2.most_streams > 1);
    if !has_streams || of_direct < OVERTAKEN || of_direct * responses < EXPECTED {
        return None;
    }
    // A gateway that answers by itself has no slow responses, and does not delay others.
    let added = Added::new(&Pairs::new(via.1, direct.1), |trial| Some(&trial.response_time));
    let added = added.at(Statistic::Mean).filter(|added| added.excludes(0.0))?;
    let mean = direct.0.response_time.as_ref()?.get(Statistic::Mean)?.estimate;
    let is_slower = added.estimate > LONGER * mean;
    (is_slower && of_gateway < IN_ORDER * of_direct).then_some(InOrder { of_gateway, of_direct })
}

/// How much more a gateway adds at one percentile over few connections than over many, with the same number
/// of requests in flight.
struct Longer<'a> {
    few: &'a Case,
    many: &'a Case,
    statistic: Statistic,
    /// Added time over few − added time over many connections, µs.
    difference: Estimate,
    /// `difference` ÷ the response time over few connections.
    share: f64,
    /// True if the number of the gateway's busy threads is known. It was then not smaller over few
    /// connections.
    threads_are_known: bool,
}

/// The load with the same number of requests in flight and the most connections: the gateway's case, and
/// direct's.
fn over_more<'a>(subject: &Subject<'a>, few: &Case) -> Option<(Measured<'a>, Measured<'a>)> {
    let load = &few.load;
    let is_like = |other: &Load| {
        other.concurrency() == load.concurrency()
            && other.streams < load.streams
            && (other.kind, other.rate, other.arrivals, &other.stages)
                == (load.kind, load.rate, load.arrivals, &load.stages)
            && (other.http, other.requests_per_connection, other.retry, &other.from)
                == (load.http, load.requests_per_connection, load.retry, &load.from)
    };
    let of_gateway = |via: &Measured<'_>| via.0.gateway == few.gateway && is_like(&via.0.load);
    subject.pairs().filter(|(via, _)| of_gateway(via)).min_by_key(|(via, _)| via.0.load.streams)
}

/// Compares the loads of one gateway at each percentile.
fn compared<'a>(
    subject: &Subject<'a>,
    (via, direct): (Measured<'a>, Measured<'a>),
) -> Vec<(Longer<'a>, Metric)> {
    let Some((many, many_direct)) = over_more(subject, via.0) else { return Vec::new() };
    // With fewer connections, some workers of the gateway may have none. Then this explains the difference.
    let threads = busy_threads(via.1).zip(busy_threads(many.1));
    if threads.is_some_and(|(few, many)| few < many) {
        return Vec::new();
    }
    let sides = [[many.1, many_direct.1], [via.1, direct.1]];
    let at = |(statistic, metric): (Statistic, Metric)| {
        let difference = contrasts(statistic, &sides).first()?.difference;
        let response = via.0.response_time.as_ref()?.get(statistic)?.estimate;
        let share = share(difference.estimate, response)?;
        let (few, many) = (via.0, many.0);
        let threads_are_known = threads.is_some();
        Some((Longer { few, many, statistic, difference, share, threads_are_known }, metric))
    };
    COMPARED.into_iter().filter_map(at).collect()
}

/// The cases in which requests over few connections take longer, with every percentile that shows it. To
/// report only the largest difference would exaggerate: the largest of several estimates is usually too high.
fn longer_over_fewer<'a>(subject: &Subject<'a>) -> Vec<Longer<'a>> {
    let all = subject.pairs().flat_map(|pair| compared(subject, pair));
    let known: Vec<(Longer<'a>, Metric, f64)> = all
        .filter_map(|(one, metric)| {
            let p_value = Contrast::of(&one.difference).p_value?;
            Some((one, metric, p_value))
        })
        .collect();
    let adjusted = holm(&known.iter().map(|(.., p_value)| *p_value).collect::<Vec<_>>());
    let noise = |case: &Case, metric: Metric| {
        let floor = subject.noise_floor.iter().find(|floor| floor.load.index == case.load.index)?;
        floor.get(metric)
    };
    let longer = known.into_iter().zip(adjusted).filter_map(|((one, metric, _), adjusted)| {
        let floor = noise(one.few, metric).into_iter().chain(noise(one.many, metric)).fold(0.0, f64::max);
        let is_longer = one.share > LONGER && one.difference.estimate > floor;
        (is_longer && adjusted.p_value < ALPHA).then_some(one)
    });
    longer.collect()
}

impl InOrder {
    fn in_words(self) -> String {
        let mine = if self.of_gateway > 0.0 { percent(self.of_gateway) } else { "none".to_owned() };
        format!(
            "The gateway answers the requests of a connection in their order: {mine} of its responses came \
             after the response to a later request, and {} of direct's. So a slow response delays those \
             behind it.",
            percent(self.of_direct)
        )
    }

    fn evidence(self) -> [(&'static str, Value); 2] {
        [("overtaken", self.of_gateway.into()), ("overtaken_of_direct", self.of_direct.into())]
    }
}

/// The differences of one case in words. `None` if there are none.
fn longer_in_words(all: &[&Longer<'_>]) -> Option<String> {
    let &&Longer { few, many, threads_are_known, .. } = all.first()?;
    let in_words = |case: &Case| connections_in_words(case.load.connections, case.load.streams);
    let difference = |(index, one): (usize, &&Longer<'_>)| {
        let what = if index == 0 { "95 % interval " } else { "" };
        let interval = one.difference.interval();
        let interval = interval.map(|(low, high)| format!(" ({what}{low:.0} to {high:.0})"));
        let at = one.statistic.name();
        format!("{:.0} µs{} at {at}", one.difference.estimate, interval.unwrap_or_default())
    };
    let differences: Vec<String> = all.iter().enumerate().map(difference).collect();
    Some(format!(
        "With {} requests in flight, the gateway adds more over {} than over {}: {}. So streams of a \
         connection wait for each other{}.",
        few.load.concurrency(),
        in_words(few),
        in_words(many),
        differences.join(", "),
        match threads_are_known {
            true => "",
            false => ", or for a worker of the gateway that serves the whole connection",
        }
    ))
}

/// The evidence of [`longer_in_words`].
fn longer_evidence(all: &[&Longer<'_>]) -> Option<[(&'static str, Value); 2]> {
    let difference = |one: &&Longer<'_>| {
        let Estimate { estimate, low, high, .. } = one.difference;
        let figures = json!({ "us": estimate, "low_us": low, "high_us": high, "share": one.share });
        (one.statistic.name(), figures)
    };
    let compared_with = all.first()?.many.case.clone();
    let differences: Value = all.iter().map(difference).collect();
    Some([("compared_with", compared_with.into()), ("differences", differences)])
}

fn finding(
    case: &Case,
    in_order: Option<InOrder>,
    longer: &[&Longer<'_>],
    waits: Option<&Waits<'_>>,
) -> Finding {
    let texts = in_order.map(InOrder::in_words).into_iter().chain(longer_in_words(longer));
    let texts = texts.chain(waits.map(Waits::in_words));
    let is_of_prompts = in_order.is_none() && longer.is_empty();
    let mut evidence = evidence([("limit", LONGER.into())]);
    evidence.extend(in_order.map(InOrder::evidence).into_iter().flatten());
    evidence.extend(longer_evidence(longer).into_iter().flatten());
    evidence.extend(waits.map(Waits::evidence).into_iter().flatten());
    Finding {
        evidence,
        message: texts.collect::<Vec<_>>().join(" "),
        advice: if is_of_prompts { long_prompts::ADVICE } else { "" }.to_owned(),
        ..about(CODE, Severity::Warning, &case.case)
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "At least {} of direct's responses are overtaken" percent(OVERTAKEN);
    METHODOLOGY "less than {} as many via the gateway" fraction(IN_ORDER);
    METHODOLOGY "differ by more than {} at p50, p90 or p99" percent(LONGER);
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::random::Random;
    use hoptax_format::record::Http2Tally;
    use hoptax_format::spec::HttpVersion;
    use hoptax_plan::LoadPoint;
    use std::iter::repeat_n;

    const ROUNDS: u32 = 5;

    fn http2(connections: u32, streams: u32) -> LoadPoint {
        LoadPoint { http: HttpVersion::Http2, streams, ..closed_point(connections, 1) }
    }

    fn ordered(trial: MadeTrial, overtaken: u64) -> MadeTrial {
        trial.http2(Http2Tally { most_streams: 8, overtaken, ..Http2Tally::default() })
    }

    /// Rounds of one load, in which `overtaken` of 1,000 responses of direct and of the gateway are
    /// overtaken. Direct takes 100 µs.
    fn overtaking(overtaken: [u64; 2], gateway_us: u64) -> Run {
        let mut run = Run::with_load(vec![http2(1, 8)]);
        for round in 0..ROUNDS {
            let jitter = u64::from(round % 2);
            run.push(ordered(via("direct", round).first().all_at_us(100), overtaken[0]));
            run.push(ordered(via("direct", round).last().all_at_us(100 + jitter), overtaken[0]));
            run.push(ordered(via("nginx", round).all_at_us(gateway_us + jitter), overtaken[1]));
        }
        run
    }

    #[test]
    fn raised_if_only_direct_overtakes() {
        let findings = raised(&overtaking([50, 0], 300), CODE);
        assert_eq!(findings[0].evidence["overtaken_of_direct"], 0.05);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn not_raised_if_the_gateway_overtakes_too_or_nobody_does() {
        assert_eq!(raised(&overtaking([50, 6], 300), CODE), []);
        assert_eq!(raised(&overtaking([9, 0], 300), CODE), [], "slow responses are rare");
        assert_eq!(raised(&overtaking([50, 0], 105), CODE), [], "nobody waits for long");
        assert_eq!(raised(&overtaking([50, 0], 60), CODE), [], "a cache has no slow responses");
        let mut run = overtaking([50, 0], 300);
        run.trials.retain(|trial| trial.round == 0);
        assert_eq!(raised(&run, CODE), [], "one round has no interval");
    }

    /// Rounds of 1 × 8 and of 8 × 1. The response times via the gateway, µs, are given for both; direct takes
    /// 100 µs. `scatter` moves those over few connections from round to round.
    fn matched(times: [u64; 2], threads: [Option<u32>; 2], scatter: u64) -> Run {
        let mut run = Run::with_load(vec![http2(1, 8), http2(8, 1)]);
        for round in 0..ROUNDS {
            let jitter = u64::from(round % 2);
            for load in 0..2 {
                let mine = load as usize;
                let moved = if load == 0 { scatter * u64::from(round % 3) } else { 0 };
                run.push(via("direct", round).first().at_load(load).all_at_us(100));
                run.push(via("direct", round).last().at_load(load).all_at_us(100 + jitter));
                let mut trial = via("nginx", round).at_load(load).all_at_us(times[mine] + moved + jitter);
                trial.0.gateway.as_mut().expect("watched").busy_threads = threads[mine];
                run.push(trial);
            }
        }
        run
    }

    #[test]
    fn raised_if_few_connections_take_longer_with_as_many_requests_in_flight() {
        let findings = raised(&matched([400, 150], [Some(1); 2], 2), CODE);
        let evidence = &findings[0].evidence;
        assert_eq!(evidence["compared_with"], "nginx, closed loop, 8 connections, HTTP/2");
        let difference = evidence["differences"]["p50"]["us"].as_f64().expect("a number");
        assert!((245.0..256.0).contains(&difference), "{difference}");
        insta::assert_snapshot!(texts(&findings));
        insta::assert_snapshot!(texts(&raised(&matched([400, 150], [None; 2], 2), CODE)));
    }

    /// Over one connection, 6 % of the requests take 5 ms.
    #[test]
    fn each_percentile_that_shows_the_wait_is_named() {
        let differences = |others_us: u64| {
            let mut run = Run::with_load(vec![http2(1, 8), http2(8, 1)]);
            for round in 0..ROUNDS {
                let jitter = u64::from(round % 2);
                let times = repeat_n(others_us + jitter, 940).chain(repeat_n(5000 + jitter, 60));
                for load in 0..2 {
                    run.direct_trials(round, |trial| trial.at_load(load).all_at_us(100));
                }
                run.push(via("nginx", round).response_times_us(times));
                run.push(via("nginx", round).at_load(1).all_at_us(150 + jitter));
            }
            let differences = raised(&run, CODE)[0].evidence["differences"].clone();
            let all = differences.as_object().expect("figures of percentiles");
            let us = |one: &Value| one["us"].as_f64().expect("a number");
            all.iter().map(|(at, one)| format!("{at}: {:.0}", us(one))).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(differences(200), "p50: 50, p90: 50, p99: 4850");
        assert_eq!(differences(150), "p99: 4850");
    }

    #[test]
    fn not_raised_by_workers_scatter_or_other_numbers_of_requests_in_flight() {
        let not = |times, threads, scatter, why: &str| {
            assert_eq!(raised(&matched(times, threads, scatter), CODE), [], "{why}");
        };
        not([400, 150], [Some(1), Some(2)], 2, "one of two workers had no connection");
        not([160, 150], [Some(1); 2], 2, "10 of 160 µs");
        not([100, 150], [Some(1); 2], 60, "chance explains it");
        not([150, 400], [Some(1); 2], 2, "many connections cost more");
        let mut run = matched([400, 150], [Some(1); 2], 2);
        run.record.load[1] = http2(4, 1);
        assert_eq!(raised(&run, CODE), []);
        let mut run = matched([400, 150], [Some(1); 2], 2);
        run.record.load[1] = closed_point(8, 1);
        assert_eq!(raised(&run, CODE), [], "another protocol");
    }

    #[test]
    fn scatter_alone_rarely_raises_it() {
        let mut random = Random::new(1);
        let mut alarms = 0;
        for _ in 0..20 {
            let mut run = Run::with_load(vec![http2(1, 8), http2(8, 1)]);
            for round in 0..ROUNDS {
                for load in 0..2 {
                    let mut scattered =
                        |trial: MadeTrial| trial.at_load(load).all_at_us(100 + random.below(100));
                    let (first, last) = (via("direct", round).first(), via("direct", round).last());
                    run.push(scattered(first)).push(scattered(last)).push(scattered(via("nginx", round)));
                }
            }
            alarms += raised(&run, CODE).len();
        }
        assert!(alarms <= 2, "{alarms} of 20 runs");
    }
}
