//! Tests of the search against simulated contenders with a known capacity.

use super::*;
use hoptax_format::random::Random;

struct Contender {
    /// Capacity for each objective, requests/s.
    capacity: Vec<f64>,
    /// Relative standard deviation of the capacity between trials. The distribution is log-normal and the
    /// same for all objectives.
    scatter: f64,
    /// Probability that a burst begins at a trial, and probability that a burst continues at the next trial.
    /// No objective holds during a burst.
    bursts: (f64, f64),
    in_burst: bool,
    random: Random,
}

impl Contender {
    fn new(capacity: &[f64], scatter: f64, bursts: (f64, f64), seed: u64) -> Self {
        Self { capacity: capacity.to_vec(), scatter, bursts, in_burst: false, random: Random::new(seed) }
    }

    fn holds(&mut self, rate: f64) -> Vec<bool> {
        let chance = if self.in_burst { self.bursts.1 } else { self.bursts.0 };
        self.in_burst = self.random.unit() < chance;
        let normal = (0..12).map(|_| self.random.unit()).sum::<f64>() - 6.0;
        let now = (self.scatter * normal).exp();
        self.capacity.iter().map(|capacity| !self.in_burst && rate <= capacity * now).collect()
    }

    /// Runs a search to its end. Returns all steps with their outcomes.
    fn play(&mut self, range: Range) -> (CapacitySearch, Vec<(SearchStep, Vec<bool>)>) {
        let mut search = CapacitySearch::new(range, self.capacity.len());
        let mut steps = Vec::new();
        while let Some(step) = search.next_step() {
            let held = self.holds(step.rate);
            search.observe(step, Some(&held));
            steps.push((step, held));
            assert!(steps.len() as u32 <= most_steps(self.capacity.len()), "the number of trials is bounded");
        }
        (search, steps)
    }
}

const RANGE: Range = Range { from: 500.0, to: 16_000.0, precision: 0.05, whole: false };

/// Results of many searches. The capacity is random and differs from search to search.
#[derive(Debug)]
struct Played {
    /// Share of intervals that contain the capacity.
    covered: f64,
    /// Share of estimates that are more than 20 % off.
    fooled: f64,
    /// Share of estimates that are more than 20 % too high.
    too_high: f64,
    /// Mean number of trials.
    steps: f64,
    /// Mean half-width of the interval, as a share of the rate.
    width: f64,
}

fn play_often(runs: u32, scatter: f64, bursts: (f64, f64)) -> Played {
    let mut seeds = Random::new(11);
    let mut sum = Played { covered: 0.0, fooled: 0.0, too_high: 0.0, steps: 0.0, width: 0.0 };
    for _ in 0..runs {
        let capacity = 700.0 * (seeds.unit() * 17.0_f64.ln()).exp();
        let (search, steps) = Contender::new(&[capacity], scatter, bursts, seeds.next_u64()).play(RANGE);
        let (estimate, low, high) = search.objectives()[0].interval();
        sum.covered += f64::from(u8::from(low <= capacity && capacity <= high));
        sum.fooled += f64::from(u8::from((estimate / capacity).ln().abs() > 0.2));
        sum.too_high += f64::from(u8::from((estimate / capacity).ln() > 0.2));
        sum.steps += steps.len() as f64;
        sum.width += (high / low).ln() / 2.0;
    }
    let of = |sum: f64| sum / f64::from(runs);
    Played {
        covered: of(sum.covered),
        fooled: of(sum.fooled),
        too_high: of(sum.too_high),
        steps: of(sum.steps),
        width: of(sum.width),
    }
}

/// Checks that docs/concepts/simulations.md has a row with these figures.
fn page_agrees(what: &str, seen: &Played) {
    let share = |share: f64| format!("{:.1} %", 100.0 * share).replace(".0 %", " %");
    let fooled = if seen.fooled == 0.0 { "none".to_owned() } else { share(seen.fooled) };
    let row = format!(
        "| {what} | {} | {:.1} % | {:.0} | {fooled} |",
        share(seen.covered),
        100.0 * seen.width,
        seen.steps
    );
    assert!(
        include_str!("../../../../../docs/concepts/simulations.md").lines().any(|line| line == row),
        "docs/concepts/simulations.md should say:\n{row}"
    );
}

/// If trials scatter as the method expects, the 95 % interval contains the truth in 93 to 97 % of 1,000
/// searches.
#[test]
fn the_interval_covers_the_capacity_as_often_as_it_says() {
    let noisy = play_often(1000, 0.07, (0.0, 0.0));
    println!("scatter 7 %: {noisy:?}");
    assert!((0.93..=0.97).contains(&noisy.covered), "{noisy:?}");
    assert!(noisy.fooled < 0.005 && noisy.width < 0.12, "{noisy:?}");
    page_agrees("scatters by 7 %", &noisy);
}

/// On a quiet machine more than 95 % of the intervals contain the capacity, because of the grid and the
/// cautious prior. The intervals are still narrow.
#[test]
fn on_a_quiet_machine_the_search_is_short_and_precise() {
    for (scatter, words) in [(1e-6, "does not scatter"), (0.01, "scatters by 1 % (normal)")] {
        let quiet = play_often(300, scatter, (0.0, 0.0));
        println!("scatter {scatter}: {quiet:?}");
        assert!(quiet.covered >= 0.97 && quiet.fooled == 0.0, "{quiet:?}");
        assert!(quiet.width <= 0.05 && quiet.steps <= 20.0, "{quiet:?}");
        page_agrees(words, &quiet);
    }
}

/// Bursts make one trial in nine fail, and half of the bursts also make the next trial fail. Sometimes the
/// climb ends in a burst. A burst can only make trials fail, so wrong estimates are too low and never too
/// high.
#[test]
fn bursts_widen_the_interval_and_rarely_mislead_it() {
    let bursts = play_often(500, 0.03, (0.06, 0.5));
    println!("bursts: {bursts:?}");
    assert!(bursts.covered >= 0.93, "{bursts:?}");
    assert!(bursts.fooled <= 0.06 && bursts.too_high == 0.0, "{bursts:?}");
    page_agrees(
        "scatters by 3 %, and bursts spoil one trial in nine, half of them the next one too",
        &bursts,
    );
    let single = play_often(500, 0.03, (0.1, 0.1));
    println!("single: {single:?}");
    assert!(single.covered >= 0.93 && single.fooled <= 0.03, "{single:?}");
    page_agrees("scatters by 3 %, and one trial in ten is spoilt", &single);
}

/// The finding `host-noisy` makes a search void from this share of spoilt trials on.
#[test]
fn a_search_is_misled_if_every_second_trial_is_spoilt() {
    let quarter = play_often(500, 0.03, (0.25, 0.25));
    let half = play_often(500, 0.03, (0.5, 0.5));
    println!("quarter: {quarter:?}\nhalf: {half:?}");
    assert!(quarter.covered >= 0.85 && quarter.too_high == 0.0, "{quarter:?}");
    assert!(half.covered < 0.6, "{half:?}");
    page_agrees("scatters by 3 %, and one trial in four is spoilt", &quarter);
    page_agrees("scatters by 3 %, and every second trial is spoilt", &half);
}

/// docs/concepts/simulations.md states this limit of the method.
#[test]
fn coverage_is_poor_if_trials_scatter_by_a_fifth() {
    let wild = play_often(500, 0.2, (0.0, 0.0));
    println!("scatter 20 %: {wild:?}");
    let sentence = format!("at 20 % about {:.0} % of them held the truth", 100.0 * wild.covered);
    let page = include_str!("../../../../../docs/concepts/simulations.md")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(page.contains(&sentence), "docs/concepts/simulations.md should say: {sentence}");
}

fn outcomes(steps: &[(SearchStep, Vec<bool>)]) -> Vec<(f64, bool)> {
    steps.iter().map(|(step, held)| (step.rate, held[0])).collect()
}

#[test]
fn climbs_fourfold_and_never_exceeds_four_times_the_highest_held_rate() {
    let (_, steps) = Contender::new(&[3000.0], 0.0, (0.0, 0.0), 1).play(RANGE);
    let climb = [(500.0, true), (2000.0, true), (8000.0, false), (8000.0, false)];
    assert_eq!(outcomes(&steps)[..4], climb);
    for (index, (step, _)) in steps.iter().enumerate() {
        let held = steps[..index].iter().filter(|(_, held)| held[0]).map(|(step, _)| step.rate);
        let highest = held.fold(RANGE.from / CLIMB, f64::max);
        assert!(step.rate <= CLIMB * highest * 1.001, "{} after {highest}", step.rate);
    }
}

#[test]
fn a_single_failure_does_not_end_the_climb() {
    let mut search = CapacitySearch::new(RANGE, 1);
    let mut rates = Vec::new();
    for held in [false, true, true] {
        let step = search.next_step().expect("the search has just begun");
        rates.push(step.rate);
        search.observe(step, Some(&[held]));
    }
    assert_eq!(rates, [500.0, 500.0, 2000.0]);
}

#[test]
fn the_lower_end_is_confirmed_by_longer_trials() {
    let (search, steps) = Contender::new(&[3000.0], 0.0, (0.0, 0.0), 1).play(RANGE);
    let (_, low, _) = search.objectives()[0].interval();
    let longer: Vec<f64> = steps
        .iter()
        .filter(|(step, _)| step.purpose == StepPurpose::Confirm)
        .map(|(step, _)| step.rate)
        .collect();
    assert_eq!(longer.len(), 2, "two that hold are enough");
    assert_eq!(longer[0], longer[1], "at one rate");
    assert!(longer.iter().all(|rate| (rate / low).ln().abs() < 0.03), "{longer:?} at {low}");
}

/// Simulates a contender that holds 3,000/s in short trials and only 1,500/s in longer ones.
#[test]
fn a_failed_confirmation_moves_the_interval_down() {
    let mut search = CapacitySearch::new(RANGE, 1);
    let mut confirmed = Vec::new();
    let mut before = None;
    while let Some(step) = search.next_step() {
        let limit = if step.purpose == StepPurpose::Confirm { 1500.0 } else { 3000.0 };
        if step.purpose == StepPurpose::Confirm {
            before.get_or_insert(search.objectives()[0].interval().1);
            confirmed.push(step.rate);
        }
        search.observe(step, Some(&[step.rate <= limit]));
    }
    let after = search.objectives()[0].interval().1;
    assert!(after < before.expect("it confirmed"), "{before:?} to {after}");
    assert!(confirmed.len() as u32 <= CONFIRM_STEPS && confirmed.len() > 2, "{confirmed:?}");
    assert!(confirmed.is_sorted_by(|one, other| other <= one), "{confirmed:?}");
}

#[test]
fn capacities_outside_the_range_are_reported_and_no_rate_leaves_the_range() {
    let (search, steps) = Contender::new(&[1e9], 0.0, (0.0, 0.0), 1).play(RANGE);
    assert!(search.objectives()[0].above(RANGE.to) >= CERTAIN);
    assert!(
        steps.iter().all(|(step, _)| step.rate <= RANGE.to) && steps.len() <= 9,
        "{:?}",
        outcomes(&steps)
    );
    let (search, steps) = Contender::new(&[10.0], 0.0, (0.0, 0.0), 1).play(RANGE);
    assert!(search.objectives()[0].above(RANGE.from) <= 1.0 - CERTAIN);
    assert!((3..=8).contains(&steps.len()), "{:?}", outcomes(&steps));
    assert!(steps.iter().all(|(step, _)| step.rate >= RANGE.from));
}

#[test]
fn one_search_finds_all_objectives_in_fewer_trials_than_one_each() {
    let capacities = [900.0, 2500.0, 6000.0, 6100.0, 6200.0];
    let (search, steps) = Contender::new(&capacities, 0.01, (0.0, 0.0), 5).play(RANGE);
    let alone: usize =
        capacities.iter().map(|one| Contender::new(&[*one], 0.01, (0.0, 0.0), 5).play(RANGE).1.len()).sum();
    assert!(steps.len() < alone * 2 / 3, "{} together, {alone} alone", steps.len());
    for (threshold, capacity) in search.objectives().iter().zip(capacities) {
        let (estimate, low, high) = threshold.interval();
        assert!((estimate / capacity).ln().abs() < 0.08, "{estimate} for {capacity}");
        assert!(low < capacity * 1.03 && high > capacity * 0.97, "{low} to {high} for {capacity}");
    }
}

#[test]
fn two_consecutive_trials_without_a_result_end_the_search() {
    let mut search = CapacitySearch::new(RANGE, 1);
    let outcomes = [Some(true), None, Some(true), None, None];
    for held in outcomes {
        let step = search.next_step().expect("not over yet");
        search.observe(step, held.map(|held| [held]).as_ref().map(<[bool; 1]>::as_slice));
    }
    assert!(search.is_over() && search.next_step().is_none());
    assert_eq!(search.objectives()[0].observations(), 2);
}

#[test]
fn every_search_ends() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let range = Range { from: 1.0, to: 1e7, precision: 0.05, whole: seed < 25 };
        let mut search = CapacitySearch::new(range, 3);
        let mut steps = 0;
        while let Some(step) = search.next_step() {
            let held: Vec<bool> = (0..3).map(|_| random.unit() < 0.5).collect();
            search.observe(step, (random.unit() < 0.8).then_some(&held));
            steps += 1;
            assert!((range.from..=range.to).contains(&step.rate), "{}", step.rate);
            assert!(!range.whole || step.rate.fract() == 0.0, "{}", step.rate);
        }
        assert!(steps <= most_steps(3), "{steps}");
    }
}
