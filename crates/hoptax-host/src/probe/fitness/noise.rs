//! Checks for other users of the machine: the hypervisor's other guests, and other processes.

use super::host::Host;
use super::item::{doubt, good, graded, percent, unknown};
use crate::probe::Stall;
use hoptax_record::{Fitness, FitnessStatus};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

pub(super) const LOAD_AVERAGE: &str = "load-average";
const FOREIGN_LOAD: &str = "foreign-load";
const STALLS: &str = "stalls";

/// Bounds on steal and on foreign load, each as a share of all CPUs. Above the first bound, intervals become
/// wider. Above the second bound, noise dominates the percentiles above the median.
const STEAL: (f64, f64) = (0.02, 0.10);
const FOREIGN: (f64, f64) = (0.05, 0.25);

/// Bounds on the share of the time in which a CPU stood still. 0.2 % in stalls of 5 ms disturb one window of
/// 100 ms in 25.
const STALLED: (f64, f64) = (0.002, 0.02);

/// Bounds on the number of runnable processes per CPU. On a quiet machine the number is below the first
/// bound. At the second bound, no CPU time is left.
const READY_BY_CPU: (f64, f64) = (0.25, 1.0);

/// The kernel's counters at one moment, in ticks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    busy: u64,
    idle: u64,
    steal: u64,
    processes: BTreeMap<u32, (String, u64)>,
}

impl Snapshot {
    /// Reads the counters now, from files below `root`; `None` if `proc/stat` is missing.
    pub fn take(root: &Path) -> Option<Self> {
        let stat = fs::read_to_string(root.join("proc/stat")).ok()?;
        let line = stat.lines().find(|line| line.starts_with("cpu "))?;
        let field = |index: usize| -> u64 {
            line.split_whitespace().nth(index + 1).and_then(|field| field.parse().ok()).unwrap_or(0)
        };
        let busy = [0, 1, 2, 5, 6].into_iter().map(field).sum();
        Some(Self { busy, idle: field(3) + field(4), steal: field(7), processes: processes(root) })
    }

    fn total(&self) -> u64 {
        self.busy + self.idle + self.steal
    }
}

/// Returns the processes by process id, without this process. Each has its name, and the sum of its user and
/// system time.
fn processes(root: &Path) -> BTreeMap<u32, (String, u64)> {
    let Ok(entries) = fs::read_dir(root.join("proc")) else { return BTreeMap::new() };
    let ours = std::process::id();
    let one = |entry: fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name is in parentheses. The name itself may contain parentheses, so it ends at the last closing
        // parenthesis (proc_pid_stat(5)).
        let (name, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let used = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        (pid != ours).then(|| (pid, (name.split_once('(').map_or("", |(_, name)| name).to_owned(), used)))
    };
    entries.flatten().filter_map(one).collect()
}

pub(super) fn hypervisor(host: &Host) -> Fitness {
    let info = host.text("proc/cpuinfo").unwrap_or_default();
    let flags = info.lines().find(|line| line.starts_with("flags"));
    if !flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")) {
        return good("hypervisor", "none seen");
    }
    let vendor = host.text("sys/class/dmi/id/sys_vendor");
    good(
        "hypervisor",
        vendor.map_or("a virtual machine".into(), |vendor| format!("a virtual machine ({vendor})")),
    )
}

pub(super) fn between(snapshots: Option<(&Snapshot, &Snapshot)>) -> [Fitness; 2] {
    let span = snapshots.map(|(before, after)| (before, after, after.total().saturating_sub(before.total())));
    let Some((before, after, ticks)) = span.filter(|(_, _, ticks)| *ticks > 0) else {
        return ["steal", FOREIGN_LOAD]
            .map(|name| unknown(name, "The kernel does not report how CPU time is used."));
    };
    let share = |used: u64| used as f64 / ticks as f64;
    let steal = share(after.steal.saturating_sub(before.steal));
    let foreign = share(after.busy.saturating_sub(before.busy));
    [judge_steal(steal), judge_foreign(foreign, busiest(before, after))]
}

fn judge_steal(steal: f64) -> Fitness {
    let Some(status) = graded(steal, STEAL.0, STEAL.1) else { return good("steal", percent(steal)) };
    let message = "The hypervisor gives this machine's CPUs to other guests, and requests wait meanwhile.";
    let advice =
        "Use a machine that is not shared, or run more trials: reports also show figures of quiet windows.";
    doubt("steal", status, percent(steal), message, advice)
}

/// Judges the stalls of a time of this length. `None` if they could not be measured.
pub(super) fn stalls(stalls: Option<&[Stall]>, span: Duration) -> Fitness {
    let Some(stalls) = stalls else {
        return unknown(
            STALLS,
            "Only a thread at real-time priority sees them (root, CAP_SYS_NICE, and `chrt`).",
        );
    };
    let long = |stall: &Stall| stall.to_ns - stall.from_ns;
    let mut by_cpu: BTreeMap<u32, u64> = BTreeMap::new();
    stalls.iter().for_each(|stall| *by_cpu.entry(stall.cpu).or_default() += long(stall));
    let worst = by_cpu.values().max().copied().unwrap_or(0) as f64 / span.as_nanos() as f64;
    let longest = stalls.iter().map(long).max().unwrap_or(0) as f64 / 1e6;
    let seen = match stalls.len() {
        0 => "none".to_owned(),
        count => format!("{count} in {:.1} s, up to {longest:.1} ms", span.as_secs_f64()),
    };
    let Some(status) = graded(worst, STALLED.0, STALLED.1) else { return good(STALLS, seen) };
    let message = "CPUs stand still, mostly because a hypervisor takes them away: requests wait meanwhile.";
    doubt(STALLS, status, seen, message, "Use a machine that is not shared, or measure at another time.")
}

fn judge_foreign(foreign: f64, busiest: Option<String>) -> Fitness {
    let Some(status) = graded(foreign, FOREIGN.0, FOREIGN.1) else {
        return good(FOREIGN_LOAD, percent(foreign));
    };
    let seen = match busiest {
        Some(process) => format!("{}, most of it {process}", percent(foreign)),
        None => percent(foreign),
    };
    let message = "Other processes use the CPUs that generator, gateway and upstream need.";
    doubt(FOREIGN_LOAD, status, seen, message, "Stop them, or pin them to CPUs that the plan does not use.")
}

/// The process that used the most CPU time between two snapshots.
fn busiest(before: &Snapshot, after: &Snapshot) -> Option<String> {
    let used = |(pid, (name, now)): (&u32, &(String, u64))| {
        let then = before.processes.get(pid).map_or(0, |(_, then)| *then);
        (now.saturating_sub(then), *pid, name.clone())
    };
    let (most, pid, name) = after.processes.iter().map(used).max()?;
    (most > 0).then(|| format!("{name} (pid {pid})"))
}

/// True if this item is a load average above the bounds.
pub(super) fn is_high_load_average(item: &Fitness) -> bool {
    item.name == LOAD_AVERAGE && matches!(item.status, FitnessStatus::Warning | FitnessStatus::Bad)
}

/// Sets the item of a high load average to good if other processes use little CPU time now, according to
/// `of_others`. The load average still includes processes that ended a minute ago, such as a build.
pub(super) fn excuse_load_average(items: &mut [Fitness], of_others: &[Fitness]) {
    let is_quiet =
        of_others.iter().any(|item| item.name == FOREIGN_LOAD && item.status == FitnessStatus::Good);
    for item in items.iter_mut().filter(|item| is_quiet && is_high_load_average(item)) {
        *item = good(LOAD_AVERAGE, format!("{}, but quiet now", item.seen));
    }
}

pub(super) fn load_average(host: &Host) -> Fitness {
    let average = host.text("proc/loadavg").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    let Some(average) = average else {
        return unknown(LOAD_AVERAGE, "The kernel does not report the load average.");
    };
    let seen = format!("{average} over the last minute");
    let by_cpu = average / host.allowed.len().max(1) as f64;
    let Some(status) = graded(by_cpu, READY_BY_CPU.0, READY_BY_CPU.1) else {
        return good(LOAD_AVERAGE, seen);
    };
    debug_assert_ne!(status, FitnessStatus::Good);
    let message = "The load average is the number of processes that were ready to run at once. Other \
                   programs are busy on this machine.";
    doubt(
        LOAD_AVERAGE,
        status,
        seen,
        message,
        "Find these programs with `top`, stop them, and wait a minute.",
    )
}

#[cfg(test)]
mod stall_tests {
    use super::*;

    #[test]
    fn stalls_are_judged_by_their_share_of_the_time() {
        let judge = |ms: u64| {
            let stall = Stall { cpu: 1, from_ns: 0, to_ns: ms * 1_000_000 };
            stalls(Some(&[stall]), Duration::from_secs(1))
        };
        assert_eq!(
            [1, 5, 30].map(|ms| judge(ms).status),
            [FitnessStatus::Good, FitnessStatus::Warning, FitnessStatus::Bad]
        );
        insta::assert_snapshot!(judge(5).seen);
        assert_eq!(stalls(None, Duration::from_secs(1)).status, FitnessStatus::Unknown);
    }
}
