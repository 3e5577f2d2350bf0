//! The figures that prices are made from, of several cases in the rounds that they have in common.

use super::PriceMetric;
use crate::analysis::stats::{Estimate, Reader, Rounds, Statistic, Sums, Units, resampled};
use crate::analysis::trial::Trial;

/// Which of the cases: its place in the list that [`Figures`] were made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side(pub(super) usize);

/// Several cases at one load point.
pub(super) struct Figures<'t, 'a> {
    sides: Vec<&'t [Trial<'a>]>,
    units: Units,
}

impl<'t, 'a> Figures<'t, 'a> {
    /// Of these cases; absent where no round has all of them.
    pub(super) fn new(sides: &[&'t [Trial<'a>]]) -> Option<Self> {
        let has = |trials: &[Trial<'_>], round| {
            trials.iter().any(|trial| trial.round() == round && !trial.response_time.is_empty())
        };
        let rounds = sides.first()?.iter().map(Trial::round);
        let units = Units::new(rounds.filter(|round| sides.iter().all(|trials| has(trials, *round))));
        (units.count() > 0).then(|| Self { sides: sides.to_vec(), units })
    }

    /// What `figure` makes of the cases' own figures, with its interval over rounds. `figure` is handed what reads them.
    pub(super) fn resampled(
        &self,
        metric: PriceMetric,
        figure: impl Fn(&dyn Fn(usize) -> Option<f64>) -> Option<f64>,
    ) -> Option<Estimate> {
        let sources: Vec<Source> = self.sides.iter().map(|side| self.source(metric, side)).collect();
        let ready: Vec<Ready<'_>> = sources.iter().map(Source::ready).collect::<Option<_>>()?;
        resampled(&self.units, |drawn| figure(&|side| ready[side].of(drawn)))
    }

    /// The figure of one case, all rounds together.
    pub(super) fn of_all(&self, metric: PriceMetric, side: Side) -> Option<f64> {
        let once = vec![1; self.units.count()];
        self.source(metric, self.sides[side.0]).ready()?.of(&once)
    }

    fn source(&self, metric: PriceMetric, trials: &[Trial<'_>]) -> Source {
        let sums = |of: &dyn Fn(&Trial<'_>) -> Option<(f64, f64)>| {
            let told =
                trials.iter().filter_map(|trial| of(trial).map(|(part, whole)| (trial.round(), part, whole)));
            Source::Sums(Sums::new(&self.units, told))
        };
        let percentile = |statistic| {
            let told =
                trials.iter().filter_map(|trial| Some((self.units.of(trial.round())?, &trial.response_time)));
            Source::Percentile(Rounds::new(self.units.count(), told), statistic)
        };
        match metric {
            PriceMetric::AddedP50 => percentile(Statistic::P50),
            PriceMetric::AddedP99 => percentile(Statistic::P99),
            PriceMetric::CpuUsPerRequest => {
                sums(&|trial| Some((trial.gateway_cpu_ns? as f64 / 1e3, trial.completed as f64)))
            }
            PriceMetric::ThroughputRatio => sums(&|trial| Some((trial.completed as f64, trial.seconds()))),
            PriceMetric::MemoryRssBytes => {
                sums(&|trial| Some((trial.record.gateway.as_ref()?.rss_bytes_max as f64, 1.0)))
            }
        }
    }
}

enum Source {
    Percentile(Rounds, Statistic),
    Sums(Sums),
}

impl Source {
    fn ready(&self) -> Option<Ready<'_>> {
        Some(match self {
            Self::Percentile(rounds, statistic) => Ready::Percentile(rounds.reader(*statistic)?),
            Self::Sums(sums) => Ready::Sums(sums),
        })
    }
}

enum Ready<'s> {
    Percentile(Reader<'s>),
    Sums(&'s Sums),
}

impl Ready<'_> {
    fn of(&self, drawn: &[u64]) -> Option<f64> {
        match self {
            Self::Percentile(reader) => reader.of(drawn),
            Self::Sums(sums) => sums.share(drawn),
        }
    }
}
