//! Searches for the highest rate at which one contender holds each objective. The outcomes so far determine
//! the next rate. The search does not use a clock or a process, so tests can run it against simulated
//! contenders.
//!
//! 1. **Climb**: start at the lowest rate and multiply it by four, until a rate fails twice. No trial exceeds
//!    four times the highest rate at which an objective held.
//! 2. **Search**: try quantiles of each objective's threshold, the least certain objective first, until all
//!    thresholds are known with the requested precision.
//! 3. **Confirm**: run longer trials at the lower end of each interval. Two trials in which the objective
//!    holds confirm it. If two trials fail, the interval moves down, and a lower rate is tried.
//!
//! Each trial counts for all objectives. The number of trials is bounded by [`most_steps`].

use hoptax_record::{SearchStep, StepPurpose};
use hoptax_stats::Threshold;

/// The climb multiplies the rate by this factor. A climb with this factor needs about half as many steps as a
/// climb that doubles the rate. At four times their capacity, contenders still answer within the timeouts.
const CLIMB: f64 = 4.0;

/// Maximum number of steps of climb and search for one objective. For a rate between 100/s and 50,000/s and a
/// precision of 5 %, 16 steps are enough without noise, and 24 steps if trials scatter by 5 %.
const SEARCH_STEPS: u32 = 24;

/// Number of extra steps for each further objective. The number is small, because each step counts for all
/// objectives.
const STEPS_PER_OBJECTIVE: u32 = 6;

/// Maximum number of confirming trials for each objective. This is enough for three rates with two trials
/// each.
const CONFIRM_STEPS: u32 = 6;

/// Number of trials with the same outcome that decide a confirmation.
const DECIDE: u32 = 2;

/// The search of an objective ends if the threshold of the objective is outside the range of rates with at
/// least this probability.
const CERTAIN: f64 = 0.975;

/// Quantiles of the threshold, which are tried in turn. Trials at the median alone would show little about
/// the scatter, and the scatter determines the interval. With the quartiles, fewer trials are enough for a
/// narrow interval.
const TRIED: [f64; 2] = [0.25, 0.75];

/// The search ends after this number of consecutive trials without a result. A trial has no result if the
/// generator or the gateway died.
const MOST_BROKEN: u32 = 2;

/// The rates to search, and the precision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Lowest rate tried, requests/s.
    pub from: f64,
    /// Highest rate tried, requests/s.
    pub to: f64,
    /// The precision that the search must reach: the half-width of the interval, as a share of the rate.
    pub precision: f64,
    /// True if the rates are numbers of connections, which are whole.
    pub whole: bool,
}

/// Maximum number of trials of one contender's search.
pub fn most_steps(objectives: usize) -> u32 {
    let objectives = objectives.max(1) as u32;
    most_search_steps(objectives) + CONFIRM_STEPS * objectives
}

fn most_search_steps(objectives: u32) -> u32 {
    SEARCH_STEPS + STEPS_PER_OBJECTIVE * objectives.saturating_sub(1)
}

/// Expected number of trials of one contender's search. This is half of the maximum number of search steps,
/// plus two confirming trials per objective.
pub fn likely_steps(objectives: usize) -> u32 {
    let objectives = objectives.max(1) as u32;
    most_search_steps(objectives) / 2 + DECIDE * objectives
}

/// One contender's search.
#[derive(Debug, Clone)]
pub struct CapacitySearch {
    range: Range,
    objectives: Vec<Threshold>,
    phase: Phase,
    /// Number of trials that the search has requested so far.
    asked: u32,
    /// Number of trials of the climb and of the search so far.
    searched: u32,
    broken: u32,
    /// Confirming trials. Each entry contains the rate of the trial, and for each objective whether the
    /// objective held.
    confirmations: Vec<(f64, Vec<bool>)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// The next rate, and whether this rate has already failed once.
    Climb {
        rate: f64,
        failed: bool,
    },
    Search,
    /// The objective to confirm, the rate, and the number of confirming trials for this objective so far.
    Confirm {
        objective: usize,
        rate: f64,
        trials: u32,
    },
    Over,
}

impl CapacitySearch {
    /// A search that has not begun. `objectives` is the number of objectives, at least 1.
    pub fn new(range: Range, objectives: usize) -> Self {
        let threshold = Threshold::new(range.from, range.to, range.precision);
        Self {
            range,
            objectives: vec![threshold; objectives],
            phase: Phase::Climb { rate: range.from, failed: false },
            asked: 0,
            searched: 0,
            broken: 0,
            confirmations: Vec::new(),
        }
    }

    /// The threshold of each objective, as far as the trials so far show it.
    pub fn objectives(&self) -> &[Threshold] {
        &self.objectives
    }

    /// True if the search is over.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// The next trial. `None` if the search is over.
    pub fn next_step(&mut self) -> Option<SearchStep> {
        let (rate, purpose) = match self.phase {
            Phase::Climb { rate, .. } => (rate, StepPurpose::Search),
            Phase::Search => (self.search_rate()?, StepPurpose::Search),
            Phase::Confirm { rate, .. } => (rate, StepPurpose::Confirm),
            Phase::Over => return None,
        };
        let number = self.asked;
        self.asked += 1;
        Some(SearchStep { number, rate: self.allowed(rate), purpose })
    }

    /// Adds the outcome of a trial. `held` contains for each objective whether the objective held. `held` is
    /// `None` if the trial had no result.
    pub fn observe(&mut self, step: SearchStep, held: Option<&[bool]>) {
        let searching = step.purpose == StepPurpose::Search;
        self.searched += u32::from(searching);
        match held {
            None => self.broken += 1,
            Some(held) => {
                self.broken = 0;
                for (threshold, held) in self.objectives.iter_mut().zip(held) {
                    threshold.observe(step.rate, *held);
                }
                if !searching {
                    self.confirmations.push((step.rate, held.to_vec()));
                }
            }
        }
        self.phase = match self.phase {
            _ if self.broken >= MOST_BROKEN => Phase::Over,
            Phase::Climb { rate, failed } => self.climbed(rate, failed, held),
            Phase::Confirm { objective, rate, trials } => self.confirming(objective, Some(rate), trials + 1),
            phase => phase,
        };
        let used_up = self.searched >= most_search_steps(self.objectives.len() as u32);
        let climbing = matches!(self.phase, Phase::Climb { .. });
        if (climbing && used_up) || (self.phase == Phase::Search && self.search_rate().is_none()) {
            self.phase = self.confirming(0, None, 0);
        }
    }

    fn climbed(&self, rate: f64, failed: bool, held: Option<&[bool]>) -> Phase {
        let Some(held) = held else { return Phase::Climb { rate, failed } };
        let higher = (rate * CLIMB).min(self.range.to);
        match (held.contains(&true), failed) {
            (true, _) if rate < self.range.to => Phase::Climb { rate: higher, failed: false },
            (false, false) => Phase::Climb { rate, failed: true },
            _ => Phase::Search,
        }
    }

    /// The next rate to search. `None` if all thresholds are known precisely enough, or if the maximum number
    /// of steps is reached.
    fn search_rate(&self) -> Option<f64> {
        if self.searched >= most_search_steps(self.objectives.len() as u32) {
            return None;
        }
        let open = self.objectives.iter().filter(|threshold| !self.is_known(threshold));
        let least_known = open.max_by(|one, other| one.uncertainty().total_cmp(&other.uncertainty()))?;
        let rate = least_known.quantile(TRIED[self.searched as usize % TRIED.len()]);
        Some(rate.clamp(self.range.from, self.range.to))
    }

    fn is_known(&self, threshold: &Threshold) -> bool {
        threshold.uncertainty() <= self.range.precision
            || threshold.above(self.range.to) >= CERTAIN
            || threshold.above(self.range.from) <= 1.0 - CERTAIN
    }

    /// The rate to confirm, which is the lower end of the interval. If trials at the rate `tried` failed to
    /// confirm this objective, the result is also below `tried`.
    fn confirm_rate(&self, objective: usize, tried: Option<f64>) -> f64 {
        let low = self.objectives[objective].interval().1;
        let lower = tried.map_or(low, |tried| low.min(tried * (1.0 - self.range.precision)));
        self.allowed(lower)
    }

    /// Rounds the rate and clamps it to the range.
    fn allowed(&self, rate: f64) -> f64 {
        let rate = rounded(rate);
        let rate = if self.range.whole { rate.round() } else { rate };
        rate.clamp(self.range.from, self.range.to)
    }

    /// Returns the phase for the next confirming trial. The trial is for the first objective that still needs
    /// a trial. The function starts to look at `objective`. This objective has had `trials` confirming trials
    /// so far, and the last of these trials was at `rate`.
    fn confirming(&self, objective: usize, rate: Option<f64>, trials: u32) -> Phase {
        let (mut trials, mut rate) = (trials, rate);
        for index in objective..self.objectives.len() {
            let is_below_range = self.objectives[index].above(self.range.from) <= 1.0 - CERTAIN;
            if !is_below_range && trials < CONFIRM_STEPS && !self.is_confirmed(index, rate) {
                let undecided = rate.filter(|rate| self.outcomes(index, *rate).1 < DECIDE);
                let rate = undecided.unwrap_or_else(|| self.confirm_rate(index, rate));
                return Phase::Confirm { objective: index, rate, trials };
            }
            (trials, rate) = (0, None);
        }
        Phase::Over
    }

    /// True if trials have confirmed the objective at the rate `tried` or at a higher rate. If `tried` is
    /// `None`, the confirmed rate must not be far below the lower end of the interval. Trials for other
    /// objectives count too.
    fn is_confirmed(&self, objective: usize, tried: Option<f64>) -> bool {
        let least =
            tried.unwrap_or_else(|| self.confirm_rate(objective, None) * (1.0 - self.range.precision));
        let rates = self.confirmations.iter().map(|(rate, _)| *rate).filter(|rate| *rate >= least);
        rates.map(|rate| self.outcomes(objective, rate)).any(|(held, not)| held >= DECIDE && held > not)
    }

    /// Number of confirming trials at this rate in which the objective held, and number of confirming trials
    /// at this rate in which the objective did not hold.
    fn outcomes(&self, objective: usize, rate: f64) -> (u32, u32) {
        let here = self.confirmations.iter().filter(|(other, _)| *other == rate);
        here.fold((0, 0), |(held, not), (_, outcome)| match outcome[objective] {
            true => (held + 1, not),
            false => (held, not + 1),
        })
    }
}

/// Rounds to four significant digits, which is finer than any requested precision.
fn rounded(rate: f64) -> f64 {
    let step = 10_f64.powi(rate.log10().floor() as i32 - 3);
    (rate / step).round() * step
}

#[cfg(test)]
mod tests;

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "from the lowest rate by a factor of {} until" word(CLIMB);
    METHODOLOGY "the lower and the upper {} of the current" part(TRIED[0]);
    METHODOLOGY "at most {} steps of climb and search for one objective" number(SEARCH_STEPS);
    METHODOLOGY "for one objective, {} more for each further one" number(STEPS_PER_OBJECTIVE);
    METHODOLOGY "and {} to confirm each" number(CONFIRM_STEPS);
    METHODOLOGY "each interval; {} of at most three must hold" word(DECIDE);
}
