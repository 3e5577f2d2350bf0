//! Probes observe the host and the processes during a trial. Each probe is a module.
//!
//! A [`Sampler`] takes a sample every 100 ms, aligned with the generator's windows. A [`Timeline`] computes
//! results for exactly the measured time from these samples.

pub mod bandwidth;
mod cgroup;
pub mod cpu_distance;
mod environment;
pub mod fitness;
mod generated_code;
mod host;
pub mod leg;
pub mod network;
mod processes;
mod sampler;
mod samples;
mod stalls;
mod steal;
mod threads;
mod timeline;
mod tree;

pub use cgroup::{Limited, Mounts};
pub use environment::environment;
pub use host::HostTimes;
pub use network::NetworkCounters;
pub use processes::{Others, Processes};
pub use sampler::{Sampler, Seen};
pub use samples::{Sample, Timeline, TreeSample};
pub use stalls::{Stall, StallWatch, by_window as stalls_by_window};
pub use threads::Threads;
pub use timeline::{Recent, RecentTree};
pub use tree::Tree;
