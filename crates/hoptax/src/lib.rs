//! The library behind the `hoptax` binary, which measures what an API gateway costs.
//!
//! [`cli`] has one file per verb, and the live view. [`lint`] checks one gateway pack. Runs are measured by
//! `hoptax-run`, and by `hoptax-remote` if their roles are on several hosts.
#![forbid(unsafe_code)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

pub mod cli;
#[cfg(target_os = "linux")]
pub mod lint;
