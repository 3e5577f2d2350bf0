//! From a file to a plan.

use super::error::{PlanErrors, Sources};
use super::{PackInfo, Plan, de, meaning, node};
use std::fs;
use std::path::{Path, PathBuf};

/// What a plan is checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// CPUs of this machine.
    pub cpus: u32,
    /// Gateway packs that can be named.
    pub known: Vec<PackInfo>,
    /// Where relative paths in the plan start.
    pub directory: PathBuf,
}

/// Understands a plan.
///
/// `file_name` is how the file is called in messages; `sets` are `key.path=value` arguments laid over what it says.
///
/// # Errors
/// Every mistake that was found, each with its place and how to mend it.
pub fn parse(file_name: &str, text: &str, sets: &[String], context: &Context) -> Result<Plan, PlanErrors> {
    let sources = Sources { file: file_name, text, sets };
    let mut root = node::read(text, 0, 0).map_err(|fault| sources.errors(vec![fault]))?;
    let faults = node::apply_sets(&mut root, sets);
    if !faults.is_empty() {
        return Err(sources.errors(faults));
    }
    let raw = de::from_node(&root).map_err(|faults| sources.errors(faults))?;
    let stem = Path::new(file_name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    meaning::understand(raw, stem, context, &sources).map_err(|faults| sources.errors(faults))
}

/// Why no plan came of a file.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("cannot read the plan {}: {source}{}", path.display(), hint(source))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// It is not text.
    #[error("the plan {} is not UTF-8 text: byte {offset} belongs to no character", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// First byte that is wrong.
        offset: usize,
    },
    /// It has mistakes.
    #[error(transparent)]
    Mistakes(#[from] PlanErrors),
}

fn hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => "; `hoptax init` writes one to start from",
        _ => "",
    }
}

/// Reads and understands the plan at `path`; relative paths in it start at its directory.
///
/// # Errors
/// If the file cannot be read, is not text, or has mistakes.
pub fn load(
    path: &Path,
    sets: &[String],
    cpus: u32,
    known: Vec<PackInfo>,
) -> Result<(Plan, String), LoadError> {
    let bytes = fs::read(path).map_err(|source| LoadError::Unreadable { path: path.to_owned(), source })?;
    let text = String::from_utf8(bytes).map_err(|error| LoadError::NotText {
        path: path.to_owned(),
        offset: error.utf8_error().valid_up_to(),
    })?;
    let directory = path.parent().map(Path::to_owned).unwrap_or_default();
    let plan = parse(&path.display().to_string(), &text, sets, &Context { cpus, known, directory })?;
    Ok((plan, text))
}

/// The commented plan that `hoptax init` writes.
pub const TEMPLATE: &str = include_str!("init.yaml");
