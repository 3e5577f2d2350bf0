//! Upper tails of the χ² and the normal distribution.

/// Maximum number of terms of the expansions below. The expansions converge much earlier.
const TERMS: u32 = 500;
/// An expansion counts as converged if the next term changes the result by less than this share.
const CONVERGED: f64 = 1e-14;

/// Probability that a χ² variable with `degrees` degrees of freedom is at least `value`. It equals
/// `Q(degrees/2, value/2)` (Abramowitz and Stegun, *Handbook of Mathematical Functions*, 26.4.19). Returns 1
/// for zero degrees of freedom.
pub fn chi_square_above(value: f64, degrees: u32) -> f64 {
    if degrees == 0 || value <= 0.0 {
        return 1.0;
    }
    upper_gamma(f64::from(degrees) / 2.0, value / 2.0)
}

/// Probability that a standard normal variable is at least `z` away from zero, in either direction. The
/// function uses the χ² distribution with one degree of freedom, because the square of a standard normal
/// variable has this distribution.
pub fn normal_two_sided(z: f64) -> f64 {
    chi_square_above(z * z, 1)
}

/// The regularised incomplete gamma function `Q(a, x)`. For `x` below `a + 1`, uses the series of the
/// complement (6.5.29). For larger `x`, uses the continued fraction (6.5.31), evaluated by W. J. Lentz's
/// method (1976).
fn upper_gamma(a: f64, x: f64) -> f64 {
    let scale = (a * x.ln() - x - ln_gamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for n in 1..=TERMS {
            term *= x / (a + f64::from(n));
            sum += term;
            if term < sum * CONVERGED {
                break;
            }
        }
        return (1.0 - scale * sum).clamp(0.0, 1.0);
    }
    let tiny = f64::MIN_POSITIVE / f64::EPSILON;
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / tiny, 1.0 / b);
    let mut fraction = d;
    for n in (1..=TERMS).map(f64::from) {
        let an = -n * (n - a);
        b += 2.0;
        d = 1.0 / away_from_zero(an * d + b, tiny);
        c = away_from_zero(b + an / c, tiny);
        fraction *= d * c;
        if (d * c - 1.0).abs() < CONVERGED {
            break;
        }
    }
    (scale * fraction).clamp(0.0, 1.0)
}

fn away_from_zero(value: f64, tiny: f64) -> f64 {
    if value.abs() < tiny { tiny } else { value }
}

/// `ln Γ(a)` for integer and half-integer `a > 0`. Applies the recurrence `Γ(a) = (a − 1) Γ(a − 1)` (6.1.15)
/// until it reaches `Γ(1) = 1` or `Γ(1/2) = √π`.
fn ln_gamma(mut a: f64) -> f64 {
    let mut sum = 0.0;
    while a > 1.0 {
        a -= 1.0;
        sum += a.ln();
    }
    if a < 1.0 { sum + std::f64::consts::PI.ln() / 2.0 } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_tables() {
        // Abramowitz and Stegun, table 26.8. A χ² variable exceeds each value with the given probability.
        for (degrees, probability, value) in [
            (1, 0.05, 3.841_46),
            (1, 0.001, 10.828),
            (2, 0.01, 9.210_34),
            (5, 0.05, 11.070_5),
            (10, 0.95, 3.940_30),
            (30, 0.001, 59.703),
        ] {
            let computed = chi_square_above(value, degrees);
            assert!((computed / probability - 1.0).abs() < 1e-3, "{degrees}, {probability}: {computed}");
        }
        assert!((normal_two_sided(1.959_964) - 0.05).abs() < 1e-6);
        assert!((normal_two_sided(5.0) / 5.733e-7 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn extreme_arguments() {
        assert_eq!(chi_square_above(0.0, 3), 1.0);
        assert_eq!(chi_square_above(5.0, 0), 1.0);
        assert!(chi_square_above(1e5, 3) < 1e-300);
    }
}
