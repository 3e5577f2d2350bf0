//! State machine behind the live view. It turns events of the run into the state that screens display. It
//! does not read a clock, because the time is an argument.

use super::cases::{HalfWidth, Tally};
use crate::run::{TrialUpdate, Used};
use crate::schedule::Slot;
use hoptax_analysis::{self as analysis, Load};
use hoptax_format::clock::SECOND;
use hoptax_format::record::{Phase, PhaseLine, SecondLine};
use hoptax_format::spec::{Rate, Shape};
use hoptax_history::live::{Failure, Finding, Role, SCHEMA, Second, Stage, State, Trial, TrialPhase};
use hoptax_plan::{LoadPoint, Plan, Trials};
use hoptax_record::{Failure as Failed, SearchStep, StepPurpose, TrialRecord};
use std::time::Duration;

/// Share of the starts after which their pace is known well enough to predict the remaining time.
const FEW_STARTS: f64 = 0.1;

/// The live view shows trials that are shorter than this, in s, by round instead of by second.
const BY_ROUND: f64 = 2.0;

/// Live state of one run. Times (`now`) are values of [`hoptax_format::clock::now`], nanoseconds.
#[derive(Debug)]
pub struct LiveState {
    state: State,
    /// The plan's load points with their labels.
    loads: Vec<(LoadPoint, String)>,
    /// Number of rounds, as text to append to the current round: `/5`, or ` of 5 to 30`.
    rounds: String,
    /// True if the plan searches for capacities.
    searches: bool,
    begun: u64,
    expected: Duration,
    /// Load point of the current trial.
    load: usize,
    /// Time at which the last trial ended.
    trial_ended: u64,
    /// Rate of the current trial; absent in a closed loop.
    due: Option<Rate>,
    /// Time at which the measured time of the current trial began. Absent before and after the measured time.
    measuring: Option<u64>,
    tally: Tally,
}

impl LiveState {
    /// The state of a run of `plan` before the run begins. `run` is the name of the run directory.
    pub fn new(run: &str, plan: &Plan) -> Self {
        let labels = Load::all(&plan.load).into_iter().map(|load| load.label);
        let loads: Vec<_> = plan.load.iter().cloned().zip(labels).collect();
        let labels = loads.iter().map(|(point, label)| (label.clone(), point.search.is_some())).collect();
        let searches = plan.load.iter().any(|load| load.search.is_some());
        let state = State {
            schema: SCHEMA,
            run: run.to_owned(),
            name: plan.name.clone(),
            starts: plan.start.is_some(),
            open_ended: searches || matches!(plan.trials, Trials::Auto(_)),
            ..State::default()
        };
        Self {
            state,
            tally: Tally::new(labels, plan.gateways.iter().map(|gateway| gateway.label.as_str())),
            loads,
            rounds: match plan.trials {
                Trials::Fixed(rounds) => format!("/{rounds}"),
                Trials::Auto(_) if plan.trials.time_only().is_some() => String::new(),
                Trials::Auto(auto) => format!(" of {} to {}", auto.least, auto.most),
            },
            searches,
            begun: 0,
            expected: Duration::ZERO,
            load: 0,
            trial_ended: 0,
            due: None,
            measuring: None,
        }
    }

    /// The state to display.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The run begins.
    pub fn begun(&mut self, trials: usize, expected: Duration, now: u64) {
        (self.begun, self.trial_ended, self.expected) = (now, now, expected);
        self.planned(trials);
        self.tick(now);
    }

    /// The run takes this much longer than it was expected to at its beginning.
    pub fn extended(&mut self, by: Duration, now: u64) {
        self.expected += by;
        self.tick(now);
    }

    /// Number of trials of the whole run, as far as it is known.
    pub fn planned(&mut self, trials: usize) {
        self.state.trials_planned = number(trials);
    }

    /// A service is being started or verified. `what` is the text to show.
    pub fn preparing(&mut self, what: &str) {
        what.clone_into(&mut self.state.doing);
    }

    /// A contender cannot be measured, or a trial failed. Returns false if this failure was reported before,
    /// because a gateway that failed reports the same failure for each of its remaining trials.
    pub fn failed(&mut self, label: &str, failure: &Failed) -> bool {
        let failure = Failure { label: label.to_owned(), message: failure.message.clone() };
        let is_new = !self.state.failures.contains(&failure);
        if is_new {
            self.state.failures.push(failure);
        }
        is_new
    }

    /// A trial begins.
    pub fn trial(&mut self, index: usize, slot: &Slot, label: &str, now: u64) {
        let (point, label_of_load) = &self.loads[slot.load];
        let duration = match (slot.step, &point.search) {
            (Some(SearchStep { purpose: StepPurpose::Confirm, .. }), Some(search)) => search.confirm,
            _ => point.duration,
        };
        self.due = match (slot.step, &point.shape) {
            (Some(step), Shape::Open { .. }) => Some(Rate::Fixed(step.rate)),
            (None, Shape::Open { rate, .. }) => Some(rate.clone()),
            (_, Shape::Closed) => None,
        };
        let load = match slot.step {
            Some(step) => step_label(step, point, label_of_load),
            None => label_of_load.clone(),
        };
        self.measuring = None;
        self.state.trial = Some(Trial {
            number: number(index + 1),
            gateway: label.to_owned(),
            load,
            phase: TrialPhase::Starting,
            elapsed_s: 0.0,
            duration_s: duration.as_secs_f64(),
            due: self.due.as_ref().map(|rate| rate.at(0)),
            seconds: Vec::new(),
            by_round: duration.as_secs_f64() < BY_ROUND,
        });
        self.load = slot.load;
        self.update_rounds();
        self.state.stage = Stage::Measuring;
        self.state.doing.clear();
        self.state.round = format!("{}{}", slot.round + 1, self.rounds);
        (self.state.cpu, self.state.steal) = (Vec::new(), None);
        self.tick(now);
    }

    /// The current trial reports a phase, the figures of a second, or resource use.
    pub fn update(&mut self, update: &TrialUpdate, now: u64) {
        match update {
            TrialUpdate::Phase(PhaseLine { phase, .. }) => {
                self.state.doing.clear();
                if *phase == Phase::Measuring {
                    self.measuring = Some(now);
                }
                self.tick(now);
                if *phase == Phase::Draining {
                    self.measuring = None;
                }
                if let Some(trial) = &mut self.state.trial {
                    trial.phase = TrialPhase::from(*phase);
                }
            }
            TrialUpdate::Second(line) => {
                self.tick(now);
                if let Some(trial) = &mut self.state.trial {
                    trial.seconds.push(second(line));
                }
            }
            TrialUpdate::Used(used) => {
                (self.state.cpu, self.state.steal) = (roles(used), Some(used.steal));
            }
        }
    }

    /// The pause before the next trial begins.
    pub fn pausing(&mut self) {
        self.state.stage = Stage::Pausing;
    }

    /// The trial is on disk.
    pub fn recorded(&mut self, trial: &TrialRecord, now: u64) {
        self.state.trials_done += 1;
        self.trial_ended = now;
        self.tally.add(trial);
        self.state.cases = self.tally.cases();
        self.update_rounds();
        self.tick(now);
    }

    fn update_rounds(&mut self) {
        let by_round = self.state.trial.as_ref().is_some_and(|trial| trial.by_round);
        self.state.rounds = if by_round { self.tally.rounds(self.load) } else { Vec::new() };
    }

    /// A start is on disk.
    pub fn started(&mut self, now: u64) {
        self.state.trials_done += 1;
        self.trial_ended = now;
        self.tick(now);
    }

    /// Replaces the findings and returns the new findings. A finding is new if no earlier finding has the
    /// same code and case.
    pub fn found(&mut self, findings: &[analysis::Finding]) -> Vec<Finding> {
        let known = std::mem::take(&mut self.state.findings);
        self.state.findings = findings.iter().map(Finding::from).collect();
        let is_known = |finding: &&Finding| {
            known.iter().any(|before| (&before.code, &before.case) == (&finding.code, &finding.case))
        };
        self.state.findings.iter().filter(|finding| !is_known(finding)).cloned().collect()
    }

    /// Replaces the half-widths of the added medians.
    pub(super) fn known_within(&mut self, half_widths: Vec<HalfWidth>) {
        self.tally.set_half_widths(half_widths);
        self.state.cases = self.tally.cases();
    }

    /// All services are stopped.
    pub fn ended(&mut self, now: u64) {
        self.tick(now);
        self.state.stage = Stage::Ended;
        self.state.doing.clear();
        self.state.left_s = 0.0;
    }

    /// Updates the elapsed and the remaining time.
    pub fn tick(&mut self, now: u64) {
        if self.state.stage == Stage::Ended {
            return;
        }
        self.state.elapsed_s = seconds(now.saturating_sub(self.begun));
        self.state.left_s = self.left(now);
        if let (Some(trial), Some(began)) = (&mut self.state.trial, self.measuring) {
            let passed = now.saturating_sub(began);
            trial.elapsed_s = seconds(passed).min(trial.duration_s);
            trial.due = self.due.as_ref().map(|rate| rate.at(passed));
        }
    }

    /// Seconds until the run ends. The first half of the run uses the estimate for the plan. The second half
    /// uses the pace so far. In a run of starts, the pace counts from [`FEW_STARTS`] on if it is slower than
    /// the estimate, because the time that a gateway takes to start is unknown before.
    fn left(&self, now: u64) -> f64 {
        let (done, planned) = (self.state.trials_done, self.state.trials_planned);
        let estimated = self.expected.as_secs_f64() - seconds(now.saturating_sub(self.begun));
        let share = f64::from(done) / f64::from(planned.max(1));
        // The number of trials of a search is unknown, so a run with a search always uses the estimate for
        // the plan.
        let left = if done == 0 || self.searches {
            estimated
        } else if share >= 0.5 {
            self.left_by_pace(now)
        } else if self.state.starts && share >= FEW_STARTS {
            estimated.max(self.left_by_pace(now))
        } else {
            estimated
        };
        left.max(0.0)
    }

    /// Seconds until the run ends, if the rest of the trials or starts takes as long as those so far. At
    /// least one trial or start must have ended.
    fn left_by_pace(&self, now: u64) -> f64 {
        let (done, planned) = (self.state.trials_done, self.state.trials_planned);
        let spent = seconds(self.trial_ended.saturating_sub(self.begun));
        let to_come = f64::from(planned.saturating_sub(done));
        spent / f64::from(done) * to_come - seconds(now.saturating_sub(self.trial_ended))
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / SECOND as f64
}

/// Label of a step of a search. The label contains a rounded rate, because the exact rate usually has many
/// digits.
fn step_label(step: SearchStep, point: &LoadPoint, search: &str) -> String {
    let doing = match step.purpose {
        StepPurpose::Search => "searching",
        StepPurpose::Confirm => "confirming",
    };
    let digits = if step.rate >= 100.0 { 0 } else { 2 };
    let at = match point.shape {
        Shape::Open { .. } => format!("{:.digits$}/s", step.rate),
        Shape::Closed => format!("{:.0} connections", step.rate),
    };
    format!("{doing} at {at}, step {}: {search}", step.number + 1)
}

fn second(line: &SecondLine) -> Second {
    let per_second = |count: u64| count as f64 / seconds(line.length_ns.max(1));
    let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1e3;
    Second {
        rate: per_second(line.completed),
        failed: per_second(line.failed),
        p50_us: line.p50_ns.map(microseconds),
        p99_us: line.p99_ns.map(microseconds),
    }
}

fn roles(used: &Used) -> Vec<Role> {
    let roles = [("generator", used.generator), ("gateway", used.gateway), ("upstream", used.upstream)];
    let role = |(role, tree): (&str, Option<hoptax_host::probe::RecentTree>)| {
        let tree = tree?;
        Some(Role { role: role.to_owned(), cpus: tree.cpus, memory_bytes: tree.rss_bytes })
    };
    roles.into_iter().filter_map(role).collect()
}

#[cfg(test)]
mod tests;
