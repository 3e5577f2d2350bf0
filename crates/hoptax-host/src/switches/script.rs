//! Reads what `perf script -F comm,pid,tid,cpu,time,event,trace --ns --show-switch-events` prints for records
//! of switches, for the tracepoint `sched_waking`, and for the software event `cpu-clock`.
//!
//! Each switch has two records, of the thread that leaves and of the one that comes, because a kernel may
//! record nothing of the idle thread of a CPU. The fields of a tracepoint are printed as the kernel defines
//! them (`include/trace/events/sched.h`: `comm=… pid=…`), or by a plugin of perf
//! (`tools/lib/traceevent/plugins`: `nginx:4711 [120]`).

use crate::profile::nanoseconds;
use hoptax_record::tail::{SeenThread, Switch, SwitchEvent, SwitchTrace};
use std::collections::BTreeMap;
use std::io::{self, BufRead};

/// Reads all events. Those of different CPUs may be a little out of order in perf's output.
pub(super) fn read(mut text: impl BufRead) -> io::Result<SwitchTrace> {
    let mut trace = SwitchTrace::default();
    let mut current = BTreeMap::new();
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        if text.read_until(b'\n', &mut bytes)? == 0 {
            trace.events.sort_by_key(|event| event.at_ns);
            return Ok(trace);
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end();
        if line.is_empty() {
            continue;
        }
        match head(line).and_then(|head| add(&mut trace, &mut current, &head)) {
            Some(()) => {}
            None => trace.unreadable += 1,
        }
    }
}

/// The part of a line that all events have.
struct Head<'a> {
    name: &'a str,
    process: u32,
    thread: u32,
    cpu: u32,
    at_ns: u64,
    rest: &'a str,
}

/// Parses `nginx 4711/4712 [001] 12.345678901: sched:sched_waking: …`. Names may contain spaces and brackets.
fn head(line: &str) -> Option<Head<'_>> {
    line.match_indices(" [").find_map(|(at, _)| {
        let (cpu, rest) = line[at + 2..].split_once("] ")?;
        let (time, rest) = rest.trim_start().split_once(':')?;
        let (name, ids) = line[..at].trim().rsplit_once(' ')?;
        let (process, thread) = ids.split_once('/')?;
        Some(Head {
            name: name.trim(),
            process: process.parse().ok()?,
            thread: thread.parse().ok()?,
            cpu: cpu.parse().ok()?,
            at_ns: nanoseconds(time)?,
            rest: rest.trim(),
        })
    })
}

/// Adds an event. `current` has the thread that each CPU runs.
fn add(trace: &mut SwitchTrace, current: &mut BTreeMap<u32, u32>, head: &Head<'_>) -> Option<()> {
    let Head { rest, cpu, thread, .. } = *head;
    if rest.contains("PERF_RECORD_LOST") {
        trace.lost += rest.split_whitespace().next_back()?.parse::<u64>().ok()?;
        return Some(());
    }
    let what = if let Some((_, fields)) = rest.split_once("PERF_RECORD_SWITCH_CPU_WIDE") {
        switch(current, fields, cpu, thread)?
    } else if let Some((_, fields)) = rest.split_once("sched_waking: ") {
        Some(Switch::Wake { thread: named(&mut trace.threads, fields, "comm=", " pid=")?, by: thread })
    } else if rest.contains("cpu-clock") {
        Some(Switch::Beat)
    } else {
        return None;
    };
    let seen = trace.threads.entry(thread).or_default();
    seen.process = Some(head.process);
    // A name can change when a program starts.
    head.name.clone_into(&mut seen.name);
    trace.events.extend(what.map(|what| SwitchEvent { at_ns: head.at_ns, cpu, what }));
    Some(())
}

/// Parses `OUT preempt next pid/tid: 4711/4712` or `IN prev pid/tid: 4711/4712`. perf prints both for a
/// switch. `Some(None)` if this is the second one.
fn switch(current: &mut BTreeMap<u32, u32>, fields: &str, cpu: u32, thread: u32) -> Option<Option<Switch>> {
    let other = || fields.rsplit_once('/')?.1.trim().parse().ok();
    let way = fields.trim_start();
    let what = if let Some(how) = way.strip_prefix("OUT") {
        Switch::To { from: thread, ready: how.trim_start().starts_with("preempt"), to: other()? }
    } else if way.starts_with("IN") {
        Switch::To { from: other()?, ready: false, to: thread }
    } else {
        return None;
    };
    let Switch::To { to, .. } = what else { return None };
    let is_new = current.insert(cpu, to) != Some(to) || way.starts_with("OUT");
    Some(is_new.then_some(what))
}

/// Parses a thread and notes its name. Returns its id.
fn named(
    threads: &mut BTreeMap<u32, SeenThread>,
    text: &str,
    before_name: &str,
    before_id: &str,
) -> Option<u32> {
    let (name, rest) = match text.strip_prefix(before_name) {
        Some(text) => text.rsplit_once(before_id)?,
        // The plugin's form: `nginx:4711 [120] S`.
        None => {
            text.rsplit_once(" [")?.0.rsplit_once(':').map(|(name, _)| (name, &text[name.len() + 1..]))?
        }
    };
    let id = rest.split_once(' ').map_or(rest, |(id, _)| id).parse().ok()?;
    let seen = threads.entry(id).or_default();
    if seen.name.is_empty() {
        name.clone_into(&mut seen.name);
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of perf 6.1, and of a perf with plugins.
    const TEXT: &str = "
     migration/0    18/18    [000] 47108.798045173: sched:sched_waking: comm=perf pid=25829 prio=120 target_cpu=000
     migration/0    18/18    [000] 47108.798058527: PERF_RECORD_SWITCH_CPU_WIDE OUT          next pid/tid: 25832/25833
        worker-0 25832/25833 [000] 47108.798059000: PERF_RECORD_SWITCH_CPU_WIDE IN           prev pid/tid:    18/18
        worker-0 25832/25833 [000] 47108.798094164:  sched:sched_waking: my [old] app:7 [120] CPU:000
         swapper     0/0     [001] 47108.798090000:          cpu-clock:\x20
 my [old] app   7/7     [001] 47108.798095000: PERF_RECORD_SWITCH_CPU_WIDE IN           prev pid/tid:     0/0
 my [old] app   7/7     [001] 47108.798100000: PERF_RECORD_SWITCH_CPU_WIDE OUT preempt  next pid/tid:    15/15
        worker-0 25832/25833 [000] 47108.798200000: PERF_RECORD_LOST lost 17
        something else
";

    #[test]
    fn switches_wake_ups_and_beats_are_read_in_order() {
        let trace = read(TEXT.as_bytes()).expect("text in memory");
        let at = |event: &SwitchEvent| (event.at_ns % 1_000_000_000, event.cpu, event.what);
        let events: Vec<_> = trace.events.iter().map(at).collect();
        let expected = [
            (798_045_173, 0, Switch::Wake { thread: 25_829, by: 18 }),
            (798_058_527, 0, Switch::To { from: 18, ready: false, to: 25_833 }),
            (798_090_000, 1, Switch::Beat),
            (798_094_164, 0, Switch::Wake { thread: 7, by: 25_833 }),
            (798_095_000, 1, Switch::To { from: 0, ready: false, to: 7 }),
            (798_100_000, 1, Switch::To { from: 7, ready: true, to: 15 }),
        ];
        assert_eq!(events, expected);
        assert_eq!((trace.lost, trace.unreadable), (17, 1));
        let seen = |id: u32| (trace.threads[&id].name.as_str(), trace.threads[&id].process);
        assert_eq!(seen(25_833), ("worker-0", Some(25_832)));
        assert_eq!(seen(7), ("my [old] app", Some(7)));
        assert_eq!(seen(25_829), ("perf", None));
    }
}
