//! Finds where the level of a series of runs changed.
//!
//! E-divisive splits the series at the place where the energy distance between the readings before and after
//! it is largest. Then it splits each part again (D. S. Matteson and N. A. James, "A Nonparametric Approach
//! for Multiple Change Point Analysis of Multivariate Data", Journal of the American Statistical Association
//! 109, 2014). As in Hunter and Apache Otava, Student's t decides whether a split counts, so that the result
//! is the same every time and a few readings suffice. Splits are first found with a loose bound. Then the
//! weakest split is removed, again and again, until each remaining split passes the strict bound between its
//! neighbors (M. Fleming and others, "Hunter: Using Change Point Detection to Hunt for Performance
//! Regressions", ICPE 2023).
//!
//! hoptax adds three rules: readings are weighted by their intervals, spikes are left out first, and a drift
//! does not count as a change.

use super::beta::student_beyond;
use super::median;

/// Fewest readings on each side of a change. With fewer, a disturbance of two runs would count as a change.
const LEAST: usize = 3;

/// A change counts if its p-value is at most this. It is strict, because every place in a series is tried.
/// Hunter uses the same bound.
const P_VALUE: f64 = 0.001;

/// Bound for p-values while the series is split. A change can become clear only after its neighbors were
/// found.
const WEAK: f64 = 0.01;

/// A reading is a spike if it is further than this many standard deviations, and further than
/// [`LEAST_CHANGE`], from the median of the readings around it.
const SPIKE: f64 = 5.0;

/// Number of readings on each side from which this median is computed. The reading itself is part of it too.
/// With this number, a step of [`LEAST`] readings is not a spike.
const AROUND: usize = 2;

/// A smaller change, relative to the level before it, does not count. `hoptax compare` has the same limit.
const LEAST_CHANGE: f64 = 0.01;

/// Only this many newest readings are examined, because the time grows with the square of their number.
const MOST: usize = 500;

/// Largest ratio of the weights of two readings. No reading may decide alone.
const MOST_WEIGHT: f64 = 100.0;

/// Half of the width of a 95 % interval, in standard errors of a normal distribution.
const HALF_WIDTH: f64 = 1.96;

/// Standard deviation of a normal distribution ÷ its median absolute deviation.
const OF_NORMAL: f64 = 1.4826;

/// Largest correlation of neighboring readings that the test assumes. With a larger one, no series would have
/// a change.
const MOST_LIKENESS: f64 = 0.9;

/// The kind of bound, if only a bound of a value is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The value is at least this large.
    AtLeast,
    /// The value is at most this large.
    AtMost,
}

/// The figure of one run in a series of runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// The value, or its bound.
    pub value: f64,
    /// Half of the width of the 95 % interval. Absent if there is no interval.
    pub half_width: Option<f64>,
    /// Present if only a bound of the value is known.
    pub bound: Option<Bound>,
}

/// A change of the level of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Index of the last reading before the change.
    pub before: usize,
    /// Index of the first reading after the change. Spikes can be between the two.
    pub after: usize,
    /// Weighted mean of the readings from the previous change to this one.
    pub from: f64,
    /// Weighted mean of the readings from this change to the next one.
    pub to: f64,
    /// p-value of the hypothesis that both levels are the same.
    pub p_value: f64,
}

/// The changes of the level of a series, oldest first.
pub fn change_points(readings: &[Reading]) -> Vec<ChangePoint> {
    let first = readings.len().saturating_sub(MOST);
    let kept = kept(&readings[first..]);
    let mut places = Vec::new();
    split(&kept, 0, &mut places);
    places.sort_unstable();
    loop {
        let found = between(&kept, &places);
        let p_values = found.iter().map(|one| one.p_value).enumerate();
        let weakest = p_values.max_by(|one, other| one.1.total_cmp(&other.1));
        if let Some((index, p_value)) = weakest
            && !is_change(p_value)
        {
            places.remove(index);
            continue;
        }
        let counted_from_first =
            |one: ChangePoint| ChangePoint { before: first + one.before, after: first + one.after, ..one };
        return found.into_iter().map(counted_from_first).collect();
    }
}

/// The p-value of the hypothesis that the readings from index `at` on have the same level as those before, by
/// the same test as [`change_points`]. Absent if a side has fewer than three readings. Spikes do not count.
pub fn step_at(readings: &[Reading], at: usize) -> Option<f64> {
    let kept = kept(readings);
    let place = kept.partition_point(|one| one.at < at);
    (place >= LEAST && kept.len() - place >= LEAST).then(|| judged(&kept, place))
}

/// True if a change with this p-value counts.
pub fn is_change(p_value: f64) -> bool {
    p_value <= P_VALUE
}

/// A reading that counts.
#[derive(Debug, Clone, Copy)]
struct Kept {
    /// Index among all readings.
    at: usize,
    /// Place among the readings that count.
    place: f64,
    value: f64,
    /// Variance of the reading that its interval implies.
    variance: f64,
    /// 1 ÷ the variance of the reading, including the scatter between runs.
    weight: f64,
    bound: Option<Bound>,
}

/// The readings without spikes, with their weights. Runs scatter more than their intervals imply, because an
/// interval does not contain what changes between runs. That scatter is added to each variance, as in a
/// meta-analysis with random effects (R. DerSimonian and N. Laird, "Meta-analysis in clinical trials", 1986).
fn kept(readings: &[Reading]) -> Vec<Kept> {
    let readings: Vec<(usize, &Reading)> =
        readings.iter().enumerate().filter(|(_, one)| one.value.is_finite()).collect();
    let known = |one: &Reading| one.half_width.map(|half| (half / HALF_WIDTH).powi(2));
    // A run without an interval has a single trial. It is taken to be as precise as the least precise of the
    // other runs.
    let widest = readings.iter().filter_map(|(_, one)| known(one)).fold(0.0, f64::max);
    let variances: Vec<f64> = readings.iter().map(|(_, one)| known(one).unwrap_or(widest)).collect();
    let values: Vec<f64> = readings.iter().map(|(_, one)| one.value).collect();
    let between_runs = between_runs(&values, &variances);
    let is_kept = |index: usize| {
        let around = &values[index.saturating_sub(AROUND)..values.len().min(index + AROUND + 1)];
        let usual = median(around).unwrap_or(values[index]);
        let deviation = (variances[index] + between_runs).sqrt();
        (values[index] - usual).abs() <= (SPIKE * deviation).max(LEAST_CHANGE * usual.abs())
    };
    let mut kept: Vec<Kept> = (0..values.len())
        .filter(|index| is_kept(*index))
        .map(|index| Kept {
            at: readings[index].0,
            place: 0.0,
            value: values[index],
            variance: variances[index],
            weight: 1.0,
            bound: readings[index].1.bound,
        })
        .collect();
    let largest = kept.iter().map(|one| one.variance + between_runs).fold(0.0, f64::max);
    for (place, one) in kept.iter_mut().enumerate() {
        one.place = place as f64;
        if largest > 0.0 {
            one.weight = 1.0 / (one.variance + between_runs).max(largest / MOST_WEIGHT);
        }
    }
    kept
}

/// Variance of the level between neighboring runs, beyond what intervals imply. It is estimated from the
/// differences between neighbors. Steps and spikes change only a few of these differences, and medians ignore
/// those. The median difference, which is the drift, is subtracted.
fn between_runs(values: &[f64], variances: &[f64]) -> f64 {
    let differences: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let usual = median(&differences).unwrap_or(0.0);
    let apart: Vec<f64> = differences.iter().map(|one| (one - usual).abs()).collect();
    let deviation = OF_NORMAL * median(&apart).unwrap_or(0.0);
    // The variance of a difference is twice the variance of a reading.
    (deviation * deviation / 2.0 - median(variances).unwrap_or(0.0)).max(0.0)
}

/// Splits a part of the series, and then both halves. Adds the places of the splits, counted from `first`.
fn split(part: &[Kept], first: usize, places: &mut Vec<usize>) {
    let Some(place) = split_of(part) else { return };
    places.push(first + place);
    split(&part[..place], first, places);
    split(&part[place..], first + place, places);
}

/// Where to split a part of the series.
fn split_of(part: &[Kept]) -> Option<usize> {
    let (place, end) = farthest(part)?;
    if step(&part[..end], place).p_value > WEAK {
        return None;
    }
    if line(part) > step(part, place).squares {
        return Some(place);
    }
    // A drift explains the part better than a step. Look for a step on top of the drift.
    let places = LEAST..=part.len() - LEAST;
    let of_both = |place: usize| (place, step_on_line(part, place));
    let (place, best) = places.map(of_both).min_by(|one, other| one.1.squares.total_cmp(&other.1.squares))?;
    (best.p_value <= WEAK).then_some(place)
}

/// The place and the end with the largest weighted energy distance between the readings before the place and
/// the readings from the place to the end. The end matters if a level rises and later returns: the readings
/// before the rise hardly differ from all later readings together.
fn farthest(part: &[Kept]) -> Option<(usize, usize)> {
    let count = part.len();
    let width = count + 1;
    // sums[i, j]: the weighted distances between the first i and the first j readings.
    let mut sums = vec![0.0; width * width];
    for (row, one) in part.iter().enumerate() {
        let mut of_row = 0.0;
        for (column, other) in part.iter().enumerate() {
            of_row += one.weight * other.weight * (one.value - other.value).abs();
            sums[(row + 1) * width + column + 1] = sums[row * width + column + 1] + of_row;
        }
    }
    let distance = |from: usize, to: usize, other_from: usize, other_to: usize| {
        let sum = |row: usize, column: usize| sums[row * width + column];
        sum(to, other_to) - sum(from, other_to) - sum(to, other_from) + sum(from, other_from)
    };
    let (mut weights, mut squares) = (vec![0.0], vec![0.0]);
    for (index, one) in part.iter().enumerate() {
        weights.push(weights[index] + one.weight);
        squares.push(squares[index] + one.weight * one.weight);
    }
    let mut best = (0.0, None);
    for place in LEAST..(count + 1).saturating_sub(LEAST) {
        let weight = weights[place];
        let within = distance(0, place, 0, place) / (weight * weight - squares[place]);
        for end in place + LEAST..=count {
            let other = weights[end] - weight;
            let pairs = other * other - (squares[end] - squares[place]);
            let within_other = distance(place, end, place, end) / pairs;
            let apart = 2.0 * distance(0, place, place, end) / (weight * other) - within - within_other;
            let energy = weight * other / (weight + other) * apart;
            if energy > best.0 {
                best = (energy, Some((place, end)));
            }
        }
    }
    best.1
}

/// The changes at these places, each judged between its neighbors.
fn between(kept: &[Kept], places: &[usize]) -> Vec<ChangePoint> {
    let start = |index: usize| index.checked_sub(1).map_or(0, |before| places[before]);
    let end = |index: usize| places.get(index + 1).copied().unwrap_or(kept.len());
    let of = |(index, place): (usize, &usize)| {
        let part = &kept[start(index)..end(index)];
        let (before, after) = part.split_at(place - start(index));
        ChangePoint {
            before: kept[place - 1].at,
            after: kept[*place].at,
            from: Side::of(before).value,
            to: Side::of(after).value,
            p_value: judged(part, before.len()),
        }
    };
    places.iter().enumerate().map(of).collect()
}

/// The p-value of a step at this place. If a straight line explains the readings better than the step, the
/// step must also pass the test on top of the line.
fn judged(part: &[Kept], place: usize) -> f64 {
    if !is_certain(part, place) {
        return 1.0;
    }
    let step = step(part, place);
    match line(part) > step.squares {
        true => step.p_value,
        false => step.p_value.max(step_on_line(part, place).p_value),
    }
}

/// False if bounds leave open whether the level changed. This is so if most readings of the lower side are
/// lower bounds, or if most readings of the upper side are upper bounds.
fn is_certain(part: &[Kept], place: usize) -> bool {
    let (before, after) = part.split_at(place);
    let rises = Side::of(before).value < Side::of(after).value;
    let (lower, upper) = if rises { (before, after) } else { (after, before) };
    let mostly = |side: &[Kept], bound: Bound| {
        2 * side.iter().filter(|one| one.bound == Some(bound)).count() > side.len()
    };
    !mostly(lower, Bound::AtLeast) && !mostly(upper, Bound::AtMost)
}

/// Weighted means of one side of a step, and sums of squares around them.
struct Side {
    weight: f64,
    value: f64,
    place: f64,
    values: f64,
    places: f64,
    products: f64,
}

impl Side {
    fn of(part: &[Kept]) -> Self {
        let sum = |of: &dyn Fn(&Kept) -> f64| part.iter().map(|one| one.weight * of(one)).sum::<f64>();
        let weight = sum(&|_| 1.0);
        let (value, place) = (sum(&|one| one.value) / weight, sum(&|one| one.place) / weight);
        Self {
            weight,
            value,
            place,
            values: sum(&|one| (one.value - value).powi(2)),
            places: sum(&|one| (one.place - place).powi(2)),
            products: sum(&|one| (one.value - value) * (one.place - place)),
        }
    }

    /// Sum over neighbors of the products of their deviations.
    fn of_neighbors(&self, part: &[Kept]) -> f64 {
        let deviation = |one: &Kept| one.weight.sqrt() * (one.value - self.value);
        part.windows(2).map(|pair| deviation(&pair[0]) * deviation(&pair[1])).sum()
    }
}

/// How well a model explains a part of the series.
struct Fit {
    p_value: f64,
    /// Weighted sum of the squares of the residuals.
    squares: f64,
}

/// A step: Student's t for the difference of two weighted means. Correlated neighbors contain less
/// information than independent ones, so the variance is multiplied by `(1 + ρ) ÷ (1 − ρ)`, as for the mean
/// of a series with the correlation `ρ` of neighbors.
fn step(part: &[Kept], place: usize) -> Fit {
    let (before, after) = part.split_at(place);
    let (first, second) = (Side::of(before), Side::of(after));
    let squares = first.values + second.values;
    let degrees = part.len() as f64 - 2.0;
    let likeness = match squares > 0.0 {
        true => (first.of_neighbors(before) + second.of_neighbors(after)) / squares,
        false => 0.0,
    };
    let likeness = likeness.clamp(0.0, MOST_LIKENESS);
    let variance = variance(part, squares / degrees) * (1.0 + likeness) / (1.0 - likeness);
    let error = (variance * (1.0 / first.weight + 1.0 / second.weight)).sqrt();
    Fit { p_value: p_value(second.value - first.value, first.value, error, degrees), squares }
}

/// The weighted sum of squares around a straight line.
fn line(part: &[Kept]) -> f64 {
    let all = Side::of(part);
    all.values - all.products * all.products / all.places
}

/// A step on top of a straight line: two lines with the same slope.
fn step_on_line(part: &[Kept], place: usize) -> Fit {
    let (before, after) = part.split_at(place);
    let (first, second) = (Side::of(before), Side::of(after));
    let (places, products) = (first.places + second.places, first.products + second.products);
    let slope = products / places;
    let squares = (first.values + second.values - slope * products).max(0.0);
    let degrees = part.len() as f64 - 3.0;
    let apart = second.place - first.place;
    let shares = 1.0 / first.weight + 1.0 / second.weight + apart * apart / places;
    let error = (variance(part, squares / degrees) * shares).sqrt();
    let change = second.value - first.value - slope * apart;
    Fit { p_value: p_value(change, first.value, error, degrees), squares }
}

/// Variance of a reading of weight 1: as observed, but at least as much as the intervals imply. Without this
/// limit, three readings that are alike by luck would look precise.
fn variance(part: &[Kept], observed: f64) -> f64 {
    let implied = part.iter().map(|one| one.weight * one.variance).sum::<f64>() / part.len() as f64;
    observed.max(implied)
}

fn p_value(change: f64, level: f64, error: f64, degrees: f64) -> f64 {
    match change.abs() <= LEAST_CHANGE * level.abs() {
        true => 1.0,
        false if error == 0.0 => 0.0,
        false => student_beyond(change / error, degrees),
    }
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "Student's t decides: p ≤ {}, and at" number(P_VALUE);
    METHODOLOGY "at least {} runs on each side" word(LEAST);
    METHODOLOGY "Changes of up to {} do not count" percent(LEAST_CHANGE);
    METHODOLOGY "A run more than {} standard deviations from the median" word(SPIKE);
    METHODOLOGY "itself and {} neighbors on each side is a spike" word(AROUND);
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::random::Random;

    fn readings(values: &[f64], half_width: Option<f64>) -> Vec<Reading> {
        values.iter().map(|value| Reading { value: *value, half_width, bound: None }).collect()
    }

    /// Index of the last reading before and of the first one after each change.
    fn found(values: &[f64], half_width: Option<f64>) -> Vec<(usize, usize)> {
        places(&readings(values, half_width))
    }

    fn places(readings: &[Reading]) -> Vec<(usize, usize)> {
        change_points(readings).iter().map(|one| (one.before, one.after)).collect()
    }

    const NONE: [(usize, usize); 0] = [];

    #[test]
    fn a_step_is_found_with_three_readings_on_each_side() {
        assert_eq!(found(&[100.0, 101.0, 100.0, 130.0, 131.0, 130.0], Some(2.0)), [(2, 3)]);
        assert_eq!(found(&[100.0, 101.0, 100.0, 99.0, 130.0, 131.0], Some(2.0)), NONE);
        assert_eq!(found(&[], None), NONE);
        assert_eq!(found(&[1.0], Some(0.0)), NONE);
    }

    #[test]
    fn levels_and_p_value_by_hand() {
        let found = change_points(&readings(&[100.0, 101.0, 102.0, 130.0, 131.0, 132.0], None));
        assert_eq!(found.len(), 1);
        assert!((found[0].from - 101.0).abs() < 1e-9 && (found[0].to - 131.0).abs() < 1e-9, "{found:?}");
        // The deviations −1, 0, 1 of each side have squares of 4 and no correlation of neighbors: s² = 4 ÷ 4
        // = 1, and t = 30 ÷ √(2 ÷ 3) with 4 degrees of freedom.
        let expected = student_beyond(30.0 / (2.0_f64 / 3.0).sqrt(), 4.0);
        assert!((found[0].p_value / expected - 1.0).abs() < 1e-6, "{found:?} {expected}");
    }

    #[test]
    fn a_hump_has_two_changes() {
        let mut values: Vec<f64> = (0..36).map(|index| 100.0 + f64::from(index % 2)).collect();
        values[12..24].iter_mut().for_each(|value| *value += 20.0);
        assert_eq!(found(&values, Some(2.0)), [(11, 12), (23, 24)]);
    }

    #[test]
    fn spikes_are_no_changes_and_hide_none() {
        let level = [100.0, 101.0, 100.0, 99.0, 100.0, 99.0, 101.0, 100.0];
        for at in 0..level.len() {
            let mut values = level;
            values[at] = 150.0;
            assert_eq!(found(&values, Some(2.0)), NONE, "at {at}");
        }
        let with_step = [100.0, 101.0, 100.0, 99.0, 250.0, 120.0, 121.0, 119.0, 120.0];
        assert_eq!(found(&with_step, Some(2.0)), [(3, 5)]);
        assert_eq!(found(&[100.0, 101.0, 100.0, 99.0, 101.0, 150.0, 152.0], Some(2.0)), NONE, "two runs");
    }

    #[test]
    fn a_drift_is_no_change_but_a_step_on_it_is() {
        let drift: Vec<f64> =
            (0..30).map(|index| 100.0 + 2.0 * f64::from(index) + f64::from(index % 3)).collect();
        assert_eq!(found(&drift, Some(2.0)), NONE);
        let mut with_step = drift;
        with_step[18..].iter_mut().for_each(|value| *value += 40.0);
        assert_eq!(found(&with_step, Some(2.0)), [(17, 18)]);
    }

    #[test]
    fn wide_intervals_weigh_little() {
        let values = [100.0, 101.0, 99.0, 100.0, 120.0, 122.0, 118.0, 121.0, 100.0, 101.0, 99.0, 100.0];
        let mut series = readings(&values, Some(2.0));
        assert_eq!(places(&series), [(3, 4), (7, 8)]);
        series[4..8].iter_mut().for_each(|one| one.half_width = Some(40.0));
        assert_eq!(places(&series), NONE);
    }

    #[test]
    fn small_changes_of_constant_figures_do_not_count() {
        assert_eq!(found(&[1000.0, 1000.0, 1000.0, 1009.0, 1009.0, 1009.0], None), NONE);
        assert_eq!(found(&[1000.0, 1000.0, 1000.0, 1011.0, 1011.0, 1011.0], None), [(2, 3)]);
        assert_eq!(found(&[5.0; 20], Some(0.0)), NONE);
    }

    #[test]
    fn bounds_count_only_if_they_leave_no_doubt() {
        let series = |before: Option<Bound>, after: Option<Bound>| {
            let mut series = readings(&[100.0, 101.0, 100.0, 130.0, 131.0, 130.0], Some(2.0));
            series[..3].iter_mut().for_each(|one| one.bound = before);
            series[3..].iter_mut().for_each(|one| one.bound = after);
            series
        };
        let (least, most) = (Some(Bound::AtLeast), Some(Bound::AtMost));
        let change = [(2, 3)];
        assert_eq!(places(&series(None, least)), change);
        assert_eq!(places(&series(most, None)), change);
        assert_eq!(places(&series(least, None)), NONE, "the earlier level may be as high");
        assert_eq!(places(&series(None, most)), NONE, "the later level may be as low");
        assert_eq!(places(&series(least, least)), NONE);
    }

    #[test]
    fn a_step_is_tested_at_a_given_place() {
        let series = readings(&[100.0, 101.0, 100.0, 130.0, 131.0, 130.0, 300.0], Some(2.0));
        assert!(step_at(&series, 3).is_some_and(is_change));
        assert_eq!(step_at(&series, 2), None, "two readings are before it");
        assert_eq!(step_at(&series, 4), None, "the spike does not count");
        let level = readings(&[100.0, 101.0, 100.0, 101.0, 100.0, 99.0], Some(2.0));
        assert!(step_at(&level, 3).is_some_and(|p| p > 0.05));
    }

    #[test]
    fn only_the_newest_readings_are_examined() {
        let mut values = vec![100.0; MOST + 10];
        values[..5].fill(50.0);
        values[MOST..].fill(150.0);
        assert_eq!(found(&values, None), [(MOST - 1, MOST)]);
    }

    #[test]
    fn skewed_noise_has_hardly_any_changes() {
        let mut random = Random::new(5);
        let false_alarms = (0..300)
            .filter(|_| {
                let values: Vec<f64> = (0..20).map(|_| 100.0 + 5.0 * random.exponential()).collect();
                !change_points(&readings(&values, Some(2.0))).is_empty()
            })
            .count();
        assert!(false_alarms <= 15, "more than 5 % of the series: {false_alarms}");
    }
}
