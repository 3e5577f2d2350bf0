//! Memory and caches that a worker's slots share while they read responses.

use crate::spares::Spares;
use crate::stamp::Place;
use hoptax_wire::http1::{HeadCache, ParsedResponse};

/// Most bytes of memory kept for incomplete input, over all of a worker's slots.
const KEPT: usize = 1 << 20;

/// Shared by the slots of one worker. An idle slot therefore holds no memory of its own, and a response in pieces
/// allocates none.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// One cache per target, because heads differ between targets but rarely within one.
    pub(crate) heads: Vec<HeadCache<ParsedResponse>>,
    pub(crate) pieces: Spares,
    /// Per target, where its heads contain the upstream's timestamps; empty if these are not read.
    pub(crate) stamps: Vec<Place>,
}

impl Scratch {
    /// For this many targets. `stamps`: their responses carry the upstream's timestamps.
    pub(crate) fn new(targets: usize, stamps: bool) -> Self {
        let stamps = vec![Place::default(); if stamps { targets } else { 0 }];
        Self { heads: vec![HeadCache::new(); targets], pieces: Spares::new(KEPT), stamps }
    }
}
