//! The web server for the history of all runs, and for the run in progress.
//!
//! The server listens on loopback by default; any other address needs a token. Pages of other sites cannot change
//! anything.

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
mod silent;

pub use options::{Options, ServeError};
pub use routes::description as openapi;
pub use server::Server;
