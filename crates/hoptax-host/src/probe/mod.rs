//! Probes: they observe the host and the processes during a trial. One per file.
//!
//! A [`Sampler`] takes a sample every 100 ms, in step with the generator's windows. A [`Timeline`] turns the samples
//! into figures for exactly the measured time.

pub mod bandwidth;
mod cgroup;
mod environment;
pub mod fitness;
mod host;
pub mod network;
mod sampler;
mod samples;
mod steal;
mod threads;
mod timeline;
mod tree;

pub use cgroup::{Limited, Mounts};
pub use environment::environment;
pub use host::HostTimes;
pub use network::NetworkCounters;
pub use sampler::{Sampler, Seen};
pub use samples::{Sample, Timeline, TreeSample};
pub use threads::Threads;
pub use timeline::{Recent, RecentTree};
pub use tree::Tree;
