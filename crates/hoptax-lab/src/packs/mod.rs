//! Packs: gateways described as data, a folder each (`gateways/<name>/`).
//!
//! The packs of the project are embedded in the binary; a directory given with `--packs` adds to them or stands in
//! for those of the same name.

pub mod binary;
mod check;
mod set;

pub use crate::pack::{MANIFEST, Pack, PackError, manifest};
pub use check::BUILD_SCRIPT;

pub use set::{PackSet, parse};

#[cfg(test)]
mod tests;
