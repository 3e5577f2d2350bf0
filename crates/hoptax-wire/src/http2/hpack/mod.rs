//! HPACK, the compression of header fields (RFC 7541): the decoder with its dynamic table, and an encoder for
//! blocks that are sent many times.

mod block;
mod decoder;
mod dynamic_table;
mod encoder;
mod huffman;
mod integer;
mod static_table;
#[cfg(test)]
mod tests;

#[cfg(test)]
use block::Encoding;
pub use block::{Block, OutField};
pub use decoder::Decoder;
pub(super) use encoder::table_size;
pub use encoder::write_literal;
