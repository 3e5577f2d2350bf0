//! The first request of a load, for asking once what the load will ask many times.

use super::encoding::Protocol;
use super::error::TargetError;
use super::mix::{Mix, Requests};
use crate::spec::{HttpVersion, TargetSpec};
use std::collections::BTreeMap;

/// The bytes of the first request that a load with this target alone, this seed and this version of HTTP sends, where
/// connections are used again: for asking once what a load will ask many times.
///
/// # Errors
/// As [`check`].
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
