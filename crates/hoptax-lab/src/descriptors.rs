//! Checks that the limits on file descriptors allow the plan's connections.

use super::packs::PackSet;
use super::packs::manifest::LimitPer;
use hoptax_plan::{Gateway, GatewayKind, HopKind, Plan, Upstream};
use rustix::process::{Resource, getrlimit};

/// Descriptors that a hoptax process needs besides its connections: listeners, logs, event loops, the runtime.
const OVERHEAD: u64 = 64;

/// Descriptors that a gateway needs besides its connections. The number is generous, because gateways differ.
const GATEWAY_OVERHEAD: u64 = 200;

/// The limit that is assumed if the kernel sets no limit: the default of `fs.nr_open`.
const UNLIMITED: u64 = 1 << 20;

/// Maximum number of descriptors that a process can open: the hard limit. hoptax and its guards raise their soft limit
/// to the hard limit.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(UNLIMITED)
}

/// The plan has more connections than a process can open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{connections} connections do not fit: {process} would need {needed} descriptors, but its limit is {limit}. At most \
         {fits} connections fit. Use fewer connections, or raise the limit (`ulimit -Hn`)"
)]
pub struct TooMany {
    /// Largest number of connections in the plan.
    pub connections: u32,
    /// The process that would run out of descriptors.
    pub process: String,
    /// Descriptors that the process would need.
    pub needed: u64,
    /// Descriptor limit of the process.
    pub limit: u64,
    /// Largest number of connections that the limit allows.
    pub fits: u64,
}

/// Checks the load point with the most connections in the plan. The result is an error if the generator or the built-in
/// upstream cannot open that many connections, because then nothing can be measured. A gateway that cannot open them
/// refuses or queues connections. The run measures this effect, so the result is only a note for each such gateway.
///
/// # Errors
/// If the generator or the built-in upstream would run out of descriptors.
pub fn check(plan: &Plan, packs: &PackSet, limit: u64) -> Result<Vec<String>, TooMany> {
    let connections = plan.load.iter().map(|point| point.connections).max().unwrap_or(0);
    let ours =
        |process: &str| Need { process: process.to_owned(), per_connection: 1, overhead: OVERHEAD, share: 1 };
    ours("the generator").check(connections, limit)?;
    if let Upstream::BuiltIn(upstream) = &plan.upstream {
        let overhead = OVERHEAD + 4 * u64::from(upstream.instances);
        Need { overhead, ..ours("the upstream") }.check(connections, limit)?;
    }
    let needs = plan.gateways.iter().filter_map(|gateway| need_of(gateway, packs));
    Ok(needs.filter_map(|need| need.check(connections, limit).err()).map(|error| error.to_string()).collect())
}

fn need_of(gateway: &Gateway, packs: &PackSet) -> Option<Need> {
    let process = gateway.label.clone();
    match &gateway.kind {
        GatewayKind::Hop(HopKind::L4 | HopKind::L7) | GatewayKind::DelayingHop(_) => {
            Some(Need { process, per_connection: 2, overhead: OVERHEAD, share: 1 })
        }
        GatewayKind::Pack { pack, workers, .. } => {
            let limits = &packs.get(pack)?.manifest().limits;
            let share = match limits.per {
                LimitPer::Process => 1,
                LimitPer::Worker => u64::from(*workers).max(1),
            };
            let per_connection = u64::from(limits.descriptors_per_connection);
            Some(Need { process, per_connection, overhead: GATEWAY_OVERHEAD, share })
        }
        GatewayKind::External { .. } => None,
    }
}

struct Need {
    process: String,
    per_connection: u64,
    overhead: u64,
    share: u64,
}

impl Need {
    fn check(&self, connections: u32, limit: u64) -> Result<(), TooMany> {
        let fits = limit.saturating_sub(self.overhead) / self.per_connection.max(1) * self.share;
        if u64::from(connections) <= fits {
            return Ok(());
        }
        let needed = u64::from(connections).div_ceil(self.share) * self.per_connection + self.overhead;
        Err(TooMany { connections, process: self.process.clone(), needed, limit, fits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    fn plan(connections: u32) -> Plan {
        let pack = |label: &str, pack: &str, workers| Gateway {
            label: label.into(),
            kind: GatewayKind::Pack {
                pack: pack.into(),
                workers,
                features: vec![],
                instances: None,
                driver: Default::default(),
            },
        };
        let gateways = vec![
            pack("nginx-2", "nginx", 2),
            pack("haproxy", "haproxy", 2),
            Gateway { label: "hop-l4".into(), kind: GatewayKind::Hop(HopKind::L4) },
        ];
        fake::plan(gateways, connections)
    }

    #[test]
    fn reports_how_many_fit_before_anything_starts() {
        let packs = PackSet::load(None).expect("the packs are right");
        assert_eq!(check(&plan(100), &packs, 20_000), Ok(vec![]));
        let refused = check(&plan(25_000), &packs, 20_000).expect_err("too many for the generator");
        assert_eq!(
            (refused.process.as_str(), refused.fits, refused.needed),
            ("the generator", 19_936, 25_064)
        );
        let message = refused.to_string();
        assert!(message.contains("At most 19936 connections fit"), "{message}");
    }

    #[test]
    fn a_gateway_that_cannot_hold_them_is_named_and_still_measured() {
        let packs = PackSet::load(None).expect("the packs are right");
        let notes = check(&plan(15_000), &packs, 20_000).expect("generator and upstream can");
        assert_eq!(notes.len(), 2, "nginx spreads them over its workers: {notes:?}");
        assert!(notes[0].contains("haproxy would need 30200 descriptors"), "{}", notes[0]);
        assert!(notes[0].contains("At most 9900 connections fit"), "{}", notes[0]);
        assert!(notes[1].contains("hop-l4"), "{}", notes[1]);
    }
}
