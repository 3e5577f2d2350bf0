//! The files that `{{line FILE}}` reads.

use std::collections::{BTreeMap, BTreeSet};

/// The lines of all files that templates name. The files are in alphabetical order of their names.
#[derive(Debug, Default)]
pub(crate) struct Files<'a> {
    pub(super) named: Vec<(&'a str, Vec<&'a str>)>,
    /// Names of all files in the spec, for error messages.
    known: Vec<&'a str>,
}

impl<'a> Files<'a> {
    pub(crate) fn new(files: &'a BTreeMap<String, String>, names: &BTreeSet<&str>) -> Self {
        let named = files.iter().filter(|(name, _)| names.contains(name.as_str()));
        Self {
            named: named.map(|(name, content)| (name.as_str(), lines(content))).collect(),
            known: files.keys().map(String::as_str).collect(),
        }
    }

    pub(super) fn index(&self, name: &str) -> Option<usize> {
        self.named.binary_search_by_key(&name, |(name, _)| name).ok()
    }

    pub(super) fn lines(&self, name: &str) -> Option<&[&'a str]> {
        self.index(name).map(|index| self.named[index].1.as_slice())
    }

    pub(super) fn known(&self) -> impl Iterator<Item = &str> {
        self.known.iter().copied()
    }
}

/// Splits `content` at LF or CRLF. Blank lines at the end of the file are ignored.
fn lines(content: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = content.lines().collect();
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    lines
}
