//! Leaves out load points whose connections do not fit into this machine's limits.
//!
//! A case that does not fit shows no cost of a gateway: connections are refused or wait, and some gateways
//! die. So hoptax decides before a run which load points fit, from the limits alone, and measures only those.

use super::descriptors::{self, Descriptors};
use super::packs::PackSet;
use hoptax_plan::{LoadPoint, Plan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The limits of a machine on the number of connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Largest number of descriptors that a process can open.
    pub descriptors: u64,
    /// Number of local ports for connections from one address to another. Absent if it is unknown.
    pub ports: Option<u64>,
}

impl Limits {
    /// The limits of this process now.
    pub fn now() -> Self {
        let ports = hoptax_host::probe::network::local_ports();
        Self { descriptors: descriptors::limit(), ports: Some(ports).filter(|ports| *ports > 0) }
    }
}

/// The limits of the roles on the number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleLimits {
    /// Descriptors of each role's processes.
    pub descriptors: Descriptors,
    /// Number of local ports of each generator's machine. Absent if it is unknown.
    pub ports: Option<u64>,
}

impl RoleLimits {
    /// All roles are on one machine.
    pub fn on_one_machine(limits: Limits) -> Self {
        Self { descriptors: Descriptors::on_one_machine(limits.descriptors), ports: limits.ports }
    }
}

/// The limits for the loads from each host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadLimits {
    /// The limits of loads from the host of the role `generator`.
    pub of_role: RoleLimits,
    /// The limits of loads from other hosts, by the name of the host.
    pub from: BTreeMap<String, RoleLimits>,
}

impl From<RoleLimits> for LoadLimits {
    /// All loads come from the host of the role `generator`.
    fn from(of_role: RoleLimits) -> Self {
        Self { of_role, from: BTreeMap::new() }
    }
}

impl LoadLimits {
    /// The limits for a load point.
    fn of(&self, point: &LoadPoint) -> RoleLimits {
        point.from.as_ref().and_then(|host| self.from.get(host)).copied().unwrap_or(self.of_role)
    }
}

/// No load point of the plan fits into the limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no load point of the plan fits into the limits of the machines. {0}")]
pub struct NothingFits(String);

/// Marks the load points of the plan whose connections do not fit, for the generator, for a gateway or for
/// the built-in upstream. Such a load point is left out for every contender, because the contenders that
/// could be measured would have nothing to be compared with. Returns a line for each of them.
///
/// # Errors
/// If no load point fits.
pub fn leave_out(
    plan: &mut Plan,
    packs: &PackSet,
    limits: impl Into<LoadLimits>,
) -> Result<Vec<String>, NothingFits> {
    let limits = limits.into();
    let reasons: Vec<Option<String>> =
        plan.load.iter().map(|point| misfit(point, plan, packs, limits.of(point))).collect();
    if let Some(reason) = reasons.iter().flatten().next()
        && reasons.iter().all(Option::is_some)
    {
        return Err(NothingFits(reason.clone()));
    }
    for (point, reason) in plan.load.iter_mut().zip(reasons) {
        point.left_out = reason;
    }
    let line =
        |point: &LoadPoint| Some(format!("left out: {}. {}", point.describe(), point.left_out.as_ref()?));
    Ok(plan.load.iter().filter_map(line).collect())
}

/// Why the connections of a load point do not fit. `None` if they fit.
fn misfit(point: &LoadPoint, plan: &Plan, packs: &PackSet, limits: RoleLimits) -> Option<String> {
    if let Err(error) =
        descriptors::check((point.connections, point.streams), plan, packs, limits.descriptors)
    {
        return Some(error.to_string());
    }
    let generators = limits.descriptors.generators;
    let fits = limits.ports? * plan.sources.len().max(1) as u64 * generators;
    let who = if generators == 1 { "the generator has" } else { "the generators have" };
    (u64::from(point.connections) > fits).then(|| {
        format!(
            "{} connections do not fit: {who} {fits} local ports. Give it more addresses (`sources: \
             [127.0.0.2, 127.0.0.3]`), or widen net.ipv4.ip_local_port_range",
            point.connections
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use hoptax_plan::{Gateway, GatewayKind, HopKind};
    use std::time::Duration;

    fn plan(connections: &[u32]) -> Plan {
        let hop = Gateway { label: "hop-l4".into(), kind: GatewayKind::Hop(HopKind::L4) };
        let mut plan = fake::plan(vec![hop], 1);
        plan.load =
            connections.iter().map(|count| LoadPoint::closed(*count, Duration::from_secs(1))).collect();
        plan
    }

    fn packs() -> PackSet {
        PackSet::load(None).expect("the packs are right")
    }

    fn limits(descriptors: u64, ports: Option<u64>) -> RoleLimits {
        RoleLimits::on_one_machine(Limits { descriptors, ports })
    }

    #[test]
    fn load_points_that_fit_are_kept() {
        let mut plan = plan(&[5_000, 15_000]);
        let lines = leave_out(&mut plan, &packs(), limits(20_000, Some(28_232))).expect("one fits");
        insta::assert_snapshot!(lines.join("\n"));
        let kept: Vec<bool> = plan.load.iter().map(LoadPoint::is_in_rounds).collect();
        assert_eq!(kept, [true, false]);
    }

    #[test]
    fn each_host_has_limits_of_its_own() {
        let mut plan = plan(&[5_000, 5_000]);
        plan.load[1].from = Some("edge".into());
        let of_role = limits(20_000, Some(28_232));
        let from = BTreeMap::from([("edge".to_owned(), limits(20_000, Some(4_000)))]);
        let lines = leave_out(&mut plan, &packs(), LoadLimits { of_role, from }).expect("one fits");
        insta::assert_snapshot!(lines.join("\n"));
        assert!(plan.load[0].is_in_rounds() && !plan.load[1].is_in_rounds());
    }

    #[test]
    fn a_plan_without_a_load_point_that_fits_is_an_error() {
        let mut plan = plan(&[15_000, 16_000]);
        let error = leave_out(&mut plan, &packs(), limits(20_000, Some(28_232)));
        insta::assert_snapshot!(error.expect_err("nothing fits"));
    }

    #[test]
    fn connections_need_ports_of_the_source_addresses() {
        let limits = limits(1 << 20, Some(40));
        let mut plan = plan(&[40, 41]);
        let lines = leave_out(&mut plan, &packs(), limits).expect("one fits");
        insta::assert_snapshot!(lines.join("\n"));
        plan.sources = vec![[127, 0, 0, 2].into(), [127, 0, 0, 3].into()];
        assert_eq!(leave_out(&mut plan, &packs(), limits), Ok(vec![]), "an earlier mark is removed");
        plan.sources.clear();
        let mut two = limits;
        two.descriptors.generators = 2;
        assert_eq!(leave_out(&mut plan, &packs(), two), Ok(vec![]), "two generators have twice as many");
        assert!(leave_out(&mut plan, &packs(), RoleLimits { ports: None, ..limits }).is_ok());
    }
}
