//! The distribution of a value in little memory: a histogram, and the exact sum of all values.

use hdrhistogram::Histogram;

/// Significant digits of the kept values.
const DIGITS: u8 = 2;

/// Bounds of the groups that a distribution is printed as. The tail has finer groups, because it decides high
/// percentiles.
const BOUNDS: [f64; 9] = [0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.99, 1.0];
/// Largest value. Larger sizes and times are cut to this value, because their lines are damaged.
const MOST: u64 = 1 << 50;

/// A summary of all values.
#[derive(Debug, Clone)]
pub(crate) struct Sketch {
    values: Histogram<u64>,
    sum: f64,
}

impl Default for Sketch {
    fn default() -> Self {
        Self { values: Histogram::new(DIGITS).expect("a valid number of digits"), sum: 0.0 }
    }
}

impl Sketch {
    pub(crate) fn add(&mut self, value: u64) {
        let value = value.min(MOST);
        self.sum += value as f64;
        self.values.record(value).expect("the histogram grows");
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.values.add(&other.values).expect("the histogram grows");
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (!self.values.is_empty()).then(|| self.sum / self.values.len() as f64)
    }

    /// Groups of the distribution, as (share, mean of the group). The shares add up to 1, and the mean of all
    /// groups is the mean of all values. If all values are equal to two digits, there is only one group.
    pub(crate) fn groups(&self) -> Vec<(f64, u64)> {
        let Some(mean) = self.mean() else { return Vec::new() };
        let count = self.values.len();
        let ends = BOUNDS[1..].iter().map(|bound| (bound * count as f64).round() as u64);
        let mut values = self.values.iter_recorded().map(|step| {
            (self.values.median_equivalent(step.value_iterated_to()), step.count_since_last_iteration())
        });
        // Each group takes the next values up to its end. One step of the histogram may belong to two groups.
        let (mut step, mut taken) = ((0, 0), 0);
        let mut sums: Vec<(u64, f64)> = Vec::new();
        for end in ends {
            let (mut members, mut sum) = (0, 0.0);
            while taken < end {
                if step.1 == 0 {
                    step = values.next().expect("as many values as the count says");
                }
                let some = step.1.min(end - taken);
                (members, sum) = (members + some, sum + some as f64 * step.0 as f64);
                (step.1, taken) = (step.1 - some, taken + some);
            }
            sums.push((members, sum));
        }
        let rounded: f64 = sums.iter().map(|(_, sum)| sum).sum();
        let factor = if rounded > 0.0 { self.sum / rounded } else { 1.0 };
        let mut groups: Vec<(f64, u64)> = Vec::new();
        for (members, sum) in sums.into_iter().filter(|(members, _)| *members > 0) {
            let (share, value) =
                (members as f64 / count as f64, (sum * factor / members as f64).round() as u64);
            match groups.last_mut() {
                Some((earlier, same)) if *same == value => *earlier += share,
                _ => groups.push((share, value)),
            }
        }
        match groups.len() {
            1 => vec![(1.0, mean.round() as u64)],
            _ => groups,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Sketch {
        let mut sketch = Sketch::default();
        values.into_iter().for_each(|value| sketch.add(value));
        sketch
    }

    fn mean(groups: &[(f64, u64)]) -> f64 {
        groups.iter().map(|(share, value)| share * *value as f64).sum()
    }

    #[test]
    fn groups_keep_mean_and_tail() {
        assert_eq!(of([7; 100]).groups(), [(1.0, 7)]);
        assert_eq!(Sketch::default().groups(), []);
        // One value in 100 is 100 times as large. The order of the values repeats, as in a log of cron jobs.
        let sketch = of((0..100_000).map(|index| if index % 100 == 99 { 100_000 } else { 1_000 }));
        let groups = sketch.groups();
        let shares: f64 = groups.iter().map(|(share, _)| share).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{groups:?}");
        assert!((mean(&groups) / 1_990.0 - 1.0).abs() < 0.01, "{groups:?}");
        assert!(groups.last().is_some_and(|(_, value)| *value > 50_000), "{groups:?}");
    }

    #[test]
    fn merged_sketches_are_one() {
        let mut both = of(std::iter::repeat_n(1_000, 30_000));
        both.merge(&of(std::iter::repeat_n(2_000, 10_000)));
        both.merge(&Sketch::default());
        assert_eq!(both.mean(), Some(1_250.0));
        let groups = both.groups();
        assert!((mean(&groups) / 1_250.0 - 1.0).abs() < 0.01, "{groups:?}");
    }
}
