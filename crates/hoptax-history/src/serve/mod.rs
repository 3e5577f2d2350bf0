//! The web server for the history of all runs, and for the run in progress.
//!
//! Clients need a token, unless the server only shows runs. Pages of other sites cannot change anything.

mod api;
mod app;
mod assets;
mod check;
mod connections;
mod draw;
mod drawing;
mod extract;
mod files;
mod guard;
mod latest;
mod metrics;
mod openapi;
mod operation;
mod options;
mod pages;
mod places;
mod problem;
mod refusal;
mod routes;
mod runs;
mod server;
mod silent;

pub use draw::draw;
pub use options::{Access, Options, ServeError};
pub use routes::description as openapi;
pub use server::Server;
