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

/// Root mean square. Absent if there are no values. Unlike a standard deviation, it does not subtract the mean. If all
/// differences have the same sign, they are a drift, and a drift is noise too.
pub fn root_mean_square(values: &[f64]) -> Option<f64> {
    let squares: Vec<f64> = values.iter().map(|value| value * value).collect();
    mean(&squares).map(f64::sqrt)
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
        assert_eq!(root_mean_square(&[]), None);
        assert_eq!(share(1.0, 0.0), None);
    }

    #[test]
    fn agrees_with_arithmetic_by_hand() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&values), Some(5.0));
        let deviation = standard_deviation(&values).expect("eight values");
        assert!((deviation - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(root_mean_square(&[3.0, -4.0]), Some(12.5_f64.sqrt()));
    }
}
