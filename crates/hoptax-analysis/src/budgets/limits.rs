//! Judges an interval against limits: kept, exceeded, or inconclusive, with the rounds that would decide.

use hoptax_record::report::{Outcome, WouldDecide};
use hoptax_stats::{Estimate, two_sided_95};

/// If a decision would need more than this many times the rounds of the run, no number of rounds is given.
/// The figure is then practically at the limit.
const MOST_TIMES: f64 = 1000.0;
/// Degrees of freedom from which Student's t no longer changes.
const MANY_DEGREES: u32 = 200;

/// Limits of a figure, or of its change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limits {
    pub(crate) max: Option<f64>,
    pub(crate) min: Option<f64>,
}

/// An interval, and the part of it that more rounds would shrink.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Judged {
    /// The value with its whole interval.
    pub(crate) value: Estimate,
    /// Half-width that the rounds alone give. More rounds do not change the rest of the half-width. Absent if
    /// the whole half-width comes from rounds.
    pub(crate) of_rounds: Option<f64>,
}

impl Limits {
    /// Kept if the whole interval is within the limits, exceeded if it is beyond one of them, else
    /// inconclusive. A single trial has no interval, so its value decides. Several trials without an interval
    /// decide nothing.
    pub(crate) fn judge(self, value: &Estimate) -> Outcome {
        let (low, high) = match value.interval() {
            Some(interval) => interval,
            None if value.trials > 1 => return Outcome::Inconclusive,
            None => (value.estimate, value.estimate),
        };
        let Self { max, min } = self;
        if max.is_some_and(|max| low > max) || min.is_some_and(|min| high < min) {
            Outcome::Exceeded
        } else if max.is_none_or(|max| high <= max) && min.is_none_or(|min| low >= min) {
            Outcome::Kept
        } else {
            Outcome::Inconclusive
        }
    }

    /// The total number of rounds after which the interval would no longer contain a limit, if the value did
    /// not change. `None` if no number of rounds is enough, because the rest of the interval alone contains
    /// the limit.
    pub(crate) fn rounds_to_decide(self, judged: &Judged) -> Option<u32> {
        let Judged { value, of_rounds } = judged;
        let (low, high) = value.interval()?;
        let inside = |limit: &f64| low <= *limit && *limit <= high;
        let needed = |limit: f64| {
            // If a share is zero in all rounds, its upper end shrinks in proportion to the number of rounds,
            // not to the square root of it.
            if value.estimate == 0.0 && low == 0.0 && limit > 0.0 {
                let times = high / limit;
                return (times <= MOST_TIMES).then(|| (f64::from(value.trials) * times).ceil() as u32);
            }
            let distance = (limit - value.estimate).abs();
            let half = if limit > value.estimate { high - value.estimate } else { value.estimate - low };
            let of_rounds = of_rounds.unwrap_or(half).min(half);
            let rest = half * half - of_rounds * of_rounds;
            let goal = (distance * distance - rest).max(0.0).sqrt();
            rounds_for(of_rounds, goal, value.trials)
        };
        [self.max, self.min]
            .into_iter()
            .flatten()
            .filter(inside)
            .map(needed)
            .try_fold(0, |most, one| Some(one?.max(most)))
    }
}

/// The number of rounds that shrink a half-width to `goal`. A half-width shrinks with the square root of the
/// number of rounds, and with Student's t.
fn rounds_for(half: f64, goal: f64, rounds: u32) -> Option<u32> {
    let t =
        |rounds: f64| two_sided_95((rounds as u32).saturating_sub(1).clamp(1, MANY_DEGREES)).unwrap_or(1.96);
    let now = f64::from(rounds.max(2));
    let mut wanted = now;
    while half * t(wanted) / t(now) * (now / wanted).sqrt() > goal {
        wanted = (wanted * 1.05).max(wanted + 1.0).floor();
        if wanted > now * MOST_TIMES {
            return None;
        }
    }
    Some(wanted as u32)
}

/// Adds the time of the rounds to the number of rounds that would decide. `measured_s` is the time that the
/// run's own rounds took.
pub(crate) fn would_decide(
    rounds: Option<u32>,
    value: &Estimate,
    measured_s: Option<f64>,
) -> Option<WouldDecide> {
    let rounds = rounds?;
    let each = measured_s.map(|seconds| seconds / f64::from(value.trials.max(1)));
    Some(WouldDecide { rounds, seconds: each.map(|each| each * f64::from(rounds)) })
}

/// The outcome of several limits together.
pub(crate) fn together(outcomes: impl IntoIterator<Item = Outcome>) -> Outcome {
    let severity = |one: &Outcome| match one {
        Outcome::Exceeded => 3,
        Outcome::Unmeasured => 2,
        Outcome::Inconclusive => 1,
        Outcome::Kept => 0,
    };
    outcomes.into_iter().max_by_key(severity).unwrap_or(Outcome::Kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(estimate: f64, half: f64, trials: u32) -> Estimate {
        Estimate {
            low: Some(estimate - half),
            high: Some(estimate + half),
            ..Estimate::bare(estimate, trials)
        }
    }

    #[test]
    fn an_interval_that_contains_the_limit_is_inconclusive() {
        let limits = Limits { max: Some(0.05), min: None };
        let p99 = Estimate { low: Some(-0.36), high: Some(0.44), ..Estimate::bare(-0.03, 6) };
        assert_eq!(limits.judge(&p99), Outcome::Inconclusive);
        assert_eq!(limits.judge(&around(0.0, 0.05, 6)), Outcome::Kept);
        assert_eq!(limits.judge(&around(0.1, 0.04, 6)), Outcome::Exceeded);
        let between = Limits { max: Some(1.0), min: Some(-1.0) };
        assert_eq!(between.judge(&around(0.0, 0.5, 6)), Outcome::Kept);
        assert_eq!(between.judge(&around(-1.0, 0.5, 6)), Outcome::Inconclusive);
        assert_eq!(between.judge(&around(-2.0, 0.5, 6)), Outcome::Exceeded);
        assert_eq!(limits.judge(&Estimate::bare(0.04, 1)), Outcome::Kept, "one trial");
        assert_eq!(limits.judge(&Estimate::bare(0.04, 2)), Outcome::Inconclusive, "no interval");
    }

    #[test]
    fn four_times_the_rounds_halve_an_interval() {
        let limits = Limits { max: Some(10.0), min: None };
        let judged = |half, of_rounds| Judged { value: around(5.0, half, 100), of_rounds };
        let rounds = |half, of_rounds| limits.rounds_to_decide(&judged(half, of_rounds));
        // With 400 rounds, the half-width is 5, exactly the distance to the limit. Numbers of rounds are
        // tried in steps of 5 %.
        assert!((390..=420).contains(&rounds(10.0, None).expect("decidable")), "{:?}", rounds(10.0, None));
        // More rounds shrink only 6 of the half-width. The rest is √(10² − 6²) = 8, which alone contains the
        // limit.
        assert_eq!(rounds(10.0, Some(6.0)), None);
        // A rest of √(10² − 84) = 4 remains, so more rounds must shrink √84 to 3.
        let of_rounds = 84.0_f64.sqrt();
        let wanted = rounds(10.0, Some(of_rounds)).expect("decidable");
        assert!((900..=1000).contains(&wanted), "{wanted}");
        let at_the_limit = Judged { value: around(10.0, 1.0, 100), of_rounds: None };
        assert_eq!(limits.rounds_to_decide(&at_the_limit), None);
        // Student's t falls from 12.7 with two rounds to 3.2 with four.
        let few = Judged { value: around(5.0, 20.0, 2), of_rounds: None };
        assert!(limits.rounds_to_decide(&few).expect("decidable") <= 5);
    }
}
