//! The flow of a run. It measures the scheduled trials, and writes each trial to disk before the next trial
//! begins.
//!
//! The run uses services and traffic only through the traits [`Driver`](hoptax_lab::Driver) and [`Traffic`].
//! Tests implement both traits with fakes. The tests check the run when something is missing, wrong, killed
//! or interrupted.

mod contents;
mod deaths;
mod events;
mod flow;
mod inputs;
mod local_traffic;
mod pass;
mod progress;
mod sampling;
mod starts;
mod tail_pass;
mod traffic;
mod trial;
mod warm_up;

pub use contents::{Contents, state_empty_body};
pub use flow::Outcome;
pub use inputs::Run;
pub use local_traffic::LocalTraffic;
pub use progress::Progress;
pub use sampling::{Sampled, Sampling};
pub use traffic::{
    FirstLoaded, Loaded, Look, Recorded, RouteAsker, StackRecording, SwitchTracing, Traffic, TrialUpdate,
    Usage, Used, WatchedRoles, first_loaded,
};
pub use trial::load_spec;
