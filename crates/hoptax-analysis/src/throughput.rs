//! Throughput.

use super::trial::Trial;
use hoptax_stats::{Estimate, Sums, Units, resampled};

/// Throughput, requests/s.
#[derive(Debug, Clone, PartialEq)]
pub struct Throughput {
    /// Completed requests ÷ measured time, over all trials.
    pub estimate: Estimate,
}

impl Throughput {
    pub(super) fn of(trials: &[Trial<'_>]) -> Option<Self> {
        let units = Units::new(trials.iter().map(Trial::round));
        let of = |trial: &Trial<'_>| (trial.round(), trial.completed as f64, trial.seconds());
        let sums = Sums::new(&units, trials.iter().map(of));
        let estimate = resampled(&units, |drawn| sums.share(drawn))?.at_least(0.0);
        Some(Self { estimate: Estimate { trials: trials.len() as u32, ..estimate } })
    }
}
