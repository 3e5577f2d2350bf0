//! Decoded header fields.

use std::ops::Range;

/// The fields of a header block, in order. All names and values are in one vector, so that a list that is
/// used again allocates nothing.
#[derive(Debug, Clone, Default)]
pub struct FieldList {
    /// Names and values, and possibly the name and a part of the value of a field that is not finished.
    pub(super) bytes: Vec<u8>,
    places: Vec<Place>,
    /// Start of the unfinished field, and of its value.
    start: usize,
    value: usize,
    /// Size of the fields, as RFC 9113, section 6.5.2, counts it.
    size: usize,
    /// Maximum size of the fields that are kept.
    most: usize,
}

/// What each field adds to the size beyond its name and value (RFC 9113, section 6.5.2).
const OVERHEAD: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    name: u32,
    value: u32,
    end: u32,
}

/// Two lists are equal if they have the same fields in the same order.
impl PartialEq for FieldList {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.places == other.places
    }
}

impl Eq for FieldList {}

impl FieldList {
    /// Creates an empty list that keeps fields with a total size of `most` bytes (RFC 9113, section 6.5.2).
    /// Further fields are decoded, because they can change the dynamic table, but they are not kept.
    pub fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Removes all fields.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
        (self.start, self.value, self.size) = (0, 0, 0);
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.places.len()).map(|place| self.at(place))
    }

    /// The value of the first field with this name, which must be in lower case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|field| field.0 == name.as_bytes()).map(|field| field.1)
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True if the list has no field.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// True if fields were left out because of the limit.
    pub fn is_too_long(&self) -> bool {
        self.size > self.most
    }

    pub(super) fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    pub(super) fn at(&self, place: usize) -> (&[u8], &[u8]) {
        let Place { name, value, end } = self.places[place];
        let part = |range: Range<u32>| &self.bytes[range.start as usize..range.end as usize];
        (part(name..value), part(value..end))
    }

    /// The bytes appended since the last field are a name. The value follows.
    pub(super) fn finish_name(&mut self) {
        self.value = self.bytes.len();
    }

    /// Name and value of the field that is not finished.
    pub(super) fn unfinished(&self) -> (&[u8], &[u8]) {
        self.bytes[self.start..].split_at(self.value - self.start)
    }

    /// The bytes appended since the name are the value.
    pub(super) fn finish_field(&mut self) {
        let end = self.bytes.len();
        self.size += end - self.start + OVERHEAD;
        if self.is_too_long() {
            self.bytes.truncate(self.start);
        } else {
            self.places.push(Place { name: self.start as u32, value: self.value as u32, end: end as u32 });
            self.start = end;
        }
    }
}
