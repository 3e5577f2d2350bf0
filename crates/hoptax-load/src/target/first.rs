//! The first request of a load, for verification before the load runs.

use super::encoding::Protocol;
use super::error::TargetError;
use super::mix::{Mix, Requests};
use crate::spec::{HttpVersion, TargetSpec};
use std::collections::BTreeMap;

/// Bytes of the first request that a load with only this target, this seed and this HTTP version sends, with
/// keep-alive.
///
/// # Errors
/// As [`super::check`].
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
