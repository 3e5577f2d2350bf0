//! What the rule does to a tax, in a world whose truth is known. docs/concepts/simulations.md states these figures; tests compare
//! them.
//!
//! An open loop sends Poisson arrivals to one server on one CPU. Via the gateway each request costs more of that CPU. The
//! hypervisor takes the CPU away in bursts; the kernel learns of a burst when the CPU runs again, counts it in ticks, and is
//! asked at the edges of windows. Each simulated run is made three times from the same randomness: without bursts (the
//! truth), and with them, of which all windows or quiet ones are looked at. So their error is the bursts' and the rule's
//! alone.

use super::restrict::restrict;
use super::windows::{Quiet, RULE, Rule};
use crate::fixture::{MadeTrial, open_point, via};
use crate::load::Load;
use crate::noise::NoiseFloor;
use crate::tax::Tax;
use crate::trial::Trial;
use hoptax_load::clock::MILLISECOND;
use hoptax_load::random::Random;
use hoptax_load::record::WINDOW_NS;
use hoptax_plan::Metric;
use hoptax_record::{DIRECT, Stolen};
use hoptax_stats::{mean, standard_deviation};
use std::collections::BTreeMap;

const ROUNDS: u32 = 5;
/// Windows of a trial: 3 s.
const WINDOWS: usize = 30;
/// Windows of warm-up, which are in no figure.
const WARMUP: usize = 5;
/// µs.
const WINDOW: f64 = WINDOW_NS as f64 / 1e3;
/// Requests per µs.
const RATE: f64 = 1500e-6;
/// CPU time of a request, µs: a fixed part and an exponential one. Direct uses 0.3 of the CPU, via the gateway 0.45.
const DIRECT_COST: (f64, f64) = (100.0, 100.0);
const VIA_COST: (f64, f64) = (200.0, 100.0);
/// How far rounds differ from each other.
const DRIFT: f64 = 0.02;
/// The kernel's tick, µs.
const TICK: f64 = 10_000.0;
/// Share of the CPU that direct uses.
const DIRECT_USE: f64 = RATE * (DIRECT_COST.0 + DIRECT_COST.1);

/// What makes the hypervisor take the CPU away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Steal {
    Never,
    /// Time alone.
    Random,
    /// CPU time used: who uses more is punished more often.
    FollowsLoad,
    /// CPU time used, in slices too short for a tick.
    Slices,
}

impl Steal {
    /// A burst, µs: a fixed part and an exponential one.
    fn burst(self) -> (f64, f64) {
        if self == Self::Slices { (1_000.0, 1_000.0) } else { (15_000.0, 35_000.0) }
    }

    /// Mean time between bursts, µs; where they follow load, at the load of direct.
    fn between(self) -> f64 {
        if self == Self::Slices { 400_000.0 } else { 1_200_000.0 }
    }

    /// Whether bursts come by CPU time used.
    fn follows_load(self) -> bool {
        matches!(self, Self::FollowsLoad | Self::Slices)
    }
}

/// The simulated CPU: works, and is taken away.
struct Cpu {
    steal: Steal,
    random: Random,
    /// When it will have worked off everything, µs.
    free: f64,
    /// When the next burst begins: on the clock, or in CPU time used.
    next: f64,
    used: f64,
    /// What was taken in bursts that have ended, with the moment at which the kernel learnt of it.
    taken: Vec<(f64, f64)>,
}

impl Cpu {
    fn new(steal: Steal, random: Random) -> Self {
        let mut cpu = Self { steal, random, free: 0.0, next: 0.0, used: 0.0, taken: Vec::new() };
        cpu.next = cpu.pause();
        cpu
    }

    /// How long the CPU is left alone: on the clock, or in CPU time used.
    fn pause(&mut self) -> f64 {
        let scale = if self.steal.follows_load() { DIRECT_USE } else { 1.0 };
        self.steal.between() * scale * self.random.exponential()
    }

    /// Serves a request that arrives at `now` and costs `cost`; tells when it is done.
    fn serve(&mut self, now: f64, cost: f64) -> f64 {
        let mut at = self.free.max(now);
        let mut left = cost;
        loop {
            // How much work fits in before the next burst.
            let until = match self.steal {
                Steal::Never => f64::INFINITY,
                Steal::Random => self.next - at,
                Steal::FollowsLoad | Steal::Slices => self.next - self.used,
            };
            if until >= left {
                self.used += left;
                self.free = at + left;
                return self.free;
            }
            let work = until.max(0.0);
            (at, left, self.used) = (at + work, left - work, self.used + work);
            let (fixed, scattered) = self.steal.burst();
            let began = if self.steal.follows_load() { at } else { self.next };
            let ended = began + fixed + scattered * self.random.exponential();
            // An idle CPU has nothing taken from it: only what it wanted to run counts.
            if ended > at {
                self.taken.push((ended, ended - at));
                at = ended;
            }
            self.next = if self.steal.follows_load() { self.used } else { ended } + self.pause();
        }
    }

    /// What `/proc/stat` shows per window, ns: whole ticks, from the warm-up on.
    fn stat(&self) -> Vec<u64> {
        let total = |until: f64| {
            let known = self.taken.iter().filter(|(at, _)| *at <= until).map(|(_, taken)| taken).sum::<f64>();
            (known / TICK).floor() as u64
        };
        (0..WARMUP + WINDOWS)
            .map(|window| total((window + 1) as f64 * WINDOW) - total(window as f64 * WINDOW))
            .map(|ticks| ticks * 10 * MILLISECOND)
            .collect()
    }
}

/// A simulated trial, and of each request the windows in which it was due and completed, and its response time, µs.
struct Simulated {
    trial: MadeTrial,
    requests: Vec<(usize, usize, f64)>,
}

/// `stream` decides arrivals and costs, and bursts apart from them.
fn simulate(who: &str, round: u32, steal: Steal, seed: u64, stream: u64, drift: f64) -> Simulated {
    let mut random = Random::stream(seed, stream);
    let mut cpu = Cpu::new(steal, Random::stream(seed, stream + 1000));
    let (fixed, scattered) = if who == DIRECT { DIRECT_COST } else { VIA_COST };
    let mut windows = vec![Vec::new(); WINDOWS];
    let mut requests = Vec::new();
    let mut due = 0.0;
    loop {
        due += random.exponential() / RATE;
        if due >= (WARMUP + WINDOWS) as f64 * WINDOW {
            break;
        }
        let done = cpu.serve(due, drift * (fixed + scattered * random.exponential()));
        let window = |at: f64| ((at / WINDOW) as usize).checked_sub(WARMUP);
        if let Some(completed) = window(done).filter(|window| *window < WINDOWS) {
            windows[completed].push(((done - due) * 1e3) as u64);
            requests.extend(window(due).map(|window| (window, completed, done - due)));
        }
    }
    let mut trial = via(who, round).windows_ns(&windows);
    let stat = cpu.stat();
    trial.0.host.stolen =
        Some(Stolen { before: WARMUP as u32, after: 0, ns_by_cpu: BTreeMap::from([(0, stat)]) });
    Simulated { trial, requests }
}

/// A run: in each round direct, via the gateway, direct.
fn run(steal: Steal, seed: u64) -> Vec<Simulated> {
    let mut drift = Random::stream(seed, 7);
    (0..ROUNDS)
        .flat_map(|round| {
            let drift = 1.0 + DRIFT * (2.0 * drift.unit() - 1.0);
            let stream = u64::from(round) * 10;
            let simulate = |who, part| simulate(who, round, steal, seed, 100 + stream + part, drift);
            let (first, via, last) = (simulate(DIRECT, 0), simulate("gateway", 1), simulate(DIRECT, 2));
            let (first, last) = (
                Simulated { trial: first.trial.first(), ..first },
                Simulated { trial: last.trial.last(), ..last },
            );
            [first, via, last]
        })
        .collect()
}

/// What the trials of a run say of the tax.
fn tax(trials: Vec<Trial<'_>>) -> Tax {
    let (direct, gateway): (Vec<_>, Vec<_>) =
        trials.into_iter().partition(|trial| trial.record.contender == DIRECT);
    let load = Load::all(&[open_point(RATE * 1e6, 8, 3)]).remove(0);
    Tax::new(&gateway, &direct, &NoiseFloor::new(load, &direct))
}

fn whole(run: &[Simulated]) -> Vec<Trial<'_>> {
    run.iter().map(|one| Trial::read(&one.trial.0).expect("it did not fail")).collect()
}

/// The trials restricted to what a rule leaves in.
fn by<'a>(rule: &Rule, trials: &[Trial<'a>]) -> Vec<Trial<'a>> {
    let restricted =
        |trial: &Trial<'a>| restrict(trial, &Quiet::by(rule, trial.record).filter(Quiet::is_enough)?);
    trials.iter().filter_map(restricted).collect()
}

/// The rule without regard to what a burst leaves around it.
const BURSTS_ALONE: Rule = Rule { before: 0, after: 0, in_proportion: false, ..RULE };
const METRICS: [Metric; 3] = [Metric::AddedP50, Metric::AddedP90, Metric::AddedP99];
/// How windows are looked at: all; without those that show steal; quiet ones.
const LOOKS: [Option<&Rule>; 3] = [None, Some(&BURSTS_ALONE), Some(&RULE)];
const ALL: usize = 0;
const UNSTOLEN: usize = 1;
const QUIET: usize = 2;

/// What came of many runs in one metric.
#[derive(Default)]
struct Outcome {
    /// Error of the tax against the same run without bursts, µs, one per run.
    errors: Vec<f64>,
    /// Width of the interval, µs, one per run with at least two rounds.
    widths: Vec<f64>,
}

impl Outcome {
    fn error(&self) -> f64 {
        mean(&self.errors).expect("there are runs")
    }

    /// Standard error of that mean.
    fn standard_error(&self) -> f64 {
        standard_deviation(&self.errors).expect("there are runs") / (self.errors.len() as f64).sqrt()
    }

    fn width(&self) -> f64 {
        mean(&self.widths).expect("there are runs")
    }
}

/// What came of many runs.
#[derive(Default)]
struct Outcomes {
    /// By look and metric.
    of: [[Outcome; 3]; 3],
    /// Windows, and those left out, of direct and of the gateway.
    windows: [usize; 2],
    left_out: [usize; 2],
}

impl Outcomes {
    fn new(steal: Steal, runs: u64) -> Self {
        let mut outcomes = Self::default();
        for seed in 0..runs {
            let (calm, disturbed) = (run(Steal::Never, seed), run(steal, seed));
            let truth = tax(whole(&calm));
            let trials = whole(&disturbed);
            for trial in &trials {
                let quiet = Quiet::of(trial.record).expect("told");
                let side = usize::from(trial.record.contender != DIRECT);
                outcomes.left_out[side] += quiet.left_out();
                outcomes.windows[side] += quiet.windows();
            }
            let restricted = LOOKS.map(|rule| rule.map(|rule| by(rule, &trials)));
            for (look, trials) in restricted.into_iter().enumerate() {
                outcomes.add(look, &tax(trials.unwrap_or_else(|| whole(&disturbed))), &truth);
            }
        }
        outcomes
    }

    fn add(&mut self, look: usize, tax: &Tax, truth: &Tax) {
        for (metric, outcome) in METRICS.iter().zip(&mut self.of[look]) {
            let truth = truth.get(*metric).expect("every round has direct").estimate.estimate;
            if let Some(told) = tax.get(*metric).map(|told| told.estimate) {
                outcome.errors.push(told.estimate - truth);
                outcome.widths.extend(told.interval().map(|(low, high)| high - low));
            }
        }
    }

    fn share_left_out(&self) -> [f64; 2] {
        [0, 1].map(|side| self.left_out[side] as f64 / self.windows[side] as f64)
    }
}

/// Runs of each kind: as many as tell a bias from the scatter of the bursts.
const RUNS: u64 = 30;

/// The table of docs/concepts/simulations.md, line by line: what steals, how windows are looked at, and for each metric the mean error and its
/// standard error. The test's own figures must lie within two standard errors of what is written there, so that another
/// way to make an interval or a mean does not make the text wrong, but another rule does.
fn page_agrees(steal: &str, outcomes: &Outcomes) {
    let text = include_str!("../../../../docs/concepts/simulations.md");
    let mut wrong = Vec::new();
    for (look, words) in ["all", "without stolen ones", "quiet"].into_iter().enumerate() {
        let start = format!("| {steal} | {words} |");
        let line = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default();
        let stated = line.split('|').map(|cell| cell.split('±').next().unwrap_or_default().trim());
        let stated: Vec<f64> = stated.filter_map(|cell| cell.replace('−', "-").parse().ok()).collect();
        let near = |(stated, one): (&f64, &Outcome)| {
            (stated - one.error()).abs() <= 2.0 * one.standard_error() + 0.1
        };
        let of = &outcomes.of[look];
        if stated.len() != of.len() || !stated.iter().zip(of).all(near) {
            let told = of.iter().map(|one| format!(" {:+.1} ± {:.1} |", one.error(), one.standard_error()));
            wrong.push(format!("{start}{}", told.collect::<String>().replace('-', "−")));
        }
    }
    assert!(wrong.is_empty(), "docs/concepts/simulations.md should say:\n{}", wrong.join("\n"));
}

/// Nothing is left of the error but what its standard error lets expect: two of them.
fn is_unbiased(outcome: &Outcome) -> bool {
    outcome.errors.len() as u64 == RUNS && outcome.error().abs() <= 2.0 * outcome.standard_error()
}

#[test]
fn steal_that_comes_at_random_leaves_the_quiet_tax_unbiased_and_narrow() {
    let outcomes = Outcomes::new(Steal::Random, RUNS);
    for (metric, name) in METRICS.iter().map(|metric| metric.name()).enumerate() {
        let [all, unstolen, quiet] = [ALL, UNSTOLEN, QUIET].map(|look| &outcomes.of[look][metric]);
        assert!(is_unbiased(quiet), "{name}: {} ± {}", quiet.error(), quiet.standard_error());
        assert!(quiet.width() < 0.5 * all.width(), "{name}: {} of {}", quiet.width(), all.width());
        // Windows behind a burst hold what waited for its end: leaving out the burst alone is not enough. Such late
        // responses are few and very late, so that the median says it most clearly.
        let least = if metric == 0 { 3.0 } else { 1.5 };
        assert!(unstolen.error() > least * unstolen.standard_error(), "{name}: {}", unstolen.error());
    }
    // Bursts are independent of who runs: as much is left out of direct as of the gateway.
    let [direct, gateway] = outcomes.share_left_out();
    assert!((gateway / direct - 1.0).abs() < 0.1, "{direct} {gateway}");
    page_agrees("at random", &outcomes);
}

#[test]
fn steal_that_follows_load_is_in_the_tax_of_all_windows_and_not_in_the_quiet_one() {
    let outcomes = Outcomes::new(Steal::FollowsLoad, RUNS);
    for (metric, name) in METRICS.iter().map(|metric| metric.name()).enumerate() {
        let [all, quiet] = [ALL, QUIET].map(|look| &outcomes.of[look][metric]);
        assert!(is_unbiased(quiet), "{name}: {} ± {}", quiet.error(), quiet.standard_error());
        assert!(all.error() > 3.0 * all.standard_error(), "{name}: {}", all.error());
    }
    let [direct, gateway] = outcomes.share_left_out();
    assert!(gateway > 1.2 * direct, "who uses more CPU loses more windows: {direct} {gateway}");
    page_agrees("follows load", &outcomes);
}

#[test]
fn slices_shorter_than_a_tick_are_the_limit_of_the_rule() {
    let outcomes = Outcomes::new(Steal::Slices, RUNS);
    for (metric, name) in METRICS.iter().map(|metric| metric.name()).enumerate() {
        let [all, quiet] = [ALL, QUIET].map(|look| &outcomes.of[look][metric]);
        assert!(quiet.error() > 2.0 * quiet.standard_error(), "{name}: {}", quiet.error());
        assert!(quiet.error() < all.error(), "{name}: {} of {}", quiet.error(), all.error());
    }
    page_agrees("in slices of 2 ms", &outcomes);
}

/// Windows are by completion, so a request may be due in one that is left out and complete in one that is kept, and the
/// other way round. Shares: of the requests that a burst kept waiting (10 ms or more), those that complete in kept windows;
/// of those due in kept windows, the ones that complete in windows left out, and so are missing.
fn crossings(rule: &Rule) -> (f64, f64) {
    let (mut late, mut late_kept, mut kept, mut missing) = (0, 0, 0, 0);
    for seed in 0..RUNS {
        let simulated = simulate("gateway", 0, Steal::Random, seed, 1, 1.0);
        let quiet = Quiet::by(rule, &simulated.trial.0).expect("told");
        for (due, completed, took) in simulated.requests {
            let late_one = took >= 10_000.0;
            late += usize::from(late_one);
            late_kept += usize::from(late_one && !quiet.left_out[completed]);
            kept += usize::from(!quiet.left_out[due]);
            missing += usize::from(!quiet.left_out[due] && quiet.left_out[completed]);
        }
    }
    (late_kept as f64 / late as f64, missing as f64 / kept as f64)
}

#[test]
fn leaving_windows_out_omits_hardly_any_request_of_those_it_keeps() {
    let (late_alone, missing_alone) = crossings(&BURSTS_ALONE);
    let (late, missing) = crossings(&RULE);
    // Without neighbours, windows that look untouched hold a good part of what the bursts did.
    assert!(late_alone > 0.1, "{late_alone}");
    assert!(late < 0.01, "{late}");
    assert!(missing < 0.001 && missing < missing_alone, "{missing} {missing_alone}");
    let text = include_str!("../../../../docs/concepts/simulations.md").replace('\n', " ");
    let told = [
        format!("{:.0} % of the requests that a burst kept waiting", late_alone * 100.0),
        format!("with the neighboring windows {:.1} %", late * 100.0),
        format!("{:.2} % of the requests due in quiet windows", missing * 100.0),
    ];
    assert!(
        told.iter().all(|told| text.contains(told)),
        "docs/concepts/simulations.md should say: {told:#?}"
    );
}
