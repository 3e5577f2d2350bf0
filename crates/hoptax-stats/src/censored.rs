//! The median of a sample with its distribution-free interval, even if some values are only known to exceed a
//! bound.

use super::beta::incomplete_beta;
use super::interval::{Estimate, resampled};
use super::rounds::Units;

/// The interval of a median is wrong with at most this probability.
const WRONG: f64 = 0.05;

/// A value, or a bound that the value exceeds. In the second case, the value is *censored* on its right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observed {
    /// The value, or the bound.
    pub value: f64,
    /// True if only a bound is known.
    pub is_more: bool,
}

impl Observed {
    /// A known value.
    pub fn exactly(value: f64) -> Self {
        Self { value, is_more: false }
    }

    /// A value that is only known to exceed `bound`.
    pub fn more_than(bound: f64) -> Self {
        Self { value: bound, is_more: true }
    }

    /// The value, if it is known.
    pub fn known(self) -> Option<f64> {
        (!self.is_more).then_some(self.value)
    }
}

/// The median of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleMedian {
    /// The median.
    pub median: Observed,
    /// Its interval, with a confidence of at least 95 %. Absent for fewer than six values.
    pub interval: Option<(Observed, Observed)>,
    /// Number of values.
    pub count: u32,
}

/// The median of a sample, with the interval between the `k`-th value from below and the `k`-th value from
/// above.
///
/// The number of values below the true median has a binomial distribution with probability ½, whatever the
/// distribution of the values. So the interval misses the median with the probability `2 · P(B ≤ k − 1)`. `k`
/// is the largest number for which this is at most 5 %: 6 for 20 values, with a confidence of 95.9 %. Source:
/// W. R. Thompson, "On confidence ranges for the median and other expectation distributions for populations
/// of unknown distribution form" (Annals of Mathematical Statistics 7, 1936); H. A. David and H. N. Nagaraja,
/// "Order Statistics", 3rd ed. 2003, section 7.1.
///
/// Only the order of the values matters, so a censored value needs no assumption: its rank is at least that
/// of its bound. A rank whose value depends on censored values is itself only known to exceed a bound. For an
/// even number of values, every number between the two middle values is a median. The result is their mean if
/// both are known. Otherwise it is a bound: that of the lower value if this value is unknown, or else that of
/// the upper value. Absent if there are no values.
pub fn sample_median(values: &[Observed]) -> Option<SampleMedian> {
    let sorted = |value: &dyn Fn(&Observed) -> f64| {
        let mut all: Vec<f64> = values.iter().map(value).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let least = sorted(&|one| one.value);
    let most = sorted(&|one| one.known().unwrap_or(f64::INFINITY));
    let at = |rank: usize| Observed { value: least[rank], is_more: least[rank] != most[rank] };
    let count = values.len();
    let (lower, upper) = (count.checked_sub(1)? / 2, count / 2);
    let median = match (at(lower), at(upper)) {
        (Observed { is_more: false, value: low }, Observed { is_more: false, value: high }) => {
            Observed::exactly((low + high) / 2.0)
        }
        (Observed { is_more: false, .. }, upper) => upper,
        (lower, _) => lower,
    };
    let interval = rank_of_interval(count).map(|rank| (at(rank - 1), at(count - rank)));
    Some(SampleMedian { median, interval, count: count as u32 })
}

/// The rank of the lower end of the interval, from 1. `None` if even the interval from the smallest to the
/// largest value has too little confidence.
fn rank_of_interval(count: usize) -> Option<usize> {
    // P(B ≤ k − 1) = I_½(n − k + 1, k) (DLMF 8.17.5).
    let beyond = |rank: usize| 2.0 * incomplete_beta((count - rank + 1) as f64, rank as f64, 0.5);
    (1..=count / 2).take_while(|rank| beyond(*rank) <= WRONG).last()
}

/// The median of the values with an interval like that of every other figure ([`resampled`]): Student's t
/// with a standard error from the bootstrap. It is for differences of two medians, because two intervals of
/// order statistics cannot be subtracted. Absent if there are no values.
pub fn resampled_median(values: &[f64]) -> Option<Estimate> {
    let units = Units::new(0..values.len() as u32);
    let mut sorted: Vec<(f64, usize)> =
        values.iter().zip(0..).filter_map(|(value, round)| Some((*value, units.of(round)?))).collect();
    sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
    resampled(&units, |drawn| weighted_median(&sorted, drawn))
}

/// The median of sorted values. Each value counts as often as its unit was drawn.
fn weighted_median(sorted: &[(f64, usize)], drawn: &[u64]) -> Option<f64> {
    let count: u64 = sorted.iter().map(|(_, unit)| drawn[*unit]).sum();
    let at = |rank: u64| {
        let mut before = 0;
        sorted.iter().find_map(|(value, unit)| {
            before += drawn[*unit];
            (before > rank).then_some(*value)
        })
    };
    Some((at(count.checked_sub(1)? / 2)? + at(count / 2)?) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::random::Random;

    fn known(values: impl IntoIterator<Item = u32>) -> Vec<Observed> {
        values.into_iter().map(|value| Observed::exactly(f64::from(value))).collect()
    }

    #[test]
    fn ranks_of_intervals_are_those_of_published_tables() {
        // W. J. Conover, "Practical Nonparametric Statistics", 3rd ed. 1999, table A3: the largest k with P(B
        // < k) ≤ 2.5 %.
        for (count, rank) in [
            (5, None),
            (6, Some(1)),
            (8, Some(1)),
            (9, Some(2)),
            (10, Some(2)),
            (20, Some(6)),
            (40, Some(14)),
        ] {
            assert_eq!(rank_of_interval(count), rank, "{count} values");
        }
    }

    #[test]
    fn twenty_values_have_an_interval_from_the_sixth_to_the_fifteenth() {
        let found = sample_median(&known((1..=20).rev())).expect("values");
        assert_eq!(found.median, Observed::exactly(10.5));
        assert_eq!(found.interval, Some((Observed::exactly(6.0), Observed::exactly(15.0))));
        let few = sample_median(&known([3, 1, 2])).expect("values");
        assert_eq!((few.median, few.interval, few.count), (Observed::exactly(2.0), None, 3));
        assert_eq!(sample_median(&[]), None);
    }

    #[test]
    fn censored_values_make_only_the_ranks_above_them_unknown() {
        let censored = |known_values: u32| {
            let mut values = known(1..=known_values);
            values.resize(20, Observed::more_than(100.0));
            sample_median(&values).expect("values")
        };
        let more = Observed::more_than(100.0);
        let upper = censored(14);
        assert_eq!(
            (upper.median, upper.interval),
            (Observed::exactly(10.5), Some((Observed::exactly(6.0), more)))
        );
        // Every number from the 10th to the 11th value is a median. The 11th value is only known to exceed
        // 100.
        assert_eq!(
            (censored(10).median, censored(10).interval),
            (more, Some((Observed::exactly(6.0), more)))
        );
        assert_eq!(censored(5).interval, Some((more, more)));
    }

    #[test]
    fn bounds_may_differ_and_lie_below_known_values() {
        let values = [Observed::more_than(2.0), Observed::exactly(5.0), Observed::exactly(7.0)];
        assert_eq!(sample_median(&values).expect("values").median, Observed::more_than(5.0));
    }

    #[test]
    fn the_interval_holds_the_median_of_a_skewed_distribution() {
        let mut random = Random::new(11);
        let trials = 2000;
        let holds = (0..trials)
            .filter(|_| {
                // The median of an exponential distribution is ln 2.
                let values: Vec<Observed> =
                    (0..20).map(|_| Observed::exactly(-(1.0 - random.unit()).ln())).collect();
                let (low, high) = sample_median(&values).and_then(|one| one.interval).expect("an interval");
                (low.value..=high.value).contains(&std::f64::consts::LN_2)
            })
            .count();
        let share = holds as f64 / f64::from(trials);
        assert!((0.945..0.975).contains(&share), "95.9 % expected: {share}");
    }

    #[test]
    fn a_resampled_median_has_an_interval_around_it() {
        let values: Vec<f64> = (1..=21).map(f64::from).collect();
        let found = resampled_median(&values).expect("values");
        let (low, high) = found.interval().expect("an interval");
        assert_eq!((found.estimate, found.trials), (11.0, 21));
        assert!((4.0..8.0).contains(&low) && (14.0..18.0).contains(&high), "{found:?}");
        assert_eq!(resampled_median(&[1.0, 2.0]).map(|one| one.estimate), Some(1.5));
        assert_eq!(resampled_median(&[]), None);
    }
}
