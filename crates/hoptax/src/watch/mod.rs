//! Follows a run under way: turns what the flow reports into the state that is shown ([`hoptax_history::live::State`]).
//!
//! It is a view and nothing else: no figure of a report comes from it.

mod cases;
mod course;
mod doubts;
mod watcher;

pub use cases::figures;
pub use course::Course;
pub use watcher::{Clock, Watcher};
