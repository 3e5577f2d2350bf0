//! A loaded pack.

pub mod manifest;

use hoptax_plan::{Feature, LlmGateway, ProxyForm};
use manifest::{Manifest, TlsUse};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of the file that makes a folder a pack.
pub const MANIFEST: &str = "gateway.yaml";

/// An error in a pack, and its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PackError {
    /// The file that contains the error.
    pub file: String,
    /// Line number from 1, if known.
    pub line: Option<usize>,
    /// The error.
    pub message: String,
    /// How to fix it.
    pub help: Option<String>,
}

impl std::fmt::Display for PackError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A message of the YAML parser already includes the position and a caret.
        if !self.file.is_empty() {
            write!(out, "{}", self.file)?;
            if let Some(line) = self.line {
                write!(out, ":{line}")?;
            }
            write!(out, ": ")?;
        }
        write!(out, "{}", self.message)?;
        match &self.help {
            Some(help) => write!(out, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

/// One pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pack {
    pub(crate) manifest: Manifest,
    /// Text of `gateway.yaml`.
    pub(crate) text: String,
    /// The other files of the pack's folder, by their path in that folder.
    pub(crate) files: BTreeMap<String, String>,
    /// Path of the pack's folder, as errors show it.
    pub(crate) folder: String,
    /// The selected variant; absent if the pack has no variants.
    pub(crate) variant: Option<String>,
}

impl Pack {
    /// The selected variant, by default the first one; `None` if the pack has no variants.
    pub fn variant(&self) -> Option<&str> {
        self.variant.as_deref()
    }

    /// How requests ask the gateway, if the selected variant is a forward proxy.
    pub fn proxy_form(&self) -> Option<ProxyForm> {
        self.manifest.proxy.get(self.variant()?).copied()
    }

    /// What the selected variant needs, if it passes only requests to language models.
    pub fn llm(&self) -> Option<&LlmGateway> {
        self.manifest.llm_of(self.variant())
    }

    /// Copies of the pack, one for each of its variants.
    pub(crate) fn variants(&self) -> impl Iterator<Item = Self> + '_ {
        self.manifest.variants.iter().map(|variant| Self { variant: Some(variant.clone()), ..self.clone() })
    }

    /// Name of the pack in plans.
    pub fn name(&self) -> &str {
        &self.manifest.name
    }

    /// The content of `gateway.yaml`.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether the gateway's runtime is known to generate code: it needs settings or a command to name this
    /// code in profiles.
    pub fn names_generated_code(&self) -> bool {
        let profiling = &self.manifest.profiling;
        !profiling.environment.is_empty() || !profiling.map.is_empty()
    }

    /// Features that the gateway has in every plan.
    pub fn required_features(&self) -> Vec<Feature> {
        match self.manifest.tls {
            TlsUse::Feature => Vec::new(),
            TlsUse::Always => vec![Feature::Tls],
        }
    }

    /// Text of a template.
    ///
    /// # Errors
    /// If the pack has no such file.
    pub fn template(&self, name: &str) -> Result<&str, PackError> {
        self.files.get(name).map(String::as_str).ok_or_else(|| {
            let there: Vec<_> = self.files.keys().map(String::as_str).collect();
            self.refuse(
                name,
                format!("template `{name}` is not in the pack"),
                Some(format!("the folder {} contains {}", self.folder, list(&there))),
            )
        })
    }

    /// Texts of all files of the pack's folder, by their path in that folder.
    pub fn texts(&self) -> BTreeMap<String, String> {
        let manifest = (MANIFEST.to_owned(), self.text.clone());
        self.files.clone().into_iter().chain([manifest]).collect()
    }

    /// Copies the pack's folder to a subdirectory of `directory` and returns its path. The copy does not say
    /// when the pack was last run with the real gateway, because users change the copy, and nobody has tested
    /// their changes.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, directory: &Path) -> std::io::Result<PathBuf> {
        let folder = directory.join(self.name());
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(MANIFEST), without_last_run(&self.text))?;
        for (name, text) in &self.files {
            let path = folder.join(name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            let text = if name == README { without_last_run(text) } else { text.clone() };
            std::fs::write(path, text)?;
        }
        Ok(folder)
    }

    /// Path of one of the pack's files, as errors show it.
    pub fn path_of(&self, file: &str) -> String {
        format!("{}/{file}", self.folder)
    }

    /// Line of `gateway.yaml` where `text` first occurs. Returns 1 if the text is not found because the file
    /// contains it in escaped or folded form.
    pub(crate) fn line_of(&self, text: &str) -> usize {
        self.find(text).unwrap_or(1)
    }

    /// Position of a key in `gateway.yaml`, such as `gateways/nginx/gateway.yaml:18`. A key that is quoted or
    /// in braces is not found. Then the result is only the path.
    pub fn place_of(&self, key: &str) -> String {
        let file = self.path_of(MANIFEST);
        let begins =
            |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'));
        match self.text.lines().position(begins) {
            Some(index) => format!("{file}:{}", index + 1),
            None => file,
        }
    }

    pub(crate) fn find(&self, text: &str) -> Option<usize> {
        let first = text.lines().next().filter(|line| !line.is_empty())?;
        self.text.find(first).map(|at| self.text[..at].matches('\n').count() + 1)
    }

    /// Creates an error on the line of `gateway.yaml` that contains `near`.
    pub(crate) fn refuse(&self, near: &str, message: String, help: Option<String>) -> PackError {
        PackError { file: self.path_of(MANIFEST), line: self.find(near), message, help }
    }

    /// Path of each file that the gateway requires. For a missing file, this is the first path in its list.
    pub fn needed(&self) -> BTreeMap<String, String> {
        let is_there = |place: &String| Path::new(place).exists();
        let place = |(name, places): (&String, &Vec<String>)| {
            let place = &places[places.iter().position(is_there).unwrap_or(0)];
            (name.clone(), place.clone())
        };
        self.manifest.needs.iter().map(place).collect()
    }
}

const README: &str = "README.md";

/// A manifest without the key `last_run_for_real`, or a README without its line about the last run.
fn without_last_run(text: &str) -> String {
    let mut kept = String::new();
    let mut is_inside = false;
    for line in text.split_inclusive('\n') {
        is_inside = line.starts_with("last_run_for_real:")
            || line.starts_with("Last run: version ")
            || (is_inside && (line.starts_with(' ') || line.trim().is_empty() && kept.ends_with("\n\n")));
        if !is_inside {
            kept.push_str(line);
        }
    }
    kept
}

/// Joins names to `a, b and c`; returns `nothing` if there are none.
pub(crate) fn list(names: &[&str]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
