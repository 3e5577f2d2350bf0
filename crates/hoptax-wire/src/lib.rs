//! Protocol codecs: convert bytes to events and back.
//!
//! Nothing here opens a socket, reads a clock or starts a thread. Every codec can therefore be tested on any split of
//! its input, and fuzzed without a harness.
#![forbid(unsafe_code)]

pub mod http1;
