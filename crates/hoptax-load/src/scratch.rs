//! Memory and caches that a worker's slots share while they read responses.

use crate::spares::Spares;
use crate::stamp::Place;
use hoptax_wire::http1::{HeadCache, ParsedResponse};

/// Maximum number of bytes of memory kept for incomplete input, for all slots of a worker together.
const KEPT: usize = 1 << 20;

/// Memory shared by the slots of one worker. Because of it, an idle slot holds no memory of its own, and a response
/// that arrives in pieces allocates none.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// One cache per target, because different targets have different heads, but one target mostly repeats the same
    /// head.
    pub(crate) heads: Vec<HeadCache<ParsedResponse>>,
    pub(crate) pieces: Spares,
    /// For each target, the place of the upstream's timestamps in its heads. Empty if timestamps are not read.
    pub(crate) stamps: Vec<Place>,
}

impl Scratch {
    /// Creates the memory for this many targets. `stamps` is true if responses carry the upstream's timestamps.
    pub(crate) fn new(targets: usize, stamps: bool) -> Self {
        let stamps = vec![Place::default(); if stamps { targets } else { 0 }];
        Self { heads: vec![HeadCache::new(); targets], pieces: Spares::new(KEPT), stamps }
    }
}
