//! The flow of a run. It measures the trials of a plan in the order that [`schedule`] decides, and [`watch`]
//! keeps the state of the live view.
//!
//! This crate knows no command line and no screen. It needs Linux, except for [`schedule`].
#![forbid(unsafe_code)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

#[cfg(target_os = "linux")]
mod run;
pub mod schedule;
#[cfg(target_os = "linux")]
pub mod watch;

#[cfg(target_os = "linux")]
pub use run::{
    Contents, FirstLoaded, Loaded, LocalTraffic, Look, Outcome, Progress, Recorded, RouteAsker, Run, Sampled,
    Sampling, StackRecording, SwitchTracing, Traffic, TrialUpdate, Usage, Used, WatchedRoles, first_loaded,
    load_spec, state_empty_body,
};
