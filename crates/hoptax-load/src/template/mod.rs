//! Templates: requests that differ from one another.
//!
//! | template | stands for |
//! | --- | --- |
//! | `{{seq}}` | the request's number: no two requests of a load have the same one |
//! | `{{uuid}}` | a random UUID (version 4, RFC 9562), another one at each place |
//! | `{{random LOW HIGH}}` | a random whole number, ends included, another one at each place |
//! | `{{line FILE}}` | a line of that file, the next one for each request, from the beginning again after the last |
//! | `{{base64 TEXT}}` | the text in base64 (RFC 4648 §4, with padding); templates may stand in it |
//! | `\{{` | `{{` itself; and within `base64`, `\}}` is `}}` itself |
//!
//! Numbers and lines hold for a whole request: `{{seq}}` in its path and `{{seq}}` in its body are the same, and so are
//! two times `{{line FILE}}` of the same file. Worker `w` of `n` takes the numbers, and the lines, `w`, `w + n`,
//! `w + 2n`, …, so that all workers together count without a gap and walk each file from its beginning. A request that
//! does not ask for a number or a line takes none. The warm-up takes numbers and lines too, so that nothing is sent twice.
//!
//! Blanks next to the braces, and at the ends of what `base64` encodes, have no meaning. Blank lines at the end of a file
//! are no lines.
//!
//! Whatever a template stands for cannot break out of its place: every line of a file is looked at beforehand, and the
//! other templates have no character that any place would not take.

mod expand;
mod parse;
mod place;
#[cfg(test)]
mod tests;

pub(crate) use expand::{Files, Program, Values};
pub use place::Place;

use std::collections::{BTreeMap, BTreeSet};

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
    fn new(at: usize, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { at, message: message.into(), help: help.into() }
    }
}

/// Checks that `text`, with templates, can stand in `place` whatever its templates stand for; `files` are the contents of
/// those that `{{line FILE}}` may name.
///
/// # Errors
/// At the first thing that is wrong: a template that is not closed, unknown or without what it needs; a file that is not
/// there or empty; a character that cannot stand in that place, in the text or in a line of a file.
pub fn check(text: &str, place: Place, files: &BTreeMap<String, String>) -> Result<(), TemplateError> {
    let pieces = parse::pieces(text)?;
    let mut names = BTreeSet::new();
    parse::collect_files(&pieces, &mut names);
    place::check(&pieces, place, &Files::new(files, &names))
}

/// The files that the templates of `text` take lines from, each once, in alphabetical order.
///
/// # Errors
/// If a template is not closed, unknown or without what it needs.
pub fn files_named(text: &str) -> Result<BTreeSet<String>, TemplateError> {
    let pieces = parse::pieces(text)?;
    let mut names = BTreeSet::new();
    parse::collect_files(&pieces, &mut names);
    Ok(names.into_iter().map(str::to_owned).collect())
}
