//! The library behind the `hoptax` binary, which measures what an API gateway costs.
//!
//! [`cli`] has one file per verb. [`run`] measures the trials of a plan in the order that [`schedule`]
//! decides, and [`watch`] keeps the state of the live view. [`agent`] is for runs whose roles are on several
//! hosts, and [`hosts`] looks up and creates such hosts. [`lint`] checks one gateway pack.
#![forbid(unsafe_code)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

#[cfg(target_os = "linux")]
pub mod agent;
pub mod cli;
#[cfg(target_os = "linux")]
pub mod hosts;
#[cfg(target_os = "linux")]
pub mod lint;
#[cfg(target_os = "linux")]
pub mod run;
pub mod schedule;
#[cfg(target_os = "linux")]
pub mod watch;
