//! Properties that every parser must have for any input. Each module has one function, `holds`, which panics
//! if a property is violated, and returns whether the parser accepted the input. The fuzzers in `targets/`
//! search for input that violates a property. A test of the `hoptax` crate checks all input in `corpus/`.

pub mod chunked;
pub mod grpc;
pub mod histogram;
pub mod hpack;
pub mod http2;
pub mod plan;
pub mod request;
pub mod response;
pub mod spec;
mod split;
pub mod template;
