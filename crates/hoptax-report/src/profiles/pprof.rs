//! Encodes a profile for pprof: <https://github.com/google/pprof/blob/main/proto/profile.proto>. The messages
//! need only two kinds of fields of the protocol buffers' wire format, so no library is needed.

use super::stacks::{nanoseconds, path};
use hoptax_analysis::profiles::CaseProfile;
use hoptax_record::profile::{Frame, PassKind};
use std::collections::BTreeMap;

/// Numbers of the fields of the message Profile.
const SAMPLE_TYPE: u64 = 1;
const SAMPLE: u64 = 2;
const MAPPING: u64 = 3;
const LOCATION: u64 = 4;
const FUNCTION: u64 = 5;
const STRING_TABLE: u64 = 6;

/// A message under construction.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A field with a number.
    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    /// A field with bytes: a text, a message, or packed numbers.
    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint((field << 3) | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn packed(&mut self, field: u64, values: impl IntoIterator<Item = u64>) {
        let mut inner = Self::default();
        values.into_iter().for_each(|value| inner.varint(value));
        self.bytes(field, &inner.0);
    }
}

/// The texts of a profile. The first one is empty, as the format demands.
#[derive(Debug)]
struct Strings(BTreeMap<String, u64>);

impl Strings {
    fn new() -> Self {
        Self([(String::new(), 0)].into())
    }

    fn number(&mut self, text: &str) -> u64 {
        let next = self.0.len() as u64;
        *self.0.entry(text.to_owned()).or_insert(next)
    }

    fn in_order(self) -> Vec<String> {
        let mut all: Vec<(String, u64)> = self.0.into_iter().collect();
        all.sort_by_key(|(_, number)| *number);
        all.into_iter().map(|(text, _)| text).collect()
    }
}

/// The profile as a message Profile. Each sample has one value: the own time of its innermost function in
/// nanoseconds per request.
pub(super) fn encode(profile: &CaseProfile) -> Vec<u8> {
    let mut strings = Strings::new();
    let mut message = Message::default();
    let mut value_type = Message::default();
    let what = match profile.kind {
        PassKind::Cpu => "cpu per request",
        PassKind::Waiting => "waiting per request",
    };
    value_type.number(1, strings.number(what));
    value_type.number(2, strings.number("nanoseconds"));
    message.bytes(SAMPLE_TYPE, &value_type.0);

    let mut locations: BTreeMap<&Frame, u64> = BTreeMap::new();
    for (index, node) in profile.tree.iter().enumerate().skip(1) {
        let ns = nanoseconds(node.own_us);
        if ns <= 0 {
            continue;
        }
        // pprof expects the innermost function first, and numbers locations from 1.
        let stack: Vec<u64> = path(&profile.tree, index)
            .into_iter()
            .rev()
            .map(|node| {
                let next = locations.len() as u64 + 1;
                *locations.entry(&node.frame).or_insert(next)
            })
            .collect();
        let mut sample = Message::default();
        sample.packed(1, stack);
        sample.packed(2, [ns.cast_unsigned()]);
        message.bytes(SAMPLE, &sample.0);
    }
    describe(&mut message, &mut strings, &locations);
    for text in strings.in_order() {
        message.bytes(STRING_TABLE, text.as_bytes());
    }
    message.0
}

/// Adds a mapping for each module, and a location and a function for each frame.
fn describe(message: &mut Message, strings: &mut Strings, locations: &BTreeMap<&Frame, u64>) {
    let mut mappings: BTreeMap<&str, u64> = BTreeMap::new();
    for (frame, id) in locations {
        let next = mappings.len() as u64 + 1;
        let mapping = *mappings.entry(&frame.module).or_insert(next);
        let mut line = Message::default();
        line.number(1, *id);
        let mut location = Message::default();
        location.number(1, *id);
        location.number(2, mapping);
        location.bytes(4, &line.0);
        message.bytes(LOCATION, &location.0);
        let name = strings.number(&frame.name);
        let mut function = Message::default();
        function.number(1, *id);
        function.number(2, name);
        function.number(3, name);
        message.bytes(FUNCTION, &function.0);
    }
    for (module, id) in mappings {
        let mut mapping = Message::default();
        mapping.number(1, id);
        mapping.number(5, strings.number(module));
        // The names of functions are complete, so pprof need not look for them.
        mapping.number(7, 1);
        message.bytes(MAPPING, &mapping.0);
    }
}
