//! Means and shares of plain numbers.

/// Arithmetic mean. Absent if there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Standard deviation of a sample, with the divisor `n − 1`. Absent for fewer than two values.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let degrees = values.len().checked_sub(1).filter(|degrees| *degrees > 0)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / degrees as f64).sqrt())
}

/// How much repeated measurements of a baseline differ: `√(mean² + s² ÷ n)`. `drifts` contains one difference
/// per round. Absent if there are no differences. If all rounds have the same drift, the result contains the
/// whole drift, even with many rounds. Random differences count only as much as in the mean of `n` rounds.
pub fn noise_of_drifts(drifts: &[f64]) -> Option<f64> {
    let mean = mean(drifts)?;
    let variance =
        standard_deviation(drifts).map_or(0.0, |deviation| deviation.powi(2) / drifts.len() as f64);
    Some((mean * mean + variance).sqrt())
}

/// `part / whole`. Absent if `whole` is zero.
pub fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nothing_is_absent() {
        assert_eq!(mean(&[]), None);
        assert_eq!(standard_deviation(&[]), None);
        assert_eq!(standard_deviation(&[4.0]), None);
        assert_eq!(noise_of_drifts(&[]), None);
        assert_eq!(share(1.0, 0.0), None);
    }

    #[test]
    fn agrees_with_arithmetic_by_hand() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&values), Some(5.0));
        let deviation = standard_deviation(&values).expect("eight values");
        assert!((deviation - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn shared_drift_remains_and_random_drift_shrinks() {
        assert_eq!(noise_of_drifts(&[-7.0]), Some(7.0));
        assert_eq!(noise_of_drifts(&[5.0; 100]), Some(5.0));
        let by_turns: Vec<f64> = (0..100).map(|index| if index % 2 == 0 { 5.0 } else { -5.0 }).collect();
        // s² = 25 · 100 / 99, so s² ÷ n = 25 / 99.
        let noise = noise_of_drifts(&by_turns).expect("a hundred");
        assert!((noise - (25.0_f64 / 99.0).sqrt()).abs() < 1e-12, "{noise}");
    }
}
