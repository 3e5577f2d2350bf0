//! The data of one contender that a metric is computed from, prepared so that the metric can be computed for
//! any draw of rounds.

use crate::trials::metric::{of_trial, percentile};
use crate::trials::trial::Trial;
use hoptax_plan::Metric;
use hoptax_stats::{self as stats, Rounds, Sums, Units};

/// The data of a contender, by round.
pub(crate) enum Source {
    /// Times. All their percentiles are read from them.
    Times(Rounds),
    /// Two sums, whose ratio is the figure.
    Sums(Sums),
}

impl Source {
    /// Collects the data of the trials in these rounds. For a throughput ratio, this is the contender's own
    /// throughput.
    pub(crate) fn new(metric: Metric, units: &Units, trials: &[Trial<'_>]) -> Self {
        if let Some(times) = metric.times() {
            let times =
                trials.iter().filter_map(|trial| Some((units.of(trial.round())?, trial.times(times)?)));
            return Self::Times(Rounds::new(units.count(), times));
        }
        let part_and_whole = |trial: &Trial<'_>| match metric {
            Metric::CpuUsPerRequest | Metric::CpuUsPerMessage | Metric::CpuUsPerStreamSecond => {
                trial.gateway_us_and_divisor(metric)
            }
            Metric::ExtraTokensPerStream => trial.upstream_tokens(),
            Metric::ThroughputRatio => Some((trial.completed as f64, trial.seconds())),
            _ => Some((of_trial(metric, trial)?, 1.0)),
        };
        let of = |trial: &Trial<'_>| part_and_whole(trial).map(|(part, whole)| (trial.round(), part, whole));
        Self::Sums(Sums::new(units, trials.iter().filter_map(of)))
    }

    /// A reader of this metric. `None` if there are no times.
    pub(crate) fn reader(&self, metric: Metric) -> Option<Reader<'_>> {
        Some(match self {
            Self::Times(times) => Reader::Percentile(times.reader(percentile(metric)?)?),
            Self::Sums(sums) => Reader::Share(sums),
        })
    }
}

/// Reads a metric from draws of rounds.
pub(crate) enum Reader<'s> {
    Percentile(stats::Reader<'s>),
    Share(&'s Sums),
}

impl Reader<'_> {
    /// The metric of the drawn rounds. Absent if it cannot be computed from them.
    pub(crate) fn of(&self, drawn: &[u64]) -> Option<f64> {
        match self {
            Self::Percentile(reader) => reader.of(drawn),
            Self::Share(sums) => sums.share(drawn),
        }
    }
}
