//! What does this hop cost? The library behind the `hoptax` binary.
//!
//! Data moves one way: a [`plan`] is turned into a schedule, the [`lab`] starts what it names, trials are appended to
//! the [`record`], analysis turns records into estimates and findings, and the report draws them.
#![forbid(unsafe_code)]

pub mod cli;
pub mod lab;
pub mod plan;
pub mod probe;
pub mod record;
pub mod schedule;
