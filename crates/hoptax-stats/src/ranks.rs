//! Rank tests. These tests only require that values are exchangeable. Even a very long stall or burst counts
//! as only one value.

use super::chance::normal_two_sided;

/// The median. For an even number of values, the mean of the two middle values. Absent if there are no
/// values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + upper) / 2.0 } else { upper })
}

/// The p-value of the hypothesis that two samples come from the same distribution. Uses the two-sided test of
/// H. B. Mann and D. R. Whitney, "On a Test of Whether one of Two Random Variables is Stochastically Larger
/// than the Other" (1947), in its normal approximation, with corrections for continuity and ties. Returns 1
/// if a sample is empty.
pub fn mann_whitney(first: &[f64], second: &[f64]) -> f64 {
    let (n, m) = (first.len() as f64, second.len() as f64);
    if n == 0.0 || m == 0.0 {
        return 1.0;
    }
    // U is the number of pairs in which the value of the second sample is larger. A tie counts as half a
    // pair.
    let wins = |a: &f64| second.iter().map(|b| sign(b - a) as f64 / 2.0 + 0.5).sum::<f64>();
    let u: f64 = first.iter().map(wins).sum();
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    let ties: f64 = tied(&all).into_iter().map(|t| t.powi(3) - t).sum();
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    of_deviation(u - n * m / 2.0, variance, 0.5)
}

/// Kendall's S (number of rising pairs − number of falling pairs), and the two-sided p-value of the
/// hypothesis that the series has no trend. This is H. B. Mann's test for a trend (1945), from M. G. Kendall,
/// *Rank Correlation Methods*, 4th ed. 1970, with the variance for ties of section 4.4 and a correction for
/// continuity.
pub fn mann_kendall(series: &[f64]) -> (i64, f64) {
    let mut s = 0;
    for (index, earlier) in series.iter().enumerate() {
        s += series[index + 1..].iter().map(|later| sign(later - earlier)).sum::<i64>();
    }
    let variance_of = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
    let ties: f64 = tied(series).into_iter().map(variance_of).sum();
    (s, of_deviation(s as f64, variance_of(series.len() as f64) - ties, 1.0))
}

/// The most likely change point of a series, as the number of values before it, and the p-value of the
/// hypothesis that the series does not change. From A. N. Pettitt, "A Non-Parametric Approach to the
/// Change-Point Problem" (1979). The approximation `2 exp(−6 K² ÷ (n³ + n²))` is conservative for short
/// series. Absent for fewer than two values.
pub fn pettitt(series: &[f64]) -> Option<(usize, f64)> {
    let n = series.len() as f64;
    // To get U(t) from U(t − 1), add the signs of the differences between value t and all other values.
    let mut u = 0i64;
    let mut most = (0, 0);
    for (index, value) in series.iter().enumerate().take(series.len().checked_sub(1)?) {
        u += series.iter().map(|other| sign(other - value)).sum::<i64>();
        if u.abs() > most.1 {
            most = (index + 1, u.abs());
        }
    }
    let (place, k) = (most.0, most.1 as f64);
    (place > 0).then(|| (place, (2.0 * (-6.0 * k * k / (n.powi(3) + n.powi(2))).exp()).min(1.0)))
}

fn sign(difference: f64) -> i64 {
    match difference.total_cmp(&0.0) {
        _ if difference == 0.0 => 0,
        std::cmp::Ordering::Greater => 1,
        _ => -1,
    }
}

/// Sizes of the groups of equal values.
fn tied(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a == b).map(|group| group.len() as f64).collect()
}

fn of_deviation(deviation: f64, variance: f64, continuity: f64) -> f64 {
    if variance <= 0.0 {
        return 1.0;
    }
    normal_two_sided((deviation.abs() - continuity).max(0.0) / variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::random::Random;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn mann_whitney_by_hand() {
        // Five values against five, without overlap: U = 25, mean 12.5, variance 25 · 11 / 12; z = 12 /
        // 4.787.
        let p = mann_whitney(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]);
        assert!((p - 0.012_186).abs() < 1e-5, "{p}");
        assert_eq!(mann_whitney(&[1.0, 1.0], &[1.0, 1.0]), 1.0);
        assert_eq!(mann_whitney(&[], &[1.0]), 1.0);
    }

    #[test]
    fn mann_kendall_by_hand() {
        // Ten rising values: S = 45, variance 10 · 9 · 25 / 18 = 125; z = 44 / 11.18.
        let rising: Vec<f64> = (0..10).map(f64::from).collect();
        let (s, p) = mann_kendall(&rising);
        assert_eq!(s, 45);
        assert!((p - 8.303e-5).abs() < 1e-7, "{p}");
        assert_eq!(mann_kendall(&[5.0; 10]), (0, 1.0));
    }

    #[test]
    fn pettitt_finds_the_step() {
        let series: Vec<f64> = (0..40).map(|index| if index < 25 { 10.0 } else { 20.0 }).collect();
        let (place, p) = pettitt(&series).expect("forty values");
        assert_eq!(place, 25);
        // The test statistic K is 25 · 15 = 375.
        let by_hand = 2.0 * (-6.0 * 375.0f64.powi(2) / (64_000.0 + 1_600.0)).exp();
        assert!((p - by_hand).abs() < 1e-12, "{p}");
        assert_eq!(pettitt(&[1.0]), None);
        assert_eq!(pettitt(&[1.0; 8]), None, "nothing changes");
    }

    #[test]
    fn white_noise_gives_no_more_false_alarms_than_stated() {
        let mut random = Random::new(11);
        let (mut trends, mut apart, mut steps) = (0, 0, 0);
        for _ in 0..2000 {
            let noise: Vec<f64> = (0..20).map(|_| random.exponential()).collect();
            trends += u32::from(mann_kendall(&noise).1 < 0.05);
            apart += u32::from(mann_whitney(&noise[..8], &noise[8..]) < 0.05);
            steps += u32::from(pettitt(&noise).is_some_and(|(_, p)| p < 0.05));
        }
        // Of 2,000 series without a trend, about 100 (5 %) have a p-value below 0.05. The test accepts
        // numbers that differ from 100 by up to four standard errors (39).
        assert!((61..=139).contains(&trends), "{trends}");
        assert!((61..=139).contains(&apart), "{apart}");
        assert!(steps <= 139, "{steps}");
    }
}
