//! Detects response times that come in steps. Their distribution looks like a comb: narrow teeth at equal
//! distances.
//!
//! Each time is mapped to a point on a circle. The circumference of the circle is the step. Times that come
//! in steps gather at one point of the circle. Other times spread over the whole circle. The *mean resultant
//! length*, which is the length of the mean of all points, measures how close the points are to each other.
//! It is 1 if all points are the same, and 0 if they are evenly spread (K. V. Mardia, P. E. Jupp,
//! *Directional Statistics*, 2000). A distribution that is narrower than a step also gathers at one point, so
//! several teeth are required.

use hdrhistogram::Histogram;
use hoptax_format::clock::MILLISECOND;
use std::collections::BTreeMap;
use std::f64::consts::TAU;

/// Steps to look for. The longest step is tried first, because times in steps of 4 ms are also in steps of 1
/// ms. These steps are the periods of usual timers and of kernel ticks (`CONFIG_HZ` 100, 250 and 1000).
const STEPS: [u64; 3] = [10 * MILLISECOND, 4 * MILLISECOND, MILLISECOND];
/// Smallest mean resultant length to report. If teeth are normally distributed with a standard deviation σ,
/// as a share of the step, the length is `exp(−2π²σ²)` (wrapped normal distribution, same source). A length
/// of 0.9 means that σ is 7 % of a step, so the teeth are clearly separate.
const COHERENCE: f64 = 0.9;
/// Smallest number of teeth to report. Two teeth may be two kinds of answers, such as cache hits and misses.
/// Three teeth at equal distances come from a timer.
const TEETH: usize = 3;
/// Smallest share of the samples that counts as a tooth.
const TOOTH: f64 = 0.05;
const SAMPLES: u64 = 200;
/// Longest time to examine, in steps. Longer times are ignored, because the histogram's resolution (0.1 %) is
/// too coarse for them.
const LONGEST: u64 = 50;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Comb {
    pub(super) step_ns: u64,
    pub(super) teeth: usize,
    pub(super) coherence: f64,
}

/// Finds the step between the teeth of `times` (ns). `None` if the times do not come in steps.
pub(super) fn find(times: &Histogram<u64>) -> Option<Comb> {
    STEPS.iter().find_map(|step| in_steps_of(*step, times))
}

fn in_steps_of(step_ns: u64, times: &Histogram<u64>) -> Option<Comb> {
    let samples: Vec<(f64, u64)> = times
        .iter_recorded()
        .map(|value| (times.median_equivalent(value.value_iterated_to()), value.count_at_value()))
        .take_while(|(time, _)| *time <= LONGEST * step_ns)
        .map(|(time, count)| (time as f64 / step_ns as f64, count))
        .collect();
    let count: u64 = samples.iter().map(|(_, count)| count).sum();
    // At least half of the times must be short enough to examine.
    if count < SAMPLES || count * 2 < times.len() {
        return None;
    }
    let (mut x, mut y) = (0.0, 0.0);
    for (steps, weight) in &samples {
        let (sine, cosine) = (steps * TAU).sin_cos();
        x += cosine * *weight as f64;
        y += sine * *weight as f64;
    }
    let coherence = x.hypot(y) / count as f64;
    if coherence < COHERENCE {
        return None;
    }
    let phase = y.atan2(x) / TAU;
    let mut teeth: BTreeMap<i64, u64> = BTreeMap::new();
    for (steps, weight) in &samples {
        *teeth.entry((steps - phase).round() as i64).or_default() += weight;
    }
    let teeth = teeth.values().filter(|tooth| **tooth as f64 >= TOOTH * count as f64).count();
    (teeth >= TEETH).then_some(Comb { step_ns, teeth, coherence })
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "The finding is raised from {}, if" number(COHERENCE);
    METHODOLOGY "if at least {} steps have" word(TEETH);
    METHODOLOGY "steps have {} of the samples each" percent(TOOTH);
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::histogram::{TRIAL_DIGITS, empty};
    use hoptax_format::random::Random;

    fn times(count: u64, seed: u64, mut draw: impl FnMut(&mut Random) -> f64) -> Histogram<u64> {
        let (mut histogram, mut random) = (empty(TRIAL_DIGITS), Random::new(seed));
        for _ in 0..count {
            histogram.saturating_record((draw(&mut random).max(0.0) * 1e3) as u64);
        }
        histogram
    }

    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn finds_each_step_at_any_offset() {
        for (seed, step_us, base_us, sigma_us) in [
            (1, 1000.0, 0.0, 0.0),
            (2, 1000.0, 80.0, 40.0),
            (3, 1000.0, 730.0, 60.0),
            (4, 4000.0, 300.0, 200.0),
            (5, 10_000.0, 5000.0, 500.0),
        ] {
            for count in [SAMPLES, 20_000] {
                let histogram = times(count, seed, |random| {
                    let steps = (random.exponential() * 2.0).ceil();
                    steps * step_us + base_us + sigma_us * normal(random)
                });
                let comb = find(&histogram).unwrap_or_else(|| panic!("{step_us}, {base_us}, {sigma_us}"));
                assert_eq!(comb.step_ns as f64, step_us * 1e3);
                assert!(comb.teeth >= 3 && comb.coherence >= COHERENCE, "{comb:?}");
            }
        }
    }

    #[test]
    fn finds_none_where_there_are_none() {
        let mut examined = 0;
        for seed in 0..8 {
            for scale in [30.0, 200.0, 900.0, 1000.0, 2500.0, 4000.0, 10_000.0, 35_000.0] {
                for count in [SAMPLES, 5000] {
                    let kinds: [(&str, Histogram<u64>); 9] = [
                        ("all the same", times(count, seed, |_| scale)),
                        ("narrow", times(count, seed, |random| scale * (1.0 + 0.01 * normal(random)))),
                        ("normal", times(count, seed, |random| scale * (1.0 + 0.2 * normal(random)))),
                        ("uniform", times(count, seed, |random| scale * 2.0 * random.unit())),
                        ("exponential", times(count, seed, |random| scale * random.exponential())),
                        ("delayed", times(count, seed, |random| scale + 60.0 * random.exponential())),
                        ("lognormal", times(count, seed, |random| scale * (0.5 * normal(random)).exp())),
                        (
                            "hit or miss",
                            times(count, seed, |random| {
                                let miss = if random.unit() < 0.3 { 10.0 } else { 1.0 };
                                scale * miss * (1.0 + 0.02 * normal(random))
                            }),
                        ),
                        (
                            "with a tail",
                            times(count, seed, |random| {
                                let pause =
                                    if random.unit() < 0.02 { 20.0 * scale * random.unit() } else { 0.0 };
                                scale * (1.0 + 0.1 * random.exponential()) + pause
                            }),
                        ),
                    ];
                    for (kind, histogram) in kinds {
                        assert_eq!(find(&histogram), None, "{kind}, {scale} µs, seed {seed}, {count}");
                        examined += 1;
                    }
                }
            }
        }
        assert_eq!(examined, 8 * 8 * 2 * 9);
    }

    #[test]
    fn few_samples_and_two_kinds_of_answers_are_no_comb() {
        let steps = |random: &mut Random| (random.exponential() * 2.0).ceil() * 1000.0;
        assert_eq!(find(&times(SAMPLES - 1, 1, steps)), None);
        let two = |random: &mut Random| if random.unit() < 0.4 { 1100.0 } else { 2100.0 };
        assert_eq!(find(&times(5000, 1, two)), None);
        assert_eq!(find(&empty(TRIAL_DIGITS)), None);
    }
}
