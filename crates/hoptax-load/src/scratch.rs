//! Memory and caches that all connections of a worker share while they read responses.

use crate::spares::Spares;
use crate::stamped::Place;
use crate::stream_head::StreamHead;
use hoptax_wire::http1::{HeadCache, ParsedResponse};
use hoptax_wire::http2::Sections;

/// Maximum number of bytes of memory that a worker keeps for incomplete input, for all its connections
/// together.
const KEPT: usize = 1 << 20;

/// Memory that all connections of one worker share. An idle connection therefore needs no memory for reading,
/// and a response that arrives in pieces allocates nothing.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// One cache per target. Different targets have different heads, but the responses of one target mostly
    /// have the same head.
    pub(crate) heads: Vec<HeadCache<ParsedResponse>>,
    /// The last head and trailers of HTTP/2. They are a cache too.
    pub(crate) sections: Sections,
    pub(crate) pieces: Spares,
    /// For each target, the place of the upstream's timestamps in the heads of its responses. Empty if
    /// timestamps are not read.
    pub(crate) stamps: Vec<Place>,
    /// HTTP/1: the bytes of a message stream that the current read has brought. Empty between two reads.
    pub(crate) messages: Vec<u8>,
    /// HTTP/1: the head of a response with a stream, if the current read completed it. Absent between two
    /// reads.
    pub(crate) stream_head: Option<StreamHead>,
    /// HTTP/1: the frames that the current read brought after the head that switches to WebSocket. Empty
    /// between two reads.
    pub(crate) frames: Vec<u8>,
    /// Where the first redirect pointed to.
    pub(crate) redirected_to: Option<String>,
}

impl Scratch {
    /// Creates the memory for `targets` targets. `stamps` is true if responses carry the upstream's
    /// timestamps.
    pub(crate) fn new(targets: usize, stamps: bool) -> Self {
        let stamps = vec![Place::default(); if stamps { targets } else { 0 }];
        Self {
            heads: vec![HeadCache::new(); targets],
            sections: Sections::new(),
            pieces: Spares::new(KEPT),
            stamps,
            messages: Vec::new(),
            stream_head: None,
            frames: Vec::new(),
            redirected_to: None,
        }
    }
}
