//! The load engine: its input ([`spec`]), its output ([`record`]), and the event loop ([`event_loop`]), which the
//! generator, the built-in upstream and the hops use.
//!
//! Depends only on `hoptax-wire`, and knows nothing about gateways, plans or reports.
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
