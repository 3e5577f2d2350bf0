//! Probes: what observes the host and the processes while a trial runs. One per file.
//!
//! A [`Sampler`] looks at everything every 100 ms, in step with the generator's windows; a [`Timeline`] turns what it saw
//! into figures over exactly the measured time.

mod environment;
pub mod fitness;
mod host;
mod sampler;
mod timeline;
mod tree;

pub use environment::environment;
pub use host::HostTimes;
pub use sampler::Sampler;
pub use timeline::{Sample, Timeline, TreeSample};
pub use tree::Tree;
