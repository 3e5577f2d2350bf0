//! The capacity searches of a run. The searches begin after the rounds. Load points are searched one after
//! the other, with one search per contender.
//!
//! The searches come last, because otherwise a trial of a round could follow an overload. In each turn, every
//! contender makes one step, in shuffled order. A temporary disturbance of the machine then affects all
//! contenders alike.

use super::capacity_search::{CapacitySearch, Range, likely_steps, most_steps};
use super::slot::{Contender, Director, Slot};
use hoptax_analysis::capacity::judge;
use hoptax_format::random::Random;
use hoptax_format::spec::Shape;
use hoptax_plan::{LoadPoint, Plan, Search};
use hoptax_record::{DirectTrial, TrialRecord};
use std::time::Duration;

/// The stream of random numbers for the turns. Other random choices with the same seed use other streams. The
/// bytes spell "turns".
const TURNS: u64 = 0x0074_7572_6e73;

/// Schedules the searches of a plan.
pub(super) struct Searches {
    /// Load points that have not been searched yet, in reverse order, and whether each is a closed loop.
    waiting: Vec<(usize, Search, bool)>,
    gateways: usize,
    random: Random,
    current: Option<Current>,
    done: usize,
}

/// The load point that is being searched.
struct Current {
    load: usize,
    search: Search,
    /// True if the search is for a number of connections with streams.
    closed: bool,
    /// One search per contender: direct, then each gateway.
    searches: Vec<CapacitySearch>,
    /// Contenders that still have to make a step in this turn, in reverse order.
    order: Vec<usize>,
    turn: u32,
    /// Contender of the current trial.
    running: Option<usize>,
}

impl Searches {
    pub(super) fn new(plan: &Plan, seed: u64) -> Self {
        let searches = plan.load.iter().enumerate();
        let of = |(load, point): (usize, &LoadPoint)| {
            Some((load, point.searched()?.clone(), point.shape == Shape::Closed))
        };
        let mut waiting: Vec<(usize, Search, bool)> = searches.filter_map(of).collect();
        waiting.reverse();
        Self {
            waiting,
            gateways: plan.gateways.len(),
            random: Random::stream(seed, TURNS),
            current: None,
            done: 0,
        }
    }

    fn begin(&mut self) -> bool {
        let Some((load, search, closed)) = self.waiting.pop() else { return false };
        let Search { from, to, precision, .. } = search;
        let range = Range { from, to, precision, whole: closed };
        let searches = vec![CapacitySearch::new(range, search.objectives.len()); self.gateways + 1];
        let order = Vec::new();
        self.current = Some(Current { load, search, closed, searches, order, turn: 0, running: None });
        true
    }
}

impl Director for Searches {
    /// Number of trials returned so far, plus one trial for each search that is not over.
    fn planned(&self) -> usize {
        let unfinished = self
            .current
            .as_ref()
            .map_or(0, |current| current.searches.iter().filter(|search| !search.is_over()).count());
        self.done + unfinished + self.waiting.len() * (self.gateways + 1)
    }

    fn next(&mut self, last: Option<&TrialRecord>) -> Option<Slot> {
        if let Some(current) = &mut self.current {
            current.learn(last);
        }
        loop {
            if self.current.is_none() && !self.begin() {
                return None;
            }
            match self.current.as_mut().and_then(|current| current.slot(&mut self.random)) {
                Some(slot) => {
                    self.done += 1;
                    return Some(slot);
                }
                None => self.current = None,
            }
        }
    }
}

impl Current {
    /// Passes the outcome of the last trial to the search that requested the trial.
    fn learn(&mut self, last: Option<&TrialRecord>) {
        let (Some(running), Some(trial)) = (self.running.take(), last) else { return };
        let Some(step) = trial.step else { return };
        let held = judge::held(trial, &self.search.objectives, self.closed);
        self.searches[running].observe(step, held.as_deref());
    }

    fn slot(&mut self, random: &mut Random) -> Option<Slot> {
        if self.order.is_empty() {
            self.order = (0..self.searches.len()).filter(|who| !self.searches[*who].is_over()).collect();
            random.shuffle(&mut self.order);
            self.turn += 1;
        }
        let who = self.order.pop()?;
        let step = self.searches[who].next_step()?;
        self.running = Some(who);
        let contender = match who.checked_sub(1) {
            None => Contender::Direct(DirectTrial::First),
            Some(gateway) => Contender::Gateway(gateway),
        };
        Some(Slot { round: self.turn - 1, load: self.load, contender, step: Some(step) })
    }
}

/// Expected number of trials of one contender's search, and expected measured time of these trials, without
/// warm-up and set-up.
pub(super) fn expected(load: &LoadPoint) -> Option<(u32, Duration)> {
    let search = load.searched()?;
    let objectives = search.objectives.len();
    let confirming = 2 * objectives as u32;
    let steps = likely_steps(objectives);
    let measured = load.duration * (steps - confirming) + search.confirm * confirming;
    Some((steps, measured))
}

/// Minimum and maximum number of trials of one contender's search.
pub fn bounds(search: &Search) -> (u32, u32) {
    (FEWEST, most_steps(search.objectives.len()))
}

/// Number of trials of the shortest search. Two trials fail at the lowest rate, and a third trial makes the
/// result certain.
const FEWEST: u32 = 3;

#[cfg(test)]
mod tests;
