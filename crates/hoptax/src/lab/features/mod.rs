//! Features at work: what credentials a run makes, what templates are told of them, what requests must carry, and how it
//! is proved that a feature is on.
//!
//! One [`Credentials`] is made afresh for each run and lives in memory; files made of it lie in a gateway's private
//! directory, which goes when the gateway goes. Nothing of it may stand in a report, a log excerpt or a record:
//! [`Credentials::redact`] takes it out of every text that is kept.

mod change;
mod credentials;
pub mod passwords;
mod variables;

pub use change::Change;
pub(crate) use change::credential;
pub use credentials::{Consumer, Credentials};
pub use variables::FeatureVariables;

use crate::plan::{Ask, Feature};
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

/// Header that carries a consumer's key.
pub const KEY_HEADER: &str = "x-api-key";

/// Header that carries a request's identifier.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// The origin whose cross-origin requests are allowed.
pub const CORS_ORIGIN: &str = "https://app.example";

/// The prefix that is taken off paths.
pub const REWRITTEN_PREFIX: &str = "/public";

/// What header rewriting sets on requests.
pub const REQUEST_SET: (&str, &str) = ("x-hoptax-set", "by-gateway");
/// What it takes off requests, which send it.
pub const REQUEST_REMOVED: (&str, &str) = ("x-hoptax-remove", "by-client");
/// What header rewriting sets on responses.
pub const RESPONSE_SET: (&str, &str) = ("x-hoptax-answered", "by-gateway");
/// What it takes off responses: the upstream sends it where a feature asks for it.
pub const RESPONSE_REMOVED: &str = "x-hoptax-internal";

/// Who issues the tokens.
pub const TOKEN_ISSUER: &str = "hoptax";

/// Name in the certificates that hoptax makes, for gateways and upstream; they hold the address 127.0.0.1 as well.
pub const SERVER_NAME: &str = "hoptax.test";

/// The only cipher suite that clients offer, so that every gateway encrypts alike.
pub const CIPHER_SUITE: &str = "TLS_AES_128_GCM_SHA256";

/// Where the upstream answers token reviews, as a Kubernetes API server does.
pub const TOKEN_REVIEW_PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// Prefix of the path of the route that requests ask for; `None` where these features have none.
pub fn asked_route(features: &[Feature]) -> Option<String> {
    features.iter().find_map(|feature| match feature {
        Feature::Routes { count, ask } => Some(route_prefix(place_of(*ask, *count))),
        _ => None,
    })
}

/// The index, from 0, of a place among `count` routes.
pub fn place_of(ask: Ask, count: u32) -> u32 {
    match ask {
        Ask::First => 0,
        Ask::Middle => count.saturating_sub(1) / 2,
        Ask::Last => count.saturating_sub(1),
    }
}

/// Prefix of the path of the `number`th route (from 1) that a gateway is given while it goes on.
pub fn changed_prefix(number: u32) -> String {
    format!("/changed-{number:05}")
}

/// Prefix of the path of route `index` (from 0): what gateways route by, and what requests begin with.
pub fn route_prefix(index: u32) -> String {
    format!("/route-{:05}", index + 1)
}
