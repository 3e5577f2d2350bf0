//! The one integration binary: the real `hoptax` binary against real gateways.

mod corpus;
mod docs;
mod driver;
mod hop;
mod lab;
mod load;
mod origin;
mod pack_docs;
mod packs;
mod plan;
mod report;
mod run;
mod support;
mod upstream;
mod wire;
mod world;
