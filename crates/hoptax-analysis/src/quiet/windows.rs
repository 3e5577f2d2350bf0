//! The rule that decides which windows are left out.

use hoptax_format::clock::MILLISECOND;
use hoptax_format::record::WINDOW_NS;
use hoptax_record::{HostUsage, TrialRecord};

/// A trial counts in quiet figures only if at least this share of its windows is quiet. If more than half of
/// the time is disturbed, the other windows lie between bursts and are probably disturbed too. The quiet
/// figures of such a trial would also scatter more than the figures of the whole trial, by a factor of more
/// than √2. But the round would have the same weight as other rounds.
const ENOUGH: f64 = 0.5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule {
    /// Smallest amount of steal on one CPU in one window that marks the window as stolen, ns.
    pub(super) stolen_ns: u64,
    /// Number of windows that are left out before a burst.
    pub(super) before: usize,
    /// Smallest number of windows that are left out after a burst.
    pub(super) after: usize,
    /// If true, the time left out after a burst is at least as long as the burst.
    pub(super) in_proportion: bool,
    /// True if times are exact, and not counted in ticks. The time after a burst is then rounded down.
    pub(super) is_exact: bool,
}

/// The rule in use. It must never be tuned to get a certain result.
pub(super) const RULE: Rule = Rule {
    // `/proc/stat` counts in ticks of 10 ms, so a window contains whole ticks or none. If a sample is
    // slightly off the edge of a window, a tick is split between two windows. The window with at least half
    // of the tick counts as stolen.
    stolen_ns: 5 * MILLISECOND,
    // The kernel notices a burst when the CPU runs again, so the burst may appear one window too late.
    before: 1,
    // Requests that waited during a burst are served after it.
    after: 1,
    // After a burst of length B at utilisation ρ, the CPU processes the backlog in a time of B · ρ / (1 − ρ).
    // Up to a utilisation of one half, this time is at most B. The rule must not use the utilisation, because
    // the utilisation of direct differs from that of gateways.
    in_proportion: true,
    is_exact: false,
};

/// The rule for stalls that the stall meter saw. It sees the moment of a stall, so no window before it is
/// left out. Each stall in the record is long enough to count.
const STALL_RULE: Rule = Rule { stolen_ns: 1, before: 0, after: 0, in_proportion: true, is_exact: true };

/// The quiet windows of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quiet {
    /// For each window of the generator, true if it is left out.
    pub(super) left_out: Vec<bool>,
}

impl Quiet {
    /// Applies the rule to a trial, on every machine that its requests pass. A window is left out if the rule
    /// leaves it out on any of these machines. `None` if the trial has no windows, or if a machine's steal is
    /// unknown.
    pub fn of(trial: &TrialRecord) -> Option<Self> {
        Self::by(&RULE, trial)
    }

    pub(super) fn by(rule: &Rule, trial: &TrialRecord) -> Option<Self> {
        let quiet = Self::with_margins(rule, trial)?;
        if quiet.is_enough() || !trial.machines().all(|(_, usage)| is_one_tick(quiet.windows(), usage)) {
            return Some(quiet);
        }
        // In a short trial, the margins of a single tick are most of the windows.
        Self::with_margins(&Rule { before: 0, after: 0, in_proportion: false, ..*rule }, trial)
    }

    fn with_margins(rule: &Rule, trial: &TrialRecord) -> Option<Self> {
        let windows = trial.load_record.as_ref()?.windows.len();
        if windows == 0 {
            return None;
        }
        let mut left_out = vec![false; windows];
        for (_, usage) in trial.machines() {
            let of_machine = on_machine(rule, windows, usage)?;
            left_out.iter_mut().zip(of_machine).for_each(|(all, one)| *all |= one);
            let stalls = Rule { in_proportion: rule.in_proportion, ..STALL_RULE };
            for taken in usage.stalled.iter().flat_map(|stalled| stalled.ns_by_cpu.values()) {
                leave_out(&stalls, taken, &mut left_out);
            }
        }
        Some(Self { left_out })
    }

    /// Number of windows.
    pub fn windows(&self) -> usize {
        self.left_out.len()
    }

    /// Number of windows left out.
    pub fn left_out(&self) -> usize {
        self.left_out.iter().filter(|left_out| **left_out).count()
    }

    /// True if enough windows are quiet for the trial to count in quiet figures.
    pub fn is_enough(&self) -> bool {
        (self.windows() - self.left_out()) as f64 >= ENOUGH * self.windows() as f64
    }

    /// Indices of the quiet windows.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.left_out.iter().enumerate().filter(|(_, left_out)| !**left_out).map(|(number, _)| number)
    }
}

/// True if a trial should be repeated because too few of its windows are quiet. False if steal was not
/// recorded. Also false for failed trials, which are handled elsewhere.
pub fn needs_repeating(trial: &TrialRecord) -> bool {
    trial.failed.is_none() && Quiet::of(trial).is_some_and(|quiet| !quiet.is_enough())
}

/// Unit in which the kernel counts steal.
const TICK: u64 = 10 * MILLISECOND;

/// True if at most one tick was taken on all CPUs together, in a trial's windows and the ones next to them.
fn is_one_tick(windows: usize, usage: &HostUsage) -> bool {
    let Some(stolen) = &usage.stolen else { return false };
    let begin = (stolen.before as usize).saturating_sub(1);
    let taken = |list: &Vec<u64>| list.iter().skip(begin).take(windows + 2).sum::<u64>();
    let stalls = usage.stalled.iter().flat_map(|stalled| stalled.ns_by_cpu.values().flatten());
    stolen.ns_by_cpu.values().map(taken).sum::<u64>() <= TICK && stalls.sum::<u64>() <= TICK
}

/// The windows that are left out because of one machine. `None` if its steal was not recorded.
fn on_machine(rule: &Rule, windows: usize, usage: &HostUsage) -> Option<Vec<bool>> {
    let Some(stolen) = &usage.stolen else { return older(rule, windows, &usage.steal_by_window) };
    let begin = stolen.before as usize;
    let mut left_out = vec![false; begin + windows + stolen.after as usize];
    for taken in stolen.ns_by_cpu.values() {
        leave_out(rule, taken, &mut left_out);
    }
    Some(left_out[begin..begin + windows].to_vec())
}

/// Marks the windows that bursts on one CPU disturbed. `taken` is the time taken in each window, ns.
fn leave_out(rule: &Rule, taken: &[u64], left_out: &mut [bool]) {
    let windows_of = |ns: u64| ns.div_ceil(WINDOW_NS) as usize;
    let mut at = 0;
    while at < taken.len() {
        let length = taken[at..].iter().take_while(|&&ns| ns >= rule.stolen_ns).count();
        if length == 0 {
            at += 1;
            continue;
        }
        let burst = &taken[at..at + length];
        // If a burst is longer than its window, it began in an earlier window. The kernel could not count
        // time while the CPU was away.
        let earlier = windows_of(burst[0]).saturating_sub(1);
        let sum: u64 = burst.iter().sum();
        let behind = match (rule.in_proportion, rule.is_exact) {
            (true, true) => (sum / WINDOW_NS) as usize,
            (true, false) => windows_of(sum),
            (false, _) => 0,
        };
        let begin = at.saturating_sub(earlier + rule.before);
        let end = (at + length + behind.max(rule.after)).min(left_out.len());
        left_out[begin.min(end)..end].fill(true);
        at += length;
    }
}

/// Applies the rule to older records. They contain steal as a share of all CPUs, but not the number of CPUs.
/// For these records, any steal counts.
fn older(rule: &Rule, windows: usize, shares: &[f64]) -> Option<Vec<bool>> {
    if shares.is_empty() {
        return None;
    }
    let at_least_a_tick = |share: f64| rule.stolen_ns.max((share * WINDOW_NS as f64) as u64);
    let taken: Vec<u64> =
        shares.iter().map(|&share| if share > 0.0 { at_least_a_tick(share) } else { 0 }).collect();
    let mut left_out = vec![false; windows.max(taken.len())];
    leave_out(rule, &taken, &mut left_out);
    left_out.truncate(windows);
    Some(left_out)
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "shows at least {} of steal (half a tick) on any CPU in it" time(RULE.stolen_ns);
    METHODOLOGY "as the time needs, and {} more" word(RULE.before);
    METHODOLOGY "as much time is left out as it took, and at least {} window" word(RULE.after);
    METHODOLOGY "takes at most one tick of {} from a trial" time(TICK);
    METHODOLOGY "less than {} quiet enters no quiet figure" fraction(ENOUGH);
}
