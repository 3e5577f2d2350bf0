//! The headline tax of a gateway: which metric, at which load point, a report states first. Sentences, comparisons and
//! `trials: auto` use this choice.
//!
//! Latency comes from the load point where it says most. That is a steady rate if there is one. Otherwise it is the
//! closed loop with the fewest connections, because in a saturated loop response times only mirror throughput.
//! Otherwise it is a rate in stages, whose percentiles mix all its rates. Throughput comes from the closed loop with
//! the most connections, because in an open loop the rate decides throughput.

use super::analyse::Analysis;
use super::case::Case;
use super::difference::Difference;
use super::load::Load;
use super::noise::NoiseFloor;
use super::tax::Tax;
use super::trial::good_trials;
use hoptax_plan::{LoadPoint, Metric};
use hoptax_record::{DIRECT, TrialRecord};
use hoptax_stats::Precision;

/// One headline of a gateway.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Headline<'a> {
    /// The case that it belongs to.
    pub case: &'a Case,
    /// The metric.
    pub metric: Metric,
    /// Its value.
    pub tax: &'a Difference,
}

impl Analysis {
    /// The headlines of a gateway: added latency at the median and, if a closed loop was measured, the throughput
    /// ratio.
    pub fn headlines(&self, gateway: &str) -> Vec<Headline<'_>> {
        let measured = || self.cases.iter().filter(move |case| case.gateway == gateway && case.trials > 0);
        let at = |load: Option<&Load>, metric: Metric| {
            let case = measured().find(|case| Some(case.load.index) == load.map(|load| load.index))?;
            Some(Headline { case, metric, tax: case.tax.as_ref()?.get(metric)? })
        };
        let loads = || measured().map(|case| &case.load);
        let latency = at(for_latency(&mut loads()), Metric::AddedP50);
        let throughput = at(for_throughput(&mut loads()), Metric::ThroughputRatio);
        latency.into_iter().chain(throughput).collect()
    }
}

/// The load point for the latency headline.
pub fn for_latency<'a>(loads: &mut dyn Iterator<Item = &'a Load>) -> Option<&'a Load> {
    let loads: Vec<&Load> = loads.collect();
    let steady = loads.iter().find(|load| load.is_steady());
    let closed = loads.iter().filter(|load| !load.is_open());
    steady.or_else(|| closed.min_by_key(|load| load.connections)).or(loads.first()).copied()
}

/// The load point for the throughput headline.
pub fn for_throughput<'a>(loads: &mut dyn Iterator<Item = &'a Load>) -> Option<&'a Load> {
    loads.filter(|load| !load.is_open()).max_by_key(|load| load.connections)
}

/// The precision of each gateway's headlines, for every gateway with trials among `records`. Searches are left out.
pub fn precisions(points: &[LoadPoint], records: &[TrialRecord]) -> Vec<Precision> {
    let loads: Vec<Load> =
        Load::all(points).into_iter().filter(|load| points[load.index].search.is_none()).collect();
    let headlines = [
        (for_latency(&mut loads.iter()), Metric::AddedP50),
        (for_throughput(&mut loads.iter()), Metric::ThroughputRatio),
    ];
    let mut gateways: Vec<&str> = records.iter().map(|record| &*record.contender).collect();
    gateways.sort_unstable();
    gateways.dedup();
    let mut precisions = Vec::new();
    for (load, metric) in headlines.into_iter().filter_map(|(load, metric)| Some((load?, metric))) {
        let direct = good_trials(records, DIRECT, load.index);
        let floor = NoiseFloor::new(load.clone(), &direct);
        let case = Case::new(DIRECT, load, &direct);
        let figure = match metric {
            Metric::ThroughputRatio => Some(1.0),
            _ => case.response_time.and_then(|times| Some(times.p50?.estimate)),
        };
        for gateway in gateways.iter().filter(|gateway| **gateway != DIRECT) {
            let tax = Tax::new(&good_trials(records, gateway, load.index), &direct, &floor);
            let found = tax.get(metric).zip(figure);
            precisions.extend(found.map(|(tax, direct)| Precision {
                estimate: tax.estimate,
                neutral: metric.neutral(),
                direct,
            }));
        }
    }
    precisions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Run, closed_point, open_point, staged_point, via};

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
        assert_eq!(Run::closed(1).analyse().headlines("nginx"), []);
    }

    #[test]
    fn covers_every_gateway_with_figures() {
        let mut run = Run::steady(3, 100, &[("nginx", 150), ("envoy", 190)]);
        run.push(via("late", 9).failed("died"));
        let known = precisions(&run.record.load, &run.trials);
        assert_eq!(known.len(), 4, "two gateways, two headlines: {known:?}");
        assert!(known.iter().all(|one| one.is_within(0.05)), "{known:?}");
    }
}
