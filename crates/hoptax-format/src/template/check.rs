//! Validates texts with templates before anything is sent.

use super::error::TemplateError;
use super::files::{Files, lines};
use super::parse;
use super::place::{self, Place};
use crate::spec::TargetSpec;
use std::collections::{BTreeMap, BTreeSet};

/// Checks that `text` is valid in `place` for every value that its templates can have. `files` must hold the
/// contents of all files that `{{line FILE}}` names.
///
/// # Errors
/// The first error that was found. A template can be unclosed or unknown, or an argument can be missing. A
/// file can be missing or empty. The text, or a line of a file, can contain a character that is not allowed
/// in this place.
pub fn check(text: &str, place: Place, files: &BTreeMap<String, String>) -> Result<(), TemplateError> {
    let pieces = parse::pieces(text)?;
    let mut sources = BTreeSet::new();
    parse::collect_sources(&pieces, &mut sources);
    place::check(&pieces, place, &Files::new(files, &sources))
}

/// Returns the names of the files that the templates in `text` read, in alphabetical order and without
/// duplicates.
///
/// # Errors
/// If a template is not closed or is unknown, or if an argument is missing.
pub fn files_named(text: &str) -> Result<BTreeSet<String>, TemplateError> {
    let pieces = parse::pieces(text)?;
    let mut sources = BTreeSet::new();
    parse::collect_sources(&pieces, &mut sources);
    Ok(sources.into_iter().map(|(name, _)| name.to_owned()).collect())
}

/// Returns a note if a request of one of `targets` takes lines from files of different length. After the
/// shorter file has started again, its lines are combined with other lines of the longer file.
pub fn unequal_files(targets: &[TargetSpec], files: &BTreeMap<String, String>) -> Option<String> {
    targets.iter().find_map(|target| {
        let names: BTreeSet<&str> =
            target.templates().flat_map(parse::sources_in).map(|(name, _)| name).collect();
        let length = |name: &str| files.get(name).map(|content| lines(content).len());
        let lengths: Vec<(&str, usize)> =
            names.into_iter().filter_map(|name| Some((name, length(name)?))).collect();
        let (first, length) = *lengths.first()?;
        let (other, others) = *lengths.iter().find(|(_, others)| *others != length)?;
        Some(format!(
            "`{first}` has {length} lines and `{other}` has {others}, so the same lines do not stay \
             together. If lines belong together, use columns of one file: {{{{line FILE 1}}}} and {{{{line \
             FILE 2}}}}"
        ))
    })
}
