//! What does this hop cost? The library behind the `hoptax` binary.
//!
//! Data moves one way: a [`plan`] is turned into a schedule, the [`lab`] starts what it names, trials are appended to
//! the [`record`], analysis turns records into estimates and findings, and the report draws them.
#![forbid(unsafe_code)]

// Lets the made-up runs of the tests be written once, for these tests and for those of the binary.
#[cfg(test)]
extern crate self as hoptax;

pub mod analysis;
pub mod cli;
pub mod history;
pub mod host;
pub mod lab;
pub mod lint;
pub mod live;
pub mod plan;
pub mod probe;
pub mod record;
pub mod report;
pub mod run;
pub mod schedule;
pub mod serve;
pub mod watch;
