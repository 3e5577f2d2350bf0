//! A load and its result, as every output receives them.

use hoptax_load::record::LoadRecord;
use hoptax_load::spec::LoadSpec;

/// What was measured, and of what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made<'a> {
    /// As typed.
    pub(super) url: &'a str,
    /// What was asked for.
    pub(super) spec: &'a LoadSpec,
    /// What came of it.
    pub(super) record: &'a LoadRecord,
}
