//! What can be wrong with a template.

/// Something wrong with a template, or with what it would put in its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {help}")]
pub struct TemplateError {
    /// Where in the text, in bytes from its beginning; always on a character's boundary.
    pub at: usize,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    pub help: String,
}

impl TemplateError {
    pub(super) fn new(at: usize, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { at, message: message.into(), help: help.into() }
    }
}
