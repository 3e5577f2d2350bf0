//! Decodes header blocks.

use super::super::settings::DEFAULT_TABLE;
use super::super::{Fault, FieldList};
use super::dynamic_table::DynamicTable;
use super::{huffman, integer, static_table};

/// Decodes the header blocks of one connection, in the order in which they arrive.
#[derive(Debug, Clone)]
pub struct Decoder {
    table: DynamicTable,
    /// The largest size of the dynamic table that the peer may set.
    limit: u32,
}

/// How a block uses the dynamic table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct Effect {
    /// The block refers to an entry of the table.
    pub(in super::super) reads: bool,
    /// The block adds entries or changes the size.
    pub(in super::super) changes: bool,
}

/// How a literal field affects the dynamic table (RFC 7541, section 6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Yes,
    No,
}

impl Decoder {
    /// Creates a decoder whose dynamic table can have up to `limit` bytes. The peer begins with a table of
    /// 4,096 bytes (RFC 9113, section 6.5.2), so with a lower limit its first block must set the size.
    pub fn new(limit: u32) -> Self {
        Self { table: DynamicTable::new(DEFAULT_TABLE as usize), limit }
    }

    /// Changes the largest size of the dynamic table. The peer must acknowledge a lower limit first, and then
    /// set the size in its next block (RFC 7541, section 4.2).
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Decodes a whole block, and appends its fields to `list`.
    ///
    /// # Errors
    /// If the block is malformed. No later block can be decoded then.
    pub fn decode(&mut self, block: &[u8], list: &mut FieldList) -> Result<(), Fault> {
        self.decode_with_effect(block, list).map(|_| ())
    }

    pub(in super::super) fn fingerprint(&self) -> u64 {
        self.table.fingerprint()
    }

    /// False if the next block must begin with a change of the table's size.
    pub(in super::super) fn is_settled(&self) -> bool {
        self.table.most() <= self.limit as usize
    }

    pub(in super::super) fn decode_with_effect(
        &mut self,
        block: &[u8],
        list: &mut FieldList,
    ) -> Result<Effect, Fault> {
        let mut effect = Effect::default();
        let mut input = self.sizes(block, &mut effect)?;
        while let Some(&first) = input.first() {
            input = match first {
                0x80.. => {
                    let (index, rest) = integer::read(input, 7)?;
                    self.copy_name(index, list, &mut effect)?;
                    self.copy_value(index, list)?;
                    rest
                }
                0x40.. => {
                    effect.changes = true;
                    self.literal(input, 6, Kept::Yes, list, &mut effect)?
                }
                0x20.. => return Err(Fault::TableSizeLate),
                _ => self.literal(input, 4, Kept::No, list, &mut effect)?,
            };
            list.finish_field();
        }
        Ok(effect)
    }

    /// Reads the changes of the table's size at the start of a block. Returns the rest of the block.
    fn sizes<'b>(&mut self, block: &'b [u8], effect: &mut Effect) -> Result<&'b [u8], Fault> {
        let mut input = block;
        while let Some(0x20..=0x3f) = input.first() {
            let (size, rest) = integer::read(input, 5)?;
            if size > self.limit {
                return Err(Fault::TableSize);
            }
            effect.changes = true;
            self.table.resize(size as usize);
            input = rest;
        }
        if !self.is_settled() {
            return Err(Fault::TableSizeMissing);
        }
        Ok(input)
    }

    fn literal<'b>(
        &mut self,
        input: &'b [u8],
        bits: u32,
        kept: Kept,
        list: &mut FieldList,
        effect: &mut Effect,
    ) -> Result<&'b [u8], Fault> {
        let (index, mut rest) = integer::read(input, bits)?;
        if index == 0 {
            rest = string(rest, &mut list.bytes)?;
            list.finish_name();
        } else {
            self.copy_name(index, list, effect)?;
        }
        rest = string(rest, &mut list.bytes)?;
        if kept == Kept::Yes {
            let (name, value) = list.unfinished();
            self.table.insert(name, value);
        }
        Ok(rest)
    }

    fn copy_name(&self, index: u32, list: &mut FieldList, effect: &mut Effect) -> Result<(), Fault> {
        effect.reads |= index as usize > static_table::ENTRIES.len();
        let (name, _) = self.entry(index)?;
        list.bytes.extend_from_slice(name);
        list.finish_name();
        Ok(())
    }

    fn copy_value(&self, index: u32, list: &mut FieldList) -> Result<(), Fault> {
        let (_, value) = self.entry(index)?;
        list.bytes.extend_from_slice(value);
        Ok(())
    }

    fn entry(&self, index: u32) -> Result<(&[u8], &[u8]), Fault> {
        let place = (index as usize).checked_sub(1).ok_or(Fault::Index)?;
        match static_table::ENTRIES.get(place) {
            Some((name, value)) => Ok((name.as_bytes(), value.as_bytes())),
            None => self.table.get(place - static_table::ENTRIES.len()).ok_or(Fault::Index),
        }
    }
}

/// Reads a string and appends it to `output`. Returns the rest of the input.
fn string<'b>(input: &'b [u8], output: &mut Vec<u8>) -> Result<&'b [u8], Fault> {
    let is_huffman = input.first().is_some_and(|first| *first >= 0x80);
    let (length, rest) = integer::read(input, 7)?;
    let Some((text, rest)) = rest.split_at_checked(length as usize) else {
        return Err(Fault::StringTruncated);
    };
    if is_huffman {
        huffman::decode(text, output)?;
    } else {
        output.extend_from_slice(text);
    }
    Ok(rest)
}
