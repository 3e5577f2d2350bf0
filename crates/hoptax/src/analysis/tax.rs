//! The tax: a gateway's trials set against the direct trials of the same rounds and load point.
//!
//! A tax is a figure of all rounds together: the percentile of the merged trials via the gateway less that of the merged direct
//! trials, or a ratio of sums. What is drawn for its interval are rounds, each with its trials of both kinds: that keeps the
//! pairs, and what a round has in common cancels in each draw.

use super::noise::NoiseFloor;
use super::stats::{Estimate, Rounds, Statistic, Sums, Units, resampled, share};
use super::trial::Trial;
use crate::plan::Metric;
use crate::record::DirectTrial;
use hdrhistogram::Histogram;
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
        if self == Self::ThroughputRatio { 1.0 } else { 0.0 }
    }

    /// How far `first` and `last`, the direct trials of one round, lie apart in this metric. Absent where either does
    /// not tell.
    pub(super) fn drift(self, first: &Trial<'_>, last: &Trial<'_>) -> Option<f64> {
        let (first, last) = (self.of(first)?, self.of(last)?);
        match self {
            Self::ThroughputRatio => (first > 0.0).then(|| last / first - 1.0),
            _ => Some(last - first),
        }
    }

    /// The percentile of response time that it is made from; absent for what is no added time.
    fn statistic(self) -> Option<Statistic> {
        match self {
            Self::AddedP50 => Some(Statistic::P50),
            Self::AddedP90 => Some(Statistic::P90),
            Self::AddedP95 => Some(Statistic::P95),
            Self::AddedP99 => Some(Statistic::P99),
            Self::ThroughputRatio | Self::CpuUsPerRequest | Self::ExtraUpstreamRequests => None,
        }
    }

    /// The figure of one trial that the tax is made from.
    fn of(self, trial: &Trial<'_>) -> Option<f64> {
        match self {
            Self::ThroughputRatio => Some(trial.throughput()),
            Self::CpuUsPerRequest => trial.gateway_us_per_request(),
            Self::ExtraUpstreamRequests => trial.extra_upstream_requests(),
            _ => trial.response_time_us(self.statistic()?),
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

impl Difference {
    /// Says whether an estimate stands out: its interval leaves out `neutral`, and it lies farther from it than the floor.
    pub(super) fn new(estimate: Estimate, neutral: f64, floor: Option<f64>) -> Self {
        let distance = (estimate.estimate - neutral).abs();
        let above_floor = floor.is_some_and(|floor| distance > floor);
        Self { estimate, distinguishable: estimate.excludes(neutral) && above_floor }
    }
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
        let pairs = Pairs::new(via, direct);
        let times = Added::new(&pairs, |trial| Some(&trial.response_time));
        let of = |metric: TaxMetric| {
            let estimate = match metric.statistic() {
                Some(statistic) => times.at(statistic),
                None => pairs.of_sums(metric),
            }?;
            Some(Difference::new(estimate, metric.neutral(), floor.get(metric)))
        };
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

/// The trials of a gateway and those of direct, in the rounds that have both.
#[derive(Debug)]
pub(super) struct Pairs<'t, 'a> {
    via: Vec<&'t Trial<'a>>,
    direct: Vec<&'t Trial<'a>>,
    /// The rounds.
    units: Units,
}

impl<'t, 'a> Pairs<'t, 'a> {
    pub(super) fn new(via: &'t [Trial<'a>], direct: &'t [Trial<'a>]) -> Self {
        Self::of(via.iter().collect(), direct.iter().collect())
    }

    fn of(via: Vec<&'t Trial<'a>>, direct: Vec<&'t Trial<'a>>) -> Self {
        let has = |trials: &[&Trial<'_>], round| trials.iter().any(|trial| trial.round() == round);
        let rounds = via.iter().map(|trial| trial.round()).filter(|round| has(&direct, *round));
        let units = Units::new(rounds);
        let paired = |trial: &&Trial<'_>| units.of(trial.round()).is_some();
        let (via, direct) =
            (via.into_iter().filter(paired).collect(), direct.into_iter().filter(paired).collect());
        Self { via, direct, units }
    }

    /// Those of its trials of which something holds, and again only the rounds that have both.
    fn where_both(&self, has: impl Fn(&Trial<'_>) -> bool) -> Self {
        let of = |trials: &[&'t Trial<'a>]| trials.iter().copied().filter(|trial| has(trial)).collect();
        Self::of(of(&self.via), of(&self.direct))
    }

    /// A tax that is no added time.
    fn of_sums(&self, metric: TaxMetric) -> Option<Estimate> {
        match metric {
            TaxMetric::ThroughputRatio => self.throughput_ratio(),
            TaxMetric::CpuUsPerRequest => {
                self.own(|trial| Some((trial.gateway_cpu_ns? as f64 / 1e3, trial.completed as f64)))
            }
            TaxMetric::ExtraUpstreamRequests => self.own(|trial| {
                let (requests, sent) = (trial.record.ledger.as_ref()?.requests, trial.load.lifetime.sent);
                Some((requests as f64 - sent as f64, sent as f64))
            }),
            _ => None,
        }
    }

    /// Throughput via over direct throughput: each the requests of all rounds over the time of all rounds. A mean of the
    /// rounds' ratios would be too large by the scatter of direct, and would count a slow round as much as a quick one.
    fn throughput_ratio(&self) -> Option<Estimate> {
        let rate = |trials: &[&Trial<'_>]| {
            let of = |trial: &&Trial<'_>| (trial.round(), trial.completed as f64, trial.seconds());
            Sums::new(&self.units, trials.iter().map(of))
        };
        let (via, direct) = (rate(&self.via), rate(&self.direct));
        resampled(&self.units, |drawn| share(via.share(drawn)?, direct.share(drawn)?))
    }

    /// One sum over another, of the gateway's trials alone: direct has none of it.
    fn own(&self, of: impl Fn(&Trial<'_>) -> Option<(f64, f64)>) -> Option<Estimate> {
        let told: Vec<(u32, f64, f64)> = self
            .via
            .iter()
            .filter_map(|trial| of(trial).map(|(part, whole)| (trial.round(), part, whole)))
            .collect();
        let units = Units::new(told.iter().map(|(round, ..)| *round));
        let sums = Sums::new(&units, told);
        resampled(&units, |drawn| sums.share(drawn))
    }
}

/// Response times via a gateway and direct, round by round.
#[derive(Debug)]
pub(super) struct Added {
    via: Rounds,
    direct: Rounds,
    units: Units,
}

impl Added {
    /// Of the histograms that `of` finds in the trials; rounds in which either kind has no sample are left out.
    pub(super) fn new<'t>(
        pairs: &Pairs<'t, '_>,
        of: impl for<'x> Fn(&'x Trial<'_>) -> Option<&'x Histogram<u64>>,
    ) -> Self {
        let pairs = pairs.where_both(|trial| of(trial).is_some_and(|times| !times.is_empty()));
        let rounds = |trials: &[&'t Trial<'_>]| {
            let of = |trial: &&'t Trial<'_>| Some((pairs.units.of(trial.round())?, of(trial)?));
            Rounds::new(pairs.units.count(), trials.iter().filter_map(of))
        };
        Self { via: rounds(&pairs.via), direct: rounds(&pairs.direct), units: pairs.units.clone() }
    }

    /// pNN(merged via) − pNN(merged direct), µs.
    pub(super) fn at(&self, statistic: Statistic) -> Option<Estimate> {
        let (via, direct) = (self.via.reader(statistic)?, self.direct.reader(statistic)?);
        resampled(&self.units, |drawn| Some(via.of(drawn)? - direct.of(drawn)?))
    }
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
        // Two rounds; direct 100 and 110 µs, then 100 and 130; via 150, then 175. Merged: direct's median is 100, the gateway's
        // 150, so 50 are added. Draws: the first round twice gives 50, the second twice 75, both 50, of which the last is twice
        // as likely: mean 56.25, s*² = 0.75 · 6.25² + 0.25 · 18.75².
        let mut run = Run::closed(1);
        run.direct(0, 100, 110).direct(1, 100, 130);
        run.push(via("nginx", 0).all_at_us(150)).push(via("nginx", 1).all_at_us(175));
        let added = tax(&run, "nginx").added_p50.expect("both rounds have direct").estimate;
        assert!((added.estimate - 50.0).abs() < 0.2, "{added:?}");
        assert_eq!(added.trials, 2);
        // t(1) = 12.706, and n ÷ (n − 1) = 2.
        let half = 12.706 * (2.0 * (0.75 * 6.25 * 6.25 + 0.25 * 18.75 * 18.75_f64)).sqrt();
        assert!((added.half_width().expect("two rounds") / half - 1.0).abs() < 0.01, "{added:?}, {half}");
    }

    #[test]
    fn percentiles_of_merged_trials_and_no_average_of_percentiles() {
        // One round in ten is slow: its times are a tenth of all, and the p95 lies within them. The mean of the rounds' own
        // p95 would say that a tenth of 900 µs are added.
        let mut run = Run::closed(1);
        for round in 0..10 {
            run.direct(round, 100, 100);
            run.push(via("nginx", round).all_at_us(if round == 4 { 1000 } else { 100 }));
        }
        let tax = tax(&run, "nginx");
        let added = tax.added_p95.expect("measured").estimate;
        assert!((added.estimate - 900.0).abs() < 1.0, "{added:?}");
        assert!(!added.excludes(0.0), "a third of the draws leave the slow round out: {added:?}");
        assert_eq!(tax.added_p50.expect("measured").estimate.estimate.round(), 0.0);
    }

    #[test]
    fn what_a_round_has_in_common_cancels() {
        // Rounds differ tenfold, and the gateway halves the throughput in each of them.
        let mut run = Run::closed(1);
        for round in 0..5 {
            let direct = 1000 * (1 + 2 * u64::from(round));
            run.push(via("direct", round).first().throughput(direct));
            run.push(via("direct", round).last().throughput(direct));
            run.push(via("nginx", round).throughput(direct / 2));
        }
        let ratio = tax(&run, "nginx").throughput_ratio.expect("measured");
        assert!(
            ratio.estimate.half_width().expect("five rounds") < 1e-9 && ratio.distinguishable,
            "{ratio:?}"
        );
        assert!((ratio.estimate.estimate - 0.5).abs() < 1e-9);
    }

    #[test]
    fn throughput_is_a_ratio_of_the_same_round() {
        let mut run = Run::closed(1);
        run.push(via("direct", 0).first().throughput(1000)).push(via("direct", 0).last().throughput(3000));
        run.push(via("direct", 1).first().throughput(8000)).push(via("direct", 1).last().throughput(8000));
        run.push(via("nginx", 0).throughput(1000)).push(via("nginx", 1).throughput(4000));
        // 5,000 in 2 s against 20,000 in 4 s.
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
            noisy.push(via("nginx", round).all_at_us(170));
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
