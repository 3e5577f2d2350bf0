//! Time: what the kernel's clock is made of, what a look at it costs, and how late short sleeps come.

use super::host::Host;
use super::item::{doubt, good, graded, unknown};
use hoptax_load::clock;
use hoptax_record::{Fitness, FitnessStatus};
use std::time::Duration;

/// Sources that a process can read without asking the kernel, in some 30 ns.
const FAST: [&str; 5] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource"];
/// Sources behind a slow bus, or of the kernel's ticks: about 1 µs a look, or milliseconds apart.
const SLOW: [&str; 4] = ["acpi_pm", "hpet", "jiffies", "refined-jiffies"];
/// A look at a fast source takes a tenth of this; a generator looks several times for each request.
const COSTLY_NS: u64 = 300;

/// Sleeps that are measured, and how long each shall be.
const SLEEPS: usize = 40;
/// What all of them may take together: a run does not wait longer for its look on a machine that is overloaded.
const MOST_NS: u64 = 150 * clock::MILLISECOND;
const SLEEP: Duration = Duration::from_millis(1);

/// Median lateness, nanoseconds, above which an open loop's requests are sent noticeably late (a CPU wakes up within tens
/// of µs); and above which a delay of 1 ms cannot be told from one of 2 ms.
const LATE_NS: (f64, f64) = (200_000.0, 1_000_000.0);

/// How late sleeps of 1 ms came, by a thread that lets the kernel add no slack.
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
    // A thread of its own: the slack is the thread's, and what this process starts would inherit it.
    std::thread::scope(|scope| scope.spawn(measure).join()).unwrap_or_default()
}

/// What a look at the clock costs, nanoseconds: the least of several means, as only the others were disturbed.
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
        return unknown(NAME, "The kernel does not tell what its clock is made of.");
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
        "Each look at the clock takes {} ns and is made in the kernel; generator and gateways look several times per request.",
        host.clock_ns
    );
    let others = host.text(&format!("{directory}/available_clocksource")).unwrap_or_default();
    let better = others.split_whitespace().find(|other| FAST.contains(other));
    let advice = match better {
        Some(better) if better != source => {
            format!("echo {better} | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource")
        }
        _ => "Use another machine: the kernel trusts no faster clock here (`dmesg | grep -i clocksource` says why).".into(),
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
    let message = "Requests of an open loop leave late by as much, and known delays are longer by it.";
    let advice = "Pin the roles (`cpus` in the plan): a generator that owns its CPU polls. Stop what else runs here. A kernel \
                  without high-resolution timers rounds up to its tick: boot one with them.";
    doubt("timer", status, seen, message, advice)
}
