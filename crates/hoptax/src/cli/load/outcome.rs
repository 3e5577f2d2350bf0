//! A load and its result. All output formats use this type.

use hoptax_load::record::LoadRecord;
use hoptax_load::spec::LoadSpec;

#[derive(Debug, Clone, Copy)]
pub(super) struct LoadOutcome<'a> {
    pub(super) url: &'a str,
    pub(super) spec: &'a LoadSpec,
    pub(super) record: &'a LoadRecord,
}
