//! The open streams of a connection.
//!
//! ```text
//!                        we end          peer ends
//!          opened   ┌─► receiving only ─┐
//!   idle ─────────► both                ├─► closed: not in the table
//!                   └─► sending only ───┘
//!                        peer ends       we end
//! ```
//!
//! A reset by either side closes a stream at once. There are no reserved streams, because we refuse server
//! push (RFC 9113, section 5.1).

use super::settings::DEFAULT_WINDOW;

/// An open stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    pub(super) id: u32,
    /// A number that the caller chose.
    pub(super) tag: u32,
    /// Number of bytes that we may send. It is negative after the peer has reduced its initial window.
    pub(super) send_window: i64,
    /// Number of bytes that the peer may send.
    pub(super) receive_window: i64,
    /// Number of received bytes that no WINDOW_UPDATE has given back yet.
    pub(super) to_release: u32,
    /// True if no WINDOW_UPDATE gives them back for now.
    pub(super) is_held: bool,
    /// Number of bytes of the body that are still expected. `None` if the length is unknown.
    pub(super) expected: Option<u64>,
    pub(super) sending: bool,
    pub(super) receiving: bool,
    /// False until the peer's final head has arrived.
    pub(super) has_head: bool,
    /// True if the request's method is HEAD.
    pub(super) is_head_request: bool,
    /// True if data waits for a window.
    pub(super) blocked: bool,
}

impl Stream {
    pub(super) fn new(id: u32) -> Self {
        Self {
            id,
            tag: 0,
            send_window: i64::from(DEFAULT_WINDOW),
            receive_window: i64::from(DEFAULT_WINDOW),
            to_release: 0,
            is_held: false,
            expected: None,
            sending: true,
            receiving: true,
            has_head: false,
            is_head_request: false,
            blocked: false,
        }
    }

    const FREE: u32 = 0;

    fn is_free(&self) -> bool {
        self.id == Self::FREE
    }
}

/// A hash table with open addressing. Streams have consecutive numbers, so the number itself is a perfect
/// hash as long as streams end roughly in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Streams {
    /// A power of two, or empty. At most half of the places are used.
    places: Vec<Stream>,
    used: usize,
    /// Position at which the last search ended. Each search begins there, so that every stream gets its turn.
    cursor: usize,
}

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.used
    }

    fn home(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.places.len() - 1)
    }

    /// Position of the stream, or of the free place for it. The table must not be empty.
    #[inline]
    fn find(&self, id: u32) -> usize {
        let mut at = self.home(id);
        while self.places[at].id != id && !self.places[at].is_free() {
            at = (at + 1) & (self.places.len() - 1);
        }
        at
    }

    #[inline]
    pub(super) fn get(&mut self, id: u32) -> Option<&mut Stream> {
        if self.used == 0 {
            return None;
        }
        let at = self.find(id);
        Some(&mut self.places[at]).filter(|stream| !stream.is_free())
    }

    /// Adds a stream whose number is not in the table.
    pub(super) fn insert(&mut self, stream: Stream) -> &mut Stream {
        if self.places.len() < 2 * (self.used + 1) {
            self.grow();
        }
        let at = self.find(stream.id);
        self.used += 1;
        self.places[at] = stream;
        &mut self.places[at]
    }

    fn grow(&mut self) {
        let length = (2 * self.places.len()).max(8);
        let old = std::mem::replace(&mut self.places, vec![Stream::new(Stream::FREE); length]);
        for stream in old.into_iter().filter(|stream| !stream.is_free()) {
            let at = self.find(stream.id);
            self.places[at] = stream;
        }
    }

    /// Removes a stream. Moves later streams into the gap if they would no longer be found.
    pub(super) fn remove(&mut self, id: u32) {
        if self.get(id).is_none() {
            return;
        }
        let mask = self.places.len() - 1;
        let mut gap = self.find(id);
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            if self.places[at].is_free() {
                break;
            }
            let distance = at.wrapping_sub(self.home(self.places[at].id)) & mask;
            if distance >= at.wrapping_sub(gap) & mask {
                self.places[gap] = self.places[at];
                gap = at;
            }
        }
        self.places[gap].id = Stream::FREE;
        self.used -= 1;
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.places.iter_mut().filter(|stream| !stream.is_free())
    }

    /// The next stream for which `matches` returns true. Successive calls go round all streams.
    pub(super) fn next(&mut self, matches: impl Fn(&Stream) -> bool) -> Option<&mut Stream> {
        let length = self.places.len();
        let mut places = (self.cursor..self.cursor + length).map(|at| at & (length - 1));
        let at = places.find(|&at| !self.places[at].is_free() && matches(&self.places[at]))?;
        self.cursor = at + 1;
        Some(&mut self.places[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A small generator of pseudo-random numbers (xorshift).
    fn random(state: &mut u64) -> usize {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 16) as usize
    }

    #[test]
    fn it_holds_what_a_map_holds() {
        let (mut streams, mut map, mut state, mut next) = (Streams::default(), BTreeMap::new(), 7, 1u32);
        for _ in 0..if cfg!(miri) { 300 } else { 50_000 } {
            if map.len() < 60 && random(&mut state).is_multiple_of(2) {
                next += 2 * (1 + (random(&mut state) % 40 / 39 * 30) as u32);
                streams.insert(Stream { tag: next * 3, ..Stream::new(next) });
                map.insert(next, next * 3);
            } else if let Some(id) = map.keys().nth(random(&mut state) % map.len().max(1)).copied() {
                streams.remove(id);
                map.remove(&id);
                streams.remove(id);
            }
            assert_eq!(streams.len(), map.len());
            for (id, tag) in &map {
                assert_eq!(streams.get(*id).map(|stream| stream.tag), Some(*tag));
            }
            let absent = next + 2;
            assert!(streams.get(absent).is_none());
            assert_eq!(streams.iter_mut().count(), map.len());
        }
        assert!(streams.places.len() <= 256);
    }

    #[test]
    fn searches_go_round() {
        let mut streams = Streams::default();
        assert!(streams.next(|_| true).is_none());
        for id in [1, 3, 5, 7] {
            streams.insert(Stream::new(id));
        }
        let mut seen = Vec::new();
        for _ in 0..6 {
            seen.push(streams.next(|stream| stream.id != 3).map(|stream| stream.id));
        }
        assert_eq!(seen, [1, 5, 7, 1, 5, 7].map(Some));
    }
}
