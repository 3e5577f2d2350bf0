//! From the analysis to something to read. [`Model`] is computed once; everything else only draws it.

mod capacity;
pub mod charts;
pub mod comparison;
mod csv;
mod events;
mod figures;
mod folded;
pub mod foreign;
mod format;
pub mod gate;
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
mod prices;
mod quiet;
mod sentence;
mod table;
mod terminal;

pub use charts::{Chart, ChartError};
pub use csv::csv;
pub use figures::{figure_in_words, wrapped};
pub use host::HostLooks;
pub use html::{HtmlError, html};
pub use json::json;
pub use junit::junit;
pub use markdown::markdown;
pub use measured::{Measured, NotCompared, compared};
pub use model::{Belief, Model};
pub use prices::PriceList;
pub use terminal::terminal;

use crate::cli::Exit;

/// The exit code that a measured run deserves.
pub fn verdict(model: &Model) -> Exit {
    if !model.measured_anything() {
        Exit::Failed
    } else if model.belief() == Belief::Void {
        Exit::Void
    } else if model.over_budget() {
        Exit::OverBudget
    } else {
        Exit::Success
    }
}
