//! Statistics on plain numbers and histograms. This crate reads no records and no clock, and produces no
//! text.
#![forbid(unsafe_code)]

mod beta;
mod bisect;
mod censored;
mod chance;
mod change_points;
mod draws;
mod histogram;
mod interval;
mod moments;
mod precision;
mod proportion;
mod ranks;
mod rounds;
mod separate_runs;
#[cfg(test)]
mod simulation;
mod slices;
mod student;
mod threshold;
mod two_runs;
mod two_samples;

pub use beta::{student_beyond, student_within};
pub use bisect::{Measured, Suspects};
pub use censored::{Observed, SampleMedian, resampled_median, sample_median};
pub use chance::{chi_square_above, normal_two_sided};
pub use change_points::{Bound, ChangePoint, Reading, change_points, is_change, step_at};
pub use draws::Draws;
pub use histogram::{Statistic, merge};
pub use interval::{Drawn, Estimate, of_mean, of_merged, resampled};
pub use moments::{mean, noise_of_drifts, share, standard_deviation};
pub use precision::Precision;
pub use proportion::of_share;
pub use ranks::{mann_kendall, mann_whitney, median, pettitt};
pub use rounds::{MOST_UNITS, Reader, Rounds, Sums, Units};
pub use separate_runs::{LEAST_RUNS, share_of_runs, share_that_holds};
pub use slices::Slices;
pub use student::two_sided_95;
pub use threshold::Threshold;
pub use two_runs::{Allowance, RunFigure, TwoRuns};
pub use two_samples::{
    Adjusted, Contrast, change, change_of_figures, holm, independent, independent_figures, paired,
    variance_of, weighted_holm, with_confidence,
};
