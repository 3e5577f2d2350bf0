//! A pool of reusable buffers, with a limit on its bytes.

/// Unused buffers. The buffer that was returned last is reused first.
#[derive(Debug)]
pub(crate) struct Spares {
    buffers: Vec<Vec<u8>>,
    /// Total capacity of the unused buffers, bytes.
    kept: usize,
    most: usize,
}

impl Spares {
    pub(crate) fn new(most: usize) -> Self {
        Self { buffers: Vec::new(), kept: 0, most }
    }

    /// Returns an empty buffer. If the pool has an unused buffer, this one is returned, with its capacity.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let bytes = self.buffers.pop().unwrap_or_default();
        self.kept -= bytes.capacity();
        bytes
    }

    pub(crate) fn give_back(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() > 0 && bytes.capacity() <= self.most - self.kept {
            self.kept += bytes.capacity();
            bytes.clear();
            self.buffers.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_returned_empty() {
        let mut spares = Spares::new(1000);
        let mut bytes = spares.take();
        assert_eq!(bytes.capacity(), 0);
        bytes.extend_from_slice(b"a piece");
        let room = bytes.capacity();
        spares.give_back(bytes);
        let bytes = spares.take();
        assert_eq!((bytes.len(), bytes.capacity()), (0, room));
        assert_eq!(spares.take().capacity(), 0);
    }

    #[test]
    fn the_pool_is_bounded() {
        let mut spares = Spares::new(1000);
        for _ in 0..100 {
            spares.give_back(Vec::with_capacity(100));
        }
        let kept = std::iter::from_fn(|| Some(spares.take()).filter(|bytes| bytes.capacity() > 0)).count();
        assert_eq!(kept, 10);
        spares.give_back(Vec::with_capacity(1001));
        assert_eq!(spares.take().capacity(), 0);
    }
}
