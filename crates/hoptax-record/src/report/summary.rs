//! Sentences about a gateway.

use serde::Serialize;

/// Sentences about one gateway.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Label of the gateway.
    pub gateway: String,
    /// A sentence about what the gateway adds.
    pub sentence: String,
    /// Further sentences.
    pub details: Vec<String>,
}

impl Summary {
    /// The sentence followed by the details.
    pub fn in_full(&self) -> String {
        let parts: Vec<&str> =
            std::iter::once(&self.sentence).chain(&self.details).map(String::as_str).collect();
        parts.join(" ")
    }
}
