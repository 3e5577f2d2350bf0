//! The rule by which windows are left out.

use hoptax_load::clock::MILLISECOND;
use hoptax_load::record::WINDOW_NS;
use hoptax_record::TrialRecord;

/// Share of a trial's windows that must be quiet for the trial to have quiet figures. Where more than half of the time is
/// disturbed, what is left lies between bursts and is hardly undisturbed; and its figures scatter more than √2 times as much
/// as the whole trial's would, while a round counts as much as any other.
const ENOUGH: f64 = 0.5;

/// How windows are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule {
    /// Steal of one CPU in one window from which the window counts as stolen, ns.
    pub(super) stolen_ns: u64,
    /// Windows left out in front of a burst.
    pub(super) before: usize,
    /// Fewest windows left out behind a burst.
    pub(super) after: usize,
    /// Whether as much time is left out behind a burst as it took.
    pub(super) in_proportion: bool,
}

/// The rule. It is never tuned to a result.
pub(super) const RULE: Rule = Rule {
    // `/proc/stat` counts in ticks of 10 ms, so a window shows whole ticks or none. Samples may lie a little beside the
    // windows' edges, and a tick is then shared between two windows: half of it says which one it belongs to.
    stolen_ns: 5 * MILLISECOND,
    // The kernel learns of a burst when the CPU runs again: the window that shows it may be the one after it.
    before: 1,
    // What waited during a burst is worked off behind it.
    after: 1,
    // A backlog of a burst of length B at utilisation ρ takes B · ρ / (1 − ρ) to be worked off: no longer than B up to a
    // utilisation of one half. Utilisation itself must not count, as it differs between direct and gateways.
    in_proportion: true,
};

/// Which windows of a trial are quiet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quiet {
    /// For each of the generator's windows, whether it is left out.
    pub(super) left_out: Vec<bool>,
}

impl Quiet {
    /// Looks at a trial. Absent where it cannot be told: without windows, or in records of older runs without steal.
    pub fn of(trial: &TrialRecord) -> Option<Self> {
        Self::by(&RULE, trial)
    }

    pub(super) fn by(rule: &Rule, trial: &TrialRecord) -> Option<Self> {
        let windows = trial.load_record.as_ref()?.windows.len();
        if windows == 0 {
            return None;
        }
        let Some(stolen) = &trial.host.stolen else {
            return older(rule, windows, &trial.host.steal_by_window);
        };
        let begin = stolen.before as usize;
        let mut left_out = vec![false; begin + windows + stolen.after as usize];
        for taken in stolen.ns_by_cpu.values() {
            leave_out(rule, taken, &mut left_out);
        }
        Some(Self { left_out: left_out[begin..begin + windows].to_vec() })
    }

    /// Windows of the trial.
    pub fn windows(&self) -> usize {
        self.left_out.len()
    }

    /// Windows that are left out.
    pub fn left_out(&self) -> usize {
        self.left_out.iter().filter(|left_out| **left_out).count()
    }

    /// Whether enough of the trial is quiet for figures of its own.
    pub fn is_enough(&self) -> bool {
        (self.windows() - self.left_out()) as f64 >= ENOUGH * self.windows() as f64
    }

    /// The quiet windows' numbers.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.left_out.iter().enumerate().filter(|(_, left_out)| !**left_out).map(|(number, _)| number)
    }
}

/// Whether a trial should be made again, as the hypervisor left too little of it alone. A trial of which that cannot be told
/// is taken as it is, and so is one that failed: it says so itself.
pub fn needs_repeating(trial: &TrialRecord) -> bool {
    trial.failed.is_none() && Quiet::of(trial).is_some_and(|quiet| !quiet.is_enough())
}

/// Marks the windows that bursts on one CPU disturb. `taken` is what was taken in each window, ns.
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
        // More than fits into its window began earlier: the CPU was away, and nobody counted.
        let earlier = windows_of(burst[0]).saturating_sub(1);
        let behind = if rule.in_proportion { windows_of(burst.iter().sum()) } else { 0 };
        let begin = at.saturating_sub(earlier + rule.before);
        let end = (at + length + behind.max(rule.after)).min(left_out.len());
        left_out[begin.min(end)..end].fill(true);
        at += length;
    }
}

/// Older records tell steal as a share of all CPUs, whose number they do not tell: any of it counts.
fn older(rule: &Rule, windows: usize, shares: &[f64]) -> Option<Quiet> {
    if shares.is_empty() {
        return None;
    }
    let at_least_a_tick = |share: f64| rule.stolen_ns.max((share * WINDOW_NS as f64) as u64);
    let taken: Vec<u64> =
        shares.iter().map(|&share| if share > 0.0 { at_least_a_tick(share) } else { 0 }).collect();
    let mut left_out = vec![false; windows.max(taken.len())];
    leave_out(rule, &taken, &mut left_out);
    left_out.truncate(windows);
    Some(Quiet { left_out })
}
