//! Distributions of times.

use super::trial::Trial;
use hdrhistogram::Histogram;
use hoptax_stats::{Estimate, Rounds, Statistic, Units, of_merged};

/// A distribution of times, µs. All members are absent if there are no samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency {
    /// Median.
    pub p50: Option<Estimate>,
    /// 90th percentile.
    pub p90: Option<Estimate>,
    /// 95th percentile.
    pub p95: Option<Estimate>,
    /// 99th percentile.
    pub p99: Option<Estimate>,
    /// 99.9th percentile.
    pub p999: Option<Estimate>,
    /// Largest value.
    pub max: Option<Estimate>,
    /// Mean.
    pub mean: Option<Estimate>,
    /// Number of samples.
    pub samples: u64,
}

impl Latency {
    /// Figures of merged histograms, with intervals over rounds. Each histogram is given with its round. The
    /// maximum has no interval, as [`Rounds::reader`] explains.
    pub(super) fn of(trials: &[(u32, &Histogram<u64>)]) -> Self {
        let held: Vec<(u32, &Histogram<u64>)> =
            trials.iter().copied().filter(|(_, histogram)| !histogram.is_empty()).collect();
        let units = Units::new(held.iter().map(|(round, _)| *round));
        let in_units = held.iter().filter_map(|(round, histogram)| Some((units.of(*round)?, *histogram)));
        let rounds = Rounds::new(units.count(), in_units);
        let trials = held.len() as u32;
        let of = |statistic| {
            let estimate = of_merged(&units, rounds.reader(statistic))?.at_least(0.0);
            Some(Estimate { trials, ..estimate })
        };
        let largest = held.iter().filter_map(|(_, histogram)| Statistic::Max.of(histogram)).reduce(f64::max);
        Self {
            p50: of(Statistic::P50),
            p90: of(Statistic::P90),
            p95: of(Statistic::P95),
            p99: of(Statistic::P99),
            p999: of(Statistic::P999),
            max: largest.map(|largest| Estimate::bare(largest, trials)),
            mean: of(Statistic::Mean),
            samples: held.iter().map(|(_, histogram)| histogram.len()).sum(),
        }
    }

    /// The figure of a statistic.
    pub fn get(&self, statistic: Statistic) -> Option<&Estimate> {
        match statistic {
            Statistic::P50 => self.p50.as_ref(),
            Statistic::P90 => self.p90.as_ref(),
            Statistic::P95 => self.p95.as_ref(),
            Statistic::P99 => self.p99.as_ref(),
            Statistic::P999 => self.p999.as_ref(),
            Statistic::Max => self.max.as_ref(),
            Statistic::Mean => self.mean.as_ref(),
        }
    }
}

pub(super) fn latency<'a>(
    trials: &[Trial<'a>],
    of: for<'t> fn(&'t Trial<'a>) -> Option<&'t Histogram<u64>>,
) -> Latency {
    Latency::of(&trials.iter().filter_map(|trial| Some((trial.round(), of(trial)?))).collect::<Vec<_>>())
}
