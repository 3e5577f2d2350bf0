//! The schedule for plans without `trials`, and for plans with `trials: auto`. It adds rounds until the
//! headline taxes are precise enough or the time is over.

use super::rounds::RoundMaker;
use super::slot::{Director, Slot};
use super::spread::Spread;
use hoptax_analysis::headline::precisions;
use hoptax_analysis::quiet;
use hoptax_plan::{AutoTrials, LoadPoint, Plan};
use hoptax_record::{AsideRules, LateStep, Stopped, TrialRecord, mark_aside};
use hoptax_stats::Precision;
use std::time::Duration;

/// The precision is checked again when the number of rounds has grown by one part in `LOOKS_APART`, for
/// example from 40 to 45. More checks would be expensive, because each check reads all trials. More checks
/// would also make it more likely that the run stops at rounds that agree only by luck.
const LOOKS_APART: u32 = 8;

/// Rounds are added at most this often because a process became faster after its warm-up.
const MOST_REPEATED: u32 = 2;

/// Schedules whole rounds until every headline tax is within the requested precision. Stops earlier if the
/// time limit or the maximum number of rounds is reached.
///
/// If only time limits the number of rounds, a load point is left out of further rounds as soon as all its
/// headline taxes are within the precision. The other load points then get its time.
pub(super) struct Auto {
    auto: AutoTrials,
    /// The time limit, if nothing else limits the number of rounds.
    time_only: Option<Duration>,
    /// Which of the trials so far do not count.
    rules: AsideRules,
    load: Vec<LoadPoint>,
    /// Indices of the load points without a search.
    in_rounds: Vec<usize>,
    /// Limits of the rounds until the next second look at the processes.
    asked: AutoTrials,
    /// Number of times that rounds were added.
    repeated: u32,
    rounds: RoundMaker,
    spread: Spread,
    /// Remaining slots of the current round, in order.
    slots: std::vec::IntoIter<Slot>,
    /// Number of rounds after which the precision is checked next.
    next_look: u32,
    /// Slots of the first round.
    in_first_round: usize,
    /// Number of slots returned so far.
    given: usize,
    /// Records of the trials so far. The records do not contain windows and targets, because no tax needs
    /// them.
    measured: Vec<TrialRecord>,
    /// Rounds in which a trial was disturbed. Such rounds do not count towards the minimum number of rounds.
    disturbed: Vec<u32>,
    /// Time since the first trial began.
    elapsed: Duration,
    stopped: Option<Stopped>,
}

impl Auto {
    /// `in_rounds` contains the indices of the load points without a search.
    pub(super) fn new(plan: &Plan, auto: AutoTrials, in_rounds: &[usize], seed: u64) -> Self {
        Self {
            auto,
            time_only: plan.trials.time_only(),
            rules: AsideRules::of_plan(plan),
            load: plan.load.clone(),
            in_rounds: in_rounds.to_vec(),
            asked: auto,
            repeated: 0,
            rounds: RoundMaker::new(plan.gateways.len(), in_rounds, seed),
            spread: Spread::over(1),
            slots: Vec::new().into_iter(),
            next_look: auto.least,
            in_first_round: in_rounds.len() * (plan.gateways.len() + 2),
            given: 0,
            measured: Vec::new(),
            disturbed: Vec::new(),
            elapsed: Duration::ZERO,
            stopped: None,
        }
    }

    fn keep(&mut self, trial: &TrialRecord) {
        if quiet::needs_repeating(trial) && !self.disturbed.contains(&trial.round) {
            self.disturbed.push(trial.round);
        }
        let mut kept = trial.clone();
        if let Some(record) = &mut kept.load_record {
            record.windows.clear();
            record.targets.clear();
        }
        self.measured.push(kept);
    }

    /// Returns the reason why no further round begins. Returns `None` if another round begins.
    fn stops(&mut self) -> Option<Stopped> {
        let rounds = self.rounds.made();
        if rounds >= self.auto.most {
            return Some(Stopped::Rounds);
        }
        let undisturbed = rounds - self.disturbed.len() as u32;
        let is_due = rounds >= self.next_look && self.spread.needs_look(rounds);
        if undisturbed >= self.auto.least && is_due {
            self.next_look = rounds + (rounds / LOOKS_APART).max(1);
            if self.is_narrow() {
                if self.spread.is_complete(rounds) {
                    return Some(Stopped::Narrow);
                }
                self.spread.first_has_enough(rounds);
            }
        }
        // The next round must end within the time limit, because half a round is useless.
        (rounds > 0 && self.elapsed + self.per_round() > self.auto.at_most).then_some(Stopped::Budget)
    }

    /// Average time of a round, at the pace of the trials so far. Zero before the first trial.
    fn per_round(&self) -> Duration {
        self.per_trial() * self.rounds.size() as u32
    }

    /// Restarts gateways before the next round if their processes have had their rounds.
    fn restart_if_due(&mut self) {
        let rounds = self.rounds.made();
        let limit = self.auto.at_most.as_secs_f64().max(1e-9);
        let of_time = self.elapsed.as_secs_f64() / limit;
        let passed = of_time.max(f64::from(rounds) / f64::from(self.auto.most));
        let left = self.auto.at_most.saturating_sub(self.elapsed).as_secs_f64();
        let fit = (left / self.per_round().as_secs_f64().max(1e-9)) as u32;
        self.spread.begin_round(rounds, passed, fit.min(self.auto.most - rounds));
    }

    /// Average time of a trial so far, with all that happens between trials. Zero before the first trial.
    fn per_trial(&self) -> Duration {
        self.elapsed.checked_div(self.given as u32).unwrap_or_default()
    }

    /// The number of trials that fit into the time limit if each trial takes as long as the trials so far. 0
    /// before the end of the first round. Also 0 if the time limit is not the only limit on the number of
    /// rounds.
    fn fitting(&self) -> usize {
        if self.time_only.is_none() || self.given < self.in_first_round {
            return 0;
        }
        let left = self.auto.at_most.saturating_sub(self.elapsed).as_secs_f64();
        let trials = (left / self.per_trial().as_secs_f64().max(1e-9)) as usize;
        let begun = self.slots.len();
        self.given + begun + trials.saturating_sub(begun) / self.rounds.size() * self.rounds.size()
    }

    /// True if every headline tax is within the precision. If not, and if only time limits the number of
    /// rounds, leaves out each load point whose headline taxes are all within it.
    fn is_narrow(&mut self) -> bool {
        let is_within = |one: &Precision| match self.auto.within_us.filter(|_| one.is_time) {
            Some(limit) => one.is_within_us(limit),
            None => one.is_within(self.auto.within),
        };
        mark_aside(&mut self.measured, &self.rules);
        let known = precisions(&self.load, &self.measured);
        let wide: Vec<usize> =
            known.iter().filter(|(_, one)| !is_within(one)).map(|(load, _)| *load).collect();
        let is_done = |load: &usize| !wide.contains(load) && known.iter().any(|(of, _)| of == load);
        let left: Vec<usize> = self.rounds.loads().iter().copied().filter(|load| !is_done(load)).collect();
        // Each load point needs rounds with every process.
        if self.time_only.is_some() && !wide.is_empty() && self.spread.is_complete(self.rounds.made()) {
            self.rounds.keep_only(&left);
        }
        wide.is_empty()
    }
}

impl Director for Auto {
    fn planned(&self) -> usize {
        match self.stopped {
            Some(_) => self.given,
            None => {
                let begun = self.given + self.slots.len();
                let processes = if self.time_only.is_none() { self.spread.processes() } else { 1 };
                let least = self.auto.least.saturating_mul(processes).min(self.auto.most);
                begun.max(least as usize * self.in_first_round).max(self.fitting())
            }
        }
    }

    fn set_elapsed(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
    }

    fn next(&mut self, last: Option<&TrialRecord>) -> Option<Slot> {
        if let Some(trial) = last {
            self.keep(trial);
        }
        if self.slots.len() == 0 && self.stopped.is_none() {
            self.stopped = self.stops();
        }
        if self.stopped.is_some() {
            return None;
        }
        self.given += 1;
        self.slots.next().or_else(|| {
            self.restart_if_due();
            self.slots = self.rounds.next_round().into_iter();
            self.slots.next()
        })
    }

    fn spread_over(&mut self, processes: u32) {
        self.spread = Spread::over(processes);
    }

    fn restarts(&self) -> u32 {
        self.spread.restarts()
    }

    fn note_steps(&mut self, steps: Vec<LateStep>) {
        self.rules.late_steps.extend(steps);
    }

    fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }

    fn can_measure_again(&self) -> bool {
        self.rules.until_settled && self.stopped.is_some() && self.repeated < MOST_REPEATED
    }

    /// Allows as many further rounds, and as much further time, as before.
    fn measure_again(&mut self, steps: Vec<LateStep>) {
        let made = self.rounds.made();
        self.rules.late_steps.extend(steps);
        self.rounds.keep_only(&self.in_rounds);
        self.auto.least = made - self.disturbed.len() as u32 + self.asked.least;
        self.auto.most = made.saturating_add(self.asked.most);
        self.auto.at_most = self.elapsed + self.asked.at_most;
        self.next_look = made + self.asked.least;
        self.repeated += 1;
        self.stopped = None;
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "has grown by {}. It costs" one_part_of(LOOKS_APART);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Contender, director};
    use hoptax_analysis::fixture::{MadeTrial, Run, closed_point, open_point, via};
    use hoptax_plan::Trials;
    use hoptax_record::DIRECT;

    /// In the closed loop nothing scatters. In the open loop the gateway's time alternates.
    #[test]
    fn a_load_point_that_is_known_leaves_its_time_to_the_others() {
        let fixture = Run::with_load(vec![open_point(1000.0, 8, 1), closed_point(1, 1)]);
        let at_most = Duration::from_secs(180);
        let auto = AutoTrials { at_most, least: 10, most: 10_000, ..AUTO };
        let mut director = director(&plan_of(&fixture, auto), 7);
        let (mut last, mut given, mut by_load) = (None, 0, [0, 0]);
        while let Some(slot) = director.next(last.as_ref()) {
            given += 1;
            by_load[slot.load] += 1;
            director.set_elapsed(Duration::from_secs(given as u64));
            let time = match slot.contender {
                Contender::Direct(_) => 100,
                Contender::Gateway(_) if slot.load == 0 => 150 + 100 * u64::from(slot.round % 2),
                Contender::Gateway(_) => 150,
            };
            last = Some(via(label_of(&slot), slot.round).at_load(slot.load as u32).all_at_us(time).0);
            if given > 120 {
                assert!(director.planned() >= 174, "{} planned after {given}", director.planned());
            }
        }
        assert_eq!((given, director.planned()), (180, 180), "all the time is used");
        assert!(by_load[1] < 60 && by_load[0] > 120, "{by_load:?}");
        assert_eq!(director.stopped(), Some(Stopped::Budget));
    }

    /// The fixture's plan with one gateway.
    fn plan_of(fixture: &Run, auto: AutoTrials) -> Plan {
        let kind = hoptax_plan::GatewayKind::Hop(hoptax_plan::HopKind::L4);
        let gateways = vec![hoptax_plan::Gateway { label: "nginx".into(), kind }];
        Plan { trials: Trials::Auto(auto), gateways, ..fixture.record.plan.clone() }
    }

    fn label_of(slot: &Slot) -> &'static str {
        if matches!(slot.contender, Contender::Direct(_)) { DIRECT } else { "nginx" }
    }

    /// Runs the schedule for one gateway and one load point: three trials of one second per round. Returns
    /// the number of rounds.
    fn run(
        auto: AutoTrials,
        response_us: impl Fn(u32) -> u64,
        stolen_rounds: u32,
    ) -> (usize, Option<Stopped>) {
        let (processes, stopped) = run_processes(auto, 1, response_us, stolen_rounds);
        (processes.len(), stopped)
    }

    /// Like [`run`], with rounds that are spread over this many processes. Returns the number of restarts
    /// before each round.
    fn run_processes(
        auto: AutoTrials,
        processes: u32,
        response_us: impl Fn(u32) -> u64,
        stolen_rounds: u32,
    ) -> (Vec<u32>, Option<Stopped>) {
        let trial = |label: &str, round: u32| {
            let time = if label == DIRECT { 100 } else { response_us(round) };
            // In disturbed rounds each trial loses 100 ms of one CPU in each of its ten windows.
            let stolen = if round < stolen_rounds { 100 } else { 0 };
            via(label, round).all_at_us(time).stolen_ms(&[stolen; 10])
        };
        run_trials(auto, processes, trial)
    }

    /// Like [`run_processes`], with trials that `trial` makes for a label and a round.
    fn run_trials(
        auto: AutoTrials,
        processes: u32,
        trial: impl Fn(&str, u32) -> MadeTrial,
    ) -> (Vec<u32>, Option<Stopped>) {
        let mut director = director(&plan_of(&Run::closed(1), auto), 7);
        director.spread_over(processes);
        assert!(director.planned() >= 3 * auto.least as usize);
        let (mut last, mut given, mut restarts) = (None, 0, Vec::new());
        while let Some(slot) = director.next(last.as_ref()) {
            given += 1;
            restarts.resize(slot.round as usize + 1, director.restarts());
            director.set_elapsed(Duration::from_secs(given as u64));
            last = Some(trial(label_of(&slot), slot.round).0);
        }
        assert_eq!(director.planned(), given, "all planned trials ran");
        assert_eq!(given % 3, 0, "whole rounds");
        assert_eq!(restarts.len(), given / 3);
        (restarts, director.stopped())
    }

    const AUTO: AutoTrials =
        AutoTrials { within: 0.05, within_us: None, at_most: Duration::from_secs(600), least: 5, most: 12 };

    #[test]
    fn ends_after_the_minimum_of_rounds_if_nothing_scatters() {
        assert_eq!(run(AUTO, |_| 150, 0), (5, Some(Stopped::Narrow)));
    }

    #[test]
    fn goes_on_while_intervals_are_wide() {
        // The times alternate between 150 and 250 µs. Therefore the interval of the median stays wider than 5
        // % of the 100 µs that direct takes.
        let by_turns = |round: u32| 150 + 100 * u64::from(round % 2);
        assert_eq!(run(AUTO, by_turns, 0), (12, Some(Stopped::Rounds)));
        // Two slow rounds make the interval wide at first, but hardly affect the median of many rounds.
        let (rounds, stopped) =
            run(AutoTrials { most: 30, ..AUTO }, |round| if round < 2 { 250 } else { 150 }, 0);
        assert!((6..30).contains(&rounds) && stopped == Some(Stopped::Narrow), "{rounds}");
    }

    #[test]
    fn precision_of_messages_decides_if_calls_have_streams() {
        let rounds = |calls_us: &dyn Fn(u64) -> u64, messages_us: &dyn Fn(u64) -> u64| {
            let trial = |label: &str, round: u32| {
                let turn = if label == DIRECT { 0 } else { u64::from(round % 2) };
                via(label, round).all_at_us(calls_us(turn)).both_ways_us(messages_us(turn), 1000)
            };
            let (restarts, stopped) = run_trials(AUTO, 1, trial);
            (restarts.len(), stopped)
        };
        assert_eq!(rounds(&|turn| 1000 + 900 * turn, &|_| 150), (5, Some(Stopped::Narrow)));
        assert_eq!(rounds(&|_| 1000, &|turn| 150 + 100 * turn), (12, Some(Stopped::Rounds)));
    }

    #[test]
    fn begins_no_round_that_cannot_end_in_time() {
        let by_turns = |round: u32| 150 + 100 * u64::from(round % 2);
        // Each round takes three seconds.
        let at_most = |seconds| AutoTrials { at_most: Duration::from_secs(seconds), ..AUTO };
        assert_eq!(run(at_most(21), by_turns, 0), (7, Some(Stopped::Budget)));
        assert_eq!(run(at_most(20), by_turns, 0), (6, Some(Stopped::Budget)));
        assert_eq!(
            run(at_most(6), |_| 150, 0),
            (2, Some(Stopped::Budget)),
            "even before the minimum of rounds"
        );
    }

    /// Numbers of rounds by process.
    fn sizes(
        auto: AutoTrials,
        processes: u32,
        response_us: impl Fn(u32) -> u64,
    ) -> (Vec<usize>, Option<Stopped>) {
        let (restarts, stopped) = run_processes(auto, processes, response_us, 0);
        (restarts.chunk_by(|one, other| one == other).map(<[u32]>::len).collect(), stopped)
    }

    #[test]
    fn all_processes_have_as_many_rounds_before_a_run_ends() {
        let steady = |_| 150;
        let by_turns = |round: u32| 150 + 100 * u64::from(round % 2);
        let many = AutoTrials { most: 100, ..AUTO };
        assert_eq!(sizes(many, 4, steady), (vec![5; 4], Some(Stopped::Narrow)));
        assert_eq!(sizes(many, 4, by_turns), (vec![25; 4], Some(Stopped::Rounds)));
        assert_eq!(sizes(AUTO, 4, steady), (vec![3; 4], Some(Stopped::Rounds)));
        // Each round takes three seconds.
        let in_time = AutoTrials { at_most: Duration::from_secs(48), ..many };
        assert_eq!(sizes(in_time, 4, by_turns), (vec![4; 4], Some(Stopped::Budget)));
        let short = AutoTrials { at_most: Duration::from_secs(9), ..many };
        assert_eq!(sizes(short, 4, by_turns), (vec![3], Some(Stopped::Budget)), "two rounds each, or none");
    }

    #[test]
    fn disturbed_rounds_are_replaced() {
        assert_eq!(run(AUTO, |_| 150, 3), (8, Some(Stopped::Narrow)));
    }
}
