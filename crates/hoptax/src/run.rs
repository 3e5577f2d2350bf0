//! The flow of a run: the schedule turned into trials, each on disk before the next begins.
//!
//! Knows the world only by the traits [`Driver`](hoptax_lab::Driver) and [`Traffic`], so that its tests state what happens, in
//! which order, when something is missing, wrong, killed or interrupted.

mod contents;
mod events;
mod flow;
mod generator;
mod inputs;
mod progress;
mod traffic;
mod trial;

pub use contents::Contents;
pub use flow::Outcome;
pub use generator::LocalTraffic;
pub use inputs::Run;
pub use progress::Progress;
pub use traffic::{Loaded, News, Traffic, Usage, Used, WatchedRoles};
pub use trial::load_spec;
