//! Distributions of times.

use crate::trials::trial::Trial;
use hdrhistogram::Histogram;
use hoptax_record::report::Latency;
use hoptax_stats::{Estimate, Rounds, Statistic, Units, of_merged};

/// Figures of merged histograms, with intervals over rounds. Each histogram is given with its round. The
/// maximum has no interval, as [`Rounds::reader`] explains.
pub(crate) fn of_histograms(trials: &[(u32, &Histogram<u64>)]) -> Latency {
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
    Latency {
        p50: of(Statistic::P50),
        p90: of(Statistic::P90),
        p95: of(Statistic::P95),
        p99: of(Statistic::P99),
        p999: of(Statistic::P999),
        max: largest.map(|largest| Estimate::bare(largest, trials)),
        mean: of(Statistic::Mean),
        samples: held.iter().map(|(_, histogram)| histogram.len()).sum(),
        unit: "us",
    }
}

pub(crate) fn latency<'a>(
    trials: &[Trial<'a>],
    of: for<'t> fn(&'t Trial<'a>) -> Option<&'t Histogram<u64>>,
) -> Latency {
    of_histograms(&trials.iter().filter_map(|trial| Some((trial.round(), of(trial)?))).collect::<Vec<_>>())
}
