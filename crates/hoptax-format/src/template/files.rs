//! The files that `{{line FILE}}` and `{{line FILE COLUMN}}` read.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// What a template takes from each line of a file: the whole line, or the column with this number, counted
/// from 1.
pub type Source<'n> = (&'n str, Option<usize>);

/// The values of all sources that templates name. The sources are in order.
#[derive(Debug, Default)]
pub struct Files<'a> {
    pub(super) sources: Vec<Values<'a>>,
    /// Names of all files in the spec, for error messages.
    known: Vec<&'a str>,
}

/// The values that a source has on each line of its file.
#[derive(Debug)]
pub(super) struct Values<'a> {
    source: Source<'a>,
    pub(super) lines: Vec<Cow<'a, str>>,
    /// Index of the first source that reads the same file. All of them use the same line at the same time.
    pub(super) first: usize,
    /// The first line that lacks the column, from 1, and the number of columns that it has.
    pub(super) lacking: Option<(usize, usize)>,
}

impl<'a> Files<'a> {
    /// Reads `sources` from the contents of `files`, by file name.
    pub fn new(files: &'a BTreeMap<String, String>, sources: &BTreeSet<Source<'_>>) -> Self {
        let mut found: Vec<Values<'a>> = Vec::new();
        for (name, column) in sources {
            let Some((name, content)) = files.get_key_value(*name) else { continue };
            let first = found.iter().position(|values| values.source.0 == name).unwrap_or(found.len());
            found.push(Values::new((name, *column), content, first));
        }
        Self { sources: found, known: files.keys().map(String::as_str).collect() }
    }

    pub(super) fn index(&self, source: Source<'_>) -> Option<usize> {
        self.sources.binary_search_by_key(&source, |values| values.source).ok()
    }

    pub(super) fn values(&self, source: Source<'_>) -> Option<&Values<'a>> {
        self.index(source).map(|index| &self.sources[index])
    }

    pub(super) fn lines(&self, source: Source<'_>) -> &[Cow<'a, str>] {
        self.values(source).map_or(&[], |values| &values.lines)
    }

    pub(super) fn known(&self) -> impl Iterator<Item = &str> {
        self.known.iter().copied()
    }
}

impl<'a> Values<'a> {
    fn new(source: Source<'a>, content: &'a str, first: usize) -> Self {
        let mut values = Self { source, lines: Vec::new(), first, lacking: None };
        let separator = if source.0.ends_with(".tsv") { b'\t' } else { b',' };
        for (number, line) in (1..).zip(lines(content)) {
            let value = match source.1 {
                None => Ok(Cow::Borrowed(line)),
                Some(column) => self::column(line, separator, column),
            };
            match value {
                Ok(value) => values.lines.push(value),
                Err(columns) => {
                    values.lacking = Some((number, columns));
                    break;
                }
            }
        }
        values
    }
}

/// Splits `content` at LF or CRLF. A byte order mark at its beginning and blank lines at its end are ignored.
pub(super) fn lines(content: &str) -> Vec<&str> {
    let content = content.strip_prefix('\u{feff}').unwrap_or(content);
    let mut lines: Vec<&str> = content.lines().collect();
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    lines
}

/// Returns column `number` of `line`, counted from 1. A column in double quotes can contain the separator,
/// and `""` for a quote (RFC 4180, section 2). If there is no such column, the error is the number of
/// columns.
fn column(line: &str, separator: u8, number: usize) -> Result<Cow<'_, str>, usize> {
    let mut rest = line;
    for column in 1.. {
        let length = column_length(rest, separator);
        if column == number {
            return Ok(unquoted(&rest[..length]));
        }
        match rest.get(length + 1..) {
            Some(next) => rest = next,
            None => return Err(column),
        }
    }
    unreachable!("a line has an end")
}

/// Length of the first column of `line`, with its quotes.
fn column_length(line: &str, separator: u8) -> usize {
    let mut quoted = line.starts_with('"');
    for (at, byte) in line.bytes().enumerate().skip(usize::from(quoted)) {
        // The two quotes of `""` end and begin a quoted part.
        quoted ^= byte == b'"' && line.starts_with('"');
        if byte == separator && !quoted {
            return at;
        }
    }
    line.len()
}

fn unquoted(column: &str) -> Cow<'_, str> {
    match column.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        None => Cow::Borrowed(column),
        Some(inner) if inner.contains('"') => Cow::Owned(inner.replace("\"\"", "\"")),
        Some(inner) => Cow::Borrowed(inner),
    }
}
