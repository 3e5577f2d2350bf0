//! The runner's side: drivers, services and traffic whose roles are on several hosts.

mod advice;
mod agent_channel;
mod connect;
mod connection;
mod describe;
mod driver;
mod generators;
mod host;
mod host_ref;
mod hosts;
mod layout;
mod legs;
mod reach;
mod remote_generator;
mod sampling;
mod services;
mod split;
mod together;
mod traffic;
mod vantage;

pub use agent_channel::AgentChannel;
pub use describe::HostDescription;
pub use driver::HostsDriver;
pub use host::Host;
pub use host_ref::HostRef;
pub use hosts::{Hosts, Ready, Setup};
pub use traffic::HostsTraffic;
