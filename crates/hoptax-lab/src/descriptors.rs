//! Checks that the limits on file descriptors allow the plan's connections.

use super::packs::PackSet;
use super::packs::manifest::LimitPer;
use hoptax_format::spec::HttpVersion;
use hoptax_plan::{Gateway, GatewayKind, HopKind, Plan, Upstream};
use rustix::process::{Resource, getrlimit};

/// Descriptors that a hoptax process needs besides its connections: listeners, logs, event loops, the
/// runtime.
const OVERHEAD: u64 = 64;

/// Descriptors that a gateway needs besides its connections. The number is generous, because gateways differ.
const GATEWAY_OVERHEAD: u64 = 200;

/// The limit that is assumed if the kernel sets no limit: the default of `fs.nr_open`.
const UNLIMITED: u64 = 1 << 20;

/// Maximum number of descriptors that a process can open: the hard limit. hoptax and its guards raise their
/// soft limit to the hard limit.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(UNLIMITED)
}

/// How many descriptors a process of each role can open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// Each generator. If the limits of several generators differ, this is the lowest one.
    pub generator: u64,
    /// Number of generators, which divide the connections.
    pub generators: u64,
    /// Each gateway.
    pub gateway: u64,
    /// The upstream.
    pub upstream: u64,
}

impl Descriptors {
    /// One generator, and the same limit for all roles.
    pub fn on_one_machine(limit: u64) -> Self {
        Self { generator: limit, generators: 1, gateway: limit, upstream: limit }
    }
}

/// A load point has more connections than a process can open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{connections} connections do not fit: {process} would need {needed} descriptors, but its limit is \
         {limit}. At most {fits} connections fit. Use fewer connections, or raise the limit (`ulimit -Hn`)"
)]
pub struct TooMany {
    /// Number of connections of the load point.
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

/// Checks that the generators, the built-in upstream and every gateway of the plan can open this many
/// connections with this many streams each. Gateways of packs may need an upstream connection for each
/// stream.
///
/// # Errors
/// If a process would run out of descriptors. The error names the process that can open the fewest
/// connections.
pub fn check(
    (connections, streams): (u32, u32),
    plan: &Plan,
    packs: &PackSet,
    limits: Descriptors,
) -> Result<(), TooMany> {
    let streams = u64::from(streams);
    let ours =
        |process: &str| Need { process: process.to_owned(), per_connection: 1, overhead: OVERHEAD, share: 1 };
    let generator = Need { share: limits.generators, ..ours("the generator") };
    let upstream = match &plan.upstream {
        Upstream::BuiltIn(upstream) => {
            let overhead = OVERHEAD + 4 * u64::from(upstream.instances);
            let has_packs = plan.gateways.iter().any(|one| matches!(one.kind, GatewayKind::Pack { .. }));
            let per_connection = if has_packs { streams } else { 1 };
            Some(Need { overhead, per_connection, ..ours("the upstream") })
        }
        Upstream::Running(_) => None,
    };
    let upstream = upstream.map(|need| (need, limits.upstream));
    let gateways = plan.gateways.iter().filter_map(|gateway| {
        let need = need_of(gateway, packs, streams)?;
        Some((need, limits.gateway))
    });
    let needs = std::iter::once((generator, limits.generator)).chain(upstream).chain(gateways);
    let misfits = needs.filter_map(|(need, limit)| need.check(connections, limit).err());
    misfits.min_by_key(|error| error.fits).map_or(Ok(()), Err)
}

fn need_of(gateway: &Gateway, packs: &PackSet, streams: u64) -> Option<Need> {
    let process = gateway.label.clone();
    match &gateway.kind {
        GatewayKind::Hop(HopKind::L4 | HopKind::L7)
        | GatewayKind::DelayingHop(_)
        | GatewayKind::ForwardingHop { .. } => {
            Some(Need { process, per_connection: 2, overhead: OVERHEAD, share: 1 })
        }
        GatewayKind::Http2Hop { upstream, .. } => {
            let of_request = if *upstream == HttpVersion::Http2 { 1 } else { streams };
            Some(Need { process, per_connection: 1 + of_request, overhead: OVERHEAD, share: 1 })
        }
        GatewayKind::Pack { pack, workers, .. } => {
            let limits = &packs.get(pack)?.manifest().limits;
            let share = match limits.per {
                LimitPer::Process => 1,
                LimitPer::Worker => u64::from(*workers).max(1),
            };
            // One descriptor is the client's connection, and the others are for each of its requests.
            let of_request = u64::from(limits.descriptors_per_connection).saturating_sub(1);
            let per_connection = 1 + of_request * streams;
            Some(Need { process, per_connection, overhead: GATEWAY_OVERHEAD, share })
        }
        GatewayKind::External { .. } => None,
    }
}

struct Need {
    process: String,
    per_connection: u64,
    overhead: u64,
    /// Number of processes that divide the connections.
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

    const LIMITS: Descriptors =
        Descriptors { generator: 20_000, generators: 1, gateway: 20_000, upstream: 20_000 };

    fn plan() -> Plan {
        let gateways = vec![
            fake::pack_gateway("nginx-2", "nginx", 2, Vec::new()),
            fake::pack_gateway("haproxy", "haproxy", 2, Vec::new()),
            Gateway { label: "hop-l4".into(), kind: GatewayKind::Hop(HopKind::L4) },
        ];
        fake::plan(gateways, 1)
    }

    #[test]
    fn reports_how_many_fit_before_anything_starts() {
        let packs = PackSet::load(None).expect("the packs are right");
        let direct = fake::plan(vec![], 1);
        assert_eq!(check((19_000, 1), &direct, &packs, LIMITS), Ok(()));
        let refused =
            check((25_000, 1), &direct, &packs, LIMITS).expect_err("too many for generator and upstream");
        assert_eq!(
            (refused.process.as_str(), refused.fits, refused.needed),
            ("the upstream", 19_932, 25_068)
        );
        insta::assert_snapshot!(refused);
    }

    #[test]
    fn generators_divide_the_connections_and_each_role_has_its_own_limit() {
        let packs = PackSet::load(None).expect("the packs are right");
        let direct = fake::plan(vec![], 1);
        let three = Descriptors { generators: 3, upstream: 1 << 20, ..LIMITS };
        assert_eq!(check((45_000, 1), &direct, &packs, three), Ok(()));
        let refused = check((60_000, 1), &direct, &packs, three).expect_err("too many for each generator");
        assert_eq!(
            (refused.process.as_str(), refused.fits, refused.needed),
            ("the generator", 59_808, 20_064)
        );
        let one = Descriptors { generators: 1, ..three };
        assert!(check((45_000, 1), &direct, &packs, one).is_err());
    }

    #[test]
    fn the_gateway_that_can_hold_the_fewest_is_named() {
        let packs = PackSet::load(None).expect("the packs are right");
        assert_eq!(check((100, 1), &plan(), &packs, LIMITS), Ok(()));
        insta::assert_snapshot!(check((15_000, 1), &plan(), &packs, LIMITS).expect_err("too many"));
    }

    #[test]
    fn gateways_need_upstream_connections_for_streams() {
        let packs = PackSet::load(None).expect("the packs are right");
        assert_eq!(check((1_000, 10), &plan(), &packs, LIMITS), Ok(()));
        let refused = check((2_000, 10), &plan(), &packs, LIMITS).expect_err("too many");
        assert_eq!((&*refused.process, refused.needed, refused.fits), ("haproxy", 22_200, 1_800));
        let direct = fake::plan(vec![], 1);
        assert_eq!(check((2_000, 1_000), &direct, &packs, LIMITS), Ok(()), "direct multiplexes");
    }
}
