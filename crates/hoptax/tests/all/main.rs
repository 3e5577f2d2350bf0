//! The one integration binary: the real `hoptax` binary against real gateways.

mod lab;
mod packs;
mod plan;
mod support;
mod world;
