//! Figures of several cases, computed from the rounds that all these cases have. Prices are computed from
//! these figures.

use crate::trials::source::{Reader, Source};
use crate::trials::trial::Trial;
use hoptax_plan::Metric;
use hoptax_stats::{Estimate, Units, resampled};

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

    /// Computes `figure` with an interval over rounds. The argument of `figure` is a function: for the index
    /// of a case, it returns the figure of the case.
    pub(super) fn resampled(
        &self,
        metric: Metric,
        figure: impl Fn(&dyn Fn(usize) -> Option<f64>) -> Option<f64>,
    ) -> Option<Estimate> {
        let sources: Vec<Source> =
            self.sides.iter().map(|side| self.source(metric, side)).collect::<Option<_>>()?;
        let readers: Vec<Reader<'_>> =
            sources.iter().map(|source| source.reader(metric)).collect::<Option<_>>()?;
        resampled(&self.units, |drawn| figure(&|side| readers[side].of(drawn)))
    }

    pub(super) fn of_all(&self, metric: Metric, side: Side) -> Option<f64> {
        let once = vec![1; self.units.count()];
        self.source(metric, self.sides[side.0])?.reader(metric)?.of(&once)
    }

    /// The data that a metric is computed from. `None` if the metric is not in [`Metric::PRICES`].
    fn source(&self, metric: Metric, trials: &[Trial<'_>]) -> Option<Source> {
        Metric::PRICES.contains(&metric).then(|| Source::new(metric, &self.units, trials))
    }
}
