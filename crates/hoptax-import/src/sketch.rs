//! The distribution of a value in little memory: the sum of all values, and a sample of them.

/// Number of values that are kept. The standard error of a quantile's rank is then at most 1.1 %.
const KEPT: usize = 2048;

/// Bounds of the groups that a distribution is printed as. The tail has finer groups, because it decides high percentiles.
const BOUNDS: [f64; 9] = [0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.99, 1.0];

/// All values, in short.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sketch {
    count: u64,
    sum: f64,
    kept: Vec<u64>,
    random: u64,
}

impl Sketch {
    pub(crate) fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum += value as f64;
        if self.kept.len() < KEPT {
            self.kept.push(value);
            return;
        }
        // Reservoir sampling (J. S. Vitter, 1985, algorithm R): every value is kept with the same probability.
        let place = self.next_random() % self.count;
        if let Some(place) = self.kept.get_mut(usize::try_from(place).unwrap_or(usize::MAX)) {
            *place = value;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let all = self.count + other.count;
        // Each side keeps a part of the sample as large as its share of the values.
        let most = KEPT.min(self.kept.len() + other.kept.len());
        let ours = ((most as f64 * self.count as f64 / all as f64).round() as usize).min(self.kept.len());
        let theirs = (most - ours).min(other.kept.len());
        spread(&mut self.kept, ours);
        let mut more = other.kept.clone();
        spread(&mut more, theirs);
        self.kept.extend(more);
        self.count = all;
        self.sum += other.sum;
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// Groups of the distribution, as (share, mean of the group). The shares add up to 1, and the mean of all groups is the mean
    /// of all values. One group if all kept values are equal.
    pub(crate) fn groups(&self) -> Vec<(f64, u64)> {
        let Some(mean) = self.mean() else { return Vec::new() };
        let mut sorted = self.kept.clone();
        sorted.sort_unstable();
        if sorted.first() == sorted.last() {
            return vec![(1.0, mean.round() as u64)];
        }
        let kept = sorted.len() as f64;
        let of_kept = sorted.iter().sum::<u64>() as f64 / kept;
        let factor = if of_kept > 0.0 { mean / of_kept } else { 1.0 };
        let mut groups: Vec<(f64, u64)> = Vec::new();
        for bounds in BOUNDS.windows(2) {
            let (from, to) = ((bounds[0] * kept).round() as usize, (bounds[1] * kept).round() as usize);
            let Some(group) = sorted.get(from..to).filter(|group| !group.is_empty()) else { continue };
            let value = (group.iter().sum::<u64>() as f64 / group.len() as f64 * factor).round() as u64;
            let share = group.len() as f64 / kept;
            match groups.last_mut() {
                Some((earlier, same)) if *same == value => *earlier += share,
                _ => groups.push((share, value)),
            }
        }
        groups
    }

    /// xorshift64 (G. Marsaglia, 2003). The sample must not depend on anything but the values.
    fn next_random(&mut self) -> u64 {
        let mut next = if self.random == 0 { 0x9E37_79B9_7F4A_7C15 } else { self.random };
        next ^= next << 13;
        next ^= next >> 7;
        next ^= next << 17;
        self.random = next;
        next
    }
}

/// Keeps `most` values, at equal distances.
fn spread(values: &mut Vec<u64>, most: usize) {
    let length = values.len();
    if most < length {
        *values = (0..most).map(|index| values[index * length / most]).collect();
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
