//! Which requests are sent again instead of failing.

use super::reader::Reader;
use crate::Target;
use crate::raw::{Placed, RawRetry};
use hoptax_format::spec::{Retry, is_idempotent};

pub(super) fn understand(typed: RawRetry) -> Retry {
    match typed {
        RawRetry::Off => Retry::Off,
        RawRetry::IdleClose => Retry::IdleClose,
    }
}

/// Checks that retries are possible. If only some targets have an idempotent method, only their requests are
/// sent again.
pub(super) fn check(reader: &mut Reader<'_>, retries: &[Placed<Retry>], targets: &[Target]) {
    if targets.iter().any(|target| is_idempotent(&target.method)) {
        return;
    }
    for retry in retries.iter().filter(|retry| retry.value == Retry::IdleClose) {
        reader.fault(
            retry.place,
            "only GET, HEAD, OPTIONS, PUT, DELETE and TRACE requests are sent again, but no target has such \
            a method",
            "remove `retry`, because sending other requests twice could change data twice",
        );
    }
}
