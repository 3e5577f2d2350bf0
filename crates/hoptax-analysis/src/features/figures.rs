//! Figures of several cases, computed from the rounds that all these cases have. Prices are computed from these
//! figures.

use crate::metric::{of_trial, percentile};
use crate::trial::Trial;
use hoptax_plan::Metric;
use hoptax_stats::{Estimate, Reader, Rounds, Statistic, Sums, Units, resampled};

/// A case, given by its index in [`Figures`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Side(pub(super) usize);

pub(super) struct Figures<'t, 'a> {
    sides: Vec<&'t [Trial<'a>]>,
    units: Units,
}

impl<'t, 'a> Figures<'t, 'a> {
    /// Collects figures of these cases. `None` if no round has trials of all of them.
    pub(super) fn new(sides: &[&'t [Trial<'a>]]) -> Option<Self> {
        let has = |trials: &[Trial<'_>], round| {
            trials.iter().any(|trial| trial.round() == round && !trial.response_time.is_empty())
        };
        let rounds = sides.first()?.iter().map(Trial::round);
        let units = Units::new(rounds.filter(|round| sides.iter().all(|trials| has(trials, *round))));
        (units.count() > 0).then(|| Self { sides: sides.to_vec(), units })
    }

    /// Computes `figure` with an interval over rounds. The argument of `figure` is a function: for the index of a case,
    /// it returns the figure of the case.
    pub(super) fn resampled(
        &self,
        metric: Metric,
        figure: impl Fn(&dyn Fn(usize) -> Option<f64>) -> Option<f64>,
    ) -> Option<Estimate> {
        let sources: Vec<Source> =
            self.sides.iter().map(|side| self.source(metric, side)).collect::<Option<_>>()?;
        let ready: Vec<Ready<'_>> = sources.iter().map(Source::ready).collect::<Option<_>>()?;
        resampled(&self.units, |drawn| figure(&|side| ready[side].of(drawn)))
    }

    pub(super) fn of_all(&self, metric: Metric, side: Side) -> Option<f64> {
        let once = vec![1; self.units.count()];
        self.source(metric, self.sides[side.0])?.ready()?.of(&once)
    }

    /// Selects the data that a metric is computed from. `None` for a metric that has no price.
    fn source(&self, metric: Metric, trials: &[Trial<'_>]) -> Option<Source> {
        if let Some(statistic) = percentile(metric) {
            let times =
                trials.iter().filter_map(|trial| Some((self.units.of(trial.round())?, &trial.response_time)));
            return Some(Source::Percentile(Rounds::new(self.units.count(), times), statistic));
        }
        let part_and_whole = |trial: &Trial<'_>| match metric {
            Metric::CpuUsPerRequest => Some((trial.gateway_cpu_ns? as f64 / 1e3, trial.completed as f64)),
            Metric::ThroughputRatio => Some((trial.completed as f64, trial.seconds())),
            _ => Some((of_trial(metric, trial)?, 1.0)),
        };
        let of = |trial: &Trial<'_>| part_and_whole(trial).map(|(part, whole)| (trial.round(), part, whole));
        Metric::PRICES
            .contains(&metric)
            .then(|| Source::Sums(Sums::new(&self.units, trials.iter().filter_map(of))))
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
