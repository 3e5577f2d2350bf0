//! Runs on several hosts: the network between them, and the places that loads come from.

pub(crate) mod legs;
pub(crate) mod vantage;
