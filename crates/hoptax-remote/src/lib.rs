//! Roles of a run on other hosts.
//!
//! The flow of a run uses only the traits [`Driver`](hoptax_lab::Driver), [`Service`](hoptax_lab::Service)
//! and [`Traffic`](hoptax_run::Traffic). On each other host, an agent ([`agent`], `hoptax agent`) runs the
//! same driver and generator as a local run. [`runner`] implements the traits for the run: an
//! [`AgentChannel`](runner::AgentChannel) leads to an agent, and [`Hosts::prepare`](runner::Hosts::prepare)
//! makes a driver and traffic. Both sides speak [`protocol`]. [`machines`] looks up and creates hosts before
//! a run.
//!
//! No clocks are compared for latency: a response time is a difference on the generator's own clock. Samples
//! of other hosts are aligned by a measured [`Offset`](protocol::Offset). Every moment that comes from an
//! agent is converted to the runner's clock at once.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

pub mod agent;
pub mod machines;
pub mod protocol;
pub mod runner;
