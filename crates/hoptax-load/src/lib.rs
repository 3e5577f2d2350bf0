//! The load engine. Its input is a load spec ([`hoptax_format::spec`]) and its output is a load record
//! ([`hoptax_format::record`]). The generator, the built-in upstream and the hops all use its event loop
//! ([`event_loop`]).
//!
//! This crate depends only on `hoptax-format` and `hoptax-wire`. It does not know gateways, plans or reports.
//!
//! The engine needs Linux. On other systems, this crate contains only the checks of requests and host names.
#![forbid(unsafe_code)]
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]

#[cfg(target_os = "linux")]
mod cause;
mod checks;
mod clock;
mod codec;
mod connection;
mod error;
pub mod event_loop;
mod exchange;
#[cfg(target_os = "linux")]
mod generator;
mod inflate;
#[cfg(target_os = "linux")]
mod limits;
pub mod names;
mod pace;
mod pacer;
pub mod proxy_protocol;
mod recorder;
mod redirect;
mod scratch;
mod spares;
mod stamped;
mod stream_head;
pub mod target;
mod timeouts;
pub mod tls;
#[cfg(target_os = "linux")]
mod trial;
pub mod tunnel;
pub mod websocket;
#[cfg(target_os = "linux")]
mod worker;

pub use error::LoadError;
#[cfg(target_os = "linux")]
pub use generator::{Progress, Watch, check, run, run_part};
