//! Simulates how quiet windows change a tax whose true value is known. docs/concepts/simulations.md contains
//! the results, and the tests check that they match.
//!
//! An open loop sends Poisson arrivals to a server on one CPU. Via the gateway, each request costs more CPU
//! time. The hypervisor takes the CPU away in bursts. The kernel notices a burst when the CPU runs again, and
//! counts it in ticks. The counter is read at the edges of windows.
//!
//! Each run is simulated twice with the same random numbers. The simulation without bursts gives the true
//! tax. The simulation with bursts gives the tax from all windows and the tax from quiet windows. The errors
//! of these two taxes come only from the bursts and the rule.

use super::restrict::restrict;
use super::windows::{Quiet, RULE, Rule};
use crate::fixture::{MadeTrial, open_point, via};
use crate::trials::trial::Trial;
use hoptax_format::clock::MILLISECOND;
use hoptax_format::random::Random;
use hoptax_format::record::WINDOW_NS;
use hoptax_plan::Metric;
use hoptax_record::report::{Load, Tax};
use hoptax_record::{DIRECT, Stalled, Stolen};
use hoptax_stats::{mean, standard_deviation};
use std::collections::BTreeMap;

const ROUNDS: u32 = 5;
/// Number of windows per trial. A trial takes 3 s.
const WINDOWS: usize = 30;
const WARMUP: usize = 5;
/// Length of a window, µs.
const WINDOW: f64 = WINDOW_NS as f64 / 1e3;
/// Requests per µs.
const RATE: f64 = 1500e-6;
/// CPU time of a request, µs: a fixed part and the mean of an exponential part. Direct uses 30 % of the CPU,
/// and the gateway 45 %.
const DIRECT_COST: (f64, f64) = (100.0, 100.0);
const VIA_COST: (f64, f64) = (200.0, 100.0);
/// Relative difference in speed between rounds.
const DRIFT: f64 = 0.02;
const TICK: f64 = 10_000.0;
const DIRECT_USE: f64 = RATE * (DIRECT_COST.0 + DIRECT_COST.1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Steal {
    Never,
    /// Bursts at random times.
    Random,
    /// Bursts after a random amount of used CPU time, so a higher load causes more steal.
    FollowsLoad,
    /// Bursts after a random amount of used CPU time, each shorter than a tick.
    Slices,
    /// Bursts as in `Slices`, but the stall meter sees them and the kernel does not.
    SeenSlices,
    /// Longer bursts, as measured on a rented machine: 5.7 ms on average. Only the stall meter sees them.
    Stalls,
}

impl Steal {
    /// Length of a burst, µs: a fixed part and the mean of an exponential part.
    fn burst(self) -> (f64, f64) {
        if self == Self::Stalls {
            return (2_500.0, 3_200.0);
        }
        if self.is_short() { (1_000.0, 1_000.0) } else { (15_000.0, 35_000.0) }
    }

    /// Mean time between bursts, µs. If bursts follow the load, this is the mean time at direct's load.
    fn between(self) -> f64 {
        if self.is_short() { 400_000.0 } else { 1_200_000.0 }
    }

    /// True if bursts depend on the CPU time used.
    fn follows_load(self) -> bool {
        self != Self::Random
    }

    /// True if bursts are shorter than a tick.
    fn is_short(self) -> bool {
        matches!(self, Self::Slices | Self::SeenSlices)
    }

    /// True if only the stall meter sees bursts.
    fn is_metered(self) -> bool {
        matches!(self, Self::SeenSlices | Self::Stalls)
    }
}

struct Cpu {
    steal: Steal,
    random: Random,
    /// Time at which the CPU has finished all requests so far, µs.
    free: f64,
    /// Start of the next burst: a time, or an amount of used CPU time if bursts follow the load.
    next: f64,
    used: f64,
    /// The bursts that have ended, each with the time when the kernel noticed it and the CPU time that it
    /// took.
    taken: Vec<(f64, f64)>,
}

impl Cpu {
    fn new(steal: Steal, random: Random) -> Self {
        let mut cpu = Self { steal, random, free: 0.0, next: 0.0, used: 0.0, taken: Vec::new() };
        cpu.next = cpu.pause();
        cpu
    }

    /// A random pause until the next burst: a duration, or an amount of used CPU time if bursts follow the
    /// load.
    fn pause(&mut self) -> f64 {
        let scale = if self.steal.follows_load() { DIRECT_USE } else { 1.0 };
        self.steal.between() * scale * self.random.exponential()
    }

    /// Serves a request that arrives at `now` and costs `cost` µs of CPU time. Returns the time when it is
    /// done.
    fn serve(&mut self, now: f64, cost: f64) -> f64 {
        let mut at = self.free.max(now);
        let mut left = cost;
        loop {
            // CPU time that is available before the next burst.
            let until = match self.steal {
                Steal::Never => f64::INFINITY,
                Steal::Random => self.next - at,
                _ => self.next - self.used,
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
            // Time counts as taken only if the CPU had work.
            if ended > at {
                self.taken.push((ended, ended - at));
                at = ended;
            }
            self.next = if self.steal.follows_load() { self.used } else { ended } + self.pause();
        }
    }

    /// Steal that `/proc/stat` shows for each window, ns. `/proc/stat` counts whole ticks. Windows of the
    /// warm-up are included.
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

    /// The stalls that the stall meter shows for each measured window, ns. Its thread sleeps for 2 ms and
    /// notes how late it wakes, if that is more than 0.5 ms.
    fn stalls(&self) -> Stalled {
        let mut by_window = vec![0; WINDOWS];
        let (mut count, mut longest, mut due) = (0, 0.0_f64, STEP);
        for (ended, took) in self.taken.iter().copied() {
            let began = ended - took;
            if due < began {
                due += ((began - due) / STEP).ceil() * STEP;
            }
            let late = ended - due;
            if late <= 0.0 {
                continue;
            }
            due = ended + STEP;
            for window in (0..WINDOWS).filter(|_| late > STALL) {
                let from = (WARMUP + window) as f64 * WINDOW;
                let within = ended.min(from + WINDOW) - (ended - late).max(from);
                by_window[window] += (within.max(0.0) * 1e3) as u64;
            }
            count += u32::from(late > STALL);
            longest = longest.max(late);
        }
        let ns_by_cpu = BTreeMap::from([(0, by_window)]);
        Stalled { count, longest_ns: (longest * 1e3) as u64, ns_by_cpu }
    }
}

/// Time from one wake-up of the stall meter to the next, and the lateness that counts, µs.
const STEP: f64 = 2_000.0;
const STALL: f64 = 500.0;

/// A simulated trial. `requests` contains for each request: the window in which it was due, the window in
/// which it completed, and its response time in µs.
struct Simulated {
    trial: MadeTrial,
    requests: Vec<(usize, usize, f64)>,
}

/// Simulates a trial. `stream` selects one random sequence for arrivals and costs, and another one for
/// bursts.
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
    // Without bursts, only figures of whole trials are read.
    let windows = if steal == Steal::Never { vec![windows.concat()] } else { windows };
    let mut trial = via(who, round).windows_ns(&windows);
    let mut stat = cpu.stat();
    if steal.is_metered() {
        stat.fill(0);
        trial.0.host.stalled = Some(cpu.stalls());
    }
    trial.0.host.stolen =
        Some(Stolen { before: WARMUP as u32, after: 0, ns_by_cpu: BTreeMap::from([(0, stat)]) });
    Simulated { trial, requests }
}

/// A run. Each round has a trial of direct, a trial of the gateway, and another trial of direct.
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

fn tax(trials: Vec<Trial<'_>>) -> Tax {
    let (direct, gateway): (Vec<_>, Vec<_>) =
        trials.into_iter().partition(|trial| trial.record.contender == DIRECT);
    let load = Load::all(&[open_point(RATE * 1e6, 8, 3)]).remove(0);
    crate::taxes::tax::tax(&gateway, &direct, &crate::taxes::noise::noise_floor(load, &direct))
}

fn whole(run: &[Simulated]) -> Vec<Trial<'_>> {
    run.iter().map(|one| Trial::read(&one.trial.0).expect("it did not fail")).collect()
}

/// Restricts trials to the windows that `rule` keeps. Trials with too few of these windows are left out.
fn by<'a>(rule: &Rule, trials: &[Trial<'a>]) -> Vec<Trial<'a>> {
    let restricted =
        |trial: &Trial<'a>| restrict(trial, &Quiet::by(rule, trial.record).filter(Quiet::is_enough)?);
    trials.iter().filter_map(restricted).collect()
}

/// A rule that leaves out bursts, but not the windows around them.
const BURSTS_ALONE: Rule = Rule { before: 0, after: 0, in_proportion: false, ..RULE };
const METRICS: [Metric; 3] = [Metric::AddedP50, Metric::AddedP90, Metric::AddedP99];
/// The selections of windows that are compared: all windows, windows without steal, and quiet windows.
const ALL: usize = 0;
const UNSTOLEN: usize = 1;
const QUIET: usize = 2;

#[derive(Default)]
struct Outcome {
    /// For each run, the error of the tax, µs: its difference from the tax in the same run without bursts.
    errors: Vec<f64>,
    /// For each run with at least two rounds, the width of the interval, µs.
    widths: Vec<f64>,
    /// For each of these runs, the interval, µs.
    intervals: Vec<(f64, f64)>,
}

impl Outcome {
    fn error(&self) -> f64 {
        mean(&self.errors).expect("there are runs")
    }

    fn standard_error(&self) -> f64 {
        standard_deviation(&self.errors).expect("there are runs") / (self.errors.len() as f64).sqrt()
    }

    /// Share of the intervals that contain this tax.
    fn coverage(&self, tax: f64) -> f64 {
        let held = self.intervals.iter().filter(|(low, high)| (*low..=*high).contains(&tax)).count();
        held as f64 / self.intervals.len() as f64
    }

    fn width(&self) -> f64 {
        mean(&self.widths).expect("there are runs")
    }
}

#[derive(Default)]
struct Outcomes {
    of: [[Outcome; 3]; 3],
    /// Number of windows in the trials of direct (first entry) and in the trials of the gateway (second
    /// entry).
    windows: [usize; 2],
    /// How many of these windows [`RULE`] leaves out.
    left_out: [usize; 2],
    /// The true tax of each metric, µs: its mean over the runs without bursts.
    truth: [f64; 3],
}

/// The taxes of this many runs without bursts. The number of a run is its seed.
fn truths(runs: u64) -> Vec<Tax> {
    (0..runs).map(|seed| tax(whole(&run(Steal::Never, seed)))).collect()
}

impl Outcomes {
    fn new(steal: Steal, truths: &[Tax]) -> Self {
        let mut outcomes = Self::default();
        for (truth, seed) in truths.iter().zip(0..) {
            let disturbed = run(steal, seed);
            for (metric, mean) in METRICS.iter().zip(&mut outcomes.truth) {
                let tax = truth.get(*metric).expect("every round has direct");
                *mean += tax.estimate.estimate / truths.len() as f64;
            }
            let trials = whole(&disturbed);
            for trial in &trials {
                let quiet = Quiet::of(trial.record).expect("steal is recorded");
                let side = usize::from(trial.record.contender != DIRECT);
                outcomes.left_out[side] += quiet.left_out();
                outcomes.windows[side] += quiet.windows();
            }
            // Nothing next to a stall is left out, so the other selection is equal.
            if !steal.is_metered() {
                outcomes.add(UNSTOLEN, &tax(by(&BURSTS_ALONE, &trials)), truth);
            }
            outcomes.add(QUIET, &tax(by(&RULE, &trials)), truth);
            outcomes.add(ALL, &tax(trials), truth);
        }
        outcomes
    }

    fn add(&mut self, selection: usize, tax: &Tax, truth: &Tax) {
        for (metric, outcome) in METRICS.iter().zip(&mut self.of[selection]) {
            let truth = truth.get(*metric).expect("every round has direct").estimate.estimate;
            if let Some(tax) = tax.get(*metric).map(|tax| tax.estimate) {
                outcome.errors.push(tax.estimate - truth);
                outcome.widths.extend(tax.interval().map(|(low, high)| high - low));
                outcome.intervals.extend(tax.interval());
            }
        }
    }

    fn share_left_out(&self) -> [f64; 2] {
        [0, 1].map(|side| self.left_out[side] as f64 / self.windows[side] as f64)
    }
}

/// Number of runs for each kind of steal. It is large enough to distinguish a bias from scatter.
const RUNS: u64 = 30;

/// Compares the results with the table in docs/concepts/simulations.md. The table has a line for each kind of
/// steal and selection of windows, with the mean error and its standard error for each metric. Results may
/// differ from the page by two standard errors. The comparison therefore tolerates a small change in how
/// intervals or means are computed, but not a change of the rule.
fn page_agrees(steal: &str, outcomes: &Outcomes) {
    let text = include_str!("../../../../docs/concepts/simulations.md");
    let mut wrong = Vec::new();
    for (selection, words) in ["all", "without stolen ones", "quiet"].into_iter().enumerate() {
        let of = &outcomes.of[selection];
        if selection == UNSTOLEN && of[0].errors.is_empty() {
            continue;
        }
        let start = format!("| {steal} | {words} |");
        let line = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default();
        let stated = line.split('|').map(|cell| cell.split('±').next().unwrap_or_default().trim());
        let stated: Vec<f64> = stated.filter_map(|cell| cell.replace('−', "-").parse().ok()).collect();
        let near = |(stated, one): (&f64, &Outcome)| {
            (stated - one.error()).abs() <= 2.0 * one.standard_error() + 0.1
        };
        if stated.len() != of.len() || !stated.iter().zip(of).all(near) {
            let cells = of.iter().map(|one| format!(" {:+.1} ± {:.1} |", one.error(), one.standard_error()));
            wrong.push(format!("{start}{}", cells.collect::<String>().replace('-', "−")));
        }
    }
    assert!(wrong.is_empty(), "docs/concepts/simulations.md should say:\n{}", wrong.join("\n"));
}

/// True if the mean error is at most two standard errors from zero.
fn is_unbiased(outcome: &Outcome) -> bool {
    outcome.errors.len() as u64 == RUNS && outcome.error().abs() <= 2.0 * outcome.standard_error()
}

#[test]
fn without_windows_near_steal_the_tax_is_unbiased() {
    let truths = truths(RUNS);
    random_steal_leaves_the_quiet_tax_unbiased_and_narrow(&truths);
    steal_that_follows_load_biases_the_tax_of_all_windows_only(&truths);
    slices_shorter_than_a_tick_bias_the_quiet_tax(&truths);
}

fn random_steal_leaves_the_quiet_tax_unbiased_and_narrow(truths: &[Tax]) {
    let outcomes = Outcomes::new(Steal::Random, truths);
    for (metric, name) in METRICS.iter().map(|metric| metric.name()).enumerate() {
        let [all, unstolen, quiet] = [ALL, UNSTOLEN, QUIET].map(|selection| &outcomes.of[selection][metric]);
        assert!(is_unbiased(quiet), "{name}: {} ± {}", quiet.error(), quiet.standard_error());
        assert!(quiet.width() < 0.5 * all.width(), "{name}: {} of {}", quiet.width(), all.width());
        // After a burst, the windows contain the requests that waited for the end of the burst. Leaving out
        // only the burst is therefore not enough. There are few such responses, but they are very late. The
        // median shows their effect most clearly.
        let least = if metric == 0 { 3.0 } else { 1.5 };
        assert!(unstolen.error() > least * unstolen.standard_error(), "{name}: {}", unstolen.error());
    }
    // These bursts do not depend on the load, so direct and the gateway lose the same share of windows.
    let [direct, gateway] = outcomes.share_left_out();
    assert!((gateway / direct - 1.0).abs() < 0.1, "{direct} {gateway}");
    page_agrees("at random", &outcomes);
}

fn steal_that_follows_load_biases_the_tax_of_all_windows_only(truths: &[Tax]) {
    let outcomes = Outcomes::new(Steal::FollowsLoad, truths);
    for (metric, name) in METRICS.iter().map(|metric| metric.name()).enumerate() {
        let [all, quiet] = [ALL, QUIET].map(|selection| &outcomes.of[selection][metric]);
        assert!(is_unbiased(quiet), "{name}: {} ± {}", quiet.error(), quiet.standard_error());
        assert!(all.error() > 3.0 * all.standard_error(), "{name}: {}", all.error());
    }
    let [direct, gateway] = outcomes.share_left_out();
    assert!(gateway > 1.2 * direct, "more CPU use loses more windows");
    page_agrees("follows load", &outcomes);
}

fn slices_shorter_than_a_tick_bias_the_quiet_tax(truths: &[Tax]) {
    let outcomes = Outcomes::new(Steal::Slices, truths);
    for (metric, name) in METRICS.iter().map(|metric| metric.name()).enumerate() {
        let [all, quiet] = [ALL, QUIET].map(|selection| &outcomes.of[selection][metric]);
        assert!(quiet.error() > 2.0 * quiet.standard_error(), "{name}: {}", quiet.error());
        assert!(quiet.error() < all.error(), "{name}: {} of {}", quiet.error(), all.error());
    }
    page_agrees("in slices of 2 ms", &outcomes);
}

/// Number of runs with the stall meter. There are more of them, because they also show how many intervals
/// contain the true tax.
const STALLED_RUNS: u64 = 60;

/// For all windows and for quiet ones: the shares of intervals that contain the true tax, for each metric.
fn coverage(outcomes: &Outcomes) -> [[f64; 3]; 2] {
    let of = |selection: usize| {
        [0, 1, 2].map(|metric| outcomes.of[selection][metric].coverage(outcomes.truth[metric]))
    };
    [of(ALL), of(QUIET)]
}

/// Compares the coverage with the sentence in docs/concepts/simulations.md.
fn page_has_coverage(outcomes: &Outcomes) {
    let text = include_str!("../../../../docs/concepts/simulations.md").replace('\n', " ");
    let [all, quiet] =
        coverage(outcomes).map(|shares| shares.map(|share| format!("{:.0}", 100.0 * share)).join(", "));
    let stated = format!("{quiet} % of the intervals of quiet windows hold the true tax, {all} % of all");
    assert!(text.contains(&stated), "docs/concepts/simulations.md should say: {stated}");
}

#[test]
fn the_stall_meter_sees_what_the_kernel_does_not_show() {
    let truths = truths(STALLED_RUNS);
    leaving_out_stalls_biases_nothing(&truths);
    it_sees_most_of_the_slices(&truths);
}

fn leaving_out_stalls_biases_nothing(truths: &[Tax]) {
    let outcomes = Outcomes::new(Steal::Stalls, truths);
    for (metric, name) in METRICS.iter().map(|metric| metric.name()).enumerate() {
        let [all, quiet] = [ALL, QUIET].map(|selection| &outcomes.of[selection][metric]);
        // The backlog of a stall at the end of a window drains in the next one.
        let most = (2.0 * quiet.standard_error()).max(0.02 * outcomes.truth[metric]);
        assert!(quiet.error().abs() <= most, "{name}: {} of {}", quiet.error(), outcomes.truth[metric]);
        assert!(all.error() > 3.0 * all.standard_error(), "{name}: {}", all.error());
        assert!(quiet.width() <= all.width(), "{name}: {} of {}", quiet.width(), all.width());
    }
    let [_, quiet] = coverage(&outcomes);
    assert!(quiet.iter().all(|share| *share >= 0.88), "{quiet:?}");
    let [direct, gateway] = outcomes.share_left_out();
    assert!(gateway > 1.2 * direct, "these stalls follow the load");
    page_agrees("in stalls of 6 ms, with the stall meter", &outcomes);
    page_has_coverage(&outcomes);
}

fn it_sees_most_of_the_slices(truths: &[Tax]) {
    let outcomes = Outcomes::new(Steal::SeenSlices, truths);
    for (metric, name) in METRICS.iter().map(|metric| metric.name()).enumerate() {
        let [all, quiet] = [ALL, QUIET].map(|selection| outcomes.of[selection][metric].error());
        assert!(quiet < 0.4 * all, "{name}: {quiet} of {all}");
    }
    page_agrees("in slices of 2 ms, with the stall meter", &outcomes);
}

/// Windows count completed requests. A request can therefore be due in a window that is left out and complete
/// in a window that is kept, or the reverse. Returns two shares. The first is the share of the requests
/// delayed by a burst (10 ms or more) that complete in kept windows. The second is the share of the requests
/// due in kept windows that complete in other windows and are therefore missing.
fn crossings(rule: &Rule) -> (f64, f64) {
    let (mut late, mut late_kept, mut kept, mut missing) = (0, 0, 0, 0);
    for seed in 0..RUNS {
        let simulated = simulate("gateway", 0, Steal::Random, seed, 1, 1.0);
        let quiet = Quiet::by(rule, &simulated.trial.0).expect("steal is recorded");
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
fn leaving_windows_out_loses_hardly_any_request_of_kept_windows() {
    let (late_alone, missing_alone) = crossings(&BURSTS_ALONE);
    let (late, missing) = crossings(&RULE);
    // If only the bursts are left out, the remaining windows still contain many effects of bursts.
    assert!(late_alone > 0.1, "{late_alone}");
    assert!(late < 0.01, "{late}");
    assert!(missing < 0.001 && missing < missing_alone, "{missing} {missing_alone}");
    let text = include_str!("../../../../docs/concepts/simulations.md").replace('\n', " ");
    let stated = [
        format!("{:.0} % of the requests that a burst kept waiting", late_alone * 100.0),
        format!("if the neighboring windows are left out too, {:.1} %", late * 100.0),
        format!("{:.2} % of the requests due in quiet windows", missing * 100.0),
    ];
    assert!(
        stated.iter().all(|stated| text.contains(stated)),
        "docs/concepts/simulations.md should say: {stated:#?}"
    );
}
