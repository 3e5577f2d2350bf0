//! Finds when a gateway has settled after a start: from then on, it does not get faster.

use hoptax_format::clock::SECOND;
use hoptax_record::start::{START_WINDOW_NS, StartWindow};
use hoptax_stats::{mann_kendall, median};

/// Neighbouring windows are joined to steps that have at least this many answers on average. With fewer
/// answers, medians depend on chance.
const ANSWERS: f64 = 8.0;

/// At least this many steps remain, so that the settled time is known to within a few per cent of the load.
const LEAST_STEPS: usize = 40;

/// Number of steps in the running median. A stall of two steps does not make any running median slow.
const RUNNING: usize = 5;

/// A step is slow if its running median is above the settled level by more than this share of the level, plus
/// [`DEVIATIONS`] standard deviations.
const SLOWER: f64 = 0.1;

/// The number of standard deviations in [`SLOWER`]. The standard deviation is the one of the running medians
/// in the second half of the load. Normally distributed noise alone makes less than one step in ten thousand
/// slow.
const DEVIATIONS: f64 = 3.0;

/// Standard deviation ÷ median absolute deviation of a normal distribution.
const OF_NORMAL: f64 = 1.4826;

/// A slow step weighs as much as this many fast steps. So a slow stretch belongs to the time before the
/// gateway has settled if it is at least a third as long as the fast time before it. A gateway that becomes
/// slow again soon after its start has not settled. A disturbance by the host after seconds of fast answers
/// does not count.
const WEIGHT: i64 = 3;

/// Limit for the fall of the response time in the second half of the load, as a share of the last response
/// time. Up to this limit, the response time counts as steady.
const FALL: f64 = 0.05;

/// Number of equal parts of the second half. The fall is computed from their medians, because a short
/// disturbance changes only one of these medians.
const PARTS: usize = 12;

/// A fall counts if its p-value in Mann's test for a trend is at most this.
const BY_CHANCE: f64 = 0.001;

/// How a gateway settled in one start.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Settling {
    /// True if the gateway had settled when its load ended. Otherwise the other figures cover the whole load,
    /// and are lower bounds.
    pub(super) is_settled: bool,
    /// Time from the beginning of the load until the gateway had settled, ns.
    pub(super) ns: u64,
    /// Number of answers in this time.
    pub(super) requests: u64,
    /// Sum of the extra times that these requests took, compared with a settled gateway, request-seconds.
    pub(super) later_request_s: f64,
    /// Median response time in the second half of the load, ns; absent without answers.
    pub(super) level_ns: Option<f64>,
}

/// Some neighbouring windows.
struct Step {
    answers: u64,
    /// Mean of the windows' medians, ns; infinite without an answer.
    p50_ns: f64,
    mean_ns: f64,
}

impl Step {
    fn new(windows: &[StartWindow]) -> Self {
        let answers: u64 = windows.iter().map(|window| window.completed).sum();
        let mean = |of: fn(&StartWindow) -> u64| {
            let sum: f64 = windows.iter().map(|window| window.completed as f64 * of(window) as f64).sum();
            if answers > 0 { sum / answers as f64 } else { f64::INFINITY }
        };
        Self { answers, p50_ns: mean(|window| window.p50_ns), mean_ns: mean(|window| window.mean_ns) }
    }
}

/// Finds when the gateway settled under a load with these windows. `None` if there are none.
pub(super) fn settling(windows: &[StartWindow]) -> Option<Settling> {
    let together = windows_together(windows)?;
    let steps: Vec<Step> = windows.chunks(together).map(Step::new).collect();
    let half = steps.len() / 2;
    let running = running_medians(&steps);
    let level_ns = median_of(&steps[half..], |step| step.p50_ns);
    let slow = level_ns.map_or_else(
        || vec![true; steps.len()],
        |level| {
            let limit = level * (1.0 + SLOWER) + DEVIATIONS * scatter(&running[half..]);
            running.iter().map(|value| *value > limit).collect()
        },
    );
    let end = end_of_slowness(&slow);
    let is_settled = level_ns.is_some() && end <= half && !is_falling(&steps[half..]);
    let until = if is_settled { end } else { steps.len() };
    let level = median_of(&steps[half..], |step| step.mean_ns);
    let later = |step: &Step| match level {
        Some(level) if step.answers > 0 => step.answers as f64 * (step.mean_ns - level) / SECOND as f64,
        _ => 0.0,
    };
    Some(Settling {
        is_settled,
        ns: ((until * together).min(windows.len()) as u64) * START_WINDOW_NS,
        requests: steps[..until].iter().map(|step| step.answers).sum(),
        later_request_s: steps[..until].iter().map(later).sum::<f64>().max(0.0),
        level_ns,
    })
}

/// Number of windows in a step. `None` without windows.
fn windows_together(windows: &[StartWindow]) -> Option<usize> {
    let last = windows.get(windows.len() / 2..).filter(|last| !last.is_empty())?;
    let answers: u64 = last.iter().map(|window| window.completed).sum();
    let needed = ANSWERS * last.len() as f64 / (answers as f64).max(1.0);
    Some((needed.ceil() as usize).clamp(1, (windows.len() / LEAST_STEPS).max(1)))
}

/// The median of the steps that have an answer. `None` if fewer than half of them have one.
fn median_of(steps: &[Step], of: fn(&Step) -> f64) -> Option<f64> {
    let answered: Vec<f64> = steps.iter().map(of).filter(|value| value.is_finite()).collect();
    if 2 * answered.len() < steps.len() { None } else { median(&answered) }
}

/// For each step, the median of it and its neighbours. A step without an answer counts as infinitely slow.
fn running_medians(steps: &[Step]) -> Vec<f64> {
    let around = |at: usize| {
        let from = at.saturating_sub(RUNNING / 2);
        let to = (at + RUNNING / 2 + 1).min(steps.len());
        let mut values: Vec<f64> = steps[from..to].iter().map(|step| step.p50_ns).collect();
        values.sort_by(f64::total_cmp);
        // This is the upper one of two middle values. At the edges, there can be an even number of values.
        values[values.len() / 2]
    };
    (0..steps.len()).map(around).collect()
}

/// Standard deviation of values, estimated from their median absolute deviation.
fn scatter(values: &[f64]) -> f64 {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let middle = median(&finite).unwrap_or(0.0);
    let deviations: Vec<f64> = finite.iter().map(|value| (value - middle).abs()).collect();
    OF_NORMAL * median(&deviations).unwrap_or(0.0)
}

/// Number of steps before the gateway had settled. For this number of first steps, the weight of the slow
/// steps minus the weight of the fast steps is largest.
fn end_of_slowness(slow: &[bool]) -> usize {
    let (mut sum, mut best, mut end) = (0, 0, 0);
    for (at, slow) in slow.iter().enumerate() {
        sum += if *slow { WEIGHT } else { -1 };
        if sum > best {
            (best, end) = (sum, at + 1);
        }
    }
    end
}

/// True if the response time still falls.
fn is_falling(steps: &[Step]) -> bool {
    let part = steps.len().div_ceil(PARTS).max(1);
    let parts: Vec<f64> = steps.chunks(part).filter_map(|part| median_of(part, |step| step.p50_ns)).collect();
    let third = parts.len() / 3;
    let (Some(first), Some(last)) = (median(&parts[..third]), median(&parts[parts.len() - third..])) else {
        return false;
    };
    // From the middle of the first third to the middle of the last third are two thirds of this half. The
    // factor 1.5 extends the fall to the whole half.
    let fall = 1.5 * (first - last) / last;
    let (trend, by_chance) = mann_kendall(&parts);
    fall > FALL && trend < 0 && by_chance <= BY_CHANCE
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::random::Random;

    /// Windows of ten seconds at 1,000 requests per second. `p50(seconds)` is in µs; the mean is the same.
    /// Each window is scaled by a random factor with this standard deviation.
    fn windows(noise: f64, seed: u64, p50: impl Fn(f64) -> f64) -> Vec<StartWindow> {
        let mut random = Random::new(seed);
        (0..1000)
            .map(|at| {
                // The sum of twelve uniform numbers is close to normal, with a variance of 1.
                let normal: f64 = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
                let us = p50(f64::from(at) / 100.0) * (1.0 + noise * normal).max(0.1);
                let ns = (us * 1e3) as u64;
                StartWindow { completed: 10, failed: 0, p50_ns: ns, mean_ns: ns }
            })
            .collect()
    }

    fn settled_s(windows: &[StartWindow]) -> Option<f64> {
        let found = settling(windows).expect("windows");
        found.is_settled.then_some(found.ns as f64 / 1e9)
    }

    /// Settled times, s, in twenty starts with a noise of 20 % between windows.
    fn with_noise(p50: impl Fn(f64) -> f64) -> Vec<Option<f64>> {
        (0..20).map(|seed| settled_s(&windows(0.2, seed, &p50))).collect()
    }

    #[test]
    fn native_code_settles_within_20_ms() {
        let native = |s: f64| if s < 0.02 { 900.0 } else { 100.0 };
        let found = settling(&windows(0.01, 1, native)).expect("windows");
        assert_eq!((found.is_settled, found.ns, found.requests), (true, 20_000_000, 20));
        // 20 requests were each 0.8 ms later.
        assert!((found.later_request_s - 0.016).abs() < 0.001, "{found:?}");
        assert!(found.level_ns.is_some_and(|ns| (ns - 100e3).abs() < 1e3), "{found:?}");
        let at_once = settling(&windows(0.01, 1, |_| 100.0)).expect("windows");
        assert_eq!((at_once.is_settled, at_once.ns, at_once.requests), (true, 0, 0));
        assert_eq!(at_once.later_request_s, 0.0);
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        for step in [1.0, 3.0, 4.5] {
            let found = settled_s(&windows(0.05, 2, |s| if s < step { 400.0 } else { 100.0 }));
            assert!(found.is_some_and(|at| (at - step).abs() <= 0.02), "{step}: {found:?}");
        }
        let late = settled_s(&windows(0.05, 2, |s| if s < 7.0 { 400.0 } else { 100.0 }));
        assert_eq!(late, None, "the second half of the load does not show what settled is");
    }

    #[test]
    fn a_slow_fall_ends_near_the_level() {
        let falling = |half_life: f64| move |s: f64| 100.0 + 900.0 * 0.5_f64.powf(s / half_life);
        // 10 % above the level after 6.5 half-lives.
        let found = settled_s(&windows(0.02, 3, falling(0.4))).expect("it settles");
        assert!((2.2..2.7).contains(&found), "{found}");
        assert_eq!(settled_s(&windows(0.02, 3, falling(1.5))), None, "it still falls");
        assert_eq!(settled_s(&windows(0.02, 3, |s| 300.0 - 20.0 * s)), None);
    }

    #[test]
    fn what_never_settles_counts_with_the_whole_load() {
        let found = settling(&windows(0.02, 4, |s| 1000.0 / (1.0 + s))).expect("windows");
        assert_eq!((found.is_settled, found.ns, found.requests), (false, 10_000_000_000, 10_000));
        assert!(found.later_request_s > 0.0);
        let silent = vec![StartWindow { completed: 0, failed: 10, p50_ns: 0, mean_ns: 0 }; 1000];
        let found = settling(&silent).expect("windows");
        assert_eq!((found.is_settled, found.level_ns, found.later_request_s), (false, None, 0.0));
        assert_eq!(settling(&[]), None);
    }

    #[test]
    fn noise_of_a_fifth_between_windows_hides_no_step_and_makes_none() {
        let step = with_noise(|s| if s < 3.0 { 200.0 } else { 100.0 });
        assert!(step.iter().all(|at| at.is_some_and(|at| (at - 3.0).abs() < 0.1)), "{step:?}");
        let steady = with_noise(|_| 100.0);
        let early = steady.iter().filter(|at| at.is_some_and(|at| at < 0.05)).count();
        assert!(early >= 19, "{steady:?}");
    }

    #[test]
    fn slowness_counts_soon_after_the_start_and_bursts_do_not() {
        for (from, to) in [(8.0, 8.2), (5.5, 5.7), (2.0, 2.2), (9.8, 10.0)] {
            let slow = |s: f64| s < 0.3 || (from..to).contains(&s);
            let found = settled_s(&windows(0.1, 5, |s| if slow(s) { 1500.0 } else { 100.0 }));
            assert!(found.is_some_and(|at| (at - 0.3).abs() < 0.03), "{from}: {found:?}");
        }
        let slow = |s: f64| s < 1.0 || (2.0..2.5).contains(&s);
        let found = settled_s(&windows(0.1, 6, |s| if slow(s) { 500.0 } else { 100.0 }));
        assert!(found.is_some_and(|at| (at - 2.5).abs() < 0.03), "{found:?}");
    }

    #[test]
    fn time_without_answers_belongs_to_the_slow_time() {
        let mut all = windows(0.05, 7, |_| 100.0);
        for window in &mut all[..60] {
            *window = StartWindow { completed: 0, failed: 0, p50_ns: 0, mean_ns: 0 };
        }
        let found = settled_s(&all);
        assert!(found.is_some_and(|at| (at - 0.6).abs() <= 0.02), "{found:?}");
    }

    #[test]
    fn windows_with_few_answers_are_joined() {
        let all: Vec<StartWindow> = (0..1000)
            .map(|at| {
                let ns = if at < 200 { 400_000 } else { 100_000 };
                // One answer in every fourth window: 25 requests per second.
                StartWindow { completed: u64::from(at % 4 == 0), failed: 0, p50_ns: ns, mean_ns: ns }
            })
            .collect();
        let found = settled_s(&all);
        assert!(found.is_some_and(|at| (1.7..=2.5).contains(&at)), "{found:?}");
    }
}
