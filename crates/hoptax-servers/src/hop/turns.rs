//! Round robin over upstreams, and the limit of buffered bytes. Both hops use them.

use hoptax_format::Address;

/// Maximum number of bytes that may wait for a slow reader. If more bytes wait, the hop pauses reading from
/// the sender.
pub(super) const HIGH_WATER: usize = 256 * 1024;

/// Round robin over the upstreams. Each worker starts at a different upstream, so that even a few requests
/// are spread over all of them.
#[derive(Debug)]
pub(super) struct Turns {
    upstreams: Vec<Address>,
    next: usize,
}

impl Turns {
    pub(super) fn new(upstreams: Vec<Address>, worker: usize) -> Self {
        Self { next: worker % upstreams.len(), upstreams }
    }

    pub(super) fn next(&mut self) -> usize {
        let index = self.next;
        self.next = (index + 1) % self.upstreams.len();
        index
    }

    pub(super) fn address(&self, index: usize) -> &Address {
        &self.upstreams[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_turns() {
        let upstreams: Vec<Address> =
            ["127.0.0.1:1", "unix:/run/app.sock"].map(|one| one.parse().expect("an address")).into();
        let mut turns = Turns::new(upstreams.clone(), 0);
        assert_eq!([turns.next(), turns.next(), turns.next()], [0, 1, 0]);
        assert_eq!(Turns::new(upstreams, 3).next(), 1);
    }
}
