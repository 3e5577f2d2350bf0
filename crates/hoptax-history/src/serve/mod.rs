//! The web page over the history of all runs, and over the one under way.
//!
//! Listens on loopback unless told, then with a token. Every change is a request that another site's page cannot make.

mod api;
mod app;
mod assets;
mod check;
mod connections;
mod extract;
mod files;
mod guard;
mod latest;
mod metrics;
mod openapi;
mod operation;
mod options;
mod pages;
mod problem;
mod refusal;
mod routes;
mod runs;
mod server;

pub use options::{Options, ServeError};
pub use routes::description as openapi;
pub use server::Server;
