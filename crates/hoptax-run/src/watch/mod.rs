//! Keeps the state of the live view of a run ([`hoptax_history::live::State`]). Reports do not use any figure
//! from this module.

mod cases;
mod live_findings;
mod live_state;
mod watcher;

pub use cases::figures;
pub use live_state::LiveState;
pub use watcher::{Clock, Watcher};
