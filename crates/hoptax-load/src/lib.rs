//! The load engine. Its input is a load spec ([`spec`]) and its output is a load record ([`record`]). The generator,
//! the built-in upstream and the hops all use its event loop ([`event_loop`]).
//!
//! This crate depends only on `hoptax-wire`. It does not know gateways, plans or reports.
#![forbid(unsafe_code)]

mod address;
#[cfg(test)]
#[path = "../tests/support/awake.rs"]
mod awake;
mod cause;
pub mod checks;
pub mod clock;
mod connection;
mod error;
pub mod event_loop;
mod generator;
pub mod histogram;
mod limits;
mod pace;
pub mod pacer;
pub mod random;
pub mod record;
mod recorder;
mod scratch;
pub mod seconds;
mod spares;
pub mod spec;
pub mod stamp;
pub mod target;
pub mod template;
mod timeouts;
pub mod tls;
mod trial;
mod worker;

pub use address::Address;
pub use error::LoadError;
pub use generator::{Watch, check, run};
