//! Which CPUs each role gets.

use crate::plan::{CpuPlan, CpuSets};

/// Fewer CPUs than this cannot be split so that no role starves: nothing is pinned then.
const LEAST_TO_SPLIT: usize = 4;

/// CPUs this process may use, in order.
///
/// # Errors
/// If the kernel does not tell.
pub fn allowed() -> std::io::Result<Vec<u32>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    let all = 0..u32::try_from(rustix::thread::CpuSet::MAX_CPU).unwrap_or(u32::MAX);
    Ok(all.filter(|&cpu| set.is_set(cpu as usize)).collect())
}

/// The sets that `plan` means on a machine where `allowed` may be used.
///
/// `auto` gives the generator a quarter, the gateway a half and the upstream the rest: a gateway is what is measured
/// and does two sides' work, and a generator needs about half of what the built-in upstream and a thrifty gateway
/// need together. Neighbouring CPUs stay together, as they share caches.
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_the_plan_pins_is_kept() {
        let sets = CpuSets { generator: vec![1], gateway: vec![], upstream: vec![0] };
        assert_eq!(resolve(&CpuPlan::Pinned(sets.clone()), &[0, 1, 2, 3]), sets);
    }

    #[test]
    fn this_process_may_use_a_cpu() {
        assert!(!allowed().expect("told").is_empty());
    }
}
