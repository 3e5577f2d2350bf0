//! Generates reports from an analysis. [`Model`] is computed once, and each format only renders it.
#![forbid(unsafe_code)]

mod answer;
mod assemble;
pub mod assets;
mod belief;
mod capacity;
pub mod charts;
pub mod comparison;
mod csv;
pub mod document;
mod events;
mod failures;
mod figures;
#[cfg(test)]
mod fixture;
mod folded;
pub mod foreign;
mod format;
pub mod formats;
pub mod gate;
mod gateway_pairs;
mod host;
mod html;
mod json;
mod junit;
mod layout;
mod markdown;
mod measured;
mod model;
mod page;
mod path;
mod precision;
mod prices;
mod quiet;
mod sentence;
mod starts;
mod sweeps;
mod table;
mod tail;
mod terminal;
mod text;
mod verdict;

pub use charts::{Chart, ChartError};
pub use csv::csv;
pub use failures::{FailureGroup, same_cause, same_message};
pub use figures::figure_in_words;
pub use html::{HtmlError, html};
pub use json::json;
pub use junit::junit;
pub use markdown::markdown;
pub use measured::{Measured, NotCompared, compared};
pub use model::{Belief, Model};
pub use prices::PriceList;
pub use terminal::terminal;
pub use text::wrapped;
pub use verdict::Verdict;
