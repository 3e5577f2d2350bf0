//! The decoded and checked header blocks of messages, with a cache of the last block.

use super::hpack::Decoder;
use super::message::{self, Kind, Summary};
use super::{Fault, FieldList};

/// The last head and the last trailers that a connection has decoded. All connections of a thread can share
/// this memory. It is also a cache. A peer often sends the same block again, and the connection then only
/// compares the bytes. The cache never changes the results.
#[derive(Debug, Clone, Default)]
pub struct Sections {
    /// The last head of a request or response, interim responses included.
    pub head: Section,
    /// The last trailers.
    pub trailers: Section,
}

impl Sections {
    /// Creates empty sections.
    pub fn new() -> Self {
        Self::default()
    }
}

/// A decoded header block.
#[derive(Debug, Clone, Default)]
pub struct Section {
    list: FieldList,
    summary: Summary,
    cached: Option<Cached>,
    /// The bytes from which `list` was decoded, if it is cached.
    block: Vec<u8>,
}

/// The conditions under which the contents of a section are valid for another block with the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cached {
    kind: Kind,
    limit: usize,
    /// Fingerprint of the dynamic table to which the block refers. `None` if it refers to no table.
    table: Option<u64>,
}

/// Maximum length of a cached block, in bytes. Longer blocks are rare and expensive to copy.
const REMEMBERED: usize = 2048;

impl Section {
    /// The fields, in order.
    pub fn fields(&self) -> &FieldList {
        &self.list
    }

    /// The status of a response.
    pub fn status(&self) -> u16 {
        self.summary.status
    }

    /// The content-length.
    pub fn content_length(&self) -> Option<u64> {
        self.summary.content_length
    }

    /// The method of a request.
    pub fn method(&self) -> &[u8] {
        self.value(self.summary.method).unwrap_or_default()
    }

    /// The path of a request with its query; absent in a CONNECT request.
    pub fn path(&self) -> Option<&[u8]> {
        self.value(self.summary.path)
    }

    /// The scheme of a request; absent in a CONNECT request.
    pub fn scheme(&self) -> Option<&[u8]> {
        self.value(self.summary.scheme)
    }

    /// The authority of a request: host and port.
    pub fn authority(&self) -> Option<&[u8]> {
        self.value(self.summary.authority)
    }

    /// The protocol of an extended CONNECT request (RFC 8441).
    pub fn protocol(&self) -> Option<&[u8]> {
        self.value(self.summary.protocol)
    }

    fn value(&self, place: Option<u16>) -> Option<&[u8]> {
        place.map(|place| self.list.at(place as usize).1)
    }

    /// Decodes a whole block. `limit` is the maximum size of the fields. The outer error ends the connection,
    /// and the inner error only the stream.
    pub(super) fn decode(
        &mut self,
        decoder: &mut Decoder,
        kind: Kind,
        limit: usize,
        block: &[u8],
    ) -> Result<Result<(), Fault>, Fault> {
        if let Some(cached) = self.cached
            && cached.kind == kind
            && cached.limit == limit
            && self.block == block
            && cached.table.is_none_or(|table| table == decoder.fingerprint())
            && decoder.is_settled()
        {
            return Ok(Ok(()));
        }
        self.cached = None;
        self.list.clear();
        self.list.set_most(limit);
        self.summary = Summary::default();
        let effect = decoder.decode_with_effect(block, &mut self.list)?;
        self.summary = match message::summarize(kind, &self.list) {
            Ok(summary) => summary,
            Err(fault) => return Ok(Err(fault)),
        };
        if !effect.changes && block.len() <= REMEMBERED {
            self.block.clear();
            self.block.extend_from_slice(block);
            let table = effect.reads.then(|| decoder.fingerprint());
            self.cached = Some(Cached { kind, limit, table });
        }
        Ok(Ok(()))
    }
}
