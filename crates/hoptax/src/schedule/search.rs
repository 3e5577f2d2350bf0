//! The searches of a run, after its rounds: load point by load point, each contender's own, a step of each in turn.
//!
//! They come last, so that no trial of a round follows an overload. Contenders take turns, in an order shuffled anew in each
//! turn, so that what comes and goes on the machine meets them alike, and no contender's trials in a row.

use super::hunt::{Hunt, Range, likely_steps, most_steps};
use super::slot::{Contender, Director, Slot};
use hoptax_analysis::capacity::judge;
use hoptax_load::random::Random;
use hoptax_plan::{LoadPoint, Plan, Search};
use hoptax_record::{DirectTrial, TrialRecord};
use std::time::Duration;

/// Tells this stream of randomness apart from the others that hang on the same seed.
const TURNS: u64 = 0x0074_7572_6e73;

/// Directs the searches of a plan.
pub(super) struct Searches {
    /// Load points that are still to be searched, the last one first.
    waiting: Vec<(usize, Search)>,
    gateways: usize,
    random: Random,
    current: Option<Current>,
    done: usize,
}

/// A load point under search.
struct Current {
    load: usize,
    search: Search,
    /// Direct's, then each gateway's.
    hunts: Vec<Hunt>,
    /// Who is still to come in this turn, the last one first.
    order: Vec<usize>,
    turn: u32,
    /// Whose trial is under way.
    asked: Option<usize>,
}

impl Searches {
    pub(super) fn new(plan: &Plan, seed: u64) -> Self {
        let searches = plan.load.iter().enumerate();
        let mut waiting: Vec<(usize, Search)> =
            searches.filter_map(|(load, point)| Some((load, point.search.clone()?))).collect();
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
        let Some((load, search)) = self.waiting.pop() else { return false };
        let range = Range { from: search.from, to: search.to, precision: search.precision };
        let hunts = vec![Hunt::new(range, search.objectives.len()); self.gateways + 1];
        self.current = Some(Current { load, search, hunts, order: Vec::new(), turn: 0, asked: None });
        true
    }
}

impl Director for Searches {
    /// Every trial made, and one more of each contender whose search is not over.
    fn planned(&self) -> usize {
        let unfinished = self
            .current
            .as_ref()
            .map_or(0, |current| current.hunts.iter().filter(|hunt| !hunt.is_over()).count());
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
    /// What the trial that was asked for last led to.
    fn learn(&mut self, last: Option<&TrialRecord>) {
        let (Some(asked), Some(trial)) = (self.asked.take(), last) else { return };
        let Some(step) = trial.step else { return };
        let held = judge::held(trial, &self.search.objectives);
        self.hunts[asked].observe(step, held.as_deref());
    }

    fn slot(&mut self, random: &mut Random) -> Option<Slot> {
        if self.order.is_empty() {
            self.order = (0..self.hunts.len()).filter(|who| !self.hunts[*who].is_over()).collect();
            random.shuffle(&mut self.order);
            self.turn += 1;
        }
        let who = self.order.pop()?;
        let step = self.hunts[who].next_step()?;
        self.asked = Some(who);
        let contender = match who.checked_sub(1) {
            None => Contender::Direct(DirectTrial::First),
            Some(gateway) => Contender::Gateway(gateway),
        };
        Some(Slot { round: self.turn - 1, load: self.load, contender, step: Some(step) })
    }
}

/// The search's expected part of a run: trials of one contender, and how long they take beside warm-up and set-up.
pub(super) fn expected(load: &LoadPoint) -> Option<(u32, Duration)> {
    let search = load.search.as_ref()?;
    let objectives = search.objectives.len();
    let confirming = 2 * objectives as u32;
    let steps = likely_steps(objectives);
    let measured = load.duration * (steps - confirming) + search.confirm * confirming;
    Some((steps, measured))
}

/// Fewest and most trials that one contender's search may take.
pub fn bounds(search: &Search) -> (u32, u32) {
    (FEWEST, most_steps(search.objectives.len()))
}

/// Two that fail at the lowest rate, and as many as it takes to be certain of it.
const FEWEST: u32 = 3;

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
