//! `unsteady`: figures change within trials, or direct changes between rounds.
//!
//! Within a trial, the check looks at the throughput of each window (closed loop) or at the median response
//! time of each window (open loop). Rates that change by design are skipped. Windows are grouped into blocks,
//! so that a short disturbance counts once. Blocks are compared by rank (Mann and Whitney's test), so that
//! even a long stall counts as one value. If most trials change in the same direction, the cause is the
//! contender or a warm-up that is too short. A jump in a single trial must be large to be reported.

use super::{Concerns, Figures, Finding, MANY, Measured, Rule, Severity, Subject, about, evidence, percent};
use crate::trials::pairs::first_and_last;
use crate::{Case, Trial};
use hoptax_format::clock::{MILLISECOND, SECOND};
use hoptax_format::record::WINDOW_NS;
use hoptax_stats::{Statistic, mann_whitney, mean, median, pettitt};

const CODE: &str = "unsteady";
/// Smallest relative change to report between two parts of a trial.
const CHANGE: f64 = 0.1;
/// If there are several trials, a trial counts as changed if its p-value is below this limit.
const CHANCE: f64 = 0.01;
/// If there is only one trial, it counts as changed if its p-value is below this limit. The limit is
/// stricter, because no other trial can confirm the change.
const CHANCE_ALONE: f64 = 1e-3;
/// Smallest share of the trials that must change in the same direction.
const MOST: f64 = 0.75;
/// Smallest jump to report in a single trial, as a relative change.
const JUMP: f64 = 0.3;
/// A jump in a single trial is reported only if its p-value is below this limit.
const CHANCE_OF_JUMP: f64 = 1e-5;
/// Smallest difference to report between one round of direct and the median round, as a share.
const ROUND: f64 = 0.2;
/// Smallest difference to report between a round of direct and the median round, as a multiple of the usual
/// difference between the two direct trials of a round (root mean square).
const WITHIN: f64 = 3.0;
/// Number of rounds needed for a median round.
const ROUNDS: usize = 3;
/// Number of blocks per trial. In a trial of 10 s, each block lasts half a second. A trial with fewer windows
/// has fewer blocks.
const BLOCKS: usize = 20;
/// Smallest number of windows. A trial with fewer windows is not checked.
const WINDOWS: usize = 10;

/// Smallest number of consecutive empty windows that counts as a standstill: half a second.
const STANDSTILL: usize = 5;
/// Limit for the median number of answers per window. From this number on, empty windows are not due to
/// chance: the probability of five empty windows in a row is below e⁻²⁵.
const USUAL: f64 = 5.0;
/// In a trial that is shorter than two such standstills, a silence of at least this share of its time counts
/// as a standstill. A silence is a time without an answer in which requests waited.
const OF_SHORT_TRIAL: f64 = 0.5;
/// A silence in a short trial counts if it is this many times as long as the median service time.
const LONGER: f64 = 10.0;

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: format!("warning; a note for a standstill in at most {} of the trials", percent(MANY)),
        when: format!(
            "one of these is true of the throughput of a closed loop, or of the median response time at a \
             steady rate. (1) In at least {} of a case's trials, it changes by more than {} in the same \
             direction, with p below {} (rank test). The first half, or the first fifth, is compared with \
             the second half. (2) It jumps by more than {} within a trial (Pettitt's test). (3) No request \
             is answered for {} ms or more. In a trial of less than {} ms, {} of its time is enough. (4) In \
             more than {} of the rounds, direct differs from its median by more than {}, and by more than \
             {WITHIN} times the usual difference between the two direct trials of a round. (1) to (3) are \
             not checked in closed loops of event streams and WebSockets that last {} ms or more",
            percent(MOST),
            percent(CHANGE),
            percent(CHANCE),
            percent(JUMP),
            STANDSTILL as u64 * WINDOW_NS / MILLISECOND,
            2 * STANDSTILL as u64 * WINDOW_NS / MILLISECOND,
            percent(OF_SHORT_TRIAL),
            percent(MANY),
            percent(ROUND),
            WINDOW_NS / MILLISECOND
        ),
        seen: "An average over two states describes neither.",
        advice: "Make the warm-up longer, look at the charts over time, let the machine cool, or use a \
                 dedicated machine.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    // In a closed loop, streams that began together end together. Then windows have none, or many.
    let is_long = subject.longest_stream_ns() >= WINDOW_NS;
    let cases = subject.measured().filter(|(case, _)| !is_long || case.load.is_open());
    let within = cases.filter_map(of_case);
    within.chain((0..subject.noise_floor.len()).filter_map(|load| between_rounds(subject, load))).collect()
}

fn of_case((case, trials): Measured<'_>) -> Option<Finding> {
    if case.load.stages.is_some() {
        return None;
    }
    let windows: Vec<Vec<f64>> =
        trials.iter().filter_map(|trial| windows(trial, case.load.is_open())).collect();
    let gather = |windows: &Vec<f64>| -> Vec<f64> {
        windows.chunks(windows.len().div_ceil(BLOCKS)).filter_map(median).collect()
    };
    // The plan's events change figures on purpose. The report shows their effects separately.
    if trials.iter().any(Trial::has_events) {
        return standstill(case, trials);
    }
    standstill(case, trials)
        .or_else(|| moving(case, &windows.iter().map(gather).collect::<Vec<_>>()))
        .or_else(|| jumping(case, &windows))
}

/// Looks for a standstill. The rank tests miss a standstill, because they count it as one value among many.
/// But requests wait for the end of the standstill, and they form the tail of the response times of the case.
fn standstill(case: &Case, trials: &[Trial<'_>]) -> Option<Finding> {
    let longest =
        |trial: &Trial<'_>| Some((trial.round(), of_windows(trial).or_else(|| of_short_trial(trial))?));
    let stalled: Vec<(u32, f64)> = trials.iter().filter_map(longest).collect();
    let (round, seconds) = stalled.iter().copied().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let mut finding = finding(
        case,
        format!(
            "In round {}, no request was answered for {:.1} s ({} of {} trials had such a standstill). The \
             requests that waited during a standstill have the longest response times of this case.",
            round + 1,
            seconds,
            stalled.len(),
            trials.len()
        ),
        [
            ("standstill_s", seconds),
            ("round", f64::from(round + 1)),
            ("trials_moved", stalled.len() as f64),
            ("trials", trials.len() as f64),
        ],
    );
    // A few standstills among many trials hardly move the median.
    if stalled.len() as f64 <= MANY * trials.len() as f64 {
        finding.concerns = Concerns::only(Figures::Tails);
        finding.severity = Severity::Note;
    }
    Some(finding)
}

/// Length of a standstill in windows, seconds.
fn of_windows(trial: &Trial<'_>) -> Option<f64> {
    let seconds = |windows: usize| windows as f64 * WINDOW_NS as f64 / SECOND as f64;
    let mut windows = trial.throughput_by_window();
    let usual = median(&windows)?;
    for (window, _) in windows.iter_mut().zip(trial.eventful_windows()).filter(|(_, eventful)| *eventful) {
        *window = usual;
    }
    let longest = windows.split(|throughput| *throughput > 0.0).map(<[f64]>::len).max()?;
    (usual * seconds(1) >= USUAL && longest >= STANDSTILL).then(|| seconds(longest))
}

/// Length of a standstill in a trial with too few windows to show it, seconds.
fn of_short_trial(trial: &Trial<'_>) -> Option<f64> {
    let occupancy = trial.load.occupancy.as_ref()?;
    let silence = occupancy.silence.for_ns;
    let is_short = trial.measured_ns < 2 * STANDSTILL as u64 * WINDOW_NS;
    let is_long = silence as f64 >= OF_SHORT_TRIAL * trial.measured_ns as f64
        && silence as f64 / 1e3 >= LONGER * Statistic::P50.of(&trial.service_time)?;
    // If the generator itself did not run, it could not read responses that had arrived.
    let generator_ran = 2 * occupancy.longest_turn_ns < silence;
    (is_short && is_long && generator_ran && !trial.has_events()).then(|| silence as f64 / SECOND as f64)
}

/// Throughput or median response time of each window of a trial. `None` if there are too few windows.
fn windows(trial: &Trial<'_>, open: bool) -> Option<Vec<f64>> {
    let windows: Vec<f64> = if open {
        let whole = trial.throughput_by_window().len();
        let windows =
            trial.load.windows.iter().take(whole).filter_map(|window| window.response_time.as_ref());
        windows.filter_map(|times| Statistic::P50.of(&times.decode().ok()?)).collect()
    } else {
        trial.throughput_by_window()
    };
    (windows.len() >= WINDOWS).then_some(windows)
}

/// The relative change from one part of a trial to a later one, and its p-value.
fn change(earlier: &[f64], later: &[f64]) -> Option<(f64, f64)> {
    let (before, after) = (median(earlier)?, median(later)?);
    (before > 0.0).then(|| (after / before - 1.0, mann_whitney(earlier, later)))
}

/// Compares the first half and the first fifth of a trial with its second half. The first half shows a
/// lasting trend, and the first fifth shows a warm-up that was too short.
fn parts(series: &[f64]) -> [(&'static str, Option<(f64, f64)>); 2] {
    let (half, fifth) = (series.len() / 2, series.len().div_ceil(5));
    [
        ("from the first half of a trial to the second", change(&series[..half], &series[half..])),
        ("from the first fifth of a trial to its second half", change(&series[..fifth], &series[half..])),
    ]
}

fn moving(case: &Case, series: &[Vec<f64>]) -> Option<Finding> {
    let chance = if series.len() > 1 { CHANCE } else { CHANCE_ALONE };
    let of_part = |part: usize| {
        let changes: Vec<(f64, f64)> = series.iter().filter_map(|one| parts(one)[part].1).collect();
        let moved = |sign: f64| {
            let moved = |(change, by_chance): &&(f64, f64)| change * sign > CHANGE && *by_chance < chance;
            changes.iter().filter(moved).count()
        };
        let most = moved(1.0).max(moved(-1.0));
        let sizes: Vec<f64> = changes.iter().map(|(change, _)| *change).collect();
        (most > 0 && most as f64 >= MOST * series.len() as f64).then(|| (most, median(&sizes)))
    };
    let (part, (moved, size)) = (0..2).find_map(|part| Some((part, of_part(part)?)))?;
    let (size, words) = (size?, parts(&series[0])[part].0);
    Some(finding(
        case,
        format!(
            "{} {} by {} {words} in {moved} of {} trials. The figures are averages over a state that had not \
            settled.",
            figure(case),
            if size > 0.0 { "rises" } else { "falls" },
            percent(size.abs()),
            series.len()
        ),
        [
            ("change", size),
            ("trials_moved", moved as f64),
            ("trials", series.len() as f64),
            ("limit", CHANGE),
        ],
    ))
}

fn jumping(case: &Case, series: &[Vec<f64>]) -> Option<Finding> {
    let of_trial = |one: &Vec<f64>| {
        let (place, chance) = pettitt(one)?;
        let (size, _) = change(&one[..place], &one[place..])?;
        // A fall by a third counts as much as a rise by a half, because both are a factor of 1.5.
        let distance = (1.0 + size).max(1.0 / (1.0 + size)) - 1.0;
        (distance > JUMP && chance < CHANCE_OF_JUMP).then_some((place as f64 / one.len() as f64, size))
    };
    let jumps: Vec<(f64, f64)> = series.iter().filter_map(of_trial).collect();
    let (place, size) = *jumps.first()?;
    Some(finding(
        case,
        format!(
            "{} jumped by {} within a trial, after {} of the trial's time ({} of {} trials have such a \
             jump). The figures are averages over two states.",
            figure(case),
            percent(size.abs()),
            percent(place),
            jumps.len(),
            series.len()
        ),
        [
            ("change", size),
            ("trials_moved", jumps.len() as f64),
            ("trials", series.len() as f64),
            ("limit", JUMP),
        ],
    ))
}

fn figure(case: &Case) -> &'static str {
    if case.load.is_open() { "The median response time" } else { "Throughput" }
}

/// Compares direct's rounds with each other. Gateways need no such check, because each gateway trial is
/// compared with direct in the same round.
fn between_rounds(subject: &Subject<'_>, load: usize) -> Option<Finding> {
    let (case, trials) = subject.direct(load)?;
    let figure_of = |trial: &Trial<'_>| match case.load.is_open() {
        true => trial.response_time_us(Statistic::P50),
        false => Some(trial.throughput()),
    };
    let rounds: Vec<(u32, [f64; 2])> = first_and_last(trials)
        .into_iter()
        .filter_map(|(first, last)| Some((first.round(), [figure_of(first)?, figure_of(last)?])))
        .collect();
    let figures: Vec<f64> = rounds.iter().filter_map(|(_, both)| mean(both)).collect();
    let middle = median(&figures).filter(|middle| *middle > 0.0)?;
    let squares: Vec<f64> =
        rounds.iter().map(|(_, [first, last])| ((last - first) / middle).powi(2)).collect();
    let within = mean(&squares)?.sqrt();
    let off: Vec<(u32, f64)> =
        rounds.iter().zip(&figures).map(|((round, _), figure)| (*round, figure / middle - 1.0)).collect();
    let limit = ROUND.max(WITHIN * within);
    let different = off.iter().filter(|(_, off)| off.abs() > limit).count();
    if rounds.len() < ROUNDS || different as f64 <= MANY * rounds.len() as f64 {
        return None;
    }
    let (round, worst) = off.into_iter().max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()))?;
    Some(finding(
        case,
        format!(
            "{} of direct in round {} differs from the median round by {} ({different} of {} rounds differ \
             by more than {}), but the two direct trials of a round usually differ by only {}. The machine \
             was faster or slower for a while.",
            figure(case),
            round + 1,
            percent(worst.abs()),
            rounds.len(),
            percent(limit),
            percent(within)
        ),
        [
            ("change", worst),
            ("round", f64::from(round + 1)),
            ("rounds", rounds.len() as f64),
            ("rounds_moved", different as f64),
            ("within_rounds", within),
            ("limit", limit),
        ],
    ))
}

fn finding<const N: usize>(case: &Case, message: String, figures: [(&'static str, f64); N]) -> Finding {
    Finding {
        evidence: evidence(figures.map(|(name, value)| (name, value.into()))),
        message,
        advice: "Make the warm-up longer, look at throughput over time in the HTML report, and measure when \
                 nothing else runs."
            .into(),
        ..about(CODE, Severity::Warning, &case.case)
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "the change must be {}, and three" percent(CHANGE);
    METHODOLOGY "must be 10 %, and {} of the trials must change in the same direction" fraction(MOST);
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_format::messages::{Carrier, ENDLESS};
    use hoptax_format::random::Random;

    /// Rounds of five seconds. `of` returns the throughput of a window, given the round and the window.
    fn closed(rounds: u32, of: impl Fn(u32, u64) -> f64) -> Run {
        let mut run = Run::with_load(vec![closed_point(1, 5)]);
        for round in 0..rounds {
            run.push(via("nginx", round).windows((0..50).map(|window| of(round, window))));
        }
        run
    }

    #[test]
    fn raised_by_a_short_warm_up() {
        let findings =
            raised(&closed(4, |_, window| if window < 10 { 60.0 + window as f64 } else { 100.0 }), CODE);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn raised_by_a_trend_in_each_trial_or_in_a_single_one() {
        for rounds in [1, 4] {
            let run = closed(rounds, |round, window| 100.0 - window as f64 + f64::from(round));
            insta::assert_snapshot!(texts(&raised(&run, CODE)));
        }
    }

    #[test]
    fn raised_by_one_jump_to_half() {
        let run = closed(
            4,
            |round, window| if round == 2 && window >= 30 { 50.0 } else { 100.0 + window as f64 % 3.0 },
        );
        insta::assert_snapshot!(texts(&raised(&run, CODE)));
    }

    #[test]
    fn raised_by_a_standstill_but_not_by_sparse_answers() {
        let run =
            closed(4, |round, window| if round == 1 && (20..30).contains(&window) { 0.0 } else { 100.0 });
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].evidence["standstill_s"], 1.0);
        assert_eq!(findings[0].evidence["round"], 2.0);
        let short = |_, window: u64| if (20..24).contains(&window) { 0.0 } else { 100.0 };
        assert_eq!(raised(&closed(4, short), CODE), []);
        // In the first run, all answers of a second arrive in one window. In the second run, requests are
        // rare.
        let at_once = closed(4, |_, window| if window % 10 == 0 { 100.0 } else { 0.0 });
        let now_and_then = closed(4, |_, window| (window % 7 / 6) as f64);
        assert_eq!((raised(&at_once, CODE), raised(&now_and_then, CODE)), (vec![], vec![]));
    }

    #[test]
    fn raised_by_a_standstill_in_a_short_trial() {
        let of = |silence: u64, usual: u64, trial: u64| {
            let mut run = Run::closed(1);
            run.push(via("nginx", 0).all_at_us(usual).silent(silence * MILLISECOND, trial * MILLISECOND));
            raised(&run, CODE)
        };
        let found = of(200, 150, 300);
        assert_eq!((found.len(), &found[0].evidence["standstill_s"]), (1, &0.2.into()));
        // A silence of less than half of the trial. A silence that is short compared with response times. A
        // trial that is long enough for the check by windows.
        for (silence, usual, trial) in [(140, 150, 300), (200, 50_000, 300), (600, 150, 1100)] {
            assert_eq!(of(silence, usual, trial), [], "{silence} of {trial} ms, usual {usual} µs");
        }
    }

    #[test]
    fn raised_if_direct_differs_in_a_round_unless_rounds_are_many() {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
        for round in 0..5 {
            let base = if round == 3 { 300 } else { 200 };
            run.direct(round, base, base + 5);
        }
        let findings = raised(&run, CODE);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].evidence["round"], 4.0);
        for (different, expected) in [(2, 0), (3, 1)] {
            let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
            for round in 0..20 {
                let base = if round < different { 300 } else { 200 };
                run.direct(round, base, base + 5);
            }
            assert_eq!(raised(&run, CODE).len(), expected, "{different} of 20");
        }
    }

    #[test]
    fn few_standstills_among_many_trials_concern_the_tails() {
        for (stalled, expected) in [(2, Figures::Tails), (3, Figures::All)] {
            let run = closed(
                20,
                |round, window| {
                    if round < stalled && (20..30).contains(&window) { 0.0 } else { 100.0 }
                },
            );
            let findings = raised(&run, CODE);
            assert_eq!((findings.len(), findings[0].concerns.figures), (1, expected), "{stalled} of 20");
        }
    }

    #[test]
    fn not_raised_by_white_or_bursty_noise() {
        let mut random = Random::new(8);
        for round in 0..100 {
            let mut run = Run::with_load(vec![closed_point(1, 5), open_point(1000.0, 8, 5)]);
            for trial in 0..1 + round % 5 {
                let mut burst = 0u32;
                let mut noise = || {
                    if random.unit() < 0.03 {
                        burst = 4;
                    }
                    burst = burst.saturating_sub(1);
                    (100.0 + 20.0 * random.unit()) * if burst > 0 { 0.4 } else { 1.0 }
                };
                let windows: Vec<f64> = (0..50).map(|_| noise()).collect();
                run.push(via("nginx", trial).windows(windows.iter().copied()));
                run.push(via("nginx", trial).at_load(1).window_times_us(windows.into_iter()));
            }
            assert_eq!(raised(&run, CODE), []);
        }
    }

    #[test]
    fn not_raised_by_stages_or_by_short_trials() {
        let mut run =
            Run::with_load(vec![staged_point("100/s for 2s, ramp to 3000/s over 3s", 8), closed_point(1, 1)]);
        run.push(via("nginx", 0).windows((0..50).map(|window| 10.0 + window as f64)));
        run.push(via("nginx", 1).at_load(1).windows((0..8).map(|window| 10.0 + window as f64)));
        assert_eq!(raised(&run, CODE), []);
    }

    #[test]
    fn not_raised_by_streams_that_end_together() {
        let bursts = |messages: u32| {
            let mut run = Run::with_load(vec![closed_point(1, 5)]).streams(Carrier::Events, messages);
            for round in 0..4 {
                let windows = (0..50).map(|window| if window % 12 < 7 { 60.0 } else { 0.0 });
                run.push(via("nginx", round).windows(windows));
            }
            raised(&run, CODE).len()
        };
        // 1,000 messages last one second, and ten last 9 ms.
        assert_eq!([bursts(1000), bursts(ENDLESS), bursts(10)], [0, 0, 1]);
    }
}
