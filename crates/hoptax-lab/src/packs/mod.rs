//! Packs: descriptions of gateways as data, one folder each (`gateways/<name>/`).
//!
//! The project's packs are embedded in the binary. Packs of a directory given with `--packs` are added, and replace
//! embedded packs of the same name.

pub mod binary;
mod check;
mod set;

pub use crate::pack::{MANIFEST, Pack, PackError, manifest};
pub use check::BUILD_SCRIPT;

pub use set::{PackSet, parse};

#[cfg(test)]
mod tests;
