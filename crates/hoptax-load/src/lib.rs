//! The load engine. Its input is a load spec ([`spec`]) and its output is a load record ([`record`]). The
//! generator, the built-in upstream and the hops all use its event loop ([`event_loop`]).
//!
//! This crate depends only on `hoptax-wire`. It does not know gateways, plans or reports.
//!
//! The engine needs Linux. On other systems this crate has only specs, records and what reads them, so that
//! reports can be made there.
#![forbid(unsafe_code)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]

mod address;
#[cfg(test)]
#[path = "../tests/support/awake.rs"]
mod awake;
#[cfg(target_os = "linux")]
mod cause;
pub mod checks;
pub mod clock;
mod connection;
mod error;
pub mod event_loop;
#[cfg(target_os = "linux")]
mod generator;
pub mod histogram;
#[cfg(target_os = "linux")]
mod limits;
pub mod merge;
pub mod names;
mod pace;
pub mod pacer;
pub mod random;
pub mod record;
mod recorder;
pub mod redirect;
mod scratch;
pub mod seconds;
mod spares;
pub mod spec;
pub mod stamp;
pub mod target;
pub mod template;
mod timeouts;
pub mod tls;
#[cfg(target_os = "linux")]
mod trial;
mod tunnel;
#[cfg(target_os = "linux")]
mod worker;

pub use address::Address;
pub use error::LoadError;
#[cfg(target_os = "linux")]
pub use generator::{Watch, check, run, run_part};
pub use tunnel::{Tunnel, TunnelAnswer};
