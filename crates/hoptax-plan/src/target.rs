//! Targets that are not part of a plan.

use crate::Target;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The content of a file for `hoptax load --targets`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    /// The targets, with unique names. There is at least one target.
    pub targets: Vec<Target>,
    /// For each file name in `{{line FILE}}`, the path of the file.
    pub files: BTreeMap<String, PathBuf>,
}
