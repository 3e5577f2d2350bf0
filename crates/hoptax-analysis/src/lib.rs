//! Computes estimates, taxes, findings and budgets from the records of a run. This crate reads no files and
//! no clock.
#![forbid(unsafe_code)]

mod analyse;
mod analysis;
mod another_run;
mod budget;
pub mod capacity;
mod case;
pub mod causes;
pub mod checks;
pub mod compare;
mod concerns;
mod contrasts;
mod counts;
mod difference;
mod events;
mod features;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
mod gateway_pairs;
mod generators;
pub mod headline;
mod latency;
mod legs;
mod limits;
mod measuring_time;
mod merged;
mod metric;
mod noise;
mod pairs;
mod path;
mod pooled;
mod precision_over_time;
pub mod profiles;
pub mod quiet;
mod quiet_cases;
mod series;
mod side;
mod source;
mod start_budget;
mod starts;
mod tail;
mod targets;
mod tax;
pub mod thresholds;
mod throughput;
mod trial;
mod vantage;
mod versions;
mod warm_ups;

pub use analyse::analyse;
pub use analysis::Analysis;
pub use budget::{Baseline, not_everywhere, outcome_of_all};
pub use case::error_share;
pub use gateway_pairs::competitors;
pub use hoptax_record::report::{
    Beyond, BudgetResult, Capacity, Case, ChangeResult, Concerns, Difference, EventFigures, Figures, Finding,
    GatewayPair, GeneratorFigures, Latency, Limit, Load, NoiseFloor, Outcome, Path, Price, Prices,
    QuietFigures, SameLoad, Series, Severity, Split, Step, Stretch, Tail, TargetFigures, Tax, Throughput,
    Version, Versions, View, WouldDecide,
};
pub use legs::{LegFigures, Network, extra_way};
pub use pooled::{Pooled, TrialFigures};
pub use precision_over_time::{PrecisionOverTime, PrecisionPoint, precision_over_time};
pub use quiet::{Quiet, needs_repeating};
pub use side::{Side, measured};
pub use start_budget::judge;
pub use starts::Starts;
pub use tail::RESOLVED_WITHIN;
pub use trial::{TargetTrial, Trial};
