//! Reads and refuses `content-length` headers that the target itself has.

use super::error::{TargetError, TargetPart};
use hoptax_format::spec::TargetSpec;

/// Methods whose requests usually have a body. If such a request has no body, hoptax adds `content-length: 0`
/// (RFC 9110, section 8.6), because some servers otherwise answer with status 411.
pub(super) const WITH_BODY: [&str; 3] = ["POST", "PUT", "PATCH"];
/// The bytes between the value of the last header and the body.
pub(super) const HEAD_END: &[u8] = b"\r\n\r\n";

/// The `content-length` headers of a target: their index, name and value.
pub(super) fn own_lengths(target: &TargetSpec) -> impl Iterator<Item = (usize, &str, &str)> {
    let headers = target.headers.iter().enumerate();
    headers
        .filter(|(_, (name, _))| name.eq_ignore_ascii_case("content-length"))
        .map(|(index, (name, value))| (index, name.as_str(), value.as_str()))
}

/// Refuses a target that itself has a `content-length` header. `why` is the reason.
pub(super) fn refuse_own_length(target: &TargetSpec, why: &str) -> Result<(), TargetError> {
    own_lengths(target).next().map_or(Ok(()), |(index, name, _)| {
        Err(TargetError::new(target, TargetPart::Header(index, name.to_owned()), why, "leave it out"))
    })
}
