//! The server: pages, JSON interface and metrics, for a generated history.

mod hostile;
mod interface;
mod lab;
mod metrics;
mod pages;
mod verb;
