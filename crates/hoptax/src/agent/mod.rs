//! Hosts: how one role of a run is on another machine.
//!
//! The flow of a run sees the world by the traits [`Driver`](hoptax_lab::Driver),
//! [`Service`](hoptax_lab::Service) and [`Traffic`](crate::run::Traffic). Below these traits everything is
//! local on the host of a role: its agent (`hoptax agent`) runs the ordinary driver and generator. A [`Link`]
//! leads to an agent. [`Hosts::prepare`] makes a driver and traffic for a run.
//!
//! No clocks are compared for latency: a response time is a difference on the generator's own clock. Samples
//! of other hosts are aligned by a measured [`Offset`]. Every moment that comes from an agent is converted to
//! the runner's clock at once.

mod advice;
mod connect;
mod connection;
mod describe;
mod driver;
mod files;
pub mod frame;
mod generator;
mod generators;
mod greeting;
mod host;
mod host_ref;
mod hosts;
mod inspection;
mod layout;
mod legs;
mod link;
mod machine;
pub mod message;
mod offset;
mod reach;
mod sampling;
mod serve;
mod services;
mod silence;
mod split;
mod together;
mod traffic;
mod vantage;

pub use describe::HostDescription;
pub use driver::HostsDriver;
pub use greeting::Versions;
pub use host::Host;
pub use host_ref::HostRef;
pub use hosts::{Hosts, Ready, Setup};
pub use inspection::{Inspection, Program};
pub use link::Link;
pub use message::{RunId, Welcome};
pub use offset::Offset;
pub use serve::serve;
pub use traffic::HostsTraffic;
