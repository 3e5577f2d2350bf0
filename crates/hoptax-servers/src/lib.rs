//! hoptax's own HTTP servers: the built-in upstream, which counts its requests, and the reference hops with
//! known delays. They use the load engine's event loop. [`http_client`] is the client for them and for
//! gateways.
#![forbid(unsafe_code)]

mod answer;
pub mod hop;
mod http2_client;
pub mod http2_session;
pub mod http_client;
pub mod ledger;
mod net;
pub mod readiness;
pub mod request_error;
mod socket;
pub mod transport;
pub mod upstream;
