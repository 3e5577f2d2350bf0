//! Decodes message bodies. Requests and responses share this code.

use super::chunked::{Between, between};
use super::head::Rules;
use super::{Framing, Malformed};
use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    Length(u64),
    /// Inside a chunk. `left` is the number of bytes of the chunk that are still missing (more than zero).
    Chunk {
        left: u64,
        rules: Rules,
    },
    /// Between two chunks, or before the first chunk if `first` is true.
    BetweenChunks {
        first: bool,
        rules: Rules,
    },
    /// All further input belongs to the body, until the connection ends.
    UntilClose,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BodyStep {
    NeedMore,
    Data { consumed: usize, data: Range<usize> },
    End { consumed: usize },
}

impl Body {
    pub(super) fn new(framing: Framing, rules: Rules) -> Self {
        match framing {
            Framing::None => Body::Length(0),
            Framing::Length(length) => Body::Length(length),
            Framing::Chunked => Body::BetweenChunks { first: true, rules },
            Framing::UntilClose => Body::UntilClose,
        }
    }

    pub(super) fn advance(&mut self, input: &[u8]) -> Result<BodyStep, Malformed> {
        match *self {
            Body::Length(0) => Ok(BodyStep::End { consumed: 0 }),
            Body::BetweenChunks { first, rules } => match between(input, first, rules)? {
                Between::Partial => Ok(BodyStep::NeedMore),
                Between::End { skip } => Ok(BodyStep::End { consumed: skip }),
                Between::Data { skip, size } => {
                    *self = Body::Chunk { left: size, rules };
                    Ok(self.data(input, skip))
                }
            },
            _ if input.is_empty() => Ok(BodyStep::NeedMore),
            _ => Ok(self.data(input, 0)),
        }
    }

    /// Returns the body data at the start of `input` after `skip` bytes of framing, and updates the state.
    fn data(&mut self, input: &[u8], skip: usize) -> BodyStep {
        let here = (input.len() - skip) as u64;
        let taken = match self {
            Body::Length(left) | Body::Chunk { left, .. } => {
                let taken = here.min(*left);
                *left -= taken;
                taken
            }
            Body::UntilClose => here,
            Body::BetweenChunks { .. } => 0,
        };
        if let Body::Chunk { left: 0, rules } = *self {
            *self = Body::BetweenChunks { first: false, rules };
        }
        let end = skip + taken as usize;
        BodyStep::Data { consumed: end, data: skip..end }
    }

    pub(super) fn ends_with_connection(self) -> bool {
        matches!(self, Body::UntilClose | Body::Length(0))
    }
}
