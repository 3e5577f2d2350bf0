//! Throughput.

use crate::trials::trial::Trial;
use hoptax_record::report::Throughput;
use hoptax_stats::{Estimate, Sums, Units, resampled};

/// Completed requests ÷ measured time, over all trials.
pub(crate) fn throughput(trials: &[Trial<'_>]) -> Option<Throughput> {
    rate(trials, "requests/s", |trial| trial.completed)
}

/// A count ÷ measured time, over all trials.
pub(crate) fn rate(
    trials: &[Trial<'_>],
    unit: &'static str,
    count: impl Fn(&Trial<'_>) -> u64,
) -> Option<Throughput> {
    let units = Units::new(trials.iter().map(Trial::round));
    let of = |trial: &Trial<'_>| (trial.round(), count(trial) as f64, trial.seconds());
    let sums = Sums::new(&units, trials.iter().map(of));
    let estimate = resampled(&units, |drawn| sums.share(drawn))?.at_least(0.0);
    Some(Throughput { estimate: Estimate { trials: trials.len() as u32, ..estimate }, unit })
}
