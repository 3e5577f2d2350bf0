//! Data formats that describe a load: its input, the load spec ([`spec`]), its output, the load record
//! ([`record`]), and the types that both use.
//!
//! Of hoptax's crates, it depends only on the codecs. It opens no socket and starts no thread.
#![forbid(unsafe_code)]

mod address;
pub mod checks;
pub mod clock;
pub mod field;
mod fields;
pub mod grpc;
pub mod histogram;
pub mod llm;
pub mod merge;
pub mod messages;
pub mod moments;
pub mod random;
pub mod record;
pub mod seconds;
pub mod spec;
pub mod stamp;
pub mod sums;
pub mod template;
pub mod websocket;

pub use address::Address;
