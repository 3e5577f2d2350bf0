//! Header blocks that are encoded once and sent many times, on any stream of any connection.

use super::dynamic_table::OVERHEAD;
use super::encoder::{self, Literal};
use super::static_table;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A field to encode. Names must be in lower case. Pseudo-headers must be first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OutField {
    /// The name in lower case, for example `:path` or `accept`.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A header block in three encodings. A connection chooses the encoding (see
/// [`Connection::send_head`](super::super::Connection::send_head)):
///
/// - `plain` refers only to the static table, so it is always valid.
/// - `first` also adds the fields to the peer's dynamic table. It is sent once on a connection.
/// - `later` refers to these fields, as browsers and gRPC clients do. It needs about one byte per field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub(in super::super) plain: Encoding,
    pub(in super::super) indexed: Option<Indexed>,
}

/// The encodings that use the dynamic table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Indexed {
    pub(in super::super) first: Encoding,
    pub(in super::super) later: Encoding,
    /// Identifies the entries that `first` adds. All blocks with the same set add the same entries in the
    /// same order.
    pub(in super::super) set: u64,
    /// Size of the entries, as RFC 7541, section 4.1, counts it.
    pub(in super::super) size: u32,
}

/// An encoded block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Encoding {
    pub(in super::super) bytes: Vec<u8>,
    /// End of the pseudo-headers. Fields that vary are inserted here.
    pub(in super::super) pseudo: usize,
}

impl Block {
    /// Encodes a block that never uses the dynamic table.
    pub fn plain(fields: &[OutField]) -> Self {
        let plain = encoded(fields, |output, field| {
            encoder::field(output, &field.name, &field.value, Literal::Plain);
        });
        Self { plain, indexed: None }
    }

    /// Encodes the blocks of all messages that can be sent on one connection. The fields that all messages
    /// have in common use the dynamic table. A connection uses the table for the blocks of one call only. It
    /// sends the blocks of other calls in the encoding `plain`.
    pub fn shared(messages: &[&[OutField]]) -> Vec<Self> {
        let common = common(messages);
        let size: usize = common.iter().map(|field| field.name.len() + field.value.len() + OVERHEAD).sum();
        let mut hasher = DefaultHasher::new();
        common.hash(&mut hasher);
        let set = hasher.finish();
        let blocks = messages.iter().map(|fields| {
            let mut block = Self::plain(fields);
            if !common.is_empty() {
                block.indexed = Some(Indexed {
                    first: first(fields, &common),
                    later: later(fields, &common),
                    set,
                    size: size as u32,
                });
            }
            block
        });
        blocks.collect()
    }

    /// The block that is valid on every connection at any time.
    pub fn bytes(&self) -> &[u8] {
        &self.plain.bytes
    }
}

fn encoded(fields: &[OutField], mut encode: impl FnMut(&mut Vec<u8>, &OutField)) -> Encoding {
    let mut encoding = Encoding::default();
    for field in fields {
        encode(&mut encoding.bytes, field);
        if field.name.starts_with(':') {
            encoding.pseudo = encoding.bytes.len();
        }
    }
    encoding
}

/// Encodes a block that adds the common fields to the table. These fields have the same order in all messages
/// (see [`common`]).
fn first(fields: &[OutField], common: &[OutField]) -> Encoding {
    encoded(fields, |output, field| {
        let literal = if common.contains(field) { Literal::Indexed } else { Literal::Plain };
        encoder::field(output, &field.name, &field.value, literal);
    })
}

fn later(fields: &[OutField], common: &[OutField]) -> Encoding {
    encoded(fields, |output, field| match common.iter().position(|other| other == field) {
        // The newest entry has the lowest index.
        Some(place) => {
            let index = static_table::ENTRIES.len() + common.len() - place;
            encoder::reference(output, index as u32);
        }
        None => encoder::field(output, &field.name, &field.value, Literal::Plain),
    })
}

/// The fields that all messages have exactly once and in the same order, except fields whose name and value
/// are in the static table.
fn common(messages: &[&[OutField]]) -> Vec<OutField> {
    let Some((front, others)) = messages.split_first() else { return Vec::new() };
    let mut common = Vec::new();
    // For each message: position after the last common field.
    let mut at = vec![0; messages.len()];
    for field in *front {
        if static_table::find(&field.name, &field.value).0.is_some() {
            continue;
        }
        let once = |fields: &&[OutField]| fields.iter().filter(|other| *other == field).count() == 1;
        let places: Option<Vec<usize>> = std::iter::once(front)
            .chain(others)
            .zip(&at)
            .map(|(fields, &at)| Some(at + fields[at..].iter().position(|other| other == field)? + 1))
            .collect();
        if let (true, Some(places)) = (messages.iter().all(once), places) {
            at = places;
            common.push(field.clone());
        }
    }
    common
}
