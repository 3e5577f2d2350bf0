//! What must hold of every parser, whatever it is fed. Each module has one function, `holds`, which panics where it does
//! not: the fuzzers in `targets/` look for such input, and a test of the `hoptax` crate asks the same of all the input in
//! `corpus/`.

pub mod chunked;
pub mod histogram;
pub mod plan;
pub mod request;
pub mod response;
pub mod spec;
mod split;
pub mod template;
