//! Profiles and their differences.

use super::super::profiles::advice;
use hoptax_analysis::profiles as analysis;
use hoptax_record::report::{
    FrameChange, FrameFigures, MissingSymbols, ModuleChange, ModuleFigures, Profile, ProfileDifference,
    ProfiledCase,
};

/// Maximum number of frames of a profile or a difference.
const MOST_FRAMES: usize = 200;

pub(crate) fn profile(one: &analysis::CaseProfile) -> Profile {
    let frame = |cost: &analysis::FrameCost| FrameFigures {
        frame: cost.frame.name.clone(),
        module: cost.frame.module.clone(),
        kind: cost.frame.kind,
        own_us: cost.own,
        total_us: cost.total,
    };
    let module =
        |cost: &analysis::ModuleCost| ModuleFigures { module: cost.module.clone(), own_us: cost.own };
    let missing = |missing: &analysis::MissingSymbols| MissingSymbols {
        module: missing.module.clone(),
        own_us: missing.own_us,
        advice: advice(one, missing),
    };
    Profile {
        gateway: one.gateway.clone(),
        load: one.load.clone(),
        kind: one.kind,
        passes: one.passes,
        failed: one.failed,
        failure: one.failure.clone(),
        profiler: one.profiler.clone(),
        callers: one.callers,
        sees_kernel: one.sees_kernel,
        samples: one.samples,
        lost: one.lost,
        us_per_request: one.whole,
        modules: one.modules.iter().map(module).collect(),
        frames: one.frames.iter().take(MOST_FRAMES).map(frame).collect(),
        missing: one.missing.iter().map(missing).collect(),
    }
}

pub(crate) fn difference(
    profiles: &analysis::Profiles,
    one: &analysis::ProfileDifference,
) -> ProfileDifference {
    let case = |index: usize| {
        let one = &profiles.cases[index];
        ProfiledCase { gateway: one.gateway.clone(), load: one.load.clone() }
    };
    let module = |change: &analysis::ModuleChange| ModuleChange {
        module: change.module.clone(),
        own_us: change.own,
        distinguishable: change.is_certain(),
    };
    let frame = |change: &analysis::FrameChange| FrameChange {
        frame: change.frame.name.clone(),
        module: change.frame.module.clone(),
        own_us: change.own,
        total_us: change.total,
        distinguishable: change.is_certain(),
    };
    ProfileDifference {
        first: case(one.first),
        second: case(one.second),
        us_per_request: one.whole,
        modules: one.modules.iter().map(module).collect(),
        frames: one.frames.iter().take(MOST_FRAMES).map(frame).collect(),
    }
}
