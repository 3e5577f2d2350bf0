//! The sections of a report, each as text and as tables.

pub(crate) mod belief;
pub(crate) mod busier;
pub(crate) mod capacity;
pub(crate) mod events;
pub(crate) mod found_in;
pub(crate) mod gateway_pairs;
pub(crate) mod generators;
pub(crate) mod host;
pub(crate) mod hosts;
pub(crate) mod http2;
pub(crate) mod messages;
pub(crate) mod path;
pub(crate) mod precision;
pub(crate) mod quiet;
pub(crate) mod same_loads;
pub(crate) mod starts;
pub(crate) mod versions;
pub(crate) mod waking;
