//! The description of this machine in a run's record.

use hoptax_record::Environment;
use hoptax_record::plan::Idle;
use procfs::{CpuInfo, Current, Meminfo};
use rustix::process::{Resource, getrlimit};
use std::fs;

/// Describes this machine during a run in which idle CPUs do `idle`. Fields that cannot be read stay empty.
pub fn environment(idle: Idle) -> Environment {
    let names = rustix::system::uname();
    let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
    Environment {
        host: text(names.nodename()),
        kernel: format!("{} {}", text(names.sysname()), text(names.release())),
        cpu: cpu_model().unwrap_or_default(),
        cpus: std::thread::available_parallelism().map_or(0, |count| count.get() as u32),
        memory_bytes: Meminfo::current().map_or(0, |memory| memory.mem_total),
        descriptors: getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
        clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        hypervisor: hypervisor(),
        idle: Some(idle),
    }
}

fn cpu_model() -> Option<String> {
    CpuInfo::current().ok()?.model_name(0).map(str::to_owned)
}

fn hypervisor() -> Option<String> {
    let info = CpuInfo::current().ok()?;
    if !info.flags(0)?.contains(&"hypervisor") {
        return None;
    }
    Some(line("/sys/class/dmi/id/sys_vendor").unwrap_or_else(|| "virtual machine".into()))
}

/// The first line of a file, unless it is empty.
fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().next().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_cpus_and_memory() {
        let environment = environment(Idle::Sleep);
        assert!(environment.kernel.starts_with("Linux "), "{environment:?}");
        assert!(environment.cpus > 0 && environment.memory_bytes > 1 << 20, "{environment:?}");
        assert!(environment.descriptors > 0, "{environment:?}");
    }
}
