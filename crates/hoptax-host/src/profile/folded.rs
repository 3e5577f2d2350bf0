//! Recorded stacks, and the slices of time that they belong to.

use hoptax_record::profile::Frame;
use serde::{Deserialize, Serialize};

/// A part of the measured time, on the clock of [`hoptax_format::clock::now`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Begin, ns.
    pub from_ns: u64,
    /// End, ns.
    pub to_ns: u64,
}

/// Stacks, added up by slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folded {
    /// The frames, by their index.
    pub frames: Vec<Frame>,
    /// The stacks, by their index, the outermost frame first.
    pub stacks: Vec<Vec<u32>>,
    /// For each slice, the index of each stack and its time in ns.
    pub slices: Vec<Vec<(u32, u64)>>,
    /// Number of samples.
    pub samples: u64,
    /// Number of records that the kernel dropped.
    pub lost: u64,
    /// Number of lines of perf that are in no known form.
    pub unreadable: u64,
}
