//! The figures of a run, its findings, and the results of its budgets.

use super::checks::Finding;
use super::starts::Starts;
use crate::hosts::legs::Network;
use hoptax_record::Placement;
use hoptax_record::report::{
    BudgetResult, Capacity, Case, GatewayPair, NoiseFloor, Price, SameLoad, SlowFigures, Versions,
    WarmUpFigures,
};

/// The analysis of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// The case of every contender at every load point. A search has no cases. Sorted by load point, then by
    /// contender. Direct comes first, and the others follow in the plan's order.
    pub cases: Vec<Case>,
    /// The noise floor of each load point.
    pub noise_floor: Vec<NoiseFloor>,
    /// Results of searches, sorted by load point, then contender, then objective.
    pub capacity: Vec<Capacity>,
    /// Prices of features, sorted by load point, then in the plan's order. Empty if no gateway was measured
    /// both with and without features.
    pub prices: Vec<Price>,
    /// Every two gateways compared with each other, sorted by load point, then in the plan's order, then by
    /// metric. A search has no pairs, and gateways with different features are compared only if both compete
    /// for the answer.
    pub pairs: Vec<GatewayPair>,
    /// The versions of each gateway, with the changes between successive versions. Empty without lists of
    /// versions.
    pub versions: Vec<Versions>,
    /// How long each process took to warm up, in the order of the contenders. Empty with a fixed warm-up.
    pub warm_ups: Vec<WarmUpFigures>,
    /// How the CPUs of the roles were placed. Empty if roles are not pinned to different CPUs, and for older
    /// runs.
    pub placements: Vec<Placement>,
    /// What starts and reloads cost: in the order of the contenders, starts before reloads. Such a run has no
    /// cases. Empty for runs that measure trials.
    pub starts: Vec<Starts>,
    /// Why slow requests took longer. Empty without `tail` in the plan.
    pub slow: Vec<SlowFigures>,
    /// The network between the hosts, and how much of each tax it is. Empty if the run has only one host.
    pub network: Network,
    /// What gateways add to the same load from several hosts. Empty if each load comes from one host.
    pub same_loads: Vec<SameLoad>,
    /// Findings, the most severe first.
    pub findings: Vec<Finding>,
    /// Results of the plan's budgets, one for each budget and each case that the budget limits.
    pub budget: Vec<BudgetResult>,
    /// Says which budgets were not checked at load points that the run left out. Absent if there are none.
    pub unchecked: Option<String>,
}

impl Analysis {
    /// The case of a gateway at a load point.
    pub fn case(&self, gateway: &str, load: usize) -> Option<&Case> {
        self.cases.iter().find(|case| case.gateway == gateway && case.load.index == load)
    }
}
