//! The response that the small HTTP client returns.

use std::collections::BTreeMap;

/// A response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Status.
    pub status: u16,
    /// Header values by lower-case name. Several values of one name are joined with `, `.
    pub headers: BTreeMap<String, String>,
    /// Body, without chunk framing.
    pub body: Vec<u8>,
}
