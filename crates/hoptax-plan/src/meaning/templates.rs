//! Checks templates with the template engine's own parser, and checks the files that `{{line FILE}}` reads.

use super::body;
use super::reader::Reader;
use crate::error::{Place, Sources};
use hoptax_format::template::{self, TemplateError};
use hoptax_record::bounded;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Debug, Clone, Copy)]
pub(super) struct Template<'a> {
    /// Place of the template in the plan. If the template is in a file, the place of the file's name in the
    /// plan.
    pub(super) place: Place,
    pub(super) text: &'a str,
    /// Part of the request that contains the template.
    pub(super) part: template::Place,
    /// The file that contains the template, if the template is not in the plan itself.
    pub(super) file: Option<&'a Path>,
}

impl Reader<'_> {
    /// Checks a template, and the files whose lines it reads.
    pub(super) fn template(&mut self, template: Template<'_>) {
        let names = match template::files_named(template.text) {
            Ok(names) => names,
            Err(error) => return self.template_fault(template, error),
        };
        let faults_before = self.faults.len();
        let mut contents = BTreeMap::new();
        for name in names {
            let place = template.place_of(self.sources, &format!("line {name}"));
            if let Some(text) = self.lines(&name, place) {
                contents.insert(name, text);
            }
        }
        if self.faults.len() > faults_before {
            return;
        }
        if let Err(error) = template::check(template.text, template.part, &contents) {
            self.template_fault(template, error);
        }
    }

    fn lines(&mut self, name: &str, place: Place) -> Option<String> {
        let faults_before = self.faults.len();
        let path = body::existing(self, place, name, bounded::LINES);
        if self.faults.len() > faults_before {
            return None;
        }
        match bounded::read(&path, bounded::LINES).map(String::from_utf8) {
            Ok(Ok(text)) => {
                self.files.insert(name.to_owned(), path);
                Some(text)
            }
            Ok(Err(error)) => {
                let at = error.utf8_error().valid_up_to();
                let message = format!("{} is not UTF-8 text: invalid byte at offset {at}", path.display());
                self.fault(place, message, "save the file as UTF-8");
                None
            }
            Err(error) => {
                let message = format!("cannot read {}: {error}", path.display());
                self.fault(place, message, "check the file's permissions");
                None
            }
        }
    }

    fn template_fault(&mut self, template: Template<'_>, error: TemplateError) {
        let TemplateError { at, message, help } = error;
        match template.file {
            Some(path) => {
                let (line, column) = line_and_column(template.text, at);
                let message = format!("{}:{line}:{column}: {message}", path.display());
                self.fault(template.place, message, help);
            }
            None => {
                let place = template.place_at(self.sources, at);
                self.fault(place, message, help);
            }
        }
    }
}

impl Template<'_> {
    /// Finds byte `at` of the template in the user's input. If it cannot be found, returns the place of the
    /// whole value.
    fn place_at(&self, sources: &Sources<'_>, at: usize) -> Place {
        let Some(opened) = self.text[..self.text.len().min(at + 2)].rfind("{{") else { return self.place };
        let until = |from: usize, ends: &[char]| {
            let rest = &self.text[from..];
            from + rest.find(|c: char| ends.contains(&c)).unwrap_or(rest.len())
        };
        // Mark the text up to the end of the word. If the braces are wrong, mark the braces and their
        // content.
        let end = if at == opened { until(at + 2, &['}', '\n']) } else { until(at, &['}', ' ', '\t', '\n']) };
        self.find(sources, opened, end).map_or(self.place, |found| Place {
            column: found.column + self.text[opened..at.max(opened)].chars().count() as u32,
            length: (self.text[at.max(opened)..end].chars().count() as u32).max(1),
            ..found
        })
    }

    /// Finds the first occurrence of `fragment` in the template. If it cannot be found, returns the place of
    /// the whole value.
    fn place_of(&self, sources: &Sources<'_>, fragment: &str) -> Place {
        let found = self.text.find(fragment).filter(|_| self.file.is_none());
        found.and_then(|at| self.find(sources, at, at + fragment.len())).unwrap_or(self.place)
    }

    /// Finds the bytes `from..to` of the template in the user's input. If these bytes are the n-th occurrence
    /// of their text in the template, returns the place of the n-th occurrence in the input. Returns `None`
    /// only if the input has escapes within these bytes.
    fn find(&self, sources: &Sources<'_>, from: usize, to: usize) -> Option<Place> {
        let fragment = self.text.get(from..to).filter(|fragment| !fragment.is_empty())?;
        let number = self.text[..from].matches(fragment).count();
        let typed = match self.place.source.checked_sub(1) {
            None => sources.text,
            Some(index) => sources.sets.get(index as usize)?.as_str(),
        };
        let lines = typed.lines().enumerate().skip(self.place.line.saturating_sub(1) as usize);
        let occurrences = lines.flat_map(|(index, line)| {
            let first = index + 1 == self.place.line as usize;
            let before = if first { self.place.column.saturating_sub(1) as usize } else { 0 };
            let start = line.char_indices().nth(before).map_or(line.len(), |(start, _)| start);
            line[start..]
                .match_indices(fragment)
                .map(move |(at, _)| (index, line[..start + at].chars().count()))
        });
        let (line, column) = occurrences.into_iter().nth(number)?;
        Some(Place {
            source: self.place.source,
            line: line as u32 + 1,
            column: column as u32 + 1,
            length: fragment.chars().count() as u32,
        })
    }
}

fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}
