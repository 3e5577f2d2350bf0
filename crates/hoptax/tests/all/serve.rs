//! What is served: pages, interface and metrics over a history made up for the purpose.

mod hostile;
mod interface;
mod lab;
mod metrics;
mod pages;
mod verb;
