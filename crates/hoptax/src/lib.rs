//! What does this hop cost? The library behind the `hoptax` binary: the command line, and the flow of a run.
//!
//! [`run`] turns a plan's [`schedule`] into trials on disk, [`watch`] keeps the state of the live view, [`lint`] checks one pack,
//! and [`cli`] has a file for each verb.
#![forbid(unsafe_code)]

pub mod cli;
pub mod lint;
pub mod run;
pub mod schedule;
pub mod watch;
