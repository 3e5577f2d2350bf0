//! The first request of a load, for verification before the load runs.

use super::encoding::Protocol;
use super::error::TargetError;
use super::mix::{Mix, Requests};
use crate::spec::{HttpVersion, TargetSpec};
use std::collections::BTreeMap;

/// The first request that a load would send, as bytes, if it had only this target, this seed and this HTTP version,
/// and used keep-alive.
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
