//! The incomplete beta function, and Student's t with any number of degrees of freedom.

/// Maximum number of terms of the continued fraction. The fraction converges earlier for all arguments used
/// here.
const MOST_TERMS: u32 = 500;
const TINY: f64 = 1e-300;
/// Maximum number of bisection steps. Nearly always, two neighbouring numbers remain earlier.
const HALVINGS: u32 = 200;

/// The regularised incomplete beta function `I_x(a, b)`: the probability that a beta variable is at most `x`.
///
/// Uses the continued fraction of the NIST Digital Library of Mathematical Functions (DLMF), 8.17.22,
/// evaluated by Lentz's method. If the fraction converges slowly, computes `1 − I_{1−x}(b, a)` instead
/// (8.17.4).
pub(super) fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp() / a;
    let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut c, mut d) = (1.0, 1.0 / guard(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for term in 1..=MOST_TERMS {
        let m = f64::from(term);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for coefficient in [even, odd] {
            d = 1.0 / guard(1.0 + coefficient * d);
            c = guard(1.0 + coefficient / c);
            step = c * d;
            fraction *= step;
        }
        if (step - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    front * fraction
}

/// The `x` for which `I_x(a, b)` is `probability`.
pub(super) fn beta_quantile(a: f64, b: f64, probability: f64) -> f64 {
    bisect(0.0, 1.0, |x| incomplete_beta(a, b, x) < probability)
}

/// Probability that a Student-t variable with `degrees` degrees of freedom lies outside `±t` (DLMF 8.17;
/// Abramowitz and Stegun, 26.7.1).
pub fn student_beyond(t: f64, degrees: f64) -> f64 {
    incomplete_beta(degrees / 2.0, 0.5, degrees / (degrees + t * t))
}

/// The `t` for which a Student-t variable with `degrees` degrees of freedom lies within `±t` with probability
/// `confidence`.
pub fn student_within(confidence: f64, degrees: f64) -> f64 {
    // With at least one degree of freedom and a confidence of at most 1 − 10⁻¹¹, every quantile is below
    // 10¹². Usual ones are below 29, which the bisection of 10¹² would reach after 35 steps.
    let too_low = |t: f64| 1.0 - student_beyond(t, degrees) < confidence;
    let usual = 1e12 / 2.0_f64.powi(35);
    bisect(0.0, if too_low(usual) { 1e12 } else { usual }, too_low)
}

fn bisect(mut low: f64, mut high: f64, too_low: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if too_low(middle) { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// `ln Γ(x)` for `x > 0`. If `x` is above 10, uses five terms of Stirling's series (DLMF 5.11.1), with an
/// error of less than 10⁻¹³. If `x` is below 10, first increases it to more than 10 by the recurrence `Γ(x +
/// 1) = x Γ(x)`.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let series = [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0];
    let (mut power, mut sum) = (x, 0.0);
    for term in series {
        sum += term / power;
        power *= x * x;
    }
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + sum - shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::two_sided_95;

    #[test]
    fn closed_forms_of_the_incomplete_beta_function() {
        for x in [0.01_f64, 0.3, 0.5, 0.77, 0.999] {
            // I_x(1, b) = 1 − (1 − x)^b, I_x(a, 1) = x^a, I_x(½, ½) = 2/π · arcsin √x (DLMF 8.17.5, 8.17.7).
            for (a, b, exact) in [
                (1.0, 7.0, 1.0 - (1.0 - x).powi(7)),
                (30.0, 1.0, x.powi(30)),
                (0.5, 0.5, 2.0 / std::f64::consts::PI * x.sqrt().asin()),
            ] {
                let got = incomplete_beta(a, b, x);
                assert!((got - exact).abs() < 1e-10, "I_{x}({a}, {b}) = {got}, not {exact}");
            }
        }
        let x = beta_quantile(3.0, 800.0, 0.975);
        assert!((incomplete_beta(3.0, 800.0, x) - 0.975).abs() < 1e-9);
        // If the fraction converged slowly, the result for such large parameters would be wrong. For a = b
        // the distribution is symmetric, so half of it lies below 0.5.
        assert!((incomplete_beta(40_000.0, 40_000.0, 0.5) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn agrees_with_students_closed_form_for_whole_degrees() {
        for degrees in [1, 2, 3, 4, 5, 9, 30, 120] {
            let exact = two_sided_95(degrees).expect("at least one");
            let got = student_within(0.95, f64::from(degrees));
            assert!((got - exact).abs() < 1e-6, "{degrees}: {got}, not {exact}");
        }
        let between = student_within(0.95, 4.5);
        assert!(between < student_within(0.95, 4.0) && between > student_within(0.95, 5.0));
    }
}
