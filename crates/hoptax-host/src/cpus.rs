//! The CPUs of this machine that this process may use.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// CPUs that this process may use, in order.
///
/// # Errors
/// If the kernel does not report the CPUs.
pub fn allowed() -> std::io::Result<Vec<u32>> {
    let set = sched_getaffinity(None)?;
    let all = 0..u32::try_from(CpuSet::MAX_CPU).unwrap_or(u32::MAX);
    Ok(all.filter(|&cpu| set.is_set(cpu as usize)).collect())
}

/// Restricts the calling thread to CPUs that the generator's workers are not pinned to, if there are such
/// CPUs. Errors are ignored, because the workers then only lose a little CPU time.
pub fn keep_off(workers: &[u32]) {
    if workers.is_empty() {
        return;
    }
    let Ok(mut rest) = sched_getaffinity(None) else { return };
    workers
        .iter()
        .map(|cpu| *cpu as usize)
        .filter(|cpu| *cpu < CpuSet::MAX_CPU)
        .for_each(|cpu| rest.unset(cpu));
    if rest.count() > 0 {
        let _ = sched_setaffinity(None, &rest);
    }
}

/// Pins the calling thread to these CPUs until the returned value is dropped. `None` if there are no CPUs to
/// pin it to, or the kernel refuses.
pub fn pin(cpus: &[u32]) -> Option<Pinned> {
    let before = sched_getaffinity(None).ok()?;
    let mut set = CpuSet::new();
    cpus.iter().map(|cpu| *cpu as usize).filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    (set.count() > 0 && sched_setaffinity(None, &set).is_ok()).then_some(Pinned { before })
}

/// The calling thread may use only some CPUs until this value is dropped.
#[derive(Debug)]
pub struct Pinned {
    before: CpuSet,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // This cannot fail, because the thread could use these CPUs before.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// Parses a CPU list in the kernel's format, such as `0-3,6`. `None` if it is malformed.
pub fn parse_list(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_may_use_a_cpu() {
        assert!(!allowed().expect("known").is_empty());
    }

    #[test]
    fn a_thread_is_pinned_for_a_while() {
        let before = allowed().expect("known");
        let pinned = pin(&before[..1]).expect("the first CPU may be used");
        assert_eq!(allowed().expect("known"), before[..1]);
        drop(pinned);
        assert_eq!(allowed().expect("known"), before);
        assert!(pin(&[]).is_none());
    }

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(parse_list("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_list("7"), Some(vec![7]));
        assert_eq!([parse_list(""), parse_list("0-"), parse_list("x")], [None, None, None]);
    }
}
