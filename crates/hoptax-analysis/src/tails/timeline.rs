//! Derives from the scheduler's events what each thread did, and which thread had each CPU.

use hoptax_record::tail::{BEAT_NS, Doing, Switch, SwitchTrace};
use std::collections::{BTreeMap, BTreeSet};

/// The idle thread.
pub(super) const IDLE: u32 = 0;

/// A beat that is later than this shows that the CPU stood still, ns. Timers of a busy virtual machine are
/// late by up to 60 µs anyway.
const LATE_NS: u64 = 100_000;

/// Longest time between a thread's decision to sleep and the moment when it leaves its CPU, ns. Another
/// thread can wake it in between.
const SLEEP_RACE_NS: u64 = 50_000;

/// A stretch of a thread's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) doing: Doing,
    /// The CPU that the thread has, or the next one that it gets. Absent while it sleeps, and if unknown.
    pub(super) cpu: Option<u32>,
    /// For [`Doing::Ready`], the thread that woke it. Absent if it lost its CPU to another thread.
    pub(super) woken_by: Option<u32>,
}

/// What threads and CPUs did.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    threads: BTreeMap<u32, Vec<Span>>,
    /// The threads that had each CPU: from, to, thread.
    cpus: BTreeMap<u32, Vec<(u64, u64, u32)>>,
    /// When each CPU stood still.
    stalls: BTreeMap<u32, Vec<(u64, u64)>>,
}

/// What a thread does at the moment, while events are read.
#[derive(Debug, Clone, Copy)]
struct Open {
    since: u64,
    doing: Doing,
    cpu: Option<u32>,
    woken_by: Option<u32>,
    /// The last wake-up of the thread while it still had its CPU: when, and the thread that woke it.
    woken_early: Option<(u64, u32)>,
}

impl Timeline {
    pub(super) fn new(trace: &SwitchTrace) -> Self {
        let mut timeline = Self::default();
        let mut open: BTreeMap<u32, Open> = BTreeMap::new();
        let mut running: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
        let mut beats: BTreeMap<u32, u64> = BTreeMap::new();
        let beats_in_idle = beats_in_idle(trace);
        let mut end = 0;
        for event in &trace.events {
            let (at, cpu) = (event.at_ns, event.cpu);
            end = end.max(at);
            match event.what {
                Switch::To { from, ready, to } => {
                    timeline.left(&mut open, from, ready, at, cpu);
                    timeline.came(&mut open, to, at, cpu);
                    if let Some((since, thread)) = running.insert(cpu, (at, to)) {
                        timeline.cpus.entry(cpu).or_default().push((since, at, thread));
                    }
                }
                Switch::Wake { thread, by } => timeline.woken(&mut open, thread, by, at),
                Switch::Beat => {
                    let (since, thread) = running.get(&cpu).copied().unwrap_or_default();
                    let can_tell = thread != IDLE || beats_in_idle.contains(&cpu);
                    // A CPU that switched between threads at some moment did not stand still until then.
                    let due = beats.insert(cpu, at).map(|before| (before + BEAT_NS).max(since));
                    if let Some(due) = due.filter(|due| can_tell && at.saturating_sub(*due) > LATE_NS) {
                        timeline.stalls.entry(cpu).or_default().push((due, at));
                    }
                }
            }
        }
        for (thread, last) in open {
            timeline.close(thread, last, end, last.cpu);
        }
        for (cpu, (since, thread)) in running {
            timeline.cpus.entry(cpu).or_default().push((since, end, thread));
        }
        timeline
    }

    fn close(&mut self, thread: u32, open: Open, at: u64, cpu: Option<u32>) {
        if at > open.since {
            let Open { since: from, doing, woken_by, .. } = open;
            self.threads.entry(thread).or_default().push(Span { from, to: at, doing, cpu, woken_by });
        }
    }

    fn left(&mut self, open: &mut BTreeMap<u32, Open>, thread: u32, ready: bool, at: u64, cpu: u32) {
        if thread == IDLE {
            return;
        }
        let before = open.remove(&thread);
        if let Some(before) = before.filter(|before| before.doing == Doing::Running) {
            self.close(thread, before, at, Some(cpu));
        }
        let doing = if ready { Doing::Ready } else { Doing::Asleep };
        let woken_early = before.and_then(|before| before.woken_early);
        open.insert(thread, Open { since: at, doing, cpu: Some(cpu), woken_by: None, woken_early });
    }

    fn came(&mut self, open: &mut BTreeMap<u32, Open>, thread: u32, at: u64, cpu: u32) {
        if thread == IDLE {
            return;
        }
        if let Some(mut before) = open.remove(&thread) {
            // No wake-up was recorded after the thread left. So the one shortly before counts.
            if let (Doing::Asleep, Some((woken, by))) = (before.doing, before.woken_early)
                && before.since.saturating_sub(woken) <= SLEEP_RACE_NS
            {
                (before.doing, before.woken_by) = (Doing::Ready, Some(by));
            }
            self.close(thread, before, at, Some(cpu));
        }
        let running =
            Open { since: at, doing: Doing::Running, cpu: Some(cpu), woken_by: None, woken_early: None };
        open.insert(thread, running);
    }

    fn woken(&mut self, open: &mut BTreeMap<u32, Open>, thread: u32, by: u32, at: u64) {
        match open.get_mut(&thread) {
            Some(known) if known.doing == Doing::Running => {
                known.woken_early = Some((at, by));
                return;
            }
            Some(known) if known.doing == Doing::Ready => return,
            Some(known) => {
                let known = *known;
                self.close(thread, known, at, None);
            }
            None => {}
        }
        let ready = Open { since: at, doing: Doing::Ready, cpu: None, woken_by: Some(by), woken_early: None };
        open.insert(thread, ready);
    }

    /// The span of a thread that contains `at` or ends then.
    pub(super) fn before(&self, thread: u32, at: u64) -> Option<Span> {
        let spans = self.threads.get(&thread)?;
        let index = spans.partition_point(|span| span.from < at).checked_sub(1)?;
        Some(spans[index]).filter(|span| at <= span.to)
    }

    /// End of the last span of a thread that ended before `at`.
    pub(super) fn last_end(&self, thread: u32, at: u64) -> Option<u64> {
        let spans = self.threads.get(&thread)?;
        Some(spans[spans.partition_point(|span| span.to < at).checked_sub(1)?].to)
    }

    /// True if the thread runs at `at`, or stops running exactly then: a thread may take a time stamp just
    /// before it leaves its CPU.
    pub(super) fn runs_at(&self, thread: u32, at: u64) -> bool {
        self.before(thread, at).is_some_and(|span| span.doing == Doing::Running)
    }

    /// The last of these threads that ran between `since` and `at`, and the last moment at which it ran.
    pub(super) fn last_run(&self, threads: &[u32], since: u64, at: u64) -> Option<(u64, u32)> {
        let last = |&thread: &u32| {
            let spans = self.threads.get(&thread)?;
            let end = spans.partition_point(|span| span.from < at);
            let span = spans[..end].iter().rev().find(|span| span.doing == Doing::Running)?;
            Some((span.to.min(at), thread)).filter(|(to, _)| *to > since)
        };
        threads.iter().filter_map(last).max()
    }

    /// If the thread does not sleep at `at`: since when it has not slept, and which thread woke it.
    pub(super) fn awake_since(&self, thread: u32, at: u64) -> Option<(u64, Option<u32>)> {
        let mut first = self.before(thread, at).filter(|span| span.doing != Doing::Asleep)?;
        while let Some(earlier) = self.before(thread, first.from) {
            if earlier.doing == Doing::Asleep || earlier.to != first.from {
                break;
            }
            first = earlier;
        }
        Some((first.from, first.woken_by))
    }

    /// The times between `from` and `to` in which these threads did not sleep, sorted by their ends: begin,
    /// end, thread.
    pub(super) fn awake(&self, threads: &[u32], from: u64, to: u64) -> Vec<(u64, u64, u32)> {
        let mut all: Vec<(u64, u64, u32)> = Vec::new();
        for &thread in threads {
            for span in self.spans(thread, from, to) {
                match all.last_mut() {
                    _ if span.doing == Doing::Asleep => {}
                    Some((_, end, last)) if *last == thread && *end == span.from => *end = span.to,
                    _ => all.push((span.from, span.to, thread)),
                }
            }
        }
        all.sort_by_key(|stretch| stretch.1);
        all
    }

    /// The threads that had a CPU between two moments: begin, end, thread.
    pub(super) fn holders(&self, cpu: u32, from: u64, to: u64) -> Vec<(u64, u64, u32)> {
        clipped(self.cpus.get(&cpu), from, to)
    }

    /// When a CPU stood still between two moments.
    pub(super) fn stalls(&self, cpu: u32, from: u64, to: u64) -> Vec<(u64, u64)> {
        let all = self.stalls.get(&cpu).into_iter().flatten();
        let inside = all.filter(|(begin, end)| *begin < to && *end > from);
        inside.map(|(begin, end)| ((*begin).max(from), (*end).min(to))).collect()
    }

    /// What a thread did between two moments.
    pub(super) fn spans(&self, thread: u32, from: u64, to: u64) -> Vec<Span> {
        let Some(spans) = self.threads.get(&thread) else { return Vec::new() };
        let first = spans.partition_point(|span| span.to <= from);
        let inside = spans[first..].iter().take_while(|span| span.from < to);
        inside.map(|span| Span { from: span.from.max(from), to: span.to.min(to), ..*span }).collect()
    }

    pub(super) fn cpus(&self) -> impl Iterator<Item = u32> {
        self.cpus.keys().copied()
    }

    /// The first and the last moment for which the threads of all CPUs are known.
    pub(super) fn extent(&self) -> Option<(u64, u64)> {
        let first = self.cpus.values().filter_map(|runs| runs.first()).map(|run| run.0).max()?;
        let last = self.cpus.values().filter_map(|runs| runs.last()).map(|run| run.1).min()?;
        Some((first, last))
    }
}

/// The CPUs whose beats are also recorded while the idle thread has them. Some kernels do not record these.
fn beats_in_idle(trace: &SwitchTrace) -> BTreeSet<u32> {
    let mut running: BTreeMap<u32, u32> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for event in &trace.events {
        match event.what {
            Switch::To { to, .. } => _ = running.insert(event.cpu, to),
            Switch::Beat if running.get(&event.cpu) == Some(&IDLE) => _ = found.insert(event.cpu),
            _ => {}
        }
    }
    found
}

fn clipped(runs: Option<&Vec<(u64, u64, u32)>>, from: u64, to: u64) -> Vec<(u64, u64, u32)> {
    let Some(runs) = runs else { return Vec::new() };
    let first = runs.partition_point(|run| run.1 <= from);
    let inside = runs[first..].iter().take_while(|run| run.0 < to);
    inside.map(|run| (run.0.max(from), run.1.min(to), run.2)).collect()
}
