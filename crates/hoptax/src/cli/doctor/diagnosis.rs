//! What `hoptax doctor` says, as a document.

use hoptax_record::Fitness;
use serde::Serialize;

/// What doctor says; part of the stable interface.
#[derive(Debug, Serialize)]
pub(super) struct Diagnosis {
    /// Version of this document.
    pub(super) schema: u32,
    pub(super) hoptax: &'static str,
    pub(super) host: String,
    pub(super) at_unix_ns: u64,
    /// No item is bad.
    pub(super) fit: bool,
    /// The machine.
    pub(super) items: Vec<Fitness>,
    /// Whether the plan fits here; absent without a plan.
    pub(super) plan: Option<PlanDiagnosis>,
}

#[derive(Debug, Serialize)]
pub(super) struct PlanDiagnosis {
    pub(super) name: String,
    pub(super) items: Vec<Fitness>,
}

/// Version of the JSON document.
pub(super) const SCHEMA: u32 = 1;
