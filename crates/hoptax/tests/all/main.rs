//! The one integration binary: the real `hoptax` binary against real gateways.

mod hop;
mod origin;
mod support;
mod upstream;
mod wire;
