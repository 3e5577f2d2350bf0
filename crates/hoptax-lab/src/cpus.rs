//! Assignment of CPUs to roles.

use hoptax_plan::{CpuPlan, CpuSets};

/// If there are fewer CPUs than this, hoptax pins nothing, because splitting the CPUs would give some role too few.
const LEAST_TO_SPLIT: usize = 4;

/// The CPU sets of `plan` on a machine where this process may use the CPUs `allowed`.
///
/// `auto` gives the generator a quarter of the CPUs, the gateway a half, and the upstream the other quarter. The
/// gateway gets the largest part because it is the measured part and handles both sides of each request. A generator
/// needs about half as much CPU time as the built-in upstream and a light gateway need together. Each role gets
/// neighboring CPUs, because neighboring CPUs share caches.
pub fn resolve(plan: &CpuPlan, allowed: &[u32]) -> CpuSets {
    match plan {
        CpuPlan::Pinned(sets) => sets.clone(),
        CpuPlan::Auto if allowed.len() < LEAST_TO_SPLIT => CpuSets::default(),
        CpuPlan::Auto => {
            let (generator, rest) = allowed.split_at(allowed.len() / 4);
            let (gateway, upstream) = rest.split_at(allowed.len() / 2);
            CpuSets { generator: generator.into(), gateway: gateway.into(), upstream: upstream.into() }
        }
    }
}

/// CPUs for a gateway that is limited to `workers` CPUs. They are taken from the gateway's `set`, or from all `allowed`
/// CPUs if the set is empty. The last CPUs are used, because the first CPU usually handles interrupts.
pub fn limit_to(set: &[u32], allowed: &[u32], workers: u32) -> Vec<u32> {
    let from = if set.is_empty() { allowed } else { set };
    from[from.len().saturating_sub(workers as usize)..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_limited_to_cpus_of_its_own_set_if_it_has_one() {
        assert_eq!(limit_to(&[], &[0, 1, 2], 1), [2]);
        assert_eq!(limit_to(&[4, 5, 6], &[0, 1, 2, 3, 4, 5, 6], 2), [5, 6]);
        assert_eq!(limit_to(&[], &[0, 1], 3), [0, 1], "there are no more");
    }

    #[test]
    fn auto_splits_four_or_more_and_leaves_none_over() {
        let sets = |generator: &[u32], gateway: &[u32], upstream: &[u32]| CpuSets {
            generator: generator.into(),
            gateway: gateway.into(),
            upstream: upstream.into(),
        };
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
            assert_eq!(resolve(&CpuPlan::Auto, allowed), expected, "{allowed:?}");
        }
    }

    #[test]
    fn the_plans_pinning_is_kept() {
        let sets = CpuSets { generator: vec![1], gateway: vec![], upstream: vec![0] };
        assert_eq!(resolve(&CpuPlan::Pinned(sets.clone()), &[0, 1, 2, 3]), sets);
    }
}
