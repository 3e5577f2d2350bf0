//! Features at work: what credentials a run makes, what templates are told of them, what requests must carry, and how it
//! is proved that a feature is on.
//!
//! One [`Credentials`] is made afresh for each run and lives in memory; files made of it lie in a gateway's private
//! directory, which goes when the gateway goes. Nothing of it may stand in a report, a log excerpt or a record:
//! [`Credentials::redact`] takes it out of every text that is kept.

mod change;
mod credentials;
pub mod names;
pub mod passwords;
mod variables;

pub use change::Change;
pub(crate) use change::credential;
pub use credentials::{Consumer, Credentials};
pub use names::*;
pub use variables::FeatureVariables;

use hoptax_plan::Feature;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Whether a gateway with these features is given something that nobody else may read.
pub fn needs_credentials(features: &[Feature]) -> bool {
    features.iter().any(|feature| {
        feature.is_authentication()
            || matches!(feature, Feature::Tls | Feature::UpstreamTls | Feature::TokenReview { .. })
    })
}

/// Writes the files that these features need below a gateway's directory, for its owner alone.
///
/// # Errors
/// If a file or its directory cannot be written.
pub fn write_files(features: &[Feature], made: &Credentials, directory: &Path) -> std::io::Result<()> {
    for (name, text) in variables::files(features, made) {
        let path = directory.join(name);
        if let Some(parent) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        write_private(&path, &text)?;
    }
    Ok(())
}

/// Writes a file that only its owner may read.
///
/// # Errors
/// If it cannot be written.
pub fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
