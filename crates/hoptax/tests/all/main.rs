//! The one integration binary: the real `hoptax` binary against real gateways.

mod capacity;
mod connections;
mod corpus;
mod docs;
mod driver;
mod examples;
mod hop;
mod lab;
mod load;
mod load_flags;
mod load_live;
mod load_output;
mod origin;
mod pack_docs;
mod packs;
mod plan;
mod report;
mod requests;
mod run;
mod support;
mod targets;
mod tls;
mod upstream;
mod wire;
mod world;
