//! Protocol codecs. A decoder turns bytes into events, and an encoder turns values into bytes.
//!
//! Nothing here opens a socket, reads a clock or starts a thread. Every codec can therefore be tested on any
//! split of its input, and fuzzed without a harness.
#![forbid(unsafe_code)]

pub mod events;
pub mod grpc;
pub mod http1;
pub mod http2;
pub mod llm;
pub mod proxy_protocol;
pub mod websocket;
