//! Assignment of CPUs to roles.

use hoptax_plan::{CpuPlan, CpuSets, GatewayKind, Idle, Plan};

/// If there are fewer CPUs than this, the roles share CPUs.
const LEAST_TO_SEPARATE: usize = 4;

/// The roles of a machine. A run has three roles, which may be on different machines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Roles {
    /// It sends the load.
    pub generator: bool,
    /// It runs the gateways.
    pub gateway: bool,
    /// It runs the upstream.
    pub upstream: bool,
}

impl Roles {
    /// All roles, as on a machine that has the whole run.
    pub const ALL: Self = Self { generator: true, gateway: true, upstream: true };
}

/// The CPU sets of `plan` on a machine that has only these `roles`. Other roles have empty sets. With all
/// roles, this is [`resolve`].
///
/// With `auto`, a gateway or an upstream that is alone on its machine is not pinned. A generator that is
/// alone gets all CPUs but the first one, if there are four or more: the first CPU usually handles
/// interrupts. Two roles share the CPUs in the proportion of [`resolve`], under the same conditions.
pub fn resolve_for(plan: &Plan, allowed: &[u32], idle: Idle, roles: Roles) -> CpuSets {
    if let CpuPlan::Pinned(sets) = &plan.cpus {
        let of = |is_here: bool, set: &[u32]| if is_here { set.to_vec() } else { Vec::new() };
        return CpuSets {
            generator: of(roles.generator, &sets.generator),
            gateway: of(roles.gateway, &sets.gateway),
            upstream: of(roles.upstream, &sets.upstream),
        };
    }
    if roles == Roles::ALL {
        return resolve(plan, allowed, idle);
    }
    let several = plan.gateways.iter().any(has_several_workers);
    let separates =
        allowed.len() >= LEAST_TO_SEPARATE || allowed.len() >= 2 && idle == Idle::Poll && !several;
    // The first CPUs go to the first role.
    let split = |share: usize| {
        let (first, second) = allowed.split_at(share.clamp(1, allowed.len() - 1));
        (first.to_vec(), second.to_vec())
    };
    let mut sets = CpuSets::default();
    match roles {
        Roles { generator: true, gateway: false, upstream: false } => {
            let spare = usize::from(allowed.len() >= LEAST_TO_SEPARATE);
            sets.generator = allowed[spare..].to_vec();
        }
        Roles { generator: true, gateway: true, .. } if separates => {
            (sets.generator, sets.gateway) = split(allowed.len() / 3);
        }
        Roles { generator: true, upstream: true, .. } if separates => {
            (sets.generator, sets.upstream) = split(allowed.len() / 2);
        }
        Roles { gateway: true, upstream: true, .. } if separates => {
            (sets.gateway, sets.upstream) = split(allowed.len() * 2 / 3);
        }
        _ => {}
    }
    sets
}

/// The CPU sets of `plan` on a machine where this process may use the CPUs `allowed`, and where idle CPUs do
/// `idle`.
///
/// With four CPUs or more, `auto` gives the generator a quarter of the CPUs, the gateway a half, and the
/// upstream the other quarter. The gateway gets the largest part because it is the measured part and handles
/// both sides of each request. A generator needs about half as much CPU time as the built-in upstream and a
/// light gateway need together. Each role gets neighboring CPUs, because neighboring CPUs share caches.
///
/// With three CPUs, each role gets one. With two CPUs, the gateway gets the last one, and generator and
/// upstream share the first one. Threads then run on the same CPUs in each trial. `auto` does this only if
/// idle CPUs poll: each request wakes threads on other CPUs, which takes long if these CPUs sleep. `auto`
/// also leaves the roles unpinned if a gateway has several workers, because a single CPU would slow them
/// down.
pub fn resolve(plan: &Plan, allowed: &[u32], idle: Idle) -> CpuSets {
    match &plan.cpus {
        CpuPlan::Pinned(sets) => sets.clone(),
        CpuPlan::Auto if allowed.len() >= LEAST_TO_SEPARATE => {
            let (generator, rest) = allowed.split_at(allowed.len() / 4);
            let (gateway, upstream) = rest.split_at(allowed.len() / 2);
            CpuSets { generator: generator.into(), gateway: gateway.into(), upstream: upstream.into() }
        }
        CpuPlan::Auto if idle == Idle::Poll && !plan.gateways.iter().any(has_several_workers) => {
            match allowed {
                [first, .., last] => CpuSets {
                    generator: vec![*first],
                    gateway: vec![*last],
                    upstream: vec![allowed[allowed.len() - 2]],
                },
                _ => CpuSets::default(),
            }
        }
        CpuPlan::Auto => CpuSets::default(),
    }
}

fn has_several_workers(gateway: &hoptax_plan::Gateway) -> bool {
    matches!(gateway.kind, GatewayKind::Pack { workers, .. } if workers > 1)
}

/// CPUs for a gateway that is limited to `workers` CPUs. They are taken from the gateway's `set`, or from all
/// `allowed` CPUs if the set is empty. The last CPUs are used, because the first CPU usually handles
/// interrupts.
pub fn limit_to(set: &[u32], allowed: &[u32], workers: u32) -> Vec<u32> {
    let from = if set.is_empty() { allowed } else { set };
    from[from.len().saturating_sub(workers as usize)..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn a_gateway_is_limited_to_cpus_of_its_own_set_if_it_has_one() {
        assert_eq!(limit_to(&[], &[0, 1, 2], 1), [2]);
        assert_eq!(limit_to(&[4, 5, 6], &[0, 1, 2, 3, 4, 5, 6], 2), [5, 6]);
        assert_eq!(limit_to(&[], &[0, 1], 3), [0, 1], "there are no more");
    }

    fn plan(workers: u32) -> Plan {
        fake::plan(vec![fake::pack_gateway("nginx", "nginx", workers, Vec::new())], 1)
    }

    fn sets(generator: &[u32], gateway: &[u32], upstream: &[u32]) -> CpuSets {
        CpuSets { generator: generator.into(), gateway: gateway.into(), upstream: upstream.into() }
    }

    #[test]
    fn auto_splits_four_or_more_and_leaves_none_over() {
        let table: [(&[u32], CpuSets); 7] = [
            (&[0], sets(&[], &[], &[])),
            (&[0, 1], sets(&[], &[], &[])),
            (&[0, 1, 2], sets(&[], &[], &[])),
            (&[0, 1, 2, 3], sets(&[0], &[1, 2], &[3])),
            (&[0, 1, 2, 3, 4], sets(&[0], &[1, 2], &[3, 4])),
            (&[4, 5, 8, 9, 10, 11], sets(&[4], &[5, 8, 9], &[10, 11])),
            (&[0, 1, 2, 3, 4, 5, 6, 7], sets(&[0, 1], &[2, 3, 4, 5], &[6, 7])),
        ];
        for (allowed, expected) in table {
            assert_eq!(resolve(&plan(1), allowed, Idle::Sleep), expected, "{allowed:?}");
        }
    }

    #[test]
    fn two_or_three_cpus_are_split_if_they_poll_and_each_gateway_has_one_worker() {
        let table: [(u32, &[u32], CpuSets); 4] = [
            (1, &[3], sets(&[], &[], &[])),
            (1, &[2, 3], sets(&[2], &[3], &[2])),
            (1, &[0, 1, 2], sets(&[0], &[2], &[1])),
            (2, &[0, 1], sets(&[], &[], &[])),
        ];
        for (workers, allowed, expected) in table {
            assert_eq!(resolve(&plan(workers), allowed, Idle::Poll), expected, "{workers}, {allowed:?}");
        }
    }

    #[test]
    fn a_machine_with_some_of_the_roles_splits_its_cpus_between_them() {
        let roles = |generator, gateway, upstream| Roles { generator, gateway, upstream };
        let four: &[u32] = &[0, 1, 2, 3];
        let table: [(Roles, &[u32], Idle, CpuSets); 11] = [
            (Roles::ALL, four, Idle::Sleep, sets(&[0], &[1, 2], &[3])),
            (roles(true, false, false), &[5], Idle::Sleep, sets(&[5], &[], &[])),
            (roles(true, false, false), &[0, 1], Idle::Sleep, sets(&[0, 1], &[], &[])),
            (roles(true, false, false), four, Idle::Sleep, sets(&[1, 2, 3], &[], &[])),
            (roles(false, true, false), four, Idle::Poll, sets(&[], &[], &[])),
            (roles(false, false, true), four, Idle::Poll, sets(&[], &[], &[])),
            (roles(true, true, false), four, Idle::Sleep, sets(&[0], &[1, 2, 3], &[])),
            (roles(true, false, true), four, Idle::Sleep, sets(&[0, 1], &[], &[2, 3])),
            (roles(false, true, true), four, Idle::Sleep, sets(&[], &[0, 1], &[2, 3])),
            (roles(true, true, false), &[0, 1], Idle::Sleep, sets(&[], &[], &[])),
            (roles(true, true, false), &[0, 1], Idle::Poll, sets(&[0], &[1], &[])),
        ];
        for (roles, allowed, idle, expected) in table {
            assert_eq!(resolve_for(&plan(1), allowed, idle, roles), expected, "{roles:?} {allowed:?}");
        }
        let one = resolve_for(&plan(1), &[7], Idle::Poll, roles(false, true, true));
        assert_eq!(one, CpuSets::default(), "a single CPU cannot be split");
    }

    #[test]
    fn the_plans_pinning_is_kept() {
        let mut plan = plan(1);
        let pinned = sets(&[1], &[], &[0]);
        plan.cpus = CpuPlan::Pinned(pinned.clone());
        assert_eq!(resolve(&plan, &[0, 1, 2, 3], Idle::Poll), pinned);
        assert_eq!(resolve_for(&plan, &[0, 1, 2, 3], Idle::Poll, Roles::ALL), pinned);
        let generator = Roles { generator: true, ..Roles::default() };
        assert_eq!(resolve_for(&plan, &[0, 1], Idle::Poll, generator), sets(&[1], &[], &[]));
    }
}
