//! Generates reports from an analysis. [`Model`] is computed once, and each format only renders it.
#![forbid(unsafe_code)]

mod assemble;
pub mod assets;
pub mod charts;
pub mod comparison;
pub mod document;
mod failures;
#[cfg(test)]
mod fixture;
pub mod foreign;
pub mod formats;
pub mod gate;
mod measured;
mod model;
mod prices;
mod profiles;
mod sections;
mod slow;
mod verdict;
mod words;

pub use charts::{Chart, ChartError};
pub use failures::{FailureGroup, same_cause, same_message};
pub use formats::csv::csv;
pub use formats::html::{HtmlError, html};
pub use formats::json::json;
pub use formats::junit::junit;
pub use formats::markdown::markdown;
pub use formats::terminal::terminal;
pub use measured::{Measured, NotCompared, compared};
pub use model::{Belief, Model};
pub use profiles::{ProfileFile, profile_files};
pub use slow::tail_files;
pub use verdict::Verdict;
pub use words::figures::figure_in_words;
pub use words::text::wrapped;
