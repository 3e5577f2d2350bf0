//! The tax: a gateway's trial set against the direct trials of the same round and load point.

use super::noise::NoiseFloor;
use super::stats::{Estimate, Statistic, mean, of_mean};
use super::trial::Trial;
use crate::plan::Metric;
use crate::record::DirectTrial;
use serde::Serialize;

/// What a hop can cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaxMetric {
    /// Added response time at the median, µs.
    AddedP50,
    /// Added response time at the 90th percentile, µs.
    AddedP90,
    /// Added response time at the 95th percentile, µs.
    AddedP95,
    /// Added response time at the 99th percentile, µs.
    AddedP99,
    /// Throughput via the gateway over direct throughput.
    ThroughputRatio,
    /// CPU time of the gateway per completed request, µs.
    CpuUsPerRequest,
    /// Upstream requests per client request, less 1.
    ExtraUpstreamRequests,
}

/// How a trial via the gateway is set against direct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// via − direct.
    Difference,
    /// via ÷ direct.
    Ratio,
    /// Direct has none of it: via as it stands.
    Own,
}

impl TaxMetric {
    /// Every one, in the order in which they are shown.
    pub const ALL: [Self; 7] = [
        Self::AddedP50,
        Self::AddedP90,
        Self::AddedP95,
        Self::AddedP99,
        Self::ThroughputRatio,
        Self::CpuUsPerRequest,
        Self::ExtraUpstreamRequests,
    ];

    /// As it is written in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::AddedP50 => "added_p50",
            Self::AddedP90 => "added_p90",
            Self::AddedP95 => "added_p95",
            Self::AddedP99 => "added_p99",
            Self::ThroughputRatio => "throughput_ratio",
            Self::CpuUsPerRequest => "cpu_us_per_request",
            Self::ExtraUpstreamRequests => "extra_upstream_requests",
        }
    }

    /// The one that a budget's metric limits; absent for metrics that are no tax.
    pub fn limited_by(metric: Metric) -> Option<Self> {
        match metric {
            Metric::AddedP50 => Some(Self::AddedP50),
            Metric::AddedP90 => Some(Self::AddedP90),
            Metric::AddedP95 => Some(Self::AddedP95),
            Metric::AddedP99 => Some(Self::AddedP99),
            Metric::ThroughputRatio => Some(Self::ThroughputRatio),
            Metric::CpuUsPerRequest => Some(Self::CpuUsPerRequest),
            Metric::ExtraUpstreamRequests => Some(Self::ExtraUpstreamRequests),
            _ => None,
        }
    }

    /// The value at which a gateway would cost nothing.
    pub fn neutral(self) -> f64 {
        if self.comparison() == Comparison::Ratio { 1.0 } else { 0.0 }
    }

    /// How far `first` and `last`, the direct trials of one round, lie apart in this metric. Absent where either does
    /// not tell.
    pub(super) fn drift(self, first: &Trial<'_>, last: &Trial<'_>) -> Option<f64> {
        let (first, last) = (self.of(first)?, self.of(last)?);
        match self.comparison() {
            Comparison::Ratio => (first > 0.0).then(|| last / first - 1.0),
            Comparison::Difference | Comparison::Own => Some(last - first),
        }
    }

    fn comparison(self) -> Comparison {
        match self {
            Self::AddedP50 | Self::AddedP90 | Self::AddedP95 | Self::AddedP99 => Comparison::Difference,
            Self::ThroughputRatio => Comparison::Ratio,
            Self::CpuUsPerRequest | Self::ExtraUpstreamRequests => Comparison::Own,
        }
    }

    /// The figure of one trial that the tax is made from.
    fn of(self, trial: &Trial<'_>) -> Option<f64> {
        match self {
            Self::AddedP50 => trial.response_time_us(Statistic::P50),
            Self::AddedP90 => trial.response_time_us(Statistic::P90),
            Self::AddedP95 => trial.response_time_us(Statistic::P95),
            Self::AddedP99 => trial.response_time_us(Statistic::P99),
            Self::ThroughputRatio => Some(trial.throughput()),
            Self::CpuUsPerRequest => trial.gateway_us_per_request(),
            Self::ExtraUpstreamRequests => trial.extra_upstream_requests(),
        }
    }

    /// The value of one round.
    fn in_round(self, via: &Trial<'_>, direct: &[&Trial<'_>]) -> Option<f64> {
        let via = self.of(via)?;
        let direct: Vec<f64> = direct.iter().filter_map(|trial| self.of(trial)).collect();
        match self.comparison() {
            Comparison::Own => Some(via),
            Comparison::Difference => Some(via - mean(&direct)?),
            Comparison::Ratio => mean(&direct).filter(|direct| *direct > 0.0).map(|direct| via / direct),
        }
    }
}

/// A tax, and whether it stands out of the noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// The value with its interval over rounds.
    #[serde(flatten)]
    pub estimate: Estimate,
    /// Whether the interval leaves out "no tax" and the estimate is larger than the noise floor.
    pub distinguishable: bool,
}

/// The tax of one gateway at one load point. Members are absent where they were not measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tax {
    /// Added response time at the median, µs.
    pub added_p50: Option<Difference>,
    /// Added response time at the 90th percentile, µs.
    pub added_p90: Option<Difference>,
    /// Added response time at the 95th percentile, µs.
    pub added_p95: Option<Difference>,
    /// Added response time at the 99th percentile, µs.
    pub added_p99: Option<Difference>,
    /// Throughput via the gateway over direct throughput.
    pub throughput_ratio: Option<Difference>,
    /// CPU time of the gateway per completed request, µs.
    pub cpu_us_per_request: Option<Difference>,
    /// Upstream requests per client request, less 1.
    pub extra_upstream_requests: Option<Difference>,
}

impl Tax {
    /// The tax of the trials `via` a gateway, against the `direct` trials of the same load point.
    pub fn new(via: &[Trial<'_>], direct: &[Trial<'_>], floor: &NoiseFloor) -> Self {
        let of = |metric| difference(metric, via, direct, floor);
        Self {
            added_p50: of(TaxMetric::AddedP50),
            added_p90: of(TaxMetric::AddedP90),
            added_p95: of(TaxMetric::AddedP95),
            added_p99: of(TaxMetric::AddedP99),
            throughput_ratio: of(TaxMetric::ThroughputRatio),
            cpu_us_per_request: of(TaxMetric::CpuUsPerRequest),
            extra_upstream_requests: of(TaxMetric::ExtraUpstreamRequests),
        }
    }

    /// One of its members.
    pub fn get(&self, metric: TaxMetric) -> Option<&Difference> {
        match metric {
            TaxMetric::AddedP50 => self.added_p50.as_ref(),
            TaxMetric::AddedP90 => self.added_p90.as_ref(),
            TaxMetric::AddedP95 => self.added_p95.as_ref(),
            TaxMetric::AddedP99 => self.added_p99.as_ref(),
            TaxMetric::ThroughputRatio => self.throughput_ratio.as_ref(),
            TaxMetric::CpuUsPerRequest => self.cpu_us_per_request.as_ref(),
            TaxMetric::ExtraUpstreamRequests => self.extra_upstream_requests.as_ref(),
        }
    }
}

fn difference(
    metric: TaxMetric,
    via: &[Trial<'_>],
    direct: &[Trial<'_>],
    floor: &NoiseFloor,
) -> Option<Difference> {
    let rounds: Vec<f64> = via
        .iter()
        .filter_map(|trial| {
            let same_round: Vec<&Trial<'_>> =
                direct.iter().filter(|other| other.round() == trial.round()).collect();
            metric.in_round(trial, &same_round)
        })
        .collect();
    let estimate = of_mean(&rounds)?;
    let distance = (estimate.estimate - metric.neutral()).abs();
    let above_floor = floor.get(metric).is_some_and(|floor| distance > floor);
    Some(Difference { estimate, distinguishable: estimate.excludes(metric.neutral()) && above_floor })
}

/// The direct trials of each round that has both, first and last.
pub(super) fn both_ends<'t, 'a>(direct: &'t [Trial<'a>]) -> Vec<(&'t Trial<'a>, &'t Trial<'a>)> {
    let end =
        |round, which| direct.iter().find(|trial| trial.round() == round && trial.direct() == Some(which));
    direct
        .iter()
        .filter(|trial| trial.direct() == Some(DirectTrial::First))
        .filter_map(|first| Some((first, end(first.round(), DirectTrial::Last)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::{Run, via};

    fn tax(run: &Run, gateway: &str) -> Tax {
        run.analyse().case(gateway, 0).expect("measured").tax.clone().expect("a gateway has a tax")
    }

    #[test]
    fn by_hand() {
        // Two rounds; direct p50 100 and 110 µs, then 100 and 130; via 150, then 175: added 45 and 60.
        let mut run = Run::closed(1);
        run.direct(0, 100, 110).direct(1, 100, 130);
        run.push(via("nginx", 0).all_at_us(150)).push(via("nginx", 1).all_at_us(175));
        let added = tax(&run, "nginx").added_p50.expect("both rounds have direct").estimate;
        assert!((added.estimate - 52.5).abs() < 0.2, "{added:?}");
        assert_eq!(added.trials, 2);
        // t(1) = 12.706, s = 15/√2, so the half-width is 12.706 · 7.5.
        let (low, high) = added.interval().expect("two rounds");
        assert!(((high - low) / 2.0 - 95.3).abs() < 3.0, "{added:?}");
    }

    #[test]
    fn throughput_is_a_ratio_of_the_same_round() {
        let mut run = Run::closed(1);
        run.push(via("direct", 0).first().throughput(1000)).push(via("direct", 0).last().throughput(3000));
        run.push(via("direct", 1).first().throughput(8000)).push(via("direct", 1).last().throughput(8000));
        run.push(via("nginx", 0).throughput(1000)).push(via("nginx", 1).throughput(4000));
        let ratio = tax(&run, "nginx").throughput_ratio.expect("both rounds");
        assert!((ratio.estimate.estimate - 0.5).abs() < 1e-9, "{ratio:?}");
    }

    #[test]
    fn a_round_without_direct_is_no_pair() {
        let mut run = Run::closed(1);
        run.direct(0, 100, 100);
        run.push(via("nginx", 0).all_at_us(150)).push(via("nginx", 1).all_at_us(900));
        let added = tax(&run, "nginx").added_p50.expect("one round").estimate;
        assert_eq!((added.trials, added.interval()), (1, None));
        assert!((added.estimate - 50.0).abs() < 0.2);
    }

    #[test]
    fn stands_out_only_with_an_interval_and_above_the_floor() {
        let clear = Run::steady(5, 100, &[("nginx", 150)]);
        assert!(tax(&clear, "nginx").added_p50.expect("measured").distinguishable);

        // The same tax, but direct differs from itself by more.
        let mut noisy = Run::closed(1);
        for round in 0..5 {
            noisy.direct(round, 100, 180);
            noisy.push(via("nginx", round).all_at_us(190));
        }
        let tax_in_noise = tax(&noisy, "nginx").added_p50.expect("measured");
        assert!(tax_in_noise.estimate.excludes(0.0), "the interval alone would say it stands out");
        assert!(!tax_in_noise.distinguishable, "{tax_in_noise:?}");

        let one_trial = Run::steady(1, 100, &[("nginx", 5000)]);
        assert!(!tax(&one_trial, "nginx").added_p50.expect("measured").distinguishable);
    }

    #[test]
    fn cpu_and_extra_requests_are_the_gateways_own() {
        let mut run = Run::closed(1);
        for round in 0..3 {
            run.direct(round, 100, 100);
            // 1,000 requests; 18 ms of CPU; the upstream saw twice as many.
            run.push(via("nginx", round).all_at_us(150).gateway_cpu_us(18_000).ledger_requests(2000));
        }
        let tax = tax(&run, "nginx");
        let cpu = tax.cpu_us_per_request.expect("watched");
        assert!((cpu.estimate.estimate - 18.0).abs() < 1e-9 && cpu.distinguishable);
        let extra = tax.extra_upstream_requests.expect("there is a ledger");
        assert!((extra.estimate.estimate - 1.0).abs() < 1e-9 && extra.distinguishable);
    }

    #[test]
    fn what_was_not_watched_is_absent() {
        let mut run = Run::closed(1);
        run.direct(0, 100, 100);
        run.push(via("mine", 0).all_at_us(150).unwatched());
        let tax = tax(&run, "mine");
        assert_eq!((tax.cpu_us_per_request, tax.extra_upstream_requests), (None, None));
    }

    #[test]
    fn nothing_completed_gives_no_tax_and_no_division_by_zero() {
        let mut run = Run::closed(1);
        run.direct(0, 100, 100);
        run.push(via("nginx", 0).nothing_completed());
        let tax = tax(&run, "nginx");
        assert_eq!(tax.added_p50, None);
        assert_eq!(tax.cpu_us_per_request, None);
        assert_eq!(tax.throughput_ratio.expect("zero is a throughput").estimate.estimate, 0.0);
    }
}
