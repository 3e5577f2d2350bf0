//! Encodes single fields.

use super::{huffman, integer, static_table};

/// How a literal field affects the peer's dynamic table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Literal {
    /// The peer adds the field to its table.
    Indexed,
    /// The peer does not keep the field.
    Plain,
}

/// Appends a change of the dynamic table's size.
pub(in super::super) fn table_size(output: &mut Vec<u8>, size: u32) {
    integer::write(output, 0x20, 5, size);
}

/// Appends a reference to a table entry.
pub(super) fn reference(output: &mut Vec<u8>, index: u32) {
    integer::write(output, 0x80, 7, index);
}

/// Appends a field that the peer does not add to its table. The value is not Huffman-coded, so the encoding
/// takes the same time for all values. `name` must be in lower case.
pub fn write_literal(output: &mut Vec<u8>, name: &str, value: &[u8]) {
    write_name(output, name, Literal::Plain);
    integer::write(output, 0, 7, value.len() as u32);
    output.extend_from_slice(value);
}

/// Appends a field with the shortest strings.
pub(super) fn field(output: &mut Vec<u8>, name: &str, value: &str, literal: Literal) {
    match (static_table::find(name, value).0, literal) {
        (Some(index), _) => reference(output, index),
        (None, literal) => {
            write_name(output, name, literal);
            string(output, value.as_bytes());
        }
    }
}

fn write_name(output: &mut Vec<u8>, name: &str, literal: Literal) {
    let (pattern, bits) = match literal {
        Literal::Indexed => (0x40, 6),
        Literal::Plain => (0x00, 4),
    };
    match static_table::find(name, "").1 {
        Some(index) => integer::write(output, pattern, bits, index),
        None => {
            output.push(pattern);
            string(output, name.as_bytes());
        }
    }
}

fn string(output: &mut Vec<u8>, text: &[u8]) {
    let encoded = huffman::encoded_length(text);
    if encoded < text.len() {
        integer::write(output, 0x80, 7, encoded as u32);
        huffman::encode(text, output);
    } else {
        integer::write(output, 0, 7, text.len() as u32);
        output.extend_from_slice(text);
    }
}
