//! What a worker's slots share while they read responses: heads seen before, and memory for pieces.

use crate::spares::Spares;
use crate::stamp::Place;
use hoptax_wire::http1::{HeadCache, ParsedResponse};

/// Most bytes kept for pieces, over all of a worker's slots.
const KEPT: usize = 1 << 20;

/// Shared by the slots of one worker, so that a slot between responses holds no memory of its own, and a response that comes
/// in pieces allocates none.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// One for each target: their heads differ, while those of one target mostly do not.
    pub(crate) heads: Vec<HeadCache<ParsedResponse>>,
    pub(crate) pieces: Spares,
    /// Where each target's heads have the upstream's stamps; empty where none are looked for.
    pub(crate) stamps: Vec<Place>,
}

impl Scratch {
    /// For responses from so many targets, which may carry the upstream's stamps.
    pub(crate) fn new(targets: usize, stamps: bool) -> Self {
        let stamps = vec![Place::default(); if stamps { targets } else { 0 }];
        Self { heads: vec![HeadCache::new(); targets], pieces: Spares::new(KEPT), stamps }
    }
}
