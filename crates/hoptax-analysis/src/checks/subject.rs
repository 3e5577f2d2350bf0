//! The run that is examined, as rules look at it.

use crate::case::Case;
use crate::noise::NoiseFloor;
use crate::trial::Trial;
use hoptax_plan::Gateway;
use hoptax_plan::recorded::RunRecord;

/// What is examined.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The run.
    pub run: &'a RunRecord,
    /// Every case with its good trials.
    pub cases: &'a [(Case, Vec<Trial<'a>>)],
    /// One per load point.
    pub noise_floor: &'a [NoiseFloor],
}

impl<'a> Subject<'a> {
    /// After this long a request is given up, ns.
    pub(super) fn timeout_ns(&self) -> u64 {
        u64::try_from(self.run.plan.timeout.total.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether what a gateway answered without success is the doing of the plan's events alone, which are told by themselves.
    pub(super) fn rejects_by_events_only(&self, trials: &[Trial<'_>]) -> bool {
        let timeout = self.timeout_ns();
        !trials.is_empty() && trials.iter().all(|trial| trial.rejects_by_events_only(timeout))
    }

    /// The cases that were measured.
    pub(super) fn measured(&self) -> impl Iterator<Item = (&'a Case, &'a [Trial<'a>])> {
        self.cases.iter().filter(|(case, _)| case.trials > 0).map(|(case, trials)| (case, trials.as_slice()))
    }

    /// Each gateway's case that was measured.
    pub(super) fn gateways(&self) -> impl Iterator<Item = (&'a Case, &'a [Trial<'a>])> {
        self.measured().filter(|(case, _)| !case.is_direct())
    }

    /// The gateway of this label as the plan has it.
    pub(super) fn gateway(&self, label: &str) -> Option<&'a Gateway> {
        self.run.plan.gateways.iter().find(|gateway| gateway.label == label)
    }

    /// Each gateway's case beside direct's of the same load point, where both were measured.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (Measured<'a>, Measured<'a>)> {
        self.gateways().filter_map(|via| Some((via, self.direct(via.0.load.index)?)))
    }

    /// Direct at a load point, if it was measured there.
    pub(super) fn direct(&self, load: usize) -> Option<Measured<'a>> {
        self.measured().find(|(case, _)| case.is_direct() && case.load.index == load)
    }
}

/// A case with its good trials.
pub(super) type Measured<'a> = (&'a Case, &'a [Trial<'a>]);
