//! Validates texts with templates before anything is sent.

use super::error::TemplateError;
use super::files::Files;
use super::parse;
use super::place::{self, Place};
use std::collections::{BTreeMap, BTreeSet};

/// Checks that `text` is valid in `place` for every value that its templates can have. `files` must hold the contents
/// of all files that `{{line FILE}}` names.
///
/// # Errors
/// The first error that was found. A template can be unclosed or unknown, or an argument can be missing. A file can be
/// missing or empty. The text, or a line of a file, can contain a character that is not allowed in this place.
pub fn check(text: &str, place: Place, files: &BTreeMap<String, String>) -> Result<(), TemplateError> {
    let pieces = parse::pieces(text)?;
    let mut names = BTreeSet::new();
    parse::collect_files(&pieces, &mut names);
    place::check(&pieces, place, &Files::new(files, &names))
}

/// Returns the names of the files that the templates in `text` read, in alphabetical order and without duplicates.
///
/// # Errors
/// If a template is not closed or is unknown, or if an argument is missing.
pub fn files_named(text: &str) -> Result<BTreeSet<String>, TemplateError> {
    let pieces = parse::pieces(text)?;
    let mut names = BTreeSet::new();
    parse::collect_files(&pieces, &mut names);
    Ok(names.into_iter().map(str::to_owned).collect())
}
