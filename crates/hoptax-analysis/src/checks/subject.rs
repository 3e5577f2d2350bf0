//! The run under examination, as the checks see it.

use crate::case::Case;
use crate::noise::NoiseFloor;
use crate::starts::Starts;
use crate::trial::Trial;
use hoptax_plan::recorded::RunRecord;
use hoptax_plan::{Gateway, Upstream};
use hoptax_record::Placement;
use hoptax_record::start::StartRecord;

/// A run, and the results that the checks need.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The run.
    pub run: &'a RunRecord,
    /// Every case, with its valid trials.
    pub cases: &'a [(Case, Vec<Trial<'a>>)],
    /// The noise floor of each load point.
    pub noise_floor: &'a [NoiseFloor],
    /// How the CPUs of the roles were placed.
    pub placements: &'a [Placement],
    /// The starts of a run that measured starts.
    pub starts: &'a [StartRecord],
    /// The figures of these starts.
    pub of_starts: &'a [Starts],
}

impl<'a> Subject<'a> {
    /// Time limit of a request, ns.
    pub(super) fn timeout_ns(&self) -> u64 {
        u64::try_from(self.run.plan.timeout.total.as_nanos()).unwrap_or(u64::MAX)
    }

    /// True if the plan's events caused all rejections in these trials. The report shows such rejections with the
    /// figures of the events.
    pub(super) fn rejects_by_events_only(&self, trials: &[Trial<'_>]) -> bool {
        let timeout = self.timeout_ns();
        !trials.is_empty() && trials.iter().all(|trial| trial.rejects_by_events_only(timeout))
    }

    /// True if a response with this status is a rejection: the status is outside of 200 to 399, the plan's upstream does
    /// not send it, and no target expects it.
    pub(super) fn is_rejection(&self, status: u16) -> bool {
        let plan = &self.run.plan;
        let sent = matches!(&plan.upstream, Upstream::BuiltIn(upstream) if upstream.status == status);
        let expected = sent || plan.targets.iter().any(|target| target.expects_status(status));
        !(200..400).contains(&status) && !expected
    }

    pub(super) fn measured(&self) -> impl Iterator<Item = (&'a Case, &'a [Trial<'a>])> {
        self.cases.iter().filter(|(case, _)| case.trials > 0).map(|(case, trials)| (case, trials.as_slice()))
    }

    pub(super) fn gateways(&self) -> impl Iterator<Item = (&'a Case, &'a [Trial<'a>])> {
        self.measured().filter(|(case, _)| !case.is_direct())
    }

    pub(super) fn gateway(&self, label: &str) -> Option<&'a Gateway> {
        self.run.plan.gateways.iter().find(|gateway| gateway.label == label)
    }

    /// Pairs of a gateway's case and direct's case at the same load point. A pair is left out if one of its cases was
    /// not measured.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (Measured<'a>, Measured<'a>)> {
        self.gateways().filter_map(|via| Some((via, self.direct(via.0.load.index)?)))
    }

    pub(super) fn direct(&self, load: usize) -> Option<Measured<'a>> {
        self.measured().find(|(case, _)| case.is_direct() && case.load.index == load)
    }
}

pub(super) type Measured<'a> = (&'a Case, &'a [Trial<'a>]);
