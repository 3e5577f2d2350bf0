//! Checks of responses: their execution, and the counts of failed checks.
//!
//! A response to a HEAD request, or with status 204 or 304, has no body, even if its head announces a body.
//! Checks treat its body as empty. Bodies are checked as they were sent, before any content coding is
//! decoded.

mod compiled;
mod contains;
mod tally;

pub(crate) use compiled::{Checks, Failed};
pub(crate) use tally::FailedChecks;

use hoptax_format::spec::Check;

pub(crate) fn passes_without_body(check: &Check) -> bool {
    match check {
        Check::Status(_) | Check::Header { .. } | Check::Grpc(_) => true,
        Check::BodyContains(text) | Check::BodyEquals(text) => text.is_empty(),
        Check::BodyLength { least, .. } => *least == 0,
    }
}
