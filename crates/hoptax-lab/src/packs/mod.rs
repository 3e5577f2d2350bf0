//! Packs: descriptions of gateways as data. Each pack is a folder, `gateways/<name>/`.
//!
//! The project's packs are embedded in the binary. The directory given with `--packs` can add packs, and can
//! replace embedded packs of the same name.

#[cfg(target_os = "linux")]
pub mod binary;
#[cfg(target_os = "linux")]
mod check;
mod set;
#[cfg(target_os = "linux")]
mod versions;

pub use crate::pack::{MANIFEST, Pack, PackError, manifest};
#[cfg(target_os = "linux")]
pub use check::BUILD_SCRIPT;
pub use set::{PackSet, parse};
#[cfg(target_os = "linux")]
pub use versions::Versions;

#[cfg(test)]
mod tests;
