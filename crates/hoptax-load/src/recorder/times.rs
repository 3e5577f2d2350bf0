//! What is known of a request and of its response.

use crate::checks::Failed;

/// One request under way.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    /// When it was due.
    pub(crate) scheduled: u64,
    /// When its first byte was handed to the kernel; absent while it waits for its connection.
    pub(crate) sent: Option<u64>,
    /// When the first byte of its response was seen.
    pub(crate) first_byte: Option<u64>,
    /// Its length, bytes, head included; 0 while it waits for its connection.
    pub(crate) length: u64,
    /// Which target it goes to.
    pub(crate) target: u32,
}

impl Times {
    /// A request to `target` that is due at `scheduled`.
    pub(crate) fn new(scheduled: u64, target: u32) -> Self {
        Self { scheduled, target, ..Self::default() }
    }
}

/// A whole response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Response {
    /// Status code.
    pub(crate) status: u16,
    /// Bytes, heads included.
    pub(crate) bytes: u64,
    /// Bytes of its body.
    pub(crate) body: u64,
    /// The first check that it failed; absent: it is a success.
    pub(crate) failed: Option<Failed>,
}
