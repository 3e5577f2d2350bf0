//! A load and its result, in the form that every output format takes.

use hoptax_load::record::LoadRecord;
use hoptax_load::spec::LoadSpec;

/// A load and its result.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadOutcome<'a> {
    /// URL as typed.
    pub(super) url: &'a str,
    /// The load.
    pub(super) spec: &'a LoadSpec,
    /// The result.
    pub(super) record: &'a LoadRecord,
}
