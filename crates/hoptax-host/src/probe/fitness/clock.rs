//! Checks of time: the kernel's clock source, the cost of reading it, and the lateness of short sleeps.

use super::host::Host;
use super::item::{doubt, good, graded, unknown};
use hoptax_format::clock;
use hoptax_record::{Fitness, FitnessStatus};
use std::time::Duration;

/// Clock sources that a process can read without a system call, in about 30 ns.
const FAST: [&str; 5] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource"];
/// Clock sources that are slow or coarse. Some are on a slow bus and take about 1 µs per read. The others
/// count the kernel's ticks, which are milliseconds apart.
const SLOW: [&str; 4] = ["acpi_pm", "hpet", "jiffies", "refined-jiffies"];
/// A clock is slow if one read takes longer than this time, in ns. A fast clock needs a tenth of it. The time
/// matters, because a generator reads the clock several times for each request.
const COSTLY_NS: u64 = 300;

/// Number of sleeps to measure. Each sleep lasts [`SLEEP`].
const SLEEPS: usize = 40;
/// Time limit for all sleeps together, so that an overloaded machine does not delay a run further.
const MOST_NS: u64 = 150 * clock::MILLISECOND;
const SLEEP: Duration = Duration::from_millis(1);

/// Bounds on the median lateness of a sleep, in ns. Above the first bound, an open loop's requests are sent
/// noticeably late (a CPU usually wakes up within tens of µs). Above the second bound, a delay of 1 ms looks
/// like a delay of 2 ms.
const LATE_NS: (f64, f64) = (200_000.0, 1_000_000.0);

/// Measures the lateness of sleeps of 1 ms, in a thread with the smallest possible timer slack.
pub(super) fn lateness() -> Vec<u64> {
    let measure = || {
        crate::threads::sleep_precisely();
        let begun = clock::now();
        let one = |_| {
            let before = clock::now();
            std::thread::sleep(SLEEP);
            (clock::now() - before).saturating_sub(SLEEP.as_nanos() as u64)
        };
        (0..SLEEPS).map_while(|index| (clock::now() - begun < MOST_NS).then(|| one(index))).collect()
    };
    // Sleep on a new thread, because the thread keeps the changed timer slack, and because processes that the
    // thread starts would inherit it.
    std::thread::scope(|scope| scope.spawn(measure).join()).unwrap_or_default()
}

/// Cost of one clock read in nanoseconds. Several means are measured, and the smallest is used, because
/// disturbances can only increase a mean.
pub(super) fn cost() -> u64 {
    const LOOKS: u64 = 1000;
    let mean = |_| {
        let before = clock::now();
        (1..LOOKS).for_each(|_| _ = std::hint::black_box(clock::now()));
        (clock::now() - before) / LOOKS
    };
    (0..5).map(mean).min().unwrap_or(0)
}

pub(super) fn source(host: &Host) -> Fitness {
    const NAME: &str = "clock-source";
    let directory = "sys/devices/system/clocksource/clocksource0";
    let Some(source) = host.text(&format!("{directory}/current_clocksource")) else {
        return unknown(NAME, "The kernel does not report its clock source.");
    };
    let costly = host.clock_ns > COSTLY_NS;
    if FAST.contains(&source.as_str()) && !costly {
        return good(NAME, source);
    }
    let status = if SLOW.contains(&source.as_str()) { FitnessStatus::Bad } else { FitnessStatus::Warning };
    if status == FitnessStatus::Warning && !costly {
        return good(NAME, source);
    }
    let message = format!(
        "Each clock read takes {} ns and needs a system call. Generator and gateways read it several times \
        per request.",
        host.clock_ns
    );
    let others = host.text(&format!("{directory}/available_clocksource")).unwrap_or_default();
    let better = others.split_whitespace().find(|other| FAST.contains(other));
    let advice = match better {
        Some(better) if better != source => {
            format!(
                "echo {better} | sudo tee \
                /sys/devices/system/clocksource/clocksource0/current_clocksource"
            )
        }
        _ => "Use another machine: the kernel trusts no faster clock here (`dmesg | grep -i \
                    clocksource` shows why)."
            .into(),
    };
    doubt(NAME, status, source, message, advice)
}

pub(super) fn timer(host: &Host) -> Fitness {
    let mut late = host.late_ns.clone();
    late.sort_unstable();
    let Some(&worst) = late.last() else { return unknown("timer", "Sleeps could not be measured.") };
    let median = late[late.len() / 2];
    let us = |ns: u64| ns.div_ceil(1000);
    let seen = format!("sleeps of 1 ms come {} µs late (median), {} µs at worst", us(median), us(worst));
    let Some(status) = graded(median as f64, LATE_NS.0, LATE_NS.1) else { return good("timer", seen) };
    let message = "Because of this, an open loop sends requests later than planned, and delays that the \
                   plan adds are longer than planned.";
    let advice = "Pin the roles (`cpus` in the plan): a generator with its own CPU polls instead of \
                  sleeping. Stop other load on this machine. A kernel without high-resolution timers rounds \
                  up to its tick: boot a kernel that has them.";
    doubt("timer", status, seen, message, advice)
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "at most {} for short sleeps" time(MOST_NS);
}
