//! One contender's search for the highest rates at which it holds the objectives: which rate is tried next, from how the
//! trials so far went. Pure: knows neither clock nor process, so that it is tested against made-up contenders.
//!
//! 1. **Climb**: from the lowest rate on by a factor of four, until a rate fails twice. Nothing is ever asked for more
//!    than four times what it was seen to hold.
//! 2. **Search**: at rates between which each objective's threshold most probably lies, the least certain objective first,
//!    until every one is known to the precision asked for.
//! 3. **Confirm**: longer trials at the lower end of each interval. Two that hold confirm it; two that do not move the
//!    interval down, and a lower rate is tried.
//!
//! Each trial counts for all objectives, whichever it was made for. The number of trials is bounded by [`most_steps`].

use hoptax_record::{SearchStep, StepPurpose};
use hoptax_stats::Threshold;

/// By how much the rate grows while nothing fails: two doublings are a third of the steps that single ones would take,
/// and what is overloaded fourfold still answers within the timeouts.
const CLIMB: f64 = 4.0;

/// Steps of climb and search for one objective. Without noise 16 find a rate between 100/s and 50,000/s to 5 %; where trials
/// scatter by 5 %, 24 do.
const SEARCH_STEPS: u32 = 24;

/// Further ones for each further objective, for which the others' steps already count.
const STEPS_PER_OBJECTIVE: u32 = 6;

/// Confirming trials for each objective: three attempts of two.
const CONFIRM_STEPS: u32 = 6;

/// Trials that hold, or do not, which decide a confirmation.
const DECIDE: u32 = 2;

/// An objective whose threshold lies outside of the rates allowed with this probability is not searched any further.
const CERTAIN: f64 = 0.975;

/// The search tries these quantiles of the threshold in turn. The middle alone would tell little about how much trials
/// scatter, on which the interval depends; the two quarters give narrower intervals in fewer trials.
const TRIED: [f64; 2] = [0.25, 0.75];

/// Trials in a row that say nothing (the generator died, the gateway is gone) after which a search is given up.
const MOST_BROKEN: u32 = 2;

/// What is searched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Lowest rate tried, requests/s.
    pub from: f64,
    /// Highest rate tried, requests/s.
    pub to: f64,
    /// Half-width of the interval, as a part of the rate, at which an objective is known well enough.
    pub precision: f64,
}

/// Most trials that one contender's search takes.
pub fn most_steps(objectives: usize) -> u32 {
    let objectives = objectives.max(1) as u32;
    most_search_steps(objectives) + CONFIRM_STEPS * objectives
}

fn most_search_steps(objectives: u32) -> u32 {
    SEARCH_STEPS + STEPS_PER_OBJECTIVE * objectives.saturating_sub(1)
}

/// Trials that one contender's search may be expected to take: half of those allowed to find each objective, and two to
/// confirm it.
pub fn likely_steps(objectives: usize) -> u32 {
    let objectives = objectives.max(1) as u32;
    most_search_steps(objectives) / 2 + DECIDE * objectives
}

/// One contender's search.
#[derive(Debug, Clone)]
pub struct Hunt {
    range: Range,
    objectives: Vec<Threshold>,
    phase: Phase,
    /// Trials asked for so far.
    asked: u32,
    /// Of them those that were to find.
    searched: u32,
    broken: u32,
    /// Confirming trials: rate, and which objectives held.
    confirmations: Vec<(f64, Vec<bool>)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// At this rate, which has failed once already or not.
    Climb {
        rate: f64,
        failed: bool,
    },
    Search,
    /// Of this objective, at this rate, with so many trials made for it.
    Confirm {
        objective: usize,
        rate: f64,
        trials: u32,
    },
    Over,
}

impl Hunt {
    /// A search that has not begun; at least one objective.
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

    /// What is known of each objective.
    pub fn objectives(&self) -> &[Threshold] {
        &self.objectives
    }

    /// Whether there is nothing more to try.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// The next trial; none when the search is over.
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

    /// How the trial went: which objectives held; nothing for a trial that says nothing.
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

    /// Where to search next; none when every objective is known, or the steps are used up.
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

    /// The lower end of the interval, and below what was tried for this objective without success.
    fn confirm_rate(&self, objective: usize, tried: Option<f64>) -> f64 {
        let low = self.objectives[objective].interval().1;
        let lower = tried.map_or(low, |tried| low.min(tried * (1.0 - self.range.precision)));
        self.allowed(lower)
    }

    /// A rate as it is asked for: rounded, and within the range.
    fn allowed(&self, rate: f64) -> f64 {
        rounded(rate).clamp(self.range.from, self.range.to)
    }

    /// The first objective from `objective` on that wants another confirming trial; `trials` were made for it, the last ones
    /// at `rate`.
    fn confirming(&self, objective: usize, rate: Option<f64>, trials: u32) -> Phase {
        let (mut trials, mut rate) = (trials, rate);
        for index in objective..self.objectives.len() {
            let nowhere = self.objectives[index].above(self.range.from) <= 1.0 - CERTAIN;
            if !nowhere && trials < CONFIRM_STEPS && !self.is_confirmed(index, rate) {
                let undecided = rate.filter(|rate| self.outcomes(index, *rate).1 < DECIDE);
                let rate = undecided.unwrap_or_else(|| self.confirm_rate(index, rate));
                return Phase::Confirm { objective: index, rate, trials };
            }
            (trials, rate) = (0, None);
        }
        Phase::Over
    }

    /// Whether longer trials held at the rate tried, or at any above the lower end: those of another objective count too.
    fn is_confirmed(&self, objective: usize, tried: Option<f64>) -> bool {
        let least =
            tried.unwrap_or_else(|| self.confirm_rate(objective, None) * (1.0 - self.range.precision));
        let rates = self.confirmations.iter().map(|(rate, _)| *rate).filter(|rate| *rate >= least);
        rates.map(|rate| self.outcomes(objective, rate)).any(|(held, not)| held >= DECIDE && held > not)
    }

    /// How many confirming trials at a rate held an objective, and how many did not.
    fn outcomes(&self, objective: usize, rate: f64) -> (u32, u32) {
        let here = self.confirmations.iter().filter(|(other, _)| *other == rate);
        here.fold((0, 0), |(held, not), (_, outcome)| match outcome[objective] {
            true => (held + 1, not),
            false => (held, not + 1),
        })
    }
}

/// Three digits that count, and one more so that rounding is small beside any precision.
fn rounded(rate: f64) -> f64 {
    let step = 10_f64.powi(rate.log10().floor() as i32 - 3);
    (rate / step).round() * step
}

#[cfg(test)]
#[path = "hunt_tests.rs"]
mod tests;
