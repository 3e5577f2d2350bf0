//! Builds the first request of a load, so that a user can check it before the load runs.

use super::encoding::Protocol;
use super::error::TargetError;
use super::mix::{Mix, Requests};
use hoptax_format::spec::{HttpVersion, TargetSpec};
use std::collections::BTreeMap;

/// Returns the bytes of the first request of a load. The load has only this target, this seed and this HTTP
/// version, and uses keep-alive. A request of HTTP/2 is shown as text, in the form of HTTP/1.
///
/// # Errors
/// See [`super::check`].
pub fn first_request(
    target: &TargetSpec,
    files: &BTreeMap<String, String>,
    seed: u64,
    version: HttpVersion,
) -> Result<Vec<u8>, TargetError> {
    let protocol = |version| Protocol { version, ..Protocol::default() };
    let mix = |version| Mix::new(std::slice::from_ref(target), files, seed, protocol(version));
    if version != HttpVersion::Http2 {
        return Ok(Requests::new(&mix(version)?, (0, 1)).next(0, 1).to_vec());
    }
    mix(version)?;
    let shown = Requests::new(&mix(HttpVersion::Http11)?, (0, 1)).next(0, 1).to_vec();
    let line = shown.iter().position(|byte| *byte == b'\r').unwrap_or(shown.len());
    let (line, rest) = shown.split_at(line);
    let line = line.strip_suffix(b"HTTP/1.1").unwrap_or(line);
    Ok([line, b"HTTP/2", rest].concat())
}
