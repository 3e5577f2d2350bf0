//! Pairs of trials from the same round: a gateway's trial with the direct trials, and the first direct trial
//! with the last.

use crate::trials::trial::Trial;
use hdrhistogram::Histogram;
use hoptax_plan::Metric;
use hoptax_record::DirectTrial;
use hoptax_stats::{Estimate, Rounds, Statistic, Sums, Units, resampled, share};

/// Trials of a gateway and of direct, in the rounds that have both.
#[derive(Debug)]
pub(crate) struct Pairs<'t, 'a> {
    via: Vec<&'t Trial<'a>>,
    direct: Vec<&'t Trial<'a>>,
    /// The rounds that have trials of both.
    units: Units,
}

impl<'t, 'a> Pairs<'t, 'a> {
    pub(crate) fn new(via: &'t [Trial<'a>], direct: &'t [Trial<'a>]) -> Self {
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

    /// Keeps only the trials for which `has` returns true. Then removes the rounds in which the gateway or
    /// direct has no trial left.
    fn where_both(&self, has: impl Fn(&Trial<'_>) -> bool) -> Self {
        let of = |trials: &[&'t Trial<'a>]| trials.iter().copied().filter(|trial| has(trial)).collect();
        Self::of(of(&self.via), of(&self.direct))
    }

    /// A tax that is a ratio of sums. `None` for added times.
    pub(crate) fn of_sums(&self, metric: Metric) -> Option<Estimate> {
        match metric {
            Metric::ThroughputRatio => self.throughput_ratio(),
            Metric::CpuUsPerRequest | Metric::CpuUsPerMessage | Metric::CpuUsPerStreamSecond => {
                self.own(|trial| trial.gateway_us_and_divisor(metric))
            }
            Metric::ExtraUpstreamRequests => self.own(|trial| {
                let (requests, sent) = (trial.record.ledger.as_ref()?.requests, trial.load.lifetime.sent);
                Some((requests as f64 - sent as f64, sent as f64))
            }),
            Metric::ExtraTokensPerStream => self.extra_tokens(),
            _ => None,
        }
    }

    /// Throughput via the gateway ÷ direct throughput. Each throughput is the requests of all rounds ÷ the
    /// time of all rounds. The mean of each round's ratio is not used. It would be too large, because direct
    /// scatters, and slow rounds would have the same weight as fast rounds.
    fn throughput_ratio(&self) -> Option<Estimate> {
        let rate = |trials: &[&Trial<'_>]| {
            let of = |trial: &&Trial<'_>| (trial.round(), trial.completed as f64, trial.seconds());
            Sums::new(&self.units, trials.iter().map(of))
        };
        let (via, direct) = (rate(&self.via), rate(&self.direct));
        resampled(&self.units, |drawn| share(via.share(drawn)?, direct.share(drawn)?))
    }

    /// Tokens per stream that the upstream sent via the gateway, minus those of direct. Both are sums over
    /// all rounds.
    fn extra_tokens(&self) -> Option<Estimate> {
        let pairs = self.where_both(|trial| trial.upstream_tokens().is_some());
        let sums = |trials: &[&Trial<'_>]| {
            let of = |trial: &&Trial<'_>| {
                trial.upstream_tokens().map(|(tokens, streams)| (trial.round(), tokens, streams))
            };
            Sums::new(&pairs.units, trials.iter().filter_map(of))
        };
        let (via, direct) = (sums(&pairs.via), sums(&pairs.direct));
        resampled(&pairs.units, |drawn| Some(via.share(drawn)? - direct.share(drawn)?))
    }

    /// A ratio of sums over the gateway's trials only, because direct has no such figure.
    fn own(&self, of: impl Fn(&Trial<'_>) -> Option<(f64, f64)>) -> Option<Estimate> {
        let parts: Vec<(u32, f64, f64)> = self
            .via
            .iter()
            .filter_map(|trial| of(trial).map(|(part, whole)| (trial.round(), part, whole)))
            .collect();
        let units = Units::new(parts.iter().map(|(round, ..)| *round));
        let sums = Sums::new(&units, parts);
        resampled(&units, |drawn| sums.share(drawn))
    }
}

/// Response times via a gateway and of direct, by round.
#[derive(Debug)]
pub(crate) struct Added {
    via: Rounds,
    direct: Rounds,
    units: Units,
}

impl Added {
    /// Uses the histograms that `of` selects. Rounds without samples of both gateway and direct are left out.
    pub(crate) fn new<'t>(
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

    /// pNN of the gateway's merged trials − pNN of direct's merged trials, µs.
    pub(crate) fn at(&self, statistic: Statistic) -> Option<Estimate> {
        let (via, direct) = (self.via.reader(statistic)?, self.direct.reader(statistic)?);
        resampled(&self.units, |drawn| Some(via.of(drawn)? - direct.of(drawn)?))
    }
}

/// The first and the last direct trial of each round. Rounds that have only one direct trial are left out.
pub(crate) fn first_and_last<'t, 'a>(direct: &'t [Trial<'a>]) -> Vec<(&'t Trial<'a>, &'t Trial<'a>)> {
    let end =
        |round, which| direct.iter().find(|trial| trial.round() == round && trial.direct() == Some(which));
    direct
        .iter()
        .filter(|trial| trial.direct() == Some(DirectTrial::First))
        .filter_map(|first| Some((first, end(first.round(), DirectTrial::Last)?)))
        .collect()
}
