//! Builds the first request of a load, so that a user can check it before the load runs.

use super::encoding::Protocol;
use super::error::TargetError;
use super::mix::{Mix, Requests};
use hoptax_format::spec::{HttpVersion, TargetSpec};
use std::collections::BTreeMap;

/// Returns the bytes of the first request of a load. The load has only this target, this seed and this HTTP
/// version, and uses keep-alive.
///
/// # Errors
/// See [`super::check`].
pub fn first_request(
    target: &TargetSpec,
    files: &BTreeMap<String, String>,
    seed: u64,
    version: HttpVersion,
) -> Result<Vec<u8>, TargetError> {
    let protocol = Protocol { version, per_connection: None };
    let mix = Mix::new(std::slice::from_ref(target), files, seed, protocol)?;
    Ok(Requests::new(&mix, (0, 1)).next(0, 1).to_vec())
}
