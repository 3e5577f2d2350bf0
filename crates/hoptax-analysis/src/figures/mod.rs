//! Figures of a case: times, throughput, the path split, events.

pub(crate) mod case;
pub(crate) mod contrasts;
pub(crate) mod events;
pub(crate) mod latency;
pub(crate) mod path;
pub(crate) mod series;
pub(crate) mod throughput;
