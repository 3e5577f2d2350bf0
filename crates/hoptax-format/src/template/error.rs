//! Errors in a template.

/// An error in a template, or in the text that it would insert.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {help}")]
pub struct TemplateError {
    /// Byte offset of the error in the text. It is always at a character boundary.
    pub at: usize,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub help: String,
}

impl TemplateError {
    pub(super) fn new(at: usize, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { at, message: message.into(), help: help.into() }
    }
}
