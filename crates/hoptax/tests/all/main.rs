//! The one integration binary: the real `hoptax` binary against real gateways.

mod hop;
mod lab;
mod origin;
mod packs;
mod plan;
mod support;
mod upstream;
mod wire;
mod world;
