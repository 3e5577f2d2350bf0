//! The library behind the `hoptax` binary, which measures what an API gateway costs.
//!
//! [`cli`] has one file per verb. [`run`] measures the trials of a plan in the order that [`schedule`] decides, and [`watch`]
//! keeps the state of the live view. [`lint`] checks one gateway pack.
#![forbid(unsafe_code)]

pub mod cli;
pub mod lint;
pub mod run;
pub mod schedule;
pub mod watch;
