//! Profiles: how much CPU time, or waiting time, each function takes per request, and how that differs
//! between gateways and loads.
//!
//! The time of a frame is its share of the samples of a pass × the CPU time of the gateway in that pass. Its
//! time per request has an interval from the slices of all passes ([`hoptax_stats::Slices`]).

mod case;
mod costs;
mod difference;
#[cfg(test)]
mod tests;

pub use case::CaseProfile;
pub use costs::{FrameCost, MissingSymbols, ModuleCost, Node};
pub use difference::{DifferenceNode, FrameChange, ModuleChange, ProfileDifference};

use hoptax_record::RunRecord;
use hoptax_record::profile::{PassKind, PassRecord};
use hoptax_record::report::Load;

/// The profiles of a run, and their differences.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profiles {
    /// Sorted by load point, then in the plan's order. CPU time comes before waiting.
    pub cases: Vec<CaseProfile>,
    /// Differences between two profiles of CPU time.
    pub differences: Vec<ProfileDifference>,
}

/// Analyses the passes of a run.
pub fn profiles(run: &RunRecord, passes: &[PassRecord]) -> Profiles {
    let mut cases = Vec::new();
    for load in Load::all(&run.load) {
        for contender in &run.contenders {
            for kind in [PassKind::Cpu, PassKind::Waiting] {
                let is_of_case = |pass: &&PassRecord| {
                    pass.load as usize == load.index && pass.contender == contender.label && pass.kind == kind
                };
                let of_case: Vec<&PassRecord> = passes.iter().filter(is_of_case).collect();
                if let Some(last) = of_case.last() {
                    cases.push(CaseProfile::new(&load, last, &of_case));
                }
            }
        }
    }
    // Differences are computed before small frames are left out. A frame may be too small to be listed on one
    // side only, and its time on that side is still needed.
    let differences = difference::differences(run, &cases);
    cases.iter_mut().for_each(CaseProfile::leave_out_small);
    Profiles { cases, differences }
}
