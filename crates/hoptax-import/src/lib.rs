//! Turns traffic that people already have into targets and a plan: access logs, HAR files, curl commands and
//! OpenAPI documents.
//!
//! Each source yields requests ([`seen::Seen`]). [`fold`] replaces numbers and ids in their paths, so that
//! requests of one kind become one class; [`mix`] counts the classes; [`write`] prints the most frequent as
//! targets, with the answers of the built-in upstream. Credentials are never copied ([`secret`]).
//!
//! Nothing here starts anything, opens a connection or knows the time.

mod curl;
mod fold;
mod har;
mod input;
mod log;
mod mix;
mod openapi;
mod secret;
mod seen;
mod shell_words;
mod sketch;
mod time;
mod write;

pub use input::{ImportError, Kind, Options};
pub use log::FORMATS;

use mix::Mix;
use std::io::Read;

/// Largest HAR file, list of commands or OpenAPI document, bytes. Logs are read line by line and have no
/// limit.
const MOST_DOCUMENT: u64 = 256 << 20;

/// Reads files of one kind into one mix.
#[derive(Debug)]
pub struct Importer {
    options: Options,
    mix: Mix,
    notes: Vec<String>,
    kind: Option<Kind>,
    names: Vec<String>,
}

impl Importer {
    /// An importer that has read nothing yet.
    pub fn new(options: Options) -> Self {
        let mix = Mix::new(options.keep_queries);
        Self { options, mix, notes: Vec::new(), kind: None, names: Vec::new() }
    }

    /// Reads a file. `name` appears in messages. If `kind` is absent, it is detected.
    ///
    /// # Errors
    /// If the file cannot be read, its kind is unknown, or its kind differs from that of an earlier file.
    pub fn read(&mut self, name: &str, kind: Option<Kind>, input: impl Read) -> Result<(), ImportError> {
        let mut input = log::lines::unpacked(input)
            .map_err(|error| ImportError::new(format!("cannot read {name}: {error}")))?;
        let start =
            input.peek(4096).map_err(|error| ImportError::new(format!("cannot read {name}: {error}")))?;
        if start.is_empty() {
            return Err(ImportError::new(format!("{name} is empty")));
        }
        let kind = kind.unwrap_or_else(|| detect(name, &start));
        if self.kind.is_some_and(|earlier| earlier != kind) {
            return Err(ImportError::new(format!(
                "{name} is not of the same kind as the files before it. Import it alone"
            )));
        }
        self.kind = Some(kind);
        self.names.push(name.to_owned());
        match kind {
            Kind::Log => log::read(name, &mut input, &self.options, &mut self.mix, &mut self.notes),
            Kind::Har => har::read(name, &text(name, input)?, &self.options, &mut self.mix, &mut self.notes),
            Kind::Curl => curl::read(name, &text(name, input)?, &mut self.mix, &mut self.notes),
            Kind::OpenApi => openapi::read(name, &text(name, input)?, &mut self.mix, &mut self.notes),
        }
    }

    /// What was left out or replaced: sentences for the user.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The mix as a whole plan.
    ///
    /// # Errors
    /// If nothing was read.
    pub fn plan(&self) -> Result<String, ImportError> {
        self.written(write::plan)
    }

    /// The mix as a file of targets.
    ///
    /// # Errors
    /// If nothing was read.
    pub fn targets(&self) -> Result<String, ImportError> {
        self.written(write::targets)
    }

    /// What was read, in a few lines.
    ///
    /// # Errors
    /// If nothing was read.
    pub fn summary(&self) -> Result<String, ImportError> {
        self.written(write::summary)
    }

    fn written(
        &self,
        how: fn(&write::Source<'_>, &mix::Chosen<'_>) -> String,
    ) -> Result<String, ImportError> {
        let names = self.names.join(", ");
        if self.mix.requests() == 0 {
            return Err(ImportError::new(format!("{names}: no request found")));
        }
        let chosen = self.mix.choose(self.options.top);
        Ok(how(&write::Source { name: &names, options: &self.options, mix: &self.mix }, &chosen))
    }
}

/// The kind of a file, from its name and its first bytes.
fn detect(name: &str, start: &[u8]) -> Kind {
    let text = String::from_utf8_lossy(start);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let words = |keys: &[&str]| keys.iter().any(|key| text.contains(key));
    let first = text.lines().find(|line| !line.trim_start().starts_with('#')).unwrap_or_default();
    if first.starts_with("curl ") || first.starts_with("$ curl ") {
        Kind::Curl
    } else if name.ends_with(".har")
        || (text.starts_with('{')
            && words(&["\"log\": {", "\"log\":{"])
            && words(&["\"creator\"", "\"entries\""]))
    {
        Kind::Har
    } else if text.starts_with("openapi:")
        || words(&["\nopenapi:", "\"openapi\":", "\"openapi\" :", "swagger: \"2", "\"swagger\":"])
    {
        Kind::OpenApi
    } else {
        Kind::Log
    }
}

fn text(name: &str, input: impl Read) -> Result<String, ImportError> {
    let mut text = String::new();
    let read = input.take(MOST_DOCUMENT + 1).read_to_string(&mut text);
    read.map_err(|error| ImportError::new(format!("cannot read {name}: {error}")))?;
    if text.len() as u64 > MOST_DOCUMENT {
        return Err(ImportError::new(format!("{name} is larger than 256 MiB. Split it")));
    }
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}
