//! The order in which cases are measured: pure, and decided by a recorded seed alone.
//!
//! Machines drift: they warm up, neighbours come and go, caches fill. Whatever is measured in a fixed order inherits
//! that drift as if it were a property of what came late. So in each round the load points come in an order shuffled
//! anew, and for each load point the gateways do too. Direct is measured right before and right after the gateways of
//! each load point: every comparison is then made within minutes of its baseline, the two direct trials say how much
//! the machine itself moved in between (the noise floor), and direct stands at the start and the end of each round.

mod auto;
pub mod hunt;
pub mod search;

use crate::plan::{LoadPoint, Plan, Trials};
use crate::record::{DirectTrial, SearchStep, Stopped, TrialRecord};
use hoptax_load::clock;
use hoptax_load::random::Random;
use hoptax_load::spec::{Rate, Shape};
use std::time::Duration;

/// One trial to come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slot {
    /// Round, from 0.
    pub round: u32,
    /// Index of the load point in the plan.
    pub load: usize,
    /// Who is measured.
    pub contender: Contender,
    /// The step of a search that this is; absent in rounds.
    pub step: Option<SearchStep>,
}

/// Says what is measured next, from what was measured so far.
pub trait Director {
    /// Trials known so far to come over the whole run: of a fixed schedule all of them from the start, of one that adapts
    /// those that are certain.
    fn planned(&self) -> usize;

    /// The next trial, told what the one before it led to; none when the run is over.
    fn next(&mut self, last: Option<&TrialRecord>) -> Option<Slot>;

    /// Told before each [`Director::next`] how long ago the first trial began.
    fn tell_time(&mut self, elapsed: Duration) {
        let _ = elapsed;
    }

    /// Why there is no further round; absent for a number of rounds that was fixed, and while rounds go on.
    fn stopped(&self) -> Option<Stopped> {
        None
    }
}

/// The director that a plan asks for.
pub fn director(plan: &Plan, seed: u64) -> Box<dyn Director> {
    // Rounds are of the load points that are not searched.
    let in_rounds: Vec<usize> =
        (0..plan.load.len()).filter(|load| plan.load[*load].search.is_none()).collect();
    let rounds: Box<dyn Director> = match plan.trials {
        Trials::Auto(auto) if !in_rounds.is_empty() => {
            Box::new(auto::Auto::new(plan, auto, &in_rounds, seed))
        }
        _ => {
            let mut slots = schedule(plan.gateways.len(), in_rounds.len(), plan.trials.at_least(), seed);
            for slot in &mut slots {
                slot.load = in_rounds[slot.load];
            }
            Box::new(Rounds { planned: slots.len(), slots: slots.into_iter() })
        }
    };
    if in_rounds.len() == plan.load.len() {
        return rounds;
    }
    Box::new(Then { first: rounds, then: search::Searches::new(plan, seed), began: false })
}

/// One director's trials, and then the searches'.
struct Then {
    first: Box<dyn Director>,
    then: search::Searches,
    /// Whether the first one is over.
    began: bool,
}

impl Director for Then {
    fn planned(&self) -> usize {
        self.first.planned() + self.then.planned()
    }

    fn next(&mut self, last: Option<&TrialRecord>) -> Option<Slot> {
        if !self.began {
            let slot = self.first.next(last);
            if slot.is_some() {
                return slot;
            }
            self.began = true;
            return self.then.next(None);
        }
        self.then.next(last)
    }

    fn tell_time(&mut self, elapsed: Duration) {
        self.first.tell_time(elapsed);
    }

    fn stopped(&self) -> Option<Stopped> {
        self.first.stopped()
    }
}

/// A fixed number of rounds.
struct Rounds {
    planned: usize,
    slots: std::vec::IntoIter<Slot>,
}

impl Director for Rounds {
    fn planned(&self) -> usize {
        self.planned
    }

    fn next(&mut self, _: Option<&TrialRecord>) -> Option<Slot> {
        self.slots.next()
    }
}

/// Who is measured in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contender {
    /// The baseline, before or after the gateways of its load point.
    Direct(DirectTrial),
    /// The gateway of this index in the plan.
    Gateway(usize),
}

/// Tells this stream of randomness apart from the others that hang on the same seed.
const ORDER: u64 = 0x006f_7264_6572;

/// Every trial of a run in the order in which it is made: `trials` rounds, each holding, for every load point, direct,
/// each of `gateways` once, and direct again.
pub fn schedule(gateways: usize, load_points: usize, trials: u32, seed: u64) -> Vec<Slot> {
    let mut random = Random::stream(seed, ORDER);
    let mut slots = Vec::with_capacity(trials as usize * load_points * (gateways + 2));
    for round in 0..trials {
        let mut loads: Vec<usize> = (0..load_points).collect();
        random.shuffle(&mut loads);
        for load in loads {
            let mut order: Vec<usize> = (0..gateways).collect();
            random.shuffle(&mut order);
            let slot = |contender| Slot { round, load, contender, step: None };
            slots.push(slot(Contender::Direct(DirectTrial::First)));
            slots.extend(order.into_iter().map(Contender::Gateway).map(slot));
            slots.push(slot(Contender::Direct(DirectTrial::Last)));
        }
    }
    slots
}

/// Allowance for what a trial takes beside its warm-up and its measured time: starting the generator, reading probes
/// and ledger, writing the record.
const PER_TRIAL: Duration = Duration::from_millis(150);

/// Allowance for starting one service and waiting until it answers.
const PER_START: Duration = Duration::from_millis(700);

/// The generator opens connections at a bounded pace, so that thousands of them do not overflow a listen queue.
const CONNECTS_PER_SECOND: u32 = 10_000;

/// How long the run will take: set-up, all trials, and the pauses between them. An expectation, not a bound: slow
/// starts, and requests that are in flight when a trial ends, come on top. With `trials: auto` that of the fewest rounds.
pub fn estimate(plan: &Plan) -> Duration {
    of_rounds(plan, plan.trials.at_least())
}

/// The same of the most rounds that `trials: auto` may make in its time; absent where the number is fixed, or nothing is
/// measured in rounds.
pub fn estimate_at_most(plan: &Plan) -> Option<Duration> {
    let Trials::Auto(auto) = plan.trials else { return None };
    if plan.load.iter().all(|load| load.search.is_some()) {
        return None;
    }
    let none = of_rounds(plan, 0);
    let rounds = of_rounds(plan, auto.most).saturating_sub(none);
    Some(none + rounds.min(auto.at_most))
}

fn of_rounds(plan: &Plan, rounds: u32) -> Duration {
    let gateways = plan.gateways.len() as f64;
    let rounds = f64::from(rounds);
    let in_rounds = || plan.load.iter().filter(|load| load.search.is_none());
    let mut trials = rounds * in_rounds().count() as f64 * (gateways + 2.0);
    let mut isolated = gateways * in_rounds().count() as f64 * rounds;
    let once: f64 = in_rounds().map(|load| trial(plan, load).as_secs_f64()).sum();
    let mut searching = 0.0;
    for (load, (steps, measured)) in plan.load.iter().filter_map(|load| Some((load, search::expected(load)?)))
    {
        let beside = trial(plan, load).saturating_sub(load.duration).as_secs_f64();
        searching += (beside * f64::from(steps) + measured.as_secs_f64()) * (gateways + 1.0);
        trials += f64::from(steps) * (gateways + 1.0);
        isolated += f64::from(steps) * gateways;
    }
    let starts = 1.0 + if plan.isolate { isolated } else { gateways };
    let seconds = once * (gateways + 2.0) * rounds
        + searching
        + plan.pause.as_secs_f64() * (trials - 1.0).max(0.0)
        + PER_START.as_secs_f64() * starts;
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

fn trial(plan: &Plan, load: &LoadPoint) -> Duration {
    let connecting = Duration::from_secs(1) * load.connections / CONNECTS_PER_SECOND;
    PER_TRIAL + connecting + plan.warmup + measured(load)
}

/// The measured time of one trial: shorter than the duration where a number of requests at a known rate ends it.
fn measured(load: &LoadPoint) -> Duration {
    match (&load.shape, load.requests) {
        (Shape::Open { rate, .. }, Some(requests)) => load
            .duration
            .min(Duration::try_from_secs_f64(time_until(rate, requests as f64)).unwrap_or(Duration::MAX)),
        _ => load.duration,
    }
}

/// Seconds until this many requests were due; infinite if there are not that many.
fn time_until(rate: &Rate, requests: f64) -> f64 {
    let stages = match rate {
        Rate::Fixed(rate) => return requests / rate,
        Rate::Stages(stages) => stages,
    };
    let (mut passed, mut left) = (0.0, requests);
    for stage in stages {
        let length = stage.for_ns as f64 / clock::SECOND as f64;
        let due = (stage.from + stage.to) / 2.0 * length;
        if due < left {
            passed += length;
            left -= due;
            continue;
        }
        // `from·t + slope·t²/2 = left`, solved in the form that is right for a slope of zero too.
        let slope = (stage.to - stage.from) / length;
        let root = (stage.from * stage.from + 2.0 * slope * left).max(0.0).sqrt();
        return passed + 2.0 * left / (stage.from + root);
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_load::spec::Stage;
    use std::collections::BTreeSet;

    fn told(gateways: usize, load_points: usize, trials: u32, seed: u64) -> String {
        let mut text = String::new();
        for slot in schedule(gateways, load_points, trials, seed) {
            let who = match slot.contender {
                Contender::Direct(DirectTrial::First) => "first".to_owned(),
                Contender::Direct(DirectTrial::Last) => "last\n".to_owned(),
                Contender::Gateway(index) => index.to_string(),
            };
            text += &match slot.contender {
                Contender::Direct(DirectTrial::First) => format!("{}.{} {who}", slot.round, slot.load),
                _ => format!(" {who}"),
            };
        }
        text
    }

    #[test]
    fn the_order_of_a_seed_never_changes() {
        assert_eq!(
            told(3, 2, 3, 42),
            "0.1 first 1 0 2 last\n\
             0.0 first 2 1 0 last\n\
             1.1 first 1 0 2 last\n\
             1.0 first 0 2 1 last\n\
             2.0 first 0 2 1 last\n\
             2.1 first 0 1 2 last\n"
        );
    }

    #[test]
    fn another_seed_gives_another_order() {
        assert_eq!(schedule(5, 3, 4, 1), schedule(5, 3, 4, 1));
        assert_ne!(schedule(5, 3, 4, 1), schedule(5, 3, 4, 2));
    }

    #[test]
    fn every_case_stands_once_in_each_round_between_its_two_direct_trials() {
        for (gateways, load_points, trials, seed) in [(0, 1, 1, 0), (1, 1, 3, 1), (4, 3, 5, 2), (7, 6, 2, 3)]
        {
            let slots = schedule(gateways, load_points, trials, seed);
            assert_eq!(slots.len(), trials as usize * load_points * (gateways + 2));
            let distinct: BTreeSet<_> =
                slots.iter().map(|slot| (slot.round, slot.load, slot.contender)).collect();
            assert_eq!(distinct.len(), slots.len());
            assert!(slots.is_sorted_by_key(|slot| slot.round));
            for block in slots.chunks(gateways + 2) {
                assert!(block.iter().all(|slot| (slot.round, slot.load) == (block[0].round, block[0].load)));
                assert_eq!(block[0].contender, Contender::Direct(DirectTrial::First));
                assert_eq!(block[gateways + 1].contender, Contender::Direct(DirectTrial::Last));
            }
        }
    }

    #[test]
    fn the_estimate_adds_up() {
        let context =
            crate::plan::Context { cpus: 1, known: Vec::new(), directory: std::path::PathBuf::default() };
        let seconds = |rest: &str| {
            let text = format!(
                "gateways: [hop-l4, hop-l7]\nload: [{{ loop: closed, connections: 1, duration: 5s }}, {{ loop: open, \
                 rate: 100/s, connections: 10000, duration: 9s, requests: 300 }}]\nwarmup: 1s\ntrials: 3\n{rest}"
            );
            let plan = crate::plan::parse("x.yaml", &text, &[], &context)
                .unwrap_or_else(|errors| panic!("{errors}"));
            estimate(&plan).as_secs_f64()
        };
        // Two gateways and direct twice: 4 trials of each load point in each of 3 rounds.
        let trials = 12.0 * (0.15 + 0.0001 + 1.0 + 5.0) + 12.0 * (0.15 + 1.0 + 1.0 + 3.0);
        assert!((seconds("") - (trials + 3.0 * 0.7)).abs() < 1e-6, "{}", seconds(""));
        assert!((seconds("pause: 1s\n") - (trials + 23.0 + 3.0 * 0.7)).abs() < 1e-6);
        assert!((seconds("isolate: true\n") - (trials + 13.0 * 0.7)).abs() < 1e-6);
    }

    #[test]
    fn rounds_without_a_number_have_a_longest_time() {
        let context =
            crate::plan::Context { cpus: 1, known: Vec::new(), directory: std::path::PathBuf::default() };
        let longest = |trials: &str| {
            let text = format!(
                "gateways: [hop-l7]\nload: [{{ loop: closed, connections: 1, duration: 5s }}]\ntrials: {trials}\n"
            );
            let plan = crate::plan::parse("x.yaml", &text, &[], &context)
                .unwrap_or_else(|errors| panic!("{errors}"));
            estimate_at_most(&plan).map(|longest| (longest, estimate(&plan)))
        };
        assert_eq!(longest("5"), None);
        let (longest_of_ten, _) = longest("{ most: 10, at_most: 1h }").expect("no number");
        let (same, ten) = longest("{ least: 10, most: 10, at_most: 1h }").expect("no number");
        assert_eq!((longest_of_ten, same), (ten, ten));
        let starts = Duration::from_millis(1400);
        assert_eq!(longest("{ at_most: 2m }").expect("no number").0, starts + Duration::from_secs(120));
    }

    #[test]
    fn a_number_of_requests_ends_stages_when_that_many_were_due() {
        let stage = |from: f64, to: f64| Stage { from, to, for_ns: 2 * clock::SECOND };
        let rate =
            Rate::Stages(vec![stage(10.0, 10.0), stage(10.0, 30.0), stage(0.0, 0.0), stage(20.0, 0.0)]);
        // 20 due after 2 s, 60 after 4 s, 60 after 6 s, 80 after 8 s. In the ramp: 10·t + 5·t² after t seconds.
        for (requests, seconds) in [(10.0, 1.0), (20.0, 2.0), (35.0, 3.0), (60.0, 4.0), (80.0, 8.0)] {
            assert!(
                (time_until(&rate, requests) - seconds).abs() < 1e-9,
                "{requests}: {}",
                time_until(&rate, requests)
            );
        }
        // Of the last stage 15 of 20: 20·t − 5·t² = 15.
        assert!((time_until(&rate, 75.0) - 7.0).abs() < 1e-9);
        assert_eq!(time_until(&rate, 81.0), f64::INFINITY);
        assert_eq!(time_until(&Rate::Fixed(5.0), 10.0), 2.0);
    }

    #[test]
    fn each_gateway_comes_first_about_equally_often() {
        let mut first = [0u32; 4];
        for slots in schedule(4, 1, 4000, 9).chunks(6) {
            if let Contender::Gateway(index) = slots[1].contender {
                first[index] += 1;
            }
        }
        assert!(first.iter().all(|&count| (900..1100).contains(&count)), "{first:?}");
    }
}
