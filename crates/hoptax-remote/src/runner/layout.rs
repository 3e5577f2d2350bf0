//! Where the roles of a run are. Hosts of a plan may be one machine under several names, for example in
//! network namespaces: then one agent sees the processes of the others. All functions are pure.

use hoptax_lab::cpus::Roles;
use hoptax_plan::{Gateway, GatewayKind, Plan, Upstream};
use hoptax_record::Role;

/// Where a role is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seat {
    /// Name of the host.
    pub(super) host: String,
    /// The machine, as [`Welcome::machine`](crate::protocol::message::Welcome::machine) names it.
    pub(super) machine: String,
    /// The network namespace.
    pub(super) network: String,
}

/// Which services hoptax starts. All other services already run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Starts {
    /// True if hoptax starts at least one of the gateways.
    pub(super) gateway: bool,
    pub(super) upstream: bool,
}

impl Starts {
    pub(super) fn of(plan: &Plan) -> Self {
        let starts = |gateway: &Gateway| !matches!(gateway.kind, GatewayKind::External { .. });
        Self {
            gateway: plan.gateways.iter().any(starts),
            upstream: matches!(plan.upstream, Upstream::BuiltIn(_)),
        }
    }
}

/// Where all roles are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// The first generator. It also sends everything that is no load.
    pub(super) generator: Seat,
    /// The other generators.
    pub(super) more_generators: Vec<Seat>,
    pub(super) gateway: Seat,
    pub(super) upstream: Seat,
}

/// The usage that a host without a generator samples during a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sampling {
    /// Name of the host.
    pub(super) host: String,
    pub(super) gateway: bool,
    pub(super) upstream: bool,
    /// True if it reads only the counters of its network, because another host samples its machine.
    pub(super) only_network: bool,
    /// The roles in its network.
    pub(super) network_roles: Vec<Role>,
}

impl Sampling {
    /// The roles whose processes it samples.
    pub(super) fn roles(&self) -> Vec<Role> {
        let each = [(self.gateway, Role::Gateway), (self.upstream, Role::Upstream)];
        each.into_iter().filter(|(has, _)| *has).map(|(_, role)| role).collect()
    }
}

impl Layout {
    /// All generators, in the order of the plan.
    pub(super) fn generators(&self) -> impl Iterator<Item = &Seat> {
        std::iter::once(&self.generator).chain(&self.more_generators)
    }

    /// All roles, with the seat of each.
    fn roles(&self) -> impl Iterator<Item = (Role, &Seat)> {
        let generators = self.generators().map(|seat| (Role::Generator, seat));
        generators.chain([(Role::Gateway, &self.gateway), (Role::Upstream, &self.upstream)])
    }

    /// The name of each role's host. A host with several roles is repeated.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.roles().map(|(_, seat)| seat.host.as_str())
    }

    /// Whether the generator with this number samples this machine. Only the first generator on a machine
    /// does.
    pub(super) fn is_sampled_by(&self, machine: &str, generator: usize) -> bool {
        self.generators().position(|seat| seat.machine == machine) == Some(generator)
    }

    /// Whether the first generator's host sees the gateway's processes.
    pub(super) fn gateway_is_near(&self) -> bool {
        self.gateway.machine == self.generator.machine
    }

    /// Whether the first generator's host sees the upstream's processes.
    pub(super) fn upstream_is_near(&self) -> bool {
        self.upstream.machine == self.generator.machine
    }

    /// Whether all roles are on one machine.
    pub(super) fn is_one_machine(&self) -> bool {
        self.roles().all(|(_, seat)| seat.machine == self.generator.machine)
    }

    /// What the hosts without a generator sample. Each machine and each network is looked at once.
    pub(super) fn others(&self) -> Vec<Sampling> {
        let mut seen: Vec<&Seat> = self.generators().collect();
        let mut others = Vec::new();
        for seat in [&self.gateway, &self.upstream] {
            let of_machine: Vec<&&Seat> = seen.iter().filter(|other| other.machine == seat.machine).collect();
            if of_machine.iter().any(|other| other.network == seat.network) {
                continue;
            }
            let only_network = !of_machine.is_empty();
            seen.push(seat);
            let has = |role: &Seat| !only_network && role.machine == seat.machine;
            let in_network = |role: &Seat| (&role.machine, &role.network) == (&seat.machine, &seat.network);
            let served = [(&self.gateway, Role::Gateway), (&self.upstream, Role::Upstream)];
            others.push(Sampling {
                host: seat.host.clone(),
                gateway: has(&self.gateway),
                upstream: has(&self.upstream),
                only_network,
                network_roles: served
                    .into_iter()
                    .filter(|(of, _)| in_network(of))
                    .map(|(_, role)| role)
                    .collect(),
            });
        }
        others
    }

    /// The roles on a machine.
    pub(super) fn roles_on(&self, machine: &str) -> Roles {
        let has = |role: Role| self.roles().any(|(one, seat)| one == role && seat.machine == machine);
        Roles { generator: has(Role::Generator), gateway: has(Role::Gateway), upstream: has(Role::Upstream) }
    }

    /// The roles of a host.
    pub(super) fn roles_of(&self, host: &str) -> Vec<Role> {
        self.roles().filter(|(_, seat)| seat.host == host).map(|(role, _)| role).collect()
    }

    /// The hosts that need an address, because a host with another loopback connects to them. If hoptax
    /// starts no service of a role, the role's host needs no address for it.
    pub(super) fn dialled(&self, starts: Starts) -> Vec<&str> {
        let shares_loopback =
            |one: &Seat, other: &Seat| one.machine == other.machine && one.network == other.network;
        let generators = |seat| self.generators().any(|from| !shares_loopback(from, seat));
        let mut hosts = Vec::new();
        if starts.gateway && generators(&self.gateway) {
            hosts.push(self.gateway.host.as_str());
        }
        if starts.upstream
            && (generators(&self.upstream)
                || starts.gateway && !shares_loopback(&self.gateway, &self.upstream))
        {
            hosts.push(self.upstream.host.as_str());
        }
        hosts.dedup();
        hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Starts = Starts { gateway: true, upstream: true };

    /// A seat from `host machine network`.
    fn seat(text: &str) -> Seat {
        let mut words = text.split(' ').map(str::to_owned);
        let mut next = || words.next().expect("three words");
        Seat { host: next(), machine: next(), network: next() }
    }

    fn layout(generator: &str, gateway: &str, upstream: &str) -> Layout {
        let more_generators = Vec::new();
        Layout {
            generator: seat(generator),
            more_generators,
            gateway: seat(gateway),
            upstream: seat(upstream),
        }
    }

    /// Adds these generators to `one`.
    fn with(more: &[&str], one: Layout) -> Layout {
        Layout { more_generators: more.iter().map(|text| seat(text)).collect(), ..one }
    }

    fn shown(layout: &Layout) -> String {
        let one = |other: &Sampling| {
            let role = |is: bool, name: &str| if is { format!(" {name}") } else { String::new() };
            let roles = role(other.gateway, "gateway") + &role(other.upstream, "upstream");
            format!("{}:{roles}{}", other.host, role(other.only_network, "network"))
        };
        layout.others().iter().map(one).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn every_machine_and_network_is_looked_at_once() {
        let table = [
            (layout("a m n", "a m n", "a m n"), ""),
            (layout("a m1 n", "b m2 n", "c m3 n"), "b: gateway; c: upstream"),
            (layout("a m1 n", "b m2 n", "b m2 n"), "b: gateway upstream"),
            (layout("a m1 n", "a m1 n", "b m2 n"), "b: upstream"),
            (layout("a m1 n", "b m2 n", "a m1 n"), "b: gateway"),
            (layout("a m n1", "b m n2", "c m n3"), "b: network; c: network"),
            (layout("a m n1", "b m n1", "c m n2"), "c: network"),
            (layout("a m1 n1", "b m2 n1", "c m2 n2"), "b: gateway upstream; c: network"),
            (with(&["d m4 n", "e m3 n"], layout("a m1 n", "b m2 n", "c m3 n")), "b: gateway"),
            (with(&["d m2 n9"], layout("a m1 n", "b m2 n", "c m3 n")), "b: network; c: upstream"),
        ];
        for (layout, expected) in table {
            assert_eq!(shown(&layout), expected, "{layout:?}");
        }
    }

    #[test]
    fn machines_and_networks_have_roles() {
        let others = layout("a m1 n1", "b m2 n1", "c m2 n2").others();
        let roles: Vec<_> = others.iter().map(|one| (one.roles(), one.network_roles.clone())).collect();
        assert_eq!(
            roles,
            [(vec![Role::Gateway, Role::Upstream], vec![Role::Gateway]), (vec![], vec![Role::Upstream])]
        );
        let one = layout("a m1 n", "b m2 n", "c m2 n").others().remove(0);
        assert_eq!(one.network_roles, one.roles());
    }

    #[test]
    fn an_address_is_needed_where_the_loopback_is_another_one() {
        assert!(layout("a m n", "b m n", "c m n").dialled(ALL).is_empty(), "one network");
        assert_eq!(layout("a m n1", "b m n2", "b m n2").dialled(ALL), ["b"]);
        assert_eq!(layout("a m1 n", "a m1 n", "c m2 n").dialled(ALL), ["c"]);
        assert_eq!(layout("a m1 n", "b m2 n", "a m1 n").dialled(ALL), ["b", "a"], "the gateway dials it");
        assert_eq!(with(&["d m2 n"], layout("a m1 n", "a m1 n", "a m1 n")).dialled(ALL), ["a"]);
        let apart = layout("a m1 n", "b m2 n", "c m3 n");
        assert_eq!(apart.dialled(Starts { gateway: false, ..ALL }), ["c"], "the gateway runs already");
        assert!(apart.dialled(Starts { gateway: false, upstream: false }).is_empty());
    }

    #[test]
    fn roles_belong_to_machines_and_hosts() {
        let two = layout("a m1 n", "b m2 n", "c m2 n2");
        assert_eq!(two.roles_on("m2"), Roles { generator: false, gateway: true, upstream: true });
        assert_eq!(two.roles_of("b"), [Role::Gateway]);
        assert!(!two.gateway_is_near() && !two.is_one_machine());
        assert_eq!(
            layout("a m n", "a m n", "a m n").roles_of("a"),
            [Role::Generator, Role::Gateway, Role::Upstream]
        );
        let more = with(&["d m3 n", "e m3 n4"], two);
        assert_eq!(more.roles_on("m3"), Roles { generator: true, gateway: false, upstream: false });
        assert_eq!((more.roles_of("e"), more.is_one_machine()), (vec![Role::Generator], false));
        let samples = |machine| [0, 1, 2].map(|generator| more.is_sampled_by(machine, generator));
        assert_eq!(samples("m1"), [true, false, false]);
        assert_eq!(samples("m3"), [false, true, false], "the first of two on this machine");
        assert_eq!(samples("m2"), [false; 3]);
    }
}
