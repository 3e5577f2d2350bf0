//! Amounts per request from slices of time, by the method of batch means.
//!
//! The figure is a ratio of sums: the amount of all slices ÷ the requests of all slices. Its variance comes
//! from the residuals `amount − ratio · requests` (W. G. Cochran, "Sampling Techniques", 1977, 2.11). Slices
//! of one pass share what is special about that pass, so they may scatter less than passes do. Therefore the
//! variance is computed twice, once with slices as batches and once with passes, and the larger one counts.

use super::rounds::MOST_UNITS;
use super::{Estimate, two_sided_95};
use std::collections::BTreeMap;

/// Fewest passes from which a variance is computed. With two or three passes, Student's t is so large that
/// chance would decide which variance is the larger one.
const LEAST_PASSES: usize = 4;

/// The slices of a measurement. All amounts that were measured in them are divided by the same requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Slices {
    /// Number of requests in each slice.
    requests: Vec<f64>,
    /// Index of the pass of each slice, from 0 and without gaps.
    passes: Vec<usize>,
    pass_count: usize,
    /// Index of the batch of each slice. A batch is a slice, or several neighbouring slices if there are
    /// many.
    batches: Vec<usize>,
    batch_count: usize,
}

impl Slices {
    /// Creates slices from pairs: a number that identifies the pass, and the number of requests in the slice.
    pub fn new(slices: impl IntoIterator<Item = (u32, f64)>) -> Self {
        let (numbers, requests): (Vec<u32>, Vec<f64>) = slices.into_iter().unzip();
        let mut places = BTreeMap::new();
        for number in &numbers {
            let next = places.len();
            places.entry(*number).or_insert(next);
        }
        let count = requests.len();
        let batch_count = count.min(MOST_UNITS);
        Self {
            passes: numbers.iter().map(|number| places[number]).collect(),
            pass_count: places.len(),
            batches: (0..count).map(|slice| slice * batch_count / count).collect(),
            batch_count,
            requests,
        }
    }

    /// Number of slices.
    pub fn count(&self) -> usize {
        self.requests.len()
    }

    /// The amount per request, with its 95 % interval. `amounts` has one value for each slice. The result is
    /// absent if there were no requests. Only the interval is absent if there is only one slice. `trials` of
    /// the result is the number of batches that the interval is computed from.
    ///
    /// # Panics
    /// If there are not as many amounts as slices.
    pub fn per_request(&self, amounts: &[f64]) -> Option<Estimate> {
        assert_eq!(amounts.len(), self.count(), "each slice has one amount");
        let requests: f64 = self.requests.iter().sum();
        if requests <= 0.0 {
            return None;
        }
        let ratio = amounts.iter().sum::<f64>() / requests;
        let residual = |slice: usize| amounts[slice] - ratio * self.requests[slice];
        let variance = |groups: &[usize], count: usize| {
            let mut sums = vec![0.0; count];
            (0..self.count()).for_each(|slice| sums[groups[slice]] += residual(slice));
            let squares: f64 = sums.iter().map(|sum| sum * sum).sum();
            let count = count as f64;
            count / (count - 1.0) * squares / (requests * requests)
        };
        let by_batch =
            (self.batch_count > 1).then(|| (variance(&self.batches, self.batch_count), self.batch_count));
        // The passes as batches, if their number leaves enough degrees of freedom.
        let by_pass = (LEAST_PASSES..=self.batch_count)
            .contains(&self.pass_count)
            .then(|| (variance(&self.passes, self.pass_count), self.pass_count));
        let larger = by_batch.into_iter().chain(by_pass).max_by(|one, other| one.0.total_cmp(&other.0));
        let Some((variance, batches)) = larger else { return Some(Estimate::bare(ratio, 1)) };
        let half = two_sided_95(batches as u32 - 1).map(|t| t * variance.sqrt());
        Some(Estimate {
            estimate: ratio,
            low: half.map(|half| ratio - half),
            high: half.map(|half| ratio + half),
            trials: batches as u32,
        })
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    PLAN "From {} passes on, the passes are batches too, and the wider interval counts" word(LEAST_PASSES);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::independent_figures;
    use hoptax_format::random::Random;

    #[test]
    fn a_ratio_by_hand() {
        // The ratio is 60 ÷ 30. The residuals are −2, 1 and 1, so the variance is 3/2 · 6 ÷ 900.
        let slices = Slices::new([(0, 10.0), (0, 10.0), (0, 10.0)]);
        let found = slices.per_request(&[18.0, 21.0, 21.0]).expect("requests");
        assert_eq!((found.estimate, found.trials), (2.0, 3));
        let half = 4.302_65 * (0.01_f64).sqrt();
        assert!((found.half_width().expect("three") - half).abs() < 1e-4, "{found:?}");
    }

    #[test]
    fn nothing_and_one_slice() {
        assert_eq!(Slices::new([]).per_request(&[]), None);
        assert_eq!(Slices::new([(0, 0.0)]).per_request(&[1.0]), None);
        let one = Slices::new([(3, 4.0)]).per_request(&[2.0]).expect("requests");
        assert_eq!((one.estimate, one.interval(), one.trials), (0.5, None, 1));
    }

    #[test]
    fn a_slice_with_twice_the_requests_may_have_twice_the_amount() {
        let slices = Slices::new([(0, 10.0), (1, 20.0), (2, 30.0), (3, 5.0)]);
        let found = slices.per_request(&[30.0, 60.0, 90.0, 15.0]).expect("requests");
        assert_eq!(found.estimate, 3.0);
        assert!(found.half_width().expect("four") < 1e-9, "the cost per request never changes: {found:?}");
    }

    #[test]
    fn many_slices_become_batches() {
        let slices = Slices::new((0..100).map(|_| (0, 1.0)));
        assert_eq!(slices.per_request(&[1.0; 100]).expect("requests").trials, MOST_UNITS as u32);
    }

    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
    }

    /// Amounts of 6 passes with 4 slices each, whose expected amount per request is 50.
    fn amounts(random: &mut Random, of_pass: f64) -> Vec<f64> {
        let pass = |random: &mut Random| {
            let pass = 50.0 + of_pass * normal(random);
            (0..4).map(|_| 100.0 * (pass + 5.0 * normal(random))).collect::<Vec<f64>>()
        };
        (0..6).flat_map(|_| pass(random)).collect()
    }

    fn covered(of: impl Fn(&mut Random) -> (Option<f64>, Option<f64>, f64)) -> f64 {
        const RUNS: u32 = 2000;
        let mut random = Random::new(7);
        let held = (0..RUNS).filter(|_| {
            let (low, high, truth) = of(&mut random);
            low.is_some_and(|low| low <= truth) && high.is_some_and(|high| truth <= high)
        });
        held.count() as f64 / f64::from(RUNS)
    }

    #[test]
    fn intervals_cover_the_truth_whether_passes_differ_or_not() {
        let slices = Slices::new((0..24).map(|slice| (slice / 4, 100.0)));
        for of_pass in [0.0, 2.0, 10.0] {
            let share = covered(|random| {
                let found = slices.per_request(&amounts(random, of_pass)).expect("requests");
                (found.low, found.high, 50.0)
            });
            assert!((0.935..=0.99).contains(&share), "passes that differ by {of_pass}: {share}");
            let share = covered(|random| {
                let first = slices.per_request(&amounts(random, of_pass)).expect("requests");
                let second = slices.per_request(&amounts(random, of_pass)).expect("requests");
                let contrast = independent_figures(&first, &second);
                (contrast.low, contrast.high, 0.0)
            });
            assert!((0.935..=0.995).contains(&share), "differences of passes, {of_pass}: {share}");
        }
    }

    #[test]
    fn a_frame_that_one_side_never_showed_is_no_certain_difference() {
        let slices = Slices::new((0..24).map(|slice| (slice / 4, 100.0)));
        let none = slices.per_request(&[0.0; 24]).expect("requests");
        let mut once = [0.0; 24];
        once[5] = 2.0;
        let once = slices.per_request(&once).expect("requests");
        let contrast = independent_figures(&none, &once);
        assert!(contrast.low.expect("slices") < 0.0 && contrast.estimate > 0.0, "{contrast:?}");
    }
}
