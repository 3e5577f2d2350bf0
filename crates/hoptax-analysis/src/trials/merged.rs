//! Differences and ratios of the percentiles of two cases. Percentiles always come from merged histograms. A
//! mean of several rounds' p99s is not a p99.

use crate::trials::metric::percentile;
use crate::trials::trial::Trial;
use hoptax_plan::Metric;
use hoptax_record::Times;
use hoptax_stats::{Contrast, Estimate, Rounds, Statistic, Units, merge, resampled};

/// The percentile of the merged histograms of all these trials, µs.
pub(crate) fn of_all(trials: &[Trial<'_>], times: Times, statistic: Statistic) -> Option<f64> {
    statistic.of(&merge(trials.iter().filter_map(|trial| trial.times(times))))
}

/// Two contenders of one run. Only rounds that have trials of both contenders count. Added times are relative
/// to direct in the same rounds.
pub(crate) struct Pair<'t, 'a> {
    pub(crate) first: &'t [Trial<'a>],
    pub(crate) second: &'t [Trial<'a>],
    /// Trials of direct at the same load point.
    pub(crate) direct: &'t [Trial<'a>],
}

impl Pair<'_, '_> {
    /// The second contender's figure − the first contender's figure, µs. For added times, direct's percentile
    /// cancels out, but only rounds that have direct trials count.
    pub(crate) fn difference(&self, metric: Metric) -> Option<Contrast> {
        self.drawn(metric, |first, second, _| Some(second - first)).map(|estimate| Contrast::of(&estimate))
    }

    /// The second contender's figure ÷ the first contender's figure − 1. Absent if one of the figures is not
    /// above zero. The interval is absent if one of the figures is not above zero in at least one draw. The
    /// draws use logarithms, so that doubling and halving are equally far from no change.
    pub(crate) fn change(&self, metric: Metric) -> Option<Contrast> {
        let logarithm = self.drawn(metric, |first, second, direct| {
            let (first, second) = (first - direct, second - direct);
            (first > 0.0 && second > 0.0).then(|| (second / first).ln())
        })?;
        Some(Contrast::of(&logarithm).as_change())
    }

    /// A figure with its interval over draws of rounds. `figure` receives the merged percentiles of the first
    /// contender, of the second contender and of direct. If the metric is not an added time, direct's
    /// percentile is zero.
    fn drawn(&self, metric: Metric, figure: impl Fn(f64, f64, f64) -> Option<f64>) -> Option<Estimate> {
        let (times, statistic) = metric.times().zip(percentile(metric))?;
        let direct: Option<&[Trial<'_>]> = metric.is_tax().then_some(self.direct);
        let sides: Vec<&[Trial<'_>]> =
            [Some(self.first), Some(self.second), direct].into_iter().flatten().collect();
        let units = common(&sides, times);
        let rounds: Vec<Rounds> = sides.iter().map(|trials| rounds(&units, trials, times)).collect();
        let readers = rounds.iter().map(|rounds| rounds.reader(statistic)).collect::<Option<Vec<_>>>()?;
        resampled(&units, |drawn| {
            let direct = match readers.get(2) {
                Some(direct) => direct.of(drawn)?,
                None => 0.0,
            };
            figure(readers[0].of(drawn)?, readers[1].of(drawn)?, direct)
        })
    }
}

/// The rounds in which all sides have samples.
fn common(sides: &[&[Trial<'_>]], times: Times) -> Units {
    let has_samples = |trial: &Trial<'_>| trial.times(times).is_some_and(|times| !times.is_empty());
    let has =
        |trials: &[Trial<'_>], round| trials.iter().any(|trial| trial.round() == round && has_samples(trial));
    let rounds = sides.first().into_iter().flat_map(|trials| trials.iter().map(Trial::round));
    Units::new(rounds.filter(|round| sides.iter().all(|trials| has(trials, *round))))
}

fn rounds(units: &Units, trials: &[Trial<'_>], times: Times) -> Rounds {
    let times = trials.iter().filter_map(|trial| Some((units.of(trial.round())?, trial.times(times)?)));
    Rounds::new(units.count(), times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Side;
    use crate::fixture::{Run, via};

    /// Five rounds. Contender `b` is 10 µs slower than `a`, but about 10 ms slower in the last round.
    fn run() -> Run {
        let mut run = Run::closed(1);
        for round in 0..5 {
            run.direct(round, 100, 100);
            let slow = if round == 4 { 10_000 } else { 160 };
            run.push(via("a", round).all_at_us(150)).push(via("b", round).all_at_us(slow));
        }
        run
    }

    /// Difference and change of a metric from contender `a` to `b`.
    fn compared(run: &Run, metric: Metric) -> (Option<Contrast>, Option<Contrast>) {
        let side = Side::read(&run.record, &run.trials);
        let trials = |label| side.trials(label, 0);
        let pair = Pair { first: trials("a"), second: trials("b"), direct: trials("direct") };
        (pair.difference(metric), pair.change(metric))
    }

    #[test]
    fn a_bad_round_is_in_the_merged_p99_and_not_in_the_median() {
        let run = run();
        let p50 = compared(&run, Metric::P50).0.expect("measured");
        assert!((p50.estimate - 10.0).abs() < 0.2, "the mean of the rounds' medians would be 1,978: {p50:?}");
        let p99 = compared(&run, Metric::P99).0.expect("measured");
        assert!((p99.estimate - 9850.0).abs() < 10.0, "{p99:?}");
        assert_eq!((p50.rounds, compared(&run, Metric::AddedP50).0), (5, Some(p50)));
        assert!(p99.p_value.expect("five rounds") > 0.05, "one round of five proves nothing: {p99:?}");
    }

    #[test]
    fn changes_of_added_times_are_relative_to_the_added_time() {
        let run = run();
        let change = |metric| compared(&run, metric).1.expect("measured").estimate;
        assert!((change(Metric::P50) - 10.0 / 150.0).abs() < 0.002);
        assert!((change(Metric::AddedP50) - 10.0 / 50.0).abs() < 0.01);
        let mut faster = run;
        for round in 0..5 {
            faster.push(via("direct", round).all_at_us(900)).push(via("direct", round).all_at_us(900));
            faster.push(via("direct", round).all_at_us(900));
        }
        assert_eq!(compared(&faster, Metric::AddedP50).1, None, "nothing was added");
    }

    #[test]
    fn rounds_missing_on_one_side_are_left_out() {
        let run = run().with([via("a", 5).all_at_us(900)]);
        assert_eq!(compared(&run, Metric::P50).0.expect("measured").rounds, 5);
        assert_eq!(compared(&run, Metric::CpuUsPerRequest).0, None);
    }
}
