//! What a worker's slots share while they read responses: heads seen before, and memory for pieces.

use hoptax_wire::http1::{HeadCache, ParsedResponse};

/// Most bytes kept for pieces, over all of a worker's slots.
const KEPT: usize = 1 << 20;

/// Shared by the slots of one worker, so that a slot between responses holds no memory of its own, and a response that comes
/// in pieces allocates none.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// One for each target: their heads differ, while those of one target mostly do not.
    pub(crate) heads: Vec<HeadCache<ParsedResponse>>,
    spare: Vec<Vec<u8>>,
    /// Capacity of the spare ones, together.
    kept: usize,
}

impl Scratch {
    /// For responses from so many targets.
    pub(crate) fn new(targets: usize) -> Self {
        Self { heads: vec![HeadCache::new(); targets], spare: Vec::new(), kept: 0 }
    }

    /// Empty, with whatever room an earlier one had.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let bytes = self.spare.pop().unwrap_or_default();
        self.kept -= bytes.capacity();
        bytes
    }

    /// Keeps the room of `bytes` for later, within bounds.
    pub(crate) fn give_back(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() > 0 && self.kept + bytes.capacity() <= KEPT {
            self.kept += bytes.capacity();
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_comes_back_empty() {
        let mut scratch = Scratch::new(1);
        let mut bytes = scratch.take();
        assert_eq!(bytes.capacity(), 0);
        bytes.extend_from_slice(b"a piece");
        let room = bytes.capacity();
        scratch.give_back(bytes);
        let bytes = scratch.take();
        assert_eq!((bytes.len(), bytes.capacity()), (0, room));
        assert_eq!(scratch.take().capacity(), 0);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut scratch = Scratch::new(1);
        for _ in 0..100 {
            scratch.give_back(Vec::with_capacity(KEPT / 10));
        }
        let kept = std::iter::from_fn(|| Some(scratch.take()).filter(|bytes| bytes.capacity() > 0)).count();
        assert_eq!(kept, 10);
        scratch.give_back(Vec::with_capacity(KEPT + 1));
        assert_eq!(scratch.take().capacity(), 0);
    }
}
