//! Keeps the state of the live view of a run ([`hoptax_history::live::State`]). No figure of a report comes from here.

mod cases;
mod live_findings;
mod live_state;
mod watcher;

pub use cases::figures;
pub use live_state::LiveState;
pub use watcher::{Clock, Watcher};
