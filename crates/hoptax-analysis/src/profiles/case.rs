//! The profile of one case.

use super::costs::{Costs, FrameCost, LEAST_SHARE, MissingSymbols, ModuleCost, Node};
use hoptax_record::profile::{Callers, PassKind, PassRecord};
use hoptax_record::report::Load;
use hoptax_stats::Estimate;

/// The profile of a gateway at a load point.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseProfile {
    /// The gateway's label.
    pub gateway: String,
    /// The load point.
    pub load: Load,
    /// What the passes recorded: CPU time or waiting.
    pub kind: PassKind,
    /// Number of passes that succeeded.
    pub passes: u32,
    /// Number of passes that failed.
    pub failed: u32,
    /// Why the last failed pass failed. Absent if none failed.
    pub failure: Option<String>,
    /// The profiler and its version.
    pub profiler: String,
    /// How the profiler found the callers of a function.
    pub callers: Callers,
    /// True if the profiler saw what the kernel does for the gateway.
    pub sees_kernel: bool,
    /// Number of samples.
    pub samples: u64,
    /// Number of samples that were lost.
    pub lost: u64,
    /// What the gateway's pack says about symbols.
    pub symbols: Option<String>,
    /// Time of all frames, µs per request. Absent if no pass succeeded.
    pub whole: Option<Estimate>,
    /// A cost of zero, with the number of batches of this profile. It is the cost of a frame that the profile
    /// does not contain.
    pub nothing: Estimate,
    /// The tree of calls. The first node is the root, and a node comes after its parent.
    pub tree: Vec<Node>,
    /// Times by frame, the largest own time first.
    pub frames: Vec<FrameCost>,
    /// Own times by module, the largest first.
    pub modules: Vec<ModuleCost>,
    /// Modules whose frames have no names, the largest first.
    pub missing: Vec<MissingSymbols>,
}

impl CaseProfile {
    /// The profile of a case. `last` is its last pass.
    pub(super) fn new(load: &Load, last: &PassRecord, passes: &[&PassRecord]) -> Self {
        let good: Vec<&PassRecord> = passes.iter().copied().filter(|pass| pass.failed.is_none()).collect();
        let failures = || passes.iter().filter_map(|pass| pass.failed.as_ref());
        let described = good.last().copied().unwrap_or(last);
        let costs = Costs::of(&good);
        Self {
            gateway: last.contender.clone(),
            load: load.clone(),
            kind: last.kind,
            passes: good.len() as u32,
            failed: failures().count() as u32,
            failure: failures().next_back().map(|failure| failure.message.clone()),
            profiler: described.profiler.clone(),
            callers: described.callers,
            sees_kernel: good.iter().all(|pass| pass.sees_kernel),
            samples: good.iter().map(|pass| pass.samples).sum(),
            lost: good.iter().map(|pass| pass.lost).sum(),
            symbols: described.symbols.clone(),
            whole: costs.whole(),
            nothing: costs.nothing(),
            frames: costs.frames(),
            modules: costs.modules(),
            missing: costs.missing(),
            tree: costs.tree(),
        }
    }

    /// Time from which a frame or a module is listed, µs per request.
    pub(super) fn least_us(&self) -> f64 {
        self.whole.as_ref().map_or(0.0, |whole| whole.estimate * LEAST_SHARE)
    }

    /// Leaves out the frames and the modules that are too small to be listed.
    pub(super) fn leave_out_small(&mut self) {
        let least = self.least_us();
        self.frames.retain(|cost| cost.total.estimate > least);
        self.modules.retain(|cost| cost.own.estimate > least);
    }
}
