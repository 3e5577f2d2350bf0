//! What is said of one gateway.

use serde::Serialize;

/// Sentences about one gateway.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Label.
    pub gateway: String,
    /// What it adds, in words.
    pub sentence: String,
    /// Everything else there is to say, each a sentence.
    pub details: Vec<String>,
}

impl Summary {
    /// The sentence and the details behind it.
    pub fn in_full(&self) -> String {
        let parts: Vec<&str> =
            std::iter::once(&self.sentence).chain(&self.details).map(String::as_str).collect();
        parts.join(" ")
    }
}
