//! Checks of a text with templates, before anything is requested.

use super::error::TemplateError;
use super::files::Files;
use super::parse;
use super::place::{self, Place};
use std::collections::{BTreeMap, BTreeSet};

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
