//! Errors in a target. Each error says in which part of the target it is.

use hoptax_format::spec::TargetSpec;
use hoptax_format::template::TemplateError;
use std::fmt;

/// Advice for error messages: the characters that are allowed in a method or in the name of a header.
pub(super) const TOKEN: &str = "use letters, digits and !#$%&'*+-.^_`|~";

/// Reason why a target cannot be requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("target {target:?}, {part}: {message}; {help}")]
pub struct TargetError {
    /// Name of the target.
    pub target: String,
    /// The part of the target that has the error.
    pub part: TargetPart,
    /// Byte offset in the text of this part. Absent if the error is about the whole part.
    pub at: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub help: String,
}

/// A part of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetPart {
    /// Name of the target.
    Name,
    /// Weight of the target.
    Weight,
    /// HTTP method.
    Method,
    /// Path.
    Path,
    /// A header, with its index from 0 and its name.
    Header(usize, String),
    /// Body.
    Body,
    /// A check, with its index from 0.
    Check(usize),
}

impl fmt::Display for TargetPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetPart::Name => f.write_str("name"),
            TargetPart::Weight => f.write_str("weight"),
            TargetPart::Method => f.write_str("method"),
            TargetPart::Path => f.write_str("path"),
            TargetPart::Header(_, name) => write!(f, "header {name:?}"),
            TargetPart::Body => f.write_str("body"),
            TargetPart::Check(index) => write!(f, "check {}", index + 1),
        }
    }
}

impl TargetError {
    pub(super) fn new(
        target: &TargetSpec,
        part: TargetPart,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self { target: target.name.clone(), part, at: None, message: message.into(), help: help.into() }
    }

    pub(super) fn template(target: &TargetSpec, part: TargetPart, error: TemplateError) -> Self {
        let TemplateError { at, message, help } = error;
        Self { at: Some(at), ..Self::new(target, part, message, help) }
    }
}
