//! The server: pages, JSON interface and metrics, for a generated history.

mod comparison_pages;
mod hostile;
mod interface;
mod lab;
mod metrics;
mod pages;
mod verb;
