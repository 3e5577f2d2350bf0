//! Student's t distribution for whole numbers of degrees of freedom.

use std::f64::consts::PI;
use std::sync::OnceLock;

/// Number of bisection steps. The interval to bisect is about 11 wide. After 60 steps, the error of the
/// bisection is smaller than a rounding error.
const HALVINGS: u32 = 60;

/// The quantiles for up to 127 degrees of freedom. Each interval needs one, and few runs have more rounds.
static KNOWN: [OnceLock<f64>; 128] = [const { OnceLock::new() }; 128];

/// The `t` for which a Student-t variable with `degrees` degrees of freedom lies within `±t` with probability
/// 0.95. Absent for zero degrees of freedom.
pub fn two_sided_95(degrees: u32) -> Option<f64> {
    match KNOWN.get(degrees as usize) {
        _ if degrees == 0 => None,
        Some(known) => Some(*known.get_or_init(|| quantile_95(degrees))),
        None => Some(quantile_95(degrees)),
    }
}

fn quantile_95(degrees: u32) -> f64 {
    // The quantile is 12.71 for one degree of freedom. It falls to 1.96 as the degrees of freedom increase.
    let (mut low, mut high) = (1.9, 12.8);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if within(middle, degrees) < 0.95 { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// Probability that a Student-t variable lies within `±t`, in closed form for whole degrees of freedom:
/// Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.3 (odd) and 26.7.4 (even).
fn within(t: f64, degrees: u32) -> f64 {
    let theta = (t / f64::from(degrees).sqrt()).atan();
    let (sine, cosine) = theta.sin_cos();
    let odd = degrees % 2 == 1;
    // Each term is cos^k θ times a product of ratios. From one term to the next, the product gains one
    // factor.
    let mut sum = 0.0;
    let mut term = if odd { cosine } else { 1.0 };
    let mut power = u32::from(odd);
    while power + 2 <= degrees {
        sum += term;
        term *= cosine * cosine * f64::from(power + 1) / f64::from(power + 2);
        power += 2;
    }
    if odd { 2.0 / PI * (theta + sine * sum) } else { sine * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_published_tables() {
        // Abramowitz and Stegun, table 26.10, column A = 0.95.
        for (degrees, published) in [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (5, 2.571),
            (6, 2.447),
            (9, 2.262),
            (10, 2.228),
            (29, 2.045),
            (30, 2.042),
            (60, 2.000),
            (120, 1.980),
        ] {
            let computed = two_sided_95(degrees).expect("at least one degree");
            assert!((computed - published).abs() < 6e-4, "{degrees}: {computed} against {published}");
        }
    }

    #[test]
    fn zero_degrees_of_freedom_have_no_quantile() {
        assert_eq!(two_sided_95(0), None);
    }
}
