//! The network between the hosts of a run, and how much of a tax it is.
//!
//! Direct requests go from the generator to the upstream. Requests via a gateway go to the gateway first, so
//! they pass other legs. The split of a tax has two parts: the cost of these legs ([`extra_way`]), and the
//! rest, which the gateway adds.

use crate::hosts::vantage::generators;
use crate::taxes::another_run::Scatters;
use hoptax_record::report::{Case, Split};
use hoptax_record::{Leg, LegLook, Link, Role, RunRecord};
use hoptax_stats::{Estimate, mean, two_sided_95};
use std::collections::BTreeMap;

/// Figures of a leg.
#[derive(Debug, Clone, PartialEq)]
pub struct LegFigures {
    /// What was measured.
    pub leg: Leg,
    /// Median of a round trip, µs. Its interval covers the scatter, and the change between the measurement
    /// before the first trial and the measurement after the last trial. Absent if no round trip was measured.
    pub round_trip_us: Option<Estimate>,
    /// The shortest round trip, µs.
    pub least_us: Option<f64>,
    /// Bytes per second in the direction of requests: the mean of both measurements.
    pub there: Option<f64>,
    /// Bytes per second in the direction of responses, also a mean.
    pub back: Option<f64>,
}

impl LegFigures {
    /// Computes the figures of a leg.
    pub fn new(leg: &Leg) -> Self {
        let looks = || [&leg.at_start, &leg.at_end].into_iter().flatten();
        let least =
            looks().filter(|look| look.round_trips.count > 0).map(|look| look.round_trips.least_ns).min();
        let bandwidth = |of: fn(&LegLook) -> Option<Link>| {
            mean(&looks().filter_map(of).map(|link| link.bytes_per_second).collect::<Vec<_>>())
        };
        Self {
            round_trip_us: round_trip_us(&looks().collect::<Vec<_>>()),
            least_us: least.map(|ns| ns as f64 / 1e3),
            there: bandwidth(|look| look.there),
            back: bandwidth(|look| look.back),
            leg: leg.clone(),
        }
    }

    /// True if the leg leads to another host.
    pub fn is_between_hosts(&self) -> bool {
        self.leg.from != self.leg.to
    }

    /// Why a part of the figures was not measured. Absent if all parts were measured.
    pub fn failed(&self) -> Option<&str> {
        let looks = [&self.leg.at_start, &self.leg.at_end].into_iter().flatten();
        looks.filter_map(|look| look.failed.as_deref()).next()
    }
}

/// The median of the round trips. Half of the interval's width is √(h² + d²). h is Student's half-width of
/// the mean over batches. For h, each batch is compared with the mean of its own measurement (before the
/// first trial, or after the last). d is half of the difference between these two measurements, because there
/// is no measurement in between.
fn round_trip_us(looks: &[&LegLook]) -> Option<Estimate> {
    let us = |look: &&LegLook| -> Vec<f64> {
        look.round_trips.p50_ns_by_batch.iter().map(|ns| *ns as f64 / 1e3).collect()
    };
    let batches: Vec<Vec<f64>> = looks.iter().map(us).filter(|batches| !batches.is_empty()).collect();
    let means: Vec<f64> = batches.iter().filter_map(|one| mean(one)).collect();
    let estimate = mean(&means)?;
    let count = batches.iter().map(Vec::len).sum::<usize>();
    let from_own = batches.iter().zip(&means).flat_map(|(one, mean)| one.iter().map(move |us| us - mean));
    let squares: f64 = from_own.map(|off| off * off).sum();
    let degrees = count.saturating_sub(means.len());
    let Some(t) = two_sided_95(degrees as u32) else { return Some(Estimate::bare(estimate, count as u32)) };
    let scatter = t * (squares / degrees as f64 / count as f64).sqrt();
    let change = match means[..] {
        [start, end] => (end - start).abs() / 2.0,
        _ => 0.0,
    };
    let half = scatter.hypot(change);
    Some(Estimate {
        estimate,
        low: Some((estimate - half).max(0.0)),
        high: Some(estimate + half),
        trials: count as u32,
    })
}

/// The legs that requests via a gateway pass in addition to those of direct. Each leg is given by the hosts
/// at its ends, with the number of times that it counts:
///
/// (generator → gateway) + (gateway → upstream) − (generator → upstream) − (gateway → gateway)
///
/// A measured round trip also contains the system calls and the wake-ups of a process at each end. The
/// gateway is at two of these ends. The cost at these ends belongs to the gateway, as in a run on one host,
/// so the round trip within the gateway's own host is subtracted. Legs that direct requests also pass cancel.
/// The result is empty if the gateway shares a host with the generator or with the upstream.
pub fn extra_way(generator: &str, gateway: &str, upstream: &str) -> BTreeMap<[String; 2], i32> {
    let mut legs: BTreeMap<[String; 2], i32> = BTreeMap::new();
    for (from, to, times) in
        [(generator, gateway, 1), (gateway, upstream, 1), (generator, upstream, -1), (gateway, gateway, -1)]
    {
        *legs.entry([from.to_owned(), to.to_owned()]).or_default() += times;
    }
    legs.retain(|_, times| *times != 0);
    legs
}

/// Figures of each leg of a run.
pub(crate) fn figures(run: &RunRecord) -> Vec<LegFigures> {
    run.legs.iter().map(LegFigures::new).collect()
}

/// The legs of a run, and the splits of its taxes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Network {
    /// Figures of each leg.
    pub legs: Vec<LegFigures>,
    /// The split of each tax. A load point has no split if its direct requests and those via gateways pass
    /// the same legs, or if a leg was not measured.
    pub splits: Vec<Split>,
    /// True if requests via gateways pass the network between the same hosts as direct requests, at every
    /// load point.
    pub same_way: bool,
    /// Indices of the load points at which these hosts are the same.
    pub same_ways: Vec<usize>,
}

impl Network {
    /// The network of a run. Empty if the run has only one host.
    pub(crate) fn new(run: &RunRecord, cases: &[Case], scatters: &Scatters<'_>) -> Self {
        let legs = figures(run);
        if legs.is_empty() {
            return Self::default();
        }
        let ways: Option<Vec<Way>> = (0..run.load.len()).map(|load| Way::of(run, load)).collect();
        let Some(ways) = ways else { return Self { legs, ..Self::default() } };
        let same_ways: Vec<usize> = (0..ways.len()).filter(|load| ways[*load].legs.is_empty()).collect();
        let same_way = same_ways.len() == ways.len();
        let costs: Vec<Option<Estimate>> =
            ways.iter().map(|way| way.cost(&legs).filter(|_| !way.legs.is_empty())).collect();
        let split = |case: &Case| split(case, costs[case.load.index]?, scatters);
        let splits = cases.iter().filter(|case| starts(run, &case.gateway)).filter_map(split).collect();
        Self { legs, splits, same_way, same_ways }
    }
}

/// True if hoptax started this gateway, on the gateways' host.
fn starts(run: &RunRecord, gateway: &str) -> bool {
    let external = |one: &hoptax_plan::Gateway| matches!(one.kind, hoptax_plan::GatewayKind::External { .. });
    !run.plan.gateways.iter().any(|one| one.label == gateway && external(one))
}

/// The extra way of requests via a gateway. If there are several generators, each sends an equal share of the
/// requests.
struct Way {
    legs: BTreeMap<[String; 2], f64>,
}

impl Way {
    /// The extra way at a load point. `None` if a role is on no host.
    fn of(run: &RunRecord, load: usize) -> Option<Self> {
        let on = |role: Role| {
            run.hosts.iter().filter(move |(_, host)| host.has(role)).map(|(name, _)| name.as_str())
        };
        let (gateway, upstream) = (on(Role::Gateway).next()?, on(Role::Upstream).next()?);
        let generators = generators(run, load);
        let mut legs: BTreeMap<[String; 2], f64> = BTreeMap::new();
        for generator in &generators {
            for (leg, times) in extra_way(generator, gateway, upstream) {
                *legs.entry(leg).or_default() += f64::from(times) / generators.len() as f64;
            }
        }
        (!generators.is_empty()).then_some(Self { legs })
    }

    /// The cost of the extra way, µs. `None` if a leg was not measured. Legs are measured one after the
    /// other, so the squares of their half-widths add up.
    fn cost(&self, legs: &[LegFigures]) -> Option<Estimate> {
        let (mut sum, mut half, mut trials) = (0.0, Some(0.0_f64), u32::MAX);
        for ([from, to], times) in &self.legs {
            let leg = legs.iter().find(|one| one.leg.from == *from && one.leg.to == *to)?;
            let round_trip = leg.round_trip_us?;
            sum += times * round_trip.estimate;
            // The lower end may have been raised to zero, so the half-width is taken from the upper end.
            let own = round_trip.high.map(|high| times * (high - round_trip.estimate));
            half = half.zip(own).map(|(half, own)| half.hypot(own));
            trials = trials.min(round_trip.trials);
        }
        Some(around(sum, half, trials))
    }
}

fn split(case: &Case, wire_us: Estimate, scatters: &Scatters<'_>) -> Option<Split> {
    let added = case.tax.as_ref()?.added_p50?;
    let half = added.in_run.half_width().zip(wire_us.half_width()).map(|(tax, wire)| tax.hypot(wire));
    let in_run = around(added.in_run.estimate - wire_us.estimate, half, added.in_run.trials);
    Some(Split {
        case: case.case.clone(),
        gateway: case.gateway.clone(),
        load: case.load.index,
        added_p50_us: added.estimate,
        wire_us,
        // If the machine's speed changes from run to run, the gateway's part changes, but not the network's
        // part.
        gateway_us: scatters.of(&case.gateway).widen(in_run),
    })
}

fn around(estimate: f64, half: Option<f64>, trials: u32) -> Estimate {
    let (low, high) = (half.map(|half| estimate - half), half.map(|half| estimate + half));
    Estimate { estimate, low, high, trials }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::hosts::{from_two_hosts, leg, on_hosts};

    fn terms(generator: &str, gateway: &str, upstream: &str) -> String {
        let one = |([from, to], times): ([String; 2], i32)| format!("{times:+}{from}{to}");
        extra_way(generator, gateway, upstream).into_iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn legs_that_direct_passes_too_cancel() {
        assert_eq!(terms("g", "w", "u"), "-1gu +1gw +1wu -1ww");
        assert_eq!(terms("g", "g", "u"), "");
        assert_eq!(terms("g", "s", "s"), "");
        assert_eq!(terms("g", "w", "g"), "-1gg +1gw +1wg -1ww");
    }

    #[test]
    fn a_tax_is_the_wire_and_the_gateway() {
        // Direct takes 300 µs, nginx 850 µs. The legs take 200, 250 and 100 µs, and the gateway's own
        // loopback 30 µs.
        let run = on_hosts(&[("nginx", 850)]);
        let analysis = run.analyse();
        let network = &analysis.network;
        assert!(!network.same_way && network.legs.len() == 4);
        let [split] = &network.splits[..] else { panic!("{network:?}") };
        assert_eq!((&*split.case, split.load), ("nginx, closed loop, 32 connections", 0));
        assert!((split.added_p50_us.estimate - 550.0).abs() < 1.0, "{split:?}");
        assert!((split.wire_us.estimate - (200.0 + 250.0 - 100.0 - 30.0)).abs() < 1.0, "{split:?}");
        assert!((split.gateway_us.estimate - 230.0).abs() < 2.0, "{split:?}");
        let half = |one: &Estimate| one.half_width().expect("there are rounds and batches");
        let tax = analysis.case("nginx", 0).expect("measured").tax.as_ref().expect("a gateway");
        let in_run = tax.added_p50.as_ref().expect("measured").in_run.half_width().expect("rounds");
        let expected = half(&split.wire_us).hypot(in_run).hypot(0.06 * split.gateway_us.estimate);
        assert!((half(&split.gateway_us) / expected - 1.0).abs() < 0.01, "{split:?}");
    }

    #[test]
    fn without_a_leg_there_is_no_split_and_with_the_same_way_none_is_needed() {
        let mut run = on_hosts(&[("nginx", 850)]);
        run.record.legs[1].at_start = Some(LegLook { failed: Some("refused".into()), ..LegLook::default() });
        run.record.legs[1].at_end = None;
        let network = run.analyse().network;
        assert_eq!((network.splits, network.same_way), (vec![], false));
        assert_eq!(network.legs[1].failed(), Some("refused"));

        let mut run = on_hosts(&[("nginx", 850)]);
        run.record.hosts.remove("edge");
        run.record.hosts.get_mut("app").expect("there").roles = vec![Role::Gateway, Role::Upstream];
        let network = run.analyse().network;
        assert_eq!((network.splits, network.same_way), (vec![], true));
    }

    #[test]
    fn each_load_has_the_split_of_its_own_generators() {
        let run = from_two_hosts();
        let network = run.analyse().network;
        // The gateway is on the host that sends the second load, so that tax contains no time of the network.
        let [split] = &network.splits[..] else { panic!("{network:?}") };
        assert_eq!((split.load, network.same_way, network.same_ways.as_slice()), (0, false, [1].as_slice()));
        assert!((split.wire_us.estimate - 320.0).abs() < 1.0, "{split:?}");
        // Only the host of the gateway sends load.
        let mut run = from_two_hosts();
        run.record.load[0].from = Some("edge".into());
        run.record.load[1].connections = 16;
        let network = run.analyse().network;
        assert_eq!((network.splits, network.same_way), (vec![], true));
    }

    #[test]
    fn several_generators_have_equal_shares() {
        let mut run = on_hosts(&[("nginx", 850)]);
        let second = run.record.hosts["client"].clone();
        run.record.hosts.insert("client2".into(), second);
        run.record.legs.extend([leg("client2", "edge", 400), leg("client2", "app", 100)]);
        let network = run.analyse().network;
        let wire = network.splits[0].wire_us.estimate;
        assert!((wire - (300.0 + 250.0 - 100.0 - 30.0)).abs() < 1.0, "{wire}");
    }

    #[test]
    fn the_interval_of_a_round_trip_has_scatter_and_change() {
        let look = |ns: &[u64]| {
            let mut look = leg("a", "b", 1).at_start.expect("made with one");
            look.round_trips.p50_ns_by_batch = ns.to_vec();
            look
        };
        let one = look(&[100_000, 110_000, 120_000]);
        let estimate = round_trip_us(&[&one]).expect("batches");
        // t(2) = 4.303, and a standard error of 10 ÷ √3.
        assert!((estimate.half_width().expect("three") - 4.303 * 10.0 / 3.0_f64.sqrt()).abs() < 0.01);
        let later = look(&[200_000, 210_000, 220_000]);
        let estimate = round_trip_us(&[&one, &later]).expect("batches");
        assert!((estimate.estimate - 160.0).abs() < 1e-9);
        assert!(estimate.half_width().expect("six") > 50.0, "nobody measured in between: {estimate:?}");
        assert_eq!(round_trip_us(&[&LegLook::default()]), None);
    }
}
