//! Places in the user's input, and errors that show such a place.

use serde::Deserialize;
use std::fmt;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) struct Place {
    /// The part of the input: 0 for the plan's text, `n` for the n-th `--set` argument.
    pub(crate) source: u32,
    /// Line, counted from 1.
    pub(crate) line: u32,
    /// Column in characters, counted from 1.
    pub(crate) column: u32,
    /// Length in characters.
    pub(crate) length: u32,
}

/// An error that is not rendered yet. Serde creates some errors without a place. Such an error gets the place
/// of the innermost node that contains the wrong value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) place: Option<Place>,
    pub(crate) message: String,
    pub(crate) help: String,
}

impl Fault {
    pub(crate) fn new(place: Place, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { place: Some(place), message: message.into(), help: help.into() }
    }

    /// Creates an error without a place. The caller adds the place with [`Fault::at`].
    pub(crate) fn placeless(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { place: None, message: message.into(), help: help.into() }
    }

    pub(crate) fn at(mut self, place: Place) -> Self {
        self.place.get_or_insert(place);
        self
    }
}

/// The user's input: the plan's text, and the `--set` arguments that override parts of it.
pub(crate) struct Sources<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    pub(crate) sets: &'a [String],
}

impl Sources<'_> {
    pub(crate) fn errors(&self, mut faults: Vec<Fault>) -> PlanErrors {
        faults.sort_by_key(|fault| fault.place);
        faults.dedup();
        PlanErrors(faults.into_iter().map(|fault| self.error(fault)).collect())
    }

    fn error(&self, fault: Fault) -> PlanError {
        let place = fault.place.unwrap_or_default();
        let (file, text) = match place.source.checked_sub(1) {
            None => (self.file.to_owned(), self.text),
            Some(index) => {
                let set = self.sets.get(index as usize).map_or("", String::as_str);
                (format!("--set {set}"), set)
            }
        };
        // If something is missing at the end of the text, the parser reports the line after the last line.
        // The error is shown at the end of the last line instead, because there is no line after it.
        let last = lines(text).count().max(1) as u32;
        let excerpt = lines(text).nth(place.line.clamp(1, last) as usize - 1).unwrap_or_default();
        let end = excerpt.chars().count() as u32 + 1;
        let column = if place.line > last { end } else { place.column.clamp(1, end) };
        let line = if place.source == 0 { place.line.clamp(1, last) } else { 0 };
        // The parser counts spaces after a quoted value as part of the value. These spaces are left out here.
        let typed: String = excerpt.chars().skip(column as usize - 1).take(place.length as usize).collect();
        PlanError {
            file,
            line,
            column,
            span: (typed.trim_end().chars().count() as u32).max(1),
            // A tab counts as one column but is wider on the screen. Replace it with a space, so that the
            // caret is below the right character.
            excerpt: excerpt.replace('\t', " ").trim_end().to_owned(),
            message: fault.message,
            help: fault.help,
        }
    }
}

/// Splits a text into lines as YAML does. A carriage return without a line feed also ends a line (YAML 1.2,
/// section 5.4).
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = (!text.is_empty()).then_some(text);
    std::iter::from_fn(move || {
        let all = rest?;
        let Some(end) = all.find(['\r', '\n']) else {
            rest = None;
            return Some(all);
        };
        let behind = if all[end..].starts_with("\r\n") { end + 2 } else { end + 1 };
        rest = Some(&all[behind..]).filter(|rest| !rest.is_empty());
        Some(&all[..end])
    })
}

/// One error in a plan or a pack: its place, what is wrong, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PlanError {
    /// The file name as the user gave it, or the whole `--set` argument.
    pub file: String,
    /// Line, counted from 1. For a `--set` argument, the line is 0.
    pub line: u32,
    /// Column in characters, counted from 1.
    pub column: u32,
    /// Length of the wrong part, in characters.
    pub span: u32,
    /// The line that contains the error.
    pub excerpt: String,
    /// What is wrong.
    pub message: String,
    /// How to fix it. Can be empty.
    pub help: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, span, excerpt, message, help } = self;
        let number = if *line == 0 { String::new() } else { line.to_string() };
        if number.is_empty() {
            write!(f, "{file}: {message}")?;
        } else {
            write!(f, "{file}:{line}:{column}: {message}")?;
        }
        let margin = " ".repeat(number.len());
        let (before, carets) = (" ".repeat(*column as usize - 1), "^".repeat(*span as usize));
        write!(f, "\n{margin} |\n{number} | {excerpt}\n{margin} | {before}{carets}")?;
        if help.is_empty() { Ok(()) } else { write!(f, "\n{margin} = help: {help}") }
    }
}

/// All errors that were found, in the order of their places. There is at least one error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PlanErrors(pub Vec<PlanError>);

impl fmt::Display for PlanErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if index == 0 { "" } else { "\n\n" })?;
        }
        match self.0.len() {
            1 => Ok(()),
            count => write!(f, "\n\n{count} errors"),
        }
    }
}
