//! The JSON document of `hoptax doctor`.

use hoptax_record::Fitness;
use serde::Serialize;

/// Result of `hoptax doctor`. Part of the stable interface.
#[derive(Debug, Serialize)]
pub(super) struct Diagnosis {
    pub(super) schema: u32,
    pub(super) hoptax: &'static str,
    pub(super) host: String,
    pub(super) at_unix_ns: u64,
    /// True if no check of the machine or of the plan is bad.
    pub(super) fit: bool,
    /// Checks of the machine.
    pub(super) items: Vec<Fitness>,
    /// Checks of the plan on this machine; absent without a plan.
    pub(super) plan: Option<PlanDiagnosis>,
}

#[derive(Debug, Serialize)]
pub(super) struct PlanDiagnosis {
    pub(super) name: String,
    pub(super) items: Vec<Fitness>,
}

/// Version of the JSON document.
pub(super) const SCHEMA: u32 = 1;
