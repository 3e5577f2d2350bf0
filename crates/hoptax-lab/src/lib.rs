//! The lab: everything that is started for a run and must be gone after it.
//!
//! A [`Driver`] starts services and says how to reach and watch them. The flow of a run (`crate::run`) knows only the
//! traits of `service`; a fake driver stands in for the world in its tests.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod counters;
pub mod cpus;
pub mod descriptors;
pub mod docker;
pub mod entry;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod features;
pub mod pack;
pub mod packs;
pub mod process;
pub mod render;
mod service;
pub mod told;
pub mod verify;

pub use service::{Done, Driver, Facts, Hand, Observed, Service};
