//! Packs: descriptions of gateways as data. Each pack is a folder, `gateways/<name>/`.
//!
//! The project's packs are embedded in the binary. The directory given with `--packs` can add packs, and can replace
//! embedded packs of the same name.

pub mod binary;
mod check;
mod set;

pub use crate::pack::{MANIFEST, Pack, PackError, manifest};
pub use check::BUILD_SCRIPT;

pub use set::{PackSet, parse};

#[cfg(test)]
mod tests;
