//! Features: the credentials of a run, the variables of templates, and the changes that features require in
//! requests.
//!
//! Each run creates its own [`Credentials`] in memory. Files that contain credentials are in a gateway's
//! private directory, which is removed when the gateway stops. No secret may appear in a report, a log
//! excerpt or a record: [`Credentials::redact`] replaces secrets in every text that hoptax keeps.

mod change;
mod credentials;
mod json_calls;
pub mod names;
pub mod passwords;
mod variables;
mod words;

pub use change::Change;
pub(crate) use change::credential;
pub use credentials::{Consumer, Credentials};
pub use json_calls::JsonCalls;
pub use names::*;
pub use variables::FeatureVariables;

use hoptax_plan::Feature;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Whether a gateway with these features receives files that contain credentials.
pub fn needs_credentials(features: &[Feature]) -> bool {
    features.iter().any(|feature| {
        feature.is_authentication()
            || matches!(feature, Feature::Tls | Feature::UpstreamTls | Feature::TokenReview { .. })
    })
}

/// Writes the files that these features need into a gateway's directory. Only the owner may read them.
///
/// # Errors
/// If a file or its directory cannot be written.
pub fn write_files(features: &[Feature], made: &Credentials, directory: &Path) -> std::io::Result<()> {
    for (name, text) in variables::files(features, made) {
        let path = directory.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        write_private(&path, &text)?;
    }
    Ok(())
}

/// Writes a file that only its owner may read.
///
/// # Errors
/// If the file cannot be written.
pub fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
