//! The search against made-up contenders whose capacity is known.

use super::*;
use hoptax_load::random::Random;

/// A contender whose trials hold or do not by a law that is known.
struct Made {
    /// By objective, requests/s.
    capacity: Vec<f64>,
    /// What a trial can hold scatters about the capacity by this part of it: normally, alike for all objectives.
    scatter: f64,
    /// Chance that a burst begins with a trial, and that it lasts until the next one; in a burst nothing holds.
    bursts: (f64, f64),
    in_burst: bool,
    random: Random,
}

impl Made {
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

    /// Searches to the end; the steps with what held.
    fn play(&mut self, range: Range) -> (Hunt, Vec<(SearchStep, Vec<bool>)>) {
        let mut hunt = Hunt::new(range, self.capacity.len());
        let mut steps = Vec::new();
        while let Some(step) = hunt.next_step() {
            let held = self.holds(step.rate);
            hunt.observe(step, Some(&held));
            steps.push((step, held));
            assert!(steps.len() as u32 <= most_steps(self.capacity.len()), "the number of trials is bounded");
        }
        (hunt, steps)
    }
}

const RANGE: Range = Range { from: 500.0, to: 16_000.0, precision: 0.05 };

/// What many searches for a capacity that is drawn anew each time came to.
#[derive(Debug)]
struct Played {
    /// Share of intervals that held the capacity.
    covered: f64,
    /// Share of estimates that were more than 20 % off.
    fooled: f64,
    /// Share of estimates that were more than 20 % too high.
    too_high: f64,
    /// Mean trials.
    steps: f64,
    /// Mean half-width, as a part of the rate.
    width: f64,
}

fn play_often(runs: u32, scatter: f64, bursts: (f64, f64)) -> Played {
    let mut seeds = Random::new(11);
    let mut sum = Played { covered: 0.0, fooled: 0.0, too_high: 0.0, steps: 0.0, width: 0.0 };
    for _ in 0..runs {
        let capacity = 700.0 * (seeds.unit() * 17.0_f64.ln()).exp();
        let (hunt, steps) = Made::new(&[capacity], scatter, bursts, seeds.next_u64()).play(RANGE);
        let (estimate, low, high) = hunt.objectives()[0].interval();
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

/// Requires that the page's row states these figures.
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
        include_str!("../../../../docs/concepts/simulations.md").lines().any(|line| line == row),
        "docs/concepts/simulations.md should say:\n{row}"
    );
}

/// Where trials scatter as the method expects, an interval of 95 % holds the truth in 93 to 97 % of the searches, give or
/// take what a thousand searches can tell.
#[test]
fn the_interval_covers_the_capacity_as_often_as_it_says() {
    let noisy = play_often(1000, 0.07, (0.0, 0.0));
    println!("scatter 7 %: {noisy:?}");
    assert!((0.93..=0.97).contains(&noisy.covered), "{noisy:?}");
    assert!(noisy.fooled < 0.005 && noisy.width < 0.12, "{noisy:?}");
    page_agrees("scatters by 7 %", &noisy);
}

/// On a quiet machine the grid and the caution of the prior make intervals cover more, and they are narrow.
#[test]
fn on_a_quiet_machine_it_is_quick_and_narrow() {
    for (scatter, words) in [(1e-6, "does not scatter"), (0.01, "scatters by 1 % (normal)")] {
        let quiet = play_often(300, scatter, (0.0, 0.0));
        println!("scatter {scatter}: {quiet:?}");
        assert!(quiet.covered >= 0.97 && quiet.fooled == 0.0, "{quiet:?}");
        assert!(quiet.width <= 0.05 && quiet.steps <= 20.0, "{quiet:?}");
        page_agrees(words, &quiet);
    }
}

/// Bursts that spoil one trial in nine, half of them the next one too: now and then the climb ends in one. A burst only ever
/// makes trials fail, and what it fools is fooled downwards.
#[test]
fn bursts_widen_the_interval_and_seldom_fool_it() {
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

/// The limit of the method that docs/concepts/simulations.md states.
#[test]
fn a_machine_that_scatters_by_a_fifth_cannot_be_sized_on() {
    let wild = play_often(500, 0.2, (0.0, 0.0));
    println!("scatter 20 %: {wild:?}");
    let told = format!("at 20 % about {:.0} % of them held the truth", 100.0 * wild.covered);
    let page = include_str!("../../../../docs/concepts/simulations.md")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(page.contains(&told), "docs/concepts/simulations.md should say: {told}");
}

fn told(steps: &[(SearchStep, Vec<bool>)]) -> Vec<(f64, bool)> {
    steps.iter().map(|(step, held)| (step.rate, held[0])).collect()
}

#[test]
fn climbs_by_four_and_never_asks_for_more_than_four_times_what_held() {
    let (_, steps) = Made::new(&[3000.0], 0.0, (0.0, 0.0), 1).play(RANGE);
    let climb = [(500.0, true), (2000.0, true), (8000.0, false), (8000.0, false)];
    assert_eq!(told(&steps)[..4], climb);
    for (index, (step, _)) in steps.iter().enumerate() {
        let held = steps[..index].iter().filter(|(_, held)| held[0]).map(|(step, _)| step.rate);
        let highest = held.fold(RANGE.from / CLIMB, f64::max);
        assert!(step.rate <= CLIMB * highest * 1.001, "{} after {highest}", step.rate);
    }
}

#[test]
fn a_single_failure_does_not_end_the_climb() {
    let mut hunt = Hunt::new(RANGE, 1);
    let mut rates = Vec::new();
    for held in [false, true, true] {
        let step = hunt.next_step().expect("it has just begun");
        rates.push(step.rate);
        hunt.observe(step, Some(&[held]));
    }
    assert_eq!(rates, [500.0, 500.0, 2000.0]);
}

#[test]
fn what_is_found_is_confirmed_by_longer_trials_at_the_lower_end() {
    let (hunt, steps) = Made::new(&[3000.0], 0.0, (0.0, 0.0), 1).play(RANGE);
    let (_, low, _) = hunt.objectives()[0].interval();
    let longer: Vec<f64> = steps
        .iter()
        .filter(|(step, _)| step.purpose == StepPurpose::Confirm)
        .map(|(step, _)| step.rate)
        .collect();
    assert_eq!(longer.len(), 2, "two that hold are enough");
    assert_eq!(longer[0], longer[1], "at one rate");
    assert!(longer.iter().all(|rate| (rate / low).ln().abs() < 0.03), "{longer:?} at {low}");
}

/// Something that holds for a short while only: longer trials fail above half of what the short ones held.
#[test]
fn a_failed_confirmation_moves_the_interval_down() {
    let mut hunt = Hunt::new(RANGE, 1);
    let mut confirmed = Vec::new();
    let mut before = None;
    while let Some(step) = hunt.next_step() {
        let limit = if step.purpose == StepPurpose::Confirm { 1500.0 } else { 3000.0 };
        if step.purpose == StepPurpose::Confirm {
            before.get_or_insert(hunt.objectives()[0].interval().1);
            confirmed.push(step.rate);
        }
        hunt.observe(step, Some(&[step.rate <= limit]));
    }
    let after = hunt.objectives()[0].interval().1;
    assert!(after < before.expect("it confirmed"), "{before:?} to {after}");
    assert!(confirmed.len() as u32 <= CONFIRM_STEPS && confirmed.len() > 2, "{confirmed:?}");
    assert!(confirmed.is_sorted_by(|one, other| other <= one), "{confirmed:?}");
}

#[test]
fn the_ends_of_the_range_are_told_and_not_beaten() {
    let (hunt, steps) = Made::new(&[1e9], 0.0, (0.0, 0.0), 1).play(RANGE);
    assert!(hunt.objectives()[0].above(RANGE.to) >= CERTAIN);
    assert!(steps.iter().all(|(step, _)| step.rate <= RANGE.to) && steps.len() <= 9, "{:?}", told(&steps));
    let (hunt, steps) = Made::new(&[10.0], 0.0, (0.0, 0.0), 1).play(RANGE);
    assert!(hunt.objectives()[0].above(RANGE.from) <= 1.0 - CERTAIN);
    assert!((3..=8).contains(&steps.len()), "{:?}", told(&steps));
    assert!(steps.iter().all(|(step, _)| step.rate >= RANGE.from));
}

#[test]
fn one_pass_serves_every_bound() {
    let capacities = [900.0, 2500.0, 6000.0, 6100.0, 6200.0];
    let (hunt, steps) = Made::new(&capacities, 0.01, (0.0, 0.0), 5).play(RANGE);
    let alone: usize =
        capacities.iter().map(|one| Made::new(&[*one], 0.01, (0.0, 0.0), 5).play(RANGE).1.len()).sum();
    assert!(steps.len() < alone * 2 / 3, "{} together, {alone} alone", steps.len());
    for (threshold, capacity) in hunt.objectives().iter().zip(capacities) {
        let (estimate, low, high) = threshold.interval();
        assert!((estimate / capacity).ln().abs() < 0.08, "{estimate} for {capacity}");
        assert!(low < capacity * 1.03 && high > capacity * 0.97, "{low} to {high} for {capacity}");
    }
}

#[test]
fn two_trials_in_a_row_that_say_nothing_end_it() {
    let mut hunt = Hunt::new(RANGE, 1);
    let outcomes = [Some(true), None, Some(true), None, None];
    for held in outcomes {
        let step = hunt.next_step().expect("not over yet");
        hunt.observe(step, held.map(|held| [held]).as_ref().map(<[bool; 1]>::as_slice));
    }
    assert!(hunt.is_over() && hunt.next_step().is_none());
    assert_eq!(hunt.objectives()[0].observations(), 2);
}

#[test]
fn it_ends_whatever_happens() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let range = Range { from: 1.0, to: 1e7, precision: 0.05 };
        let mut hunt = Hunt::new(range, 3);
        let mut steps = 0;
        while let Some(step) = hunt.next_step() {
            let held: Vec<bool> = (0..3).map(|_| random.unit() < 0.5).collect();
            hunt.observe(step, (random.unit() < 0.8).then_some(&held));
            steps += 1;
            assert!((range.from..=range.to).contains(&step.rate), "{}", step.rate);
        }
        assert!(steps <= most_steps(3), "{steps}");
    }
}
