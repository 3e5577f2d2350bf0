//! Validation of texts with templates, before anything is sent.

use super::error::TemplateError;
use super::files::Files;
use super::parse;
use super::place::{self, Place};
use std::collections::{BTreeMap, BTreeSet};

/// Checks that `text` is valid in `place` for every value that its templates can have. `files` holds the contents of
/// the files that `{{line FILE}}` may name.
///
/// # Errors
/// The first error: a template that is not closed, is unknown or lacks an argument; a file that is missing or empty;
/// or a character that is not allowed in this place, in the text or in a line of a file.
pub fn check(text: &str, place: Place, files: &BTreeMap<String, String>) -> Result<(), TemplateError> {
    let pieces = parse::pieces(text)?;
    let mut names = BTreeSet::new();
    parse::collect_files(&pieces, &mut names);
    place::check(&pieces, place, &Files::new(files, &names))
}

/// Names of the files that the templates in `text` read, without duplicates, in alphabetical order.
///
/// # Errors
/// If a template is not closed, is unknown or lacks an argument.
pub fn files_named(text: &str) -> Result<BTreeSet<String>, TemplateError> {
    let pieces = parse::pieces(text)?;
    let mut names = BTreeSet::new();
    parse::collect_files(&pieces, &mut names);
    Ok(names.into_iter().map(str::to_owned).collect())
}
