//! The server: pages, interface and metrics over a generated history.

mod hostile;
mod interface;
mod lab;
mod metrics;
mod pages;
mod verb;
