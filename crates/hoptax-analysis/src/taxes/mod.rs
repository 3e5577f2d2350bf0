//! Differences between gateways and direct, and between gateways, and how much of them noise can explain.

pub(crate) mod another_run;
pub(crate) mod difference;
pub(crate) mod features;
pub(crate) mod gateway_pairs;
pub(crate) mod generators;
pub(crate) mod noise;
pub(crate) mod per_stream;
pub(crate) mod precision_over_time;
pub(crate) mod processes;
pub(crate) mod tail;
pub(crate) mod targets;
pub(crate) mod tax;
pub(crate) mod versions;
