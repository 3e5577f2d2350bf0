//! Selects the headline tax of a gateway: the metric and the load point that a report states first.
//! Sentences, the first chart, comparisons and `trials: auto` use this selection.
//!
//! The latency headline comes from a load point with a steady rate, if there is one. Otherwise it comes from
//! the closed loop with the fewest connections, because in a saturated loop response times only mirror
//! throughput. If there is no closed loop either, it comes from a rate in stages, whose percentiles mix all
//! rates. The throughput headline comes from the closed loop with the most connections, because in an open
//! loop the rate decides throughput. Loads from the host of the role `generator` come before those from other
//! hosts.

use super::analysis::Analysis;
use crate::figures::case::case;
use crate::taxes::noise::noise_floor;
use crate::taxes::tax;
pub use crate::trials::latency_metric::{latency_metric, metric_of_cases, metric_of_trials};
use crate::trials::trial::good_trials;
use hoptax_plan::{LoadPoint, Metric};
use hoptax_record::report::{Case, Difference, GatewayPair, Load, Tax};
use hoptax_record::{DIRECT, TrialRecord};
use hoptax_stats::{Estimate, Precision};
use std::collections::BTreeMap;

/// One headline of a gateway.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Headline<'a> {
    /// The case that the headline is taken from.
    pub case: &'a Case,
    /// The metric of the headline.
    pub metric: Metric,
    /// The value of the headline.
    pub tax: &'a Difference,
}

/// A gateway's place in a [`Ranking`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked<'a> {
    /// The gateway's label.
    pub gateway: &'a str,
    /// The gateway's added latency at the median. It always has an interval.
    pub tax: &'a Difference,
    /// How much more latency the gateway adds than the first leader, in the rounds that both have. Absent for
    /// the first leader, and if the two have no round in common.
    pub more: Option<Estimate>,
}

/// Gateways ranked by added latency at the median, at one load point. For streams, this is the latency that
/// they add to a message.
///
/// One gateway beats another if the two are distinguishable as a [`GatewayPair`]. All lists are sorted by the
/// estimate, lowest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking<'a> {
    /// The load point.
    pub load: &'a Load,
    /// The metric: see [`Analysis::latency_metric`].
    pub metric: Metric,
    /// The gateway with the lowest estimate, and all gateways that it does not beat. If there is only one
    /// leader, it is the winner.
    pub leaders: Vec<Ranked<'a>>,
    /// Gateways that every leader beats.
    pub beaten: Vec<Ranked<'a>>,
    /// Gateways that the first leader beats, but that another leader does not beat.
    pub between: Vec<Ranked<'a>>,
    /// Labels of gateways that were measured but have no interval at this load point.
    pub unranked: Vec<&'a str>,
}

impl<'a> Ranking<'a> {
    /// Ranks the gateways. `None` if fewer than two gateways have an interval.
    fn new(
        (load, metric): (&'a Load, Metric),
        mut ranked: Vec<Ranked<'a>>,
        unranked: Vec<&'a str>,
        pairs: &Pairs<'a>,
    ) -> Option<Self> {
        ranked.sort_by(|one, other| one.tax.estimate.estimate.total_cmp(&other.tax.estimate.estimate));
        let least = ranked.first().filter(|_| ranked.len() > 1)?.gateway;
        for one in &mut ranked {
            one.more = pairs.of(least, one.gateway).map(|pair| pair.difference_of(one.gateway));
        }
        let (others, leaders): (Vec<_>, Vec<_>) =
            ranked.into_iter().partition(|one| pairs.beats(least, one.gateway));
        let (beaten, between) = others
            .into_iter()
            .partition(|other| leaders.iter().all(|leader| pairs.beats(leader.gateway, other.gateway)));
        Some(Self { load, metric, leaders, beaten, between, unranked })
    }

    /// True if none of the leaders' taxes can be distinguished from noise.
    pub fn is_in_the_noise(&self) -> bool {
        self.leaders.iter().all(|leader| !leader.tax.distinguishable)
    }
}

/// The pairs of gateways at the load point of a ranking, in added latency at the median.
struct Pairs<'a>(BTreeMap<(&'a str, &'a str), &'a GatewayPair>);

impl<'a> Pairs<'a> {
    fn new(pairs: &'a [GatewayPair], load: &Load, metric: Metric) -> Self {
        let at_load = pairs.iter().filter(|pair| pair.load.index == load.index);
        let medians = at_load.filter(|pair| pair.metric == metric);
        Self(medians.map(|pair| ((&*pair.first, &*pair.second), pair)).collect())
    }

    fn of(&self, one: &str, other: &str) -> Option<&'a GatewayPair> {
        self.0.get(&(one, other)).or_else(|| self.0.get(&(other, one))).copied()
    }

    /// True if `other` adds distinguishably more than `one`.
    fn beats(&self, one: &str, other: &str) -> bool {
        self.of(one, other).is_some_and(|pair| pair.is_larger(other))
    }
}

impl Analysis {
    /// The metric of the latency headline: see [`latency_metric`].
    pub fn latency_metric(&self) -> Metric {
        metric_of_cases(&self.cases)
    }

    /// Ranks these gateways at the load point of the latency headline. `None` if fewer than two of them have
    /// an interval there.
    pub fn ranking(&self, gateways: &[&str]) -> Option<Ranking<'_>> {
        let measured =
            || self.cases.iter().filter(|case| case.trials > 0 && gateways.contains(&case.gateway.as_str()));
        let load = for_latency(&mut measured().map(|case| &case.load))?;
        let at_load = measured().filter(|case| case.load.index == load.index);
        let metric = self.latency_metric();
        let ranked: Vec<Ranked<'_>> = at_load
            .filter_map(|case| {
                let tax = case.tax.as_ref()?.get(metric)?;
                tax.estimate.interval().map(|_| Ranked { gateway: &case.gateway, tax, more: None })
            })
            .collect();
        let mut unranked: Vec<&str> = measured().map(|case| case.gateway.as_str()).collect();
        unranked.sort_unstable();
        unranked.dedup();
        unranked.retain(|gateway| ranked.iter().all(|one| one.gateway != *gateway));
        Ranking::new((load, metric), ranked, unranked, &Pairs::new(&self.pairs, load, metric))
    }

    /// The headlines of a gateway: added latency at the median and, if a closed loop was measured, the
    /// throughput ratio.
    pub fn headlines(&self, gateway: &str) -> Vec<Headline<'_>> {
        let measured = || self.cases.iter().filter(move |case| case.gateway == gateway && case.trials > 0);
        let at = |load: Option<&Load>, metric: Metric| {
            let case = measured().find(|case| Some(case.load.index) == load.map(|load| load.index))?;
            Some(Headline { case, metric, tax: case.tax.as_ref()?.get(metric)? })
        };
        let loads = || measured().map(|case| &case.load);
        let latency = at(for_latency(&mut loads()), self.latency_metric());
        let throughput = at(for_throughput(&mut loads()), Metric::ThroughputRatio);
        latency.into_iter().chain(throughput).collect()
    }
}

/// The load point that the latency headline is taken from.
pub fn for_latency<'a>(loads: &mut dyn Iterator<Item = &'a Load>) -> Option<&'a Load> {
    let loads: Vec<&Load> = loads.collect();
    let steady = loads.iter().filter(|load| load.is_steady()).min_by_key(|load| load.from.is_some());
    let closed = loads.iter().filter(|load| !load.is_open());
    let closed = || closed.min_by_key(|load| (load.from.is_some(), load.concurrency()));
    steady.or_else(closed).or(loads.first()).copied()
}

/// The load point that the throughput headline is taken from.
pub fn for_throughput<'a>(loads: &mut dyn Iterator<Item = &'a Load>) -> Option<&'a Load> {
    loads.filter(|load| !load.is_open()).max_by_key(|load| (load.from.is_none(), load.concurrency()))
}

/// The precision of each headline, for every gateway with trials in `records`, with the index of its load
/// point. Searches are left out.
pub fn precisions(points: &[LoadPoint], records: &[TrialRecord]) -> Vec<(usize, Precision)> {
    let loads: Vec<Load> =
        Load::all(points).into_iter().filter(|load| points[load.index].is_in_rounds()).collect();
    let headlines = [
        (for_latency(&mut loads.iter()), None),
        (for_throughput(&mut loads.iter()), Some(Metric::ThroughputRatio)),
    ];
    let mut gateways: Vec<&str> = records.iter().map(|record| &*record.contender).collect();
    gateways.sort_unstable();
    gateways.dedup();
    let mut precisions = Vec::new();
    for (load, metric) in headlines.into_iter().filter_map(|(load, metric)| Some((load?, metric))) {
        let direct = good_trials(records, DIRECT, load.index);
        let floor = noise_floor(load.clone(), &direct);
        let case = case(DIRECT, load, &direct);
        let of_gateways = gateways.iter().filter(|gateway| **gateway != DIRECT);
        let taxes: Vec<Tax> = of_gateways
            .map(|gateway| tax::tax(&good_trials(records, gateway, load.index), &direct, &floor))
            .collect();
        let has = |metric: &Metric| taxes.iter().any(|tax| tax.get(*metric).is_some());
        let metric = metric.unwrap_or_else(|| latency_metric(has));
        let figure = match metric.times() {
            Some(times) => case.times(times).and_then(|times| Some(times.p50?.estimate)),
            None => Some(1.0),
        };
        precisions.extend(taxes.iter().filter_map(|tax| {
            let (estimate, neutral, is_time) = (tax.get(metric)?.in_run, metric.neutral(), metric.is_time());
            Some((load.index, Precision { estimate, neutral, direct: figure?, is_time }))
        }));
    }
    precisions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{MadeTrial, Run, closed_point, open_point, staged_point, via};

    fn headlines(load: Vec<LoadPoint>) -> Vec<(usize, Metric)> {
        let mut run = Run::with_load(load);
        for load in 0..run.record.load.len() as u32 {
            run.push(via("direct", 0).first().at_load(load)).push(via("nginx", 0).at_load(load));
        }
        let analysis = run.analyse();
        let headlines = analysis.headlines("nginx");
        headlines.iter().map(|headline| (headline.case.load.index, headline.metric)).collect()
    }

    #[test]
    fn latency_at_a_steady_rate_and_throughput_at_the_most_connections() {
        let (p50, ratio) = (Metric::AddedP50, Metric::ThroughputRatio);
        let (one, many) = (closed_point(1, 1), closed_point(64, 1));
        let stages = || staged_point("100/s for 1s, ramp to 300/s over 3s", 8);
        let all = vec![many.clone(), one.clone(), stages(), open_point(1000.0, 8, 1)];
        assert_eq!(headlines(all), [(3, p50), (0, ratio)]);
        assert_eq!(headlines(vec![many, one, stages()]), [(1, p50), (0, ratio)]);
        assert_eq!(headlines(vec![stages()]), [(0, p50)]);
        // Loads from the role's host come first.
        let edge = |point: &LoadPoint| LoadPoint { from: Some("edge".into()), ..point.clone() };
        let steady = open_point(1000.0, 8, 1);
        assert_eq!(headlines(vec![edge(&steady), steady.clone()]), [(1, p50)]);
        let loops = vec![edge(&closed_point(1, 1)), closed_point(2, 1), edge(&closed_point(99, 1))];
        assert_eq!(headlines(loops), [(1, p50), (1, ratio)]);
        assert_eq!(headlines(vec![edge(&steady)]), [(0, p50)]);
        assert_eq!(Run::closed(1).analyse().headlines("nginx"), []);
    }

    /// Labels of the leaders, the beaten gateways, the gateways in between, and the unranked gateways. Each
    /// gateway is given with its response time in each round, µs. Direct takes 100 µs.
    fn ranking(gateways: &[(&str, &[u64])]) -> Option<[Vec<String>; 4]> {
        let mut run = Run::closed(1);
        for round in 0..4 {
            run.direct(round, 100, 100);
        }
        for (gateway, times) in gateways {
            for (round, time) in (0..).zip(*times) {
                run.push(via(gateway, round).all_at_us(*time));
            }
        }
        let labels: Vec<&str> = gateways.iter().map(|(gateway, _)| *gateway).collect();
        let analysis = run.analyse();
        let ranking = analysis.ranking(&labels)?;
        let named = |ranked: &[Ranked<'_>]| ranked.iter().map(|one| one.gateway.to_owned()).collect();
        let unranked = ranking.unranked.iter().map(|gateway| (*gateway).to_owned()).collect();
        Some([named(&ranking.leaders), named(&ranking.beaten), named(&ranking.between), unranked])
    }

    const FAST: &[u64] = &[140, 141, 142, 143];
    /// This gateway's interval overlaps with those of both neighbours. The intervals of the neighbours do not
    /// overlap with each other.
    const SCATTERED: &[u64] = &[130, 150, 170, 190];
    const MIDDLE: &[u64] = &[180, 181, 182, 183];
    const SLOW: &[u64] = &[400, 401, 402, 403];

    #[test]
    fn clear_gateways_win_and_overlapping_ones_lead_together() {
        let [leaders, beaten, between, unranked] =
            ranking(&[("slow", SLOW), ("fast", FAST), ("middle", MIDDLE)]).expect("three gateways");
        assert_eq!((leaders, beaten), (vec!["fast".to_owned()], vec!["middle".into(), "slow".into()]));
        assert_eq!((between, unranked), (vec![], vec![]));
        let [leaders, beaten, between, _] =
            ranking(&[("slow", SLOW), ("fast", FAST), ("scattered", SCATTERED), ("middle", MIDDLE)])
                .expect("four gateways");
        assert_eq!(leaders, ["fast", "scattered"]);
        assert_eq!((beaten, between), (vec!["slow".to_owned()], vec!["middle".to_owned()]));
        let [leaders, beaten, between, _] = ranking(&[("a", FAST), ("b", FAST)]).expect("two gateways");
        assert_eq!((leaders.len(), beaten.len(), between.len()), (2, 0, 0));
    }

    #[test]
    fn gateways_without_an_interval_are_not_ranked() {
        let one_trial = &FAST[..1];
        let [leaders, _, _, unranked] =
            ranking(&[("fast", FAST), ("slow", SLOW), ("late", one_trial)]).expect("two with intervals");
        assert_eq!((leaders, unranked), (vec!["fast".to_owned()], vec!["late".to_owned()]));
        assert_eq!(ranking(&[("fast", FAST), ("late", one_trial)]), None);
        assert_eq!(ranking(&[("fast", FAST)]), None, "nothing to compare with");
    }

    #[test]
    fn ranks_at_one_load_point_only() {
        let mut run = Run::with_load(vec![closed_point(1, 1), open_point(1000.0, 8, 1)]);
        for round in 0..3 {
            for load in 0..2 {
                run.direct_trials(round, |trial| trial.at_load(load).all_at_us(100));
                run.push(via("nginx", round).at_load(load).all_at_us(150 + u64::from(round)));
                run.push(via("envoy", round).at_load(load).all_at_us(190 + u64::from(round)));
            }
            run.push(via("closed-only", round).all_at_us(120 + u64::from(round)));
        }
        let analysis = run.analyse();
        let ranking = analysis.ranking(&["envoy", "nginx", "closed-only"]).expect("two gateways");
        assert!(ranking.load.is_open());
        assert_eq!(ranking.unranked, ["closed-only"]);
        assert_eq!(ranking.leaders.iter().map(|one| one.gateway).collect::<Vec<_>>(), ["nginx"]);
        assert!(!ranking.is_in_the_noise());
    }

    #[test]
    fn leaders_may_be_in_the_noise() {
        let mut run = Run::closed(1);
        for round in 0..4 {
            run.direct(round, 100, 180);
            run.push(via("nginx", round).all_at_us(150 + u64::from(round)));
            run.push(via("envoy", round).all_at_us(900 + u64::from(round)));
        }
        let analysis = run.analyse();
        let ranking = analysis.ranking(&["envoy", "nginx"]).expect("two gateways");
        assert!(ranking.leaders.len() == 1 && ranking.is_in_the_noise(), "{ranking:?}");
    }

    #[test]
    fn precision_is_that_of_messages_if_calls_have_streams() {
        let precision = |stream: &dyn Fn(MadeTrial, u64) -> MadeTrial| {
            let mut run = Run::closed(1);
            for round in 0..4 {
                let calls_us = 2000 + 900 * u64::from(round % 2);
                run.push(stream(via("direct", round).first().all_at_us(1000), 100));
                run.push(stream(via("direct", round).last().all_at_us(1000), 100));
                run.push(stream(via("nginx", round).all_at_us(calls_us), 150));
            }
            let (_, latency) = precisions(&run.record.load, &run.trials).swap_remove(0);
            assert!(latency.is_time, "{latency:?}");
            (latency.direct.round(), latency.estimate.estimate.round(), latency.is_within(0.05))
        };
        assert_eq!(precision(&|trial, us| trial.both_ways_us(us, 1000)), (100.0, 50.0, true));
        assert_eq!(precision(&|trial, us| trial.server_stream_us(us, 1000)), (100.0, 50.0, true));
        let (direct, _, is_known) = precision(&|trial, _| trial);
        assert!(direct > 900.0 && !is_known, "whole calls scatter");
    }

    #[test]
    fn covers_every_gateway_with_figures() {
        let mut run = Run::steady(3, 100, &[("nginx", 150), ("envoy", 190)]);
        run.push(via("late", 9).failed("died"));
        let known = precisions(&run.record.load, &run.trials);
        assert_eq!(known.len(), 4, "two gateways, two headlines: {known:?}");
        assert!(known.iter().all(|(_, one)| one.is_within(0.05)), "{known:?}");
    }
}
