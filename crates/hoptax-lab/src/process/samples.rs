//! Computes the CPU time and the memory that a trial used, from samples over time.

use hoptax_format::clock;

/// A trial must be this many times as long as the interval between two samples. It then contains at least two
/// samples, which are at least half of the trial apart.
pub(super) const LEAST_INTERVALS: u32 = 4;

/// A period, in seconds on the clock of the samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Period {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
}

/// CPU seconds per second, the sum of all series, and the number of series with samples in the period.
pub(super) fn rate(series: &[Vec<(f64, f64)>], period: Period) -> Result<(f64, u32), String> {
    let (mut sum, mut count) = (0.0, 0);
    for samples in series {
        let inside = within(samples, period);
        let (Some(first), Some(last)) = (inside.first(), inside.last()) else { continue };
        if last.0 <= first.0 {
            continue;
        }
        if inside.windows(2).any(|pair| pair[1].1 < pair[0].1) {
            return Err("a counter fell during the trial, so the gateway was started again".to_owned());
        }
        sum += (last.1 - first.1) / (last.0 - first.0);
        count += 1;
    }
    match count {
        0 => Err("there are fewer than two samples of the trial".to_owned()),
        count => Ok((sum, count)),
    }
}

/// Sum of the largest values of all series in the period.
pub(super) fn largest(series: &[Vec<(f64, f64)>], period: Period) -> Result<u64, String> {
    let of =
        |samples: &Vec<(f64, f64)>| within(samples, period).iter().map(|(_, value)| *value).reduce(f64::max);
    let largest: Vec<f64> = series.iter().filter_map(of).collect();
    match largest.is_empty() {
        true => Err("there is no sample of the trial".to_owned()),
        false => Ok(largest.iter().sum::<f64>() as u64),
    }
}

fn within(samples: &[(f64, f64)], period: Period) -> &[(f64, f64)] {
    let from = samples.partition_point(|(at_s, _)| *at_s < period.from_s);
    let to = samples.partition_point(|(at_s, _)| *at_s <= period.to_s);
    &samples[from.min(to)..to]
}

pub(super) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / clock::SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Period = Period { from_s: 100.0, to_s: 110.0 };

    #[test]
    fn only_samples_within_the_trial_count() {
        // 0.5 CPUs within the trial, and nothing before and after it.
        let busy = vec![(95.0, 7.0), (101.0, 7.0), (105.0, 9.0), (109.0, 11.0), (113.0, 11.0)];
        let other = vec![(100.0, 1.0), (110.0, 2.0)];
        let gone = vec![(90.0, 3.0), (100.5, 4.0)];
        assert_eq!(rate(std::slice::from_ref(&busy), PERIOD), Ok((0.5, 1)));
        assert_eq!(
            rate(&[busy.clone(), other, gone.clone()], PERIOD),
            Ok((0.6, 2)),
            "one sample is not enough"
        );
        let restarted = vec![(101.0, 7.0), (105.0, 0.5), (109.0, 11.0)];
        let refused = [gone, restarted].map(|samples| rate(&[samples], PERIOD).expect_err("refused"));
        insta::assert_snapshot!(refused.join("\n"));
        assert_eq!(largest(&[busy, vec![(104.0, 100.0), (108.0, 60.0)]], PERIOD), Ok(111));
        assert!(largest(&[vec![(99.0, 5.0)]], PERIOD).is_err());
    }
}
