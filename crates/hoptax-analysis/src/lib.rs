//! Computes estimates, taxes, findings and budgets from the records of a run. This crate reads no files and
//! no clock.
#![forbid(unsafe_code)]

mod analyse;
mod analysis;
mod budgets;
pub mod capacity;
pub mod causes;
pub mod checks;
pub mod compare;
mod concerns;
mod figures;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod headline;
mod hosts;
pub mod profiles;
pub mod quiet;
mod quiet_cases;
mod separate_runs;
mod side;
mod starts;
pub mod tails;
mod taxes;
pub mod thresholds;
mod trials;

pub use analyse::analyse;
pub use analysis::Analysis;
pub use budgets::budget::{Baseline, not_everywhere, outcome_of_all};
pub use budgets::start_budget::judge;
pub use figures::case::error_share;
pub use hoptax_record::report::{
    Beyond, BudgetResult, Capacity, Case, ChangeResult, Concerns, Difference, EventFigures, Figures, Finding,
    GatewayPair, GeneratorFigures, Latency, Limit, Load, NoiseFloor, Outcome, Path, Price, Prices,
    QuietFigures, SameLoad, Series, Severity, Split, Step, Stretch, Tail, TargetFigures, Tax, Throughput,
    Version, Versions, View, WouldDecide,
};
pub use hosts::legs::{LegFigures, Network, extra_way};
pub use quiet::{Quiet, needs_repeating};
pub use separate_runs::{Learned, RunFigures, learn, leave_one_out};
pub use side::{Side, measured};
pub use starts::Starts;
pub use taxes::gateway_pairs::competitors;
pub use taxes::precision_over_time::{PrecisionOverTime, PrecisionPoint, precision_over_time};
pub use taxes::tail::RESOLVED_WITHIN;
pub use trials::pooled::{Pooled, TrialFigures};
pub use trials::trial::{TargetTrial, Trial};
