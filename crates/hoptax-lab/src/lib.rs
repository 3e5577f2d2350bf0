//! The lab starts everything that a run needs, and stops all of it at the end.
//!
//! A [`Driver`] starts services, which report their addresses and processes. The flow of a run uses only the traits of
//! `service`, so tests of the flow can use a fake driver.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod counters;
pub mod cpus;
pub mod descriptors;
pub mod docker;
pub mod external_ledger;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod features;
pub mod first_requests;
pub mod limits;
pub mod login;
pub mod pack;
pub mod packs;
pub mod process;
pub mod render;
mod service;
pub mod verify;

pub use service::{Controller, Driver, Effect, Facts, Observed, Service};
