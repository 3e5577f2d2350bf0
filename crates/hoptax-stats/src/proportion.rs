//! The interval of a share, for example of the share of errors. The interval must allow for bursts of
//! failures: requests are not independent samples.

use super::beta::{beta_quantile, student_within};
use super::{Estimate, share};

/// Probability of each tail of a 95 % interval.
const TAIL: f64 = 0.025;
/// Number of degrees of freedom for which Student's t is practically the normal distribution.
const MANY: f64 = 1e6;

/// The share of all trials together, with a 95 % interval that allows for bursts. Each trial is given as
/// (hits, requests). Absent if there are no requests. A single trial has no interval, because it cannot show
/// how much trials differ.
///
/// The interval is that of Clopper and Pearson ("The use of confidence or fiducial limits illustrated in the
/// case of the binomial", Biometrika 26, 1934), but with an effective number of requests. E. L. Korn and B.
/// I. Graubard use this method for clustered surveys ("Confidence intervals for proportions with small
/// expected number of positive counts estimated from survey data", Survey Methodology 24, 1998). The
/// effective number is the number of independent requests that would have the same variance as the trials.
/// Student's t accounts for the uncertainty of a variance from few trials.
pub fn of_share(trials: &[(u64, u64)]) -> Option<Estimate> {
    let hits: f64 = trials.iter().map(|(hits, _)| *hits as f64).sum();
    let all: f64 = trials.iter().map(|(_, of)| *of as f64).sum();
    // Only a record that was edited by hand can have more hits than requests.
    let estimate = share(hits, all).filter(|share| *share <= 1.0)?;
    let plain = Estimate { estimate, low: None, high: None, trials: trials.len() as u32 };
    if trials.len() < 2 {
        return Some(plain);
    }
    let (low, high) = clopper_pearson(estimate, effective(trials, estimate, all));
    Some(Estimate { low: Some(low), high: Some(high), ..plain })
}

/// The effective number of requests: the number of independent requests that would have the same variance as
/// the trials. It is at most the real number of requests.
fn effective(trials: &[(u64, u64)], share: f64, all: f64) -> f64 {
    let count = trials.len() as f64;
    let squares: f64 = trials.iter().map(|(hits, of)| (*hits as f64 - share * *of as f64).powi(2)).sum();
    // The variance of a ratio estimate, from W. G. Cochran, "Sampling Techniques", 1977, section 3.12.
    let variance = count / (count - 1.0) * squares / (all * all);
    let binomial = share * (1.0 - share);
    if variance <= 0.0 || binomial <= 0.0 {
        return all;
    }
    let few = student_within(1.0 - 2.0 * TAIL, MANY) / student_within(1.0 - 2.0 * TAIL, count - 1.0);
    (binomial / variance * few * few).min(all)
}

fn clopper_pearson(share: f64, count: f64) -> (f64, f64) {
    let (hits, others) = (share * count, (1.0 - share) * count);
    let low = if hits > 0.0 { beta_quantile(hits, others + 1.0, TAIL) } else { 0.0 };
    let high = if others > 0.0 { beta_quantile(hits + 1.0, others, 1.0 - TAIL) } else { 1.0 };
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::random::Random;

    #[test]
    fn more_hits_than_requests_are_rejected() {
        assert_eq!(of_share(&[(0, 500), (1_000_000_000, 500)]), None);
        assert!(of_share(&[(500, 500), (500, 500)]).is_some());
    }

    #[test]
    fn zero_hits_have_an_upper_bound() {
        let none = of_share(&[(0, 500), (0, 500)]).expect("counted");
        assert_eq!((none.estimate, none.low), (0.0, Some(0.0)));
        // If there are no hits, the upper end solves 1 − (1 − high)^1000 = 0.975.
        let exact = 1.0 - 0.025_f64.powf(1e-3);
        assert!((none.high.expect("two trials") - exact).abs() < 1e-9);
        assert_eq!(of_share(&[(3, 1000)]).expect("counted").interval(), None);
        assert_eq!(of_share(&[(0, 0), (0, 0)]), None);
    }

    #[test]
    fn a_burst_in_one_trial_gives_a_wider_interval_than_even_hits() {
        let burst = of_share(&[(100, 1000), (0, 1000), (0, 1000), (0, 1000)]).expect("counted");
        let even = of_share(&[(25, 1000), (24, 1000), (26, 1000), (25, 1000)]).expect("counted");
        assert_eq!(burst.estimate, even.estimate);
        assert!(even.low.expect("four") > 0.02, "{even:?}");
        assert!(burst.low.expect("four") < 0.002, "{burst:?}");
    }

    #[test]
    fn covers_the_truth_if_failures_come_in_bursts() {
        // There are six trials. In the runs with bursts, each trial has its own failure rate. These rates are
        // exponentially distributed with a mean of 2 %.
        const RUNS: u32 = 1000;
        let mut random = Random::new(7);
        let mut held = [0_u32; 2];
        for _ in 0..RUNS {
            for (index, clustered) in [false, true].into_iter().enumerate() {
                let trials: Vec<(u64, u64)> = (0..6)
                    .map(|_| {
                        let rate = if clustered { 0.02 * random.exponential() } else { 0.02 };
                        ((0..500).filter(|_| random.unit() < rate).count() as u64, 500)
                    })
                    .collect();
                held[index] += u32::from(!of_share(&trials).expect("counted").excludes(0.02));
            }
        }
        let share = held.map(|held| f64::from(held) / f64::from(RUNS));
        // Without bursts, the interval of Clopper and Pearson is usually too wide. With bursts, the interval
        // cannot be exact, because six trials with exponentially distributed rates are too skewed.
        assert!(share[0] >= 0.945, "independent: {share:?}");
        assert!(share[1] >= 0.88, "in bursts: {share:?}");
    }
}
