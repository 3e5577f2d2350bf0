//! Computes estimates, taxes, findings and budgets from the records of a run. This crate reads no files and no clock.
#![forbid(unsafe_code)]

mod analyse;
mod budget;
pub mod capacity;
mod case;
pub mod causes;
pub mod checks;
pub mod compare;
mod counts;
mod difference;
mod events;
mod features;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
mod gateway_pairs;
pub mod headline;
mod latency;
mod load;
mod merged;
mod metric;
mod noise;
mod pairs;
mod path;
mod pooled;
pub mod quiet;
mod quiet_cases;
mod series;
mod side;
mod source;
mod targets;
mod tax;
mod throughput;
mod trial;

pub use analyse::{Analysis, analyse};
pub use budget::{Baseline, BudgetResult, ChangeResult, judge};
pub use capacity::Capacity;
pub use case::{Case, Tls};
pub use difference::Difference;
pub use events::{EventFigures, Stretch};
pub use features::{Beyond, Price, Prices};
pub use gateway_pairs::{GatewayPair, competitors};
pub use hoptax_record::report::{Finding, Limit, Outcome, Severity, Step};
pub use latency::Latency;
pub use load::Load;
pub use noise::NoiseFloor;
pub use path::Path;
pub use pooled::{Pooled, TrialFigures};
pub use quiet::{Quiet, QuietFigures, needs_repeating};
pub use series::Series;
pub use side::{Side, measured};
pub use targets::TargetFigures;
pub use tax::Tax;
pub use throughput::Throughput;
pub use trial::{TargetTrial, Trial};
