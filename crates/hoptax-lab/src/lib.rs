//! The lab starts everything that a run needs, and stops all of it at the end.
//!
//! A [`Driver`] starts services, which report their addresses and processes. The flow of a run uses only the
//! traits of `service`, so tests of the flow can use a fake driver.
//!
//! Services are started only on Linux. On other systems this crate has only the packs, so that plans can be
//! checked there.
#![forbid(unsafe_code)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

#[cfg(target_os = "linux")]
pub mod builds;
#[cfg(target_os = "linux")]
pub mod concurrent;
#[cfg(target_os = "linux")]
pub mod conformance;
#[cfg(target_os = "linux")]
pub mod counters;
#[cfg(target_os = "linux")]
pub mod cpus;
#[cfg(target_os = "linux")]
pub mod descriptors;
#[cfg(target_os = "linux")]
pub mod docker;
#[cfg(target_os = "linux")]
pub mod external_ledger;
#[cfg(all(target_os = "linux", any(test, feature = "fake")))]
pub mod fake;
#[cfg(target_os = "linux")]
pub mod features;
#[cfg(target_os = "linux")]
pub mod first_requests;
pub mod legs;
#[cfg(target_os = "linux")]
pub mod limits;
#[cfg(target_os = "linux")]
pub mod login;
pub mod pack;
pub mod packs;
#[cfg(target_os = "linux")]
pub mod process;
#[cfg(target_os = "linux")]
pub mod render;
#[cfg(target_os = "linux")]
mod service;
#[cfg(target_os = "linux")]
pub mod verify;

#[cfg(target_os = "linux")]
pub use service::{Controller, Driver, Effect, Facts, Launched, Observed, Profiling, Service};
