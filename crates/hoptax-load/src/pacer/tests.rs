//! Tests scheduled times, by comparing them with tables and with each other.

use super::*;
use hoptax_format::clock::{MILLISECOND, SECOND};
use hoptax_format::spec::Stage;

const ALONE: Share = Share { worker: 0, workers: 1 };

fn moments(mut pacer: Pacer) -> Vec<u64> {
    std::iter::from_fn(|| pacer.take_due(u64::MAX)).collect()
}

fn all(rate: f64, arrivals: Arrivals, workers: u32, end: u64, limit: Option<u64>) -> Vec<u64> {
    let mut all: Vec<u64> = (0..workers)
        .flat_map(|worker| {
            moments(Pacer::new((&Rate::Fixed(rate), arrivals), Share { worker, workers }, 5, (0, end), limit))
        })
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn constant_times_are_exact_quotients() {
    for (rate, duration, first, count) in [
        (1000.0, SECOND, [0, 1_000_000, 2_000_000], 1000),
        (3.0, 10 * SECOND, [0, 333_333_333, 666_666_666], 30),
        (0.5, 6 * SECOND, [0, 2 * SECOND, 4 * SECOND], 3),
        (1e6, SECOND / 100, [0, 1000, 2000], 10_000),
    ] {
        let moments = all(rate, Arrivals::Constant, 1, duration, None);
        assert_eq!(&moments[..3], &first, "rate {rate}");
        assert_eq!(moments.len(), count, "rate {rate}");
    }
}

#[test]
fn errors_do_not_accumulate_over_a_day() {
    let day = 86_400 * SECOND;
    let pacer = Pacer::new((&Rate::Fixed(3.0), Arrivals::Constant), ALONE, 0, (0, 2 * day), None);
    assert_eq!(pacer.at(3 * 86_400), Some(day));
}

#[test]
fn a_limit_counts_over_all_workers() {
    for arrivals in [Arrivals::Constant, Arrivals::Jitter(0.5), Arrivals::Poisson] {
        assert_eq!(all(1000.0, arrivals, 3, u64::MAX / 2, Some(100)).len(), 100, "{arrivals:?}");
    }
}

#[test]
fn jitter_stays_in_order_even_if_neighbors_swap() {
    for share in [0.1, 0.5, 1.0] {
        let pacer =
            Pacer::new((&Rate::Fixed(1000.0), Arrivals::Jitter(share)), ALONE, 9, (SECOND, 2 * SECOND), None);
        let mut unordered: Vec<u64> = (0..1000).filter_map(|index| pacer.at(index)).collect();
        unordered.sort_unstable();
        assert_eq!(moments(pacer), unordered, "share {share}");
    }
}

#[test]
fn jitter_stays_within_its_share() {
    let interval = MILLISECOND;
    let pacer =
        Pacer::new((&Rate::Fixed(1000.0), Arrivals::Jitter(0.5)), ALONE, 9, (SECOND, 2 * SECOND), None);
    let jittered = moments(pacer);
    assert_eq!(jittered.len(), 1000);
    let mut moved = 0;
    for (index, moment) in jittered.iter().enumerate() {
        let constant = SECOND + index as u64 * interval;
        assert!(moment.abs_diff(constant) <= interval / 2);
        moved += u32::from(moment.abs_diff(constant) > interval / 10);
    }
    assert!(moved > 600, "only {moved} of 1000 moved by more than a tenth");
}

#[test]
fn poisson_has_the_right_rate_and_variance() {
    let moments = all(10_000.0, Arrivals::Poisson, 4, 10 * SECOND, None);
    // The expected number is 100,000, with a standard deviation of 316.
    assert!(moments.len().abs_diff(100_000) < 1600, "{} arrivals", moments.len());
    let gaps: Vec<f64> = moments.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((variance.sqrt() / mean - 1.0).abs() < 0.03, "exponential gaps vary as much as their mean");
}

#[test]
fn due_unsent_counts_times_that_were_due_and_not_taken() {
    let seconds = [0, 3, 6, 8, 9, 11, 13, 14, 16, 99].map(|seconds| seconds * SECOND);
    for (rate, times, limit, moments_until) in [
        (Rate::Fixed(1000.0), (100, SECOND), Some(900), &[0, 100, SECOND / 3, SECOND / 2 + 1, SECOND][..]),
        (profile(), (SECOND, 16 * SECOND), None, &seconds),
    ] {
        for arrivals in [Arrivals::Constant, Arrivals::Jitter(0.3), Arrivals::Poisson] {
            let share = Share { worker: 1, workers: 2 };
            let mut pacer = Pacer::new((&rate, arrivals), share, 3, times, limit);
            for _ in 0..10 {
                pacer.take_due(u64::MAX).expect("hundreds are due");
            }
            for &until in moments_until {
                let expected = moments(pacer.clone()).iter().filter(|moment| **moment < until).count();
                assert_eq!(pacer.due_unsent(until), expected as u64, "{arrivals:?} until {until}");
            }
        }
    }
}

#[test]
fn nothing_is_due_before_its_time() {
    let mut pacer =
        Pacer::new((&Rate::Fixed(1000.0), Arrivals::Constant), ALONE, 0, (SECOND, 2 * SECOND), None);
    assert_eq!(pacer.take_due(SECOND - 1), None);
    assert_eq!(pacer.take_due(SECOND), Some(SECOND));
    assert_eq!(pacer.peek(), Some(SECOND + MILLISECOND));
    assert_eq!(pacer.take_due(SECOND + MILLISECOND - 1), None);
}

/// Five stages: a ramp up with 2500 requests, a constant rate with 3000, a pause, a ramp down with 500, and a
/// constant rate with 200.
fn profile() -> Rate {
    let stage = |from, to, seconds| Stage { from, to, for_ns: seconds * SECOND };
    Rate::Stages(vec![
        stage(0.0, 1000.0, 5),
        stage(1000.0, 1000.0, 3),
        stage(0.0, 0.0, 4),
        stage(500.0, 0.0, 2),
        stage(200.0, 200.0, 1),
    ])
}

const COURSE: [(u64, usize); 5] = [(5, 2500), (8, 3000), (12, 0), (14, 500), (15, 200)];

fn of_profile(arrivals: Arrivals, workers: u32, limit: Option<u64>) -> Vec<Vec<u64>> {
    let pacer = |worker| {
        Pacer::new((&profile(), arrivals), Share { worker, workers }, 5, (SECOND, 16 * SECOND), limit)
    };
    (0..workers).map(|worker| moments(pacer(worker))).collect()
}

fn sorted(each: Vec<Vec<u64>>) -> Vec<u64> {
    let mut all = each.concat();
    all.sort_unstable();
    all
}

/// Number of scheduled times in each stage of [`profile`].
fn per_stage(moments: &[u64]) -> Vec<usize> {
    let before = |second: u64| moments.partition_point(|moment| *moment < SECOND + second * SECOND);
    let ends = COURSE.iter().map(|(end, _)| before(*end));
    ends.scan(0, |last, end| Some(end - std::mem::replace(last, end))).collect()
}

#[test]
fn each_stage_has_the_area_under_its_rate() {
    let one = sorted(of_profile(Arrivals::Constant, 1, None));
    assert_eq!(per_stage(&one), COURSE.map(|(_, count)| count));
    assert_eq!(one.len(), 6200);
    assert_eq!(one[5500], 13 * SECOND, "a request in the pause is due at its end");
    let jittered = sorted(of_profile(Arrivals::Jitter(1.0), 1, None));
    assert_eq!(jittered.len(), 6200);
    for (found, (_, expected)) in per_stage(&jittered).iter().zip(COURSE) {
        assert!(found.abs_diff(expected) <= 2, "one request per edge can move over: {found}, {expected}");
    }
    assert_eq!(per_stage(&jittered)[2], 0, "nothing moves into a pause");
}

#[test]
fn workers_split_the_stages_of_one_worker() {
    for arrivals in [Arrivals::Constant, Arrivals::Jitter(0.1), Arrivals::Jitter(1.0)] {
        let one = sorted(of_profile(arrivals, 1, None));
        for workers in [2, 7] {
            let each = of_profile(arrivals, workers, None);
            assert!(each.iter().all(|moments| moments.is_sorted()), "{arrivals:?}");
            assert_eq!(sorted(each), one, "{arrivals:?}, {workers} workers");
        }
        assert_eq!(sorted(of_profile(arrivals, 3, Some(4000))).len(), 4000);
    }
}

#[test]
fn poisson_follows_the_rate_profile() {
    for workers in [1, 4] {
        let each = of_profile(Arrivals::Poisson, workers, None);
        assert!(each.iter().all(|moments| moments.is_sorted()));
        let all = sorted(each);
        for (found, (_, expected)) in per_stage(&all).iter().zip(COURSE) {
            // Allow four standard deviations. The standard deviation of a Poisson count is the square root of
            // its mean.
            let allowed = 4.0 * (expected as f64).sqrt();
            assert!(found.abs_diff(expected) as f64 <= allowed, "{found} instead of {expected}");
        }
        // Halfway through the ramp up, a quarter of the ramp's requests must be due.
        let half = all.partition_point(|moment| *moment < SECOND + 5 * SECOND / 2);
        assert!((half as f64 - 625.0).abs() < 100.0, "{half} in the first half of the ramp");
    }
}

#[test]
fn nothing_is_due_without_a_rate() {
    let idle = Rate::Stages(vec![Stage { from: 0.0, to: 0.0, for_ns: SECOND }]);
    for arrivals in [Arrivals::Constant, Arrivals::Jitter(1.0), Arrivals::Poisson] {
        let pacer = Pacer::new((&idle, arrivals), ALONE, 0, (0, SECOND), None);
        assert_eq!((pacer.peek(), pacer.due_unsent(SECOND)), (None, 0));
    }
}
