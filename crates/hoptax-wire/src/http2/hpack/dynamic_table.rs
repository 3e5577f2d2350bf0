//! The dynamic table of a decoder (RFC 7541, section 2.3.2).

use std::collections::VecDeque;

/// What each entry adds to the size of the table beyond its name and value (RFC 7541, section 4.1).
pub(super) const OVERHEAD: usize = 32;

/// Names and values of the entries are in one vector, the oldest first. Removed entries leave a gap at its
/// beginning. The gap is closed when it is longer than the table, so that each byte is moved at most once on
/// average, and inserts allocate nothing in steady state.
#[derive(Debug, Clone)]
pub(super) struct DynamicTable {
    bytes: Vec<u8>,
    /// The newest entry is last.
    entries: VecDeque<Entry>,
    /// The size as RFC 7541 counts it.
    size: usize,
    most: usize,
    fingerprint: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Position of the name in `bytes`. The value follows the name.
    start: u32,
    name: u32,
    value: u32,
}

impl Entry {
    fn size(self) -> usize {
        self.name as usize + self.value as usize + OVERHEAD
    }
}

impl DynamicTable {
    pub(super) fn new(most: usize) -> Self {
        Self {
            bytes: Vec::new(),
            entries: VecDeque::new(),
            size: 0,
            most,
            fingerprint: mixed(0, most as u64),
        }
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Changes whenever the table changes. Two tables with the same history have the same fingerprint.
    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Name and value of an entry. The newest entry has index 0.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let entry = *self.entries.get(self.entries.len().checked_sub(index + 1)?)?;
        let (start, name) = (entry.start as usize, entry.name as usize);
        let both = &self.bytes[start..start + name + entry.value as usize];
        Some(both.split_at(name))
    }

    /// Removes entries until the table has at most `most` bytes, which is also its limit from now on.
    pub(super) fn resize(&mut self, most: usize) {
        self.most = most;
        self.fingerprint = mixed(self.fingerprint, most as u64);
        self.evict(most);
    }

    /// Adds an entry. An entry that is larger than the table empties the table (RFC 7541, section 4.4).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        self.fingerprint = absorbed(absorbed(self.fingerprint, name), value);
        let size = name.len() + value.len() + OVERHEAD;
        self.evict(self.most.saturating_sub(size));
        if size > self.most {
            return;
        }
        self.close_gap();
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.entries.push_back(Entry { start, name: name.len() as u32, value: value.len() as u32 });
        self.size += size;
    }

    fn evict(&mut self, most: usize) {
        while self.size > most {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.size -= oldest.size();
        }
    }

    fn close_gap(&mut self) {
        let gap = self.entries.front().map_or(self.bytes.len(), |oldest| oldest.start as usize);
        if gap < self.most && !self.entries.is_empty() {
            return;
        }
        self.bytes.drain(..gap);
        self.entries.iter_mut().for_each(|entry| entry.start -= gap as u32);
    }
}

/// The fingerprint after `bytes` are added to it. The length is added too, so that `ab`, `c` and `a`, `bc`
/// give different fingerprints.
fn absorbed(fingerprint: u64, bytes: &[u8]) -> u64 {
    let mut state = mixed(fingerprint, bytes.len() as u64);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = mixed(state, u64::from_le_bytes(word));
    }
    state
}

/// A step of the fingerprint: the two halves of a product of 128 bits.
fn mixed(state: u64, word: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(state.rotate_left(29) ^ word ^ 0xa076_1d64_78bd_642f) * u128::from(ODD);
    (product as u64) ^ ((product >> 64) as u64) ^ state
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(table: &DynamicTable) -> Vec<String> {
        let all = (0..).map_while(|index| table.get(index));
        all.map(|(name, value)| String::from_utf8_lossy(&[name, value].join(&b'=')).into_owned()).collect()
    }

    #[test]
    fn the_newest_entry_is_first_and_the_oldest_is_removed() {
        let mut table = DynamicTable::new(3 * 34);
        for name in [b"a", b"b", b"c", b"d"] {
            table.insert(name, b"1");
        }
        assert_eq!(names(&table), ["d=1", "c=1", "b=1"]);
        table.insert(b"longer", b"");
        assert_eq!(names(&table), ["longer=", "d=1"]);
        table.resize(40);
        assert_eq!(names(&table), ["longer="]);
        table.resize(4096);
        table.insert(b"e", b"");
        assert_eq!(names(&table), ["e=", "longer="]);
        assert_eq!(table.size, 33 + 38);
    }

    #[test]
    fn an_entry_that_is_too_large_empties_the_table() {
        let mut table = DynamicTable::new(100);
        table.insert(b"a", b"1");
        table.insert(b"a", &[b'x'; 68]);
        assert!(names(&table).is_empty());
        assert_eq!(table.size, 0);
        table.insert(b"a", &[b'x'; 67]);
        assert_eq!(table.size, 100);
    }

    #[test]
    fn memory_is_bounded_and_soon_no_longer_grows() {
        let mut table = DynamicTable::new(4096);
        let mut capacity = 0;
        for round in 0..20_000u32 {
            table.insert(
                b"x-request-id",
                format!("{round:0width$}", width = 20 + round as usize % 40).as_bytes(),
            );
            if round == 1000 {
                capacity = table.bytes.capacity() + table.entries.capacity();
            }
        }
        assert_eq!(table.bytes.capacity() + table.entries.capacity(), capacity);
        assert!(table.bytes.capacity() <= 4 * 4096, "{} bytes", table.bytes.capacity());
    }

    #[test]
    fn the_fingerprint_depends_on_the_whole_history() {
        let history = |pairs: &[(&str, &str)]| {
            let mut table = DynamicTable::new(4096);
            pairs.iter().for_each(|(name, value)| table.insert(name.as_bytes(), value.as_bytes()));
            table.fingerprint()
        };
        let same = history(&[("a", "b"), ("c", "d")]);
        assert_eq!(history(&[("a", "b"), ("c", "d")]), same);
        for other in [
            &[("c", "d"), ("a", "b")][..],
            &[("a", "b")],
            &[("ab", ""), ("c", "d")],
            &[("", "ab"), ("c", "d")],
            &[("a", "b"), ("c", "d"), ("", "")],
            &[("a", "b\0"), ("c", "d")],
        ] {
            assert_ne!(history(other), same, "{other:?}");
        }
        assert_ne!(DynamicTable::new(4095).fingerprint(), DynamicTable::new(4096).fingerprint());
    }
}
