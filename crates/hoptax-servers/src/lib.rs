//! HTTP servers that hoptax brings itself: the built-in upstream, which counts what it receives, and the reference hops,
//! whose delays are known. They run on the load engine's event loop. [`http_client`] is the client that talks to them and to gateways.
#![forbid(unsafe_code)]

pub mod hop;
pub mod http_client;
pub mod ledger;
mod net;
pub mod readiness;
pub mod upstream;
