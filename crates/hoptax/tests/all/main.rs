//! The one integration binary: the real `hoptax` binary against real gateways.

mod hop;
mod support;
mod upstream;
mod wire;
