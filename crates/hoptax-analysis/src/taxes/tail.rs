//! Which percentile of the tail a run resolves, and how long it would have to measure to resolve p99.
//!
//! A p99 rests on one response in a hundred, so on a noisy machine its tax scatters far more than the tax at
//! the median. A report therefore states the highest percentile that the run resolves.

use hoptax_plan::Metric;
use hoptax_record::report::{Difference, Tail, Tax};

/// Largest half-width of the interval of a resolved tax, as a share of the tax. At this share, the upper end
/// of the interval is 1.5 times its lower end. With a wider interval, not even the size of the tail is known.
pub const RESOLVED_WITHIN: f64 = 0.2;

/// The percentiles of the tail, highest first.
const TAIL: [Metric; 3] = [Metric::AddedP99, Metric::AddedP95, Metric::AddedP90];

/// The tail of a tax. `measured_s` is the time that the run measured, s. `None` if the tax has no added
/// p99.
pub(crate) fn tail(tax: &Tax, measured_s: Option<f64>) -> Option<Tail> {
    let p99 = tax.added_p99.as_ref()?;
    let highest_resolved = TAIL.into_iter().find(|metric| tax.get(*metric).is_some_and(is_resolved));
    let time_for_20_percent_s =
        measured_s.filter(|_| !is_resolved(p99)).and_then(|s| time_to_resolve(p99, s));
    Some(Tail {
        metric: Metric::AddedP99,
        resolved: highest_resolved == Some(Metric::AddedP99),
        highest_resolved,
        time_for_20_percent_s,
    })
}

/// True if the difference has an interval, is distinguishable from noise, and has a half-width of at most
/// [`RESOLVED_WITHIN`] of the estimate.
fn is_resolved(one: &Difference) -> bool {
    let most = RESOLVED_WITHIN * one.estimate.estimate.abs();
    one.distinguishable && one.estimate.half_width().is_some_and(|half| half <= most)
}

/// The time after which the difference would be resolved, s. `measured_s` is the time that its rounds took.
///
/// More rounds do not change the scatter of separate runs. They only shrink the half-width that the rounds
/// give, with the square root of their number. So the time is `measured_s · (half-width ÷ most)²`, where
/// `most` is the half-width from the rounds at which the difference is just resolved: `most² = (0.2 ·
/// estimate)² − (scatter of runs)²`. `None` if `most²` is not above zero, or if there is no interval. Also
/// `None` if the difference is not distinguishable from noise: near zero, the quotient depends on chance
/// alone.
fn time_to_resolve(one: &Difference, measured_s: f64) -> Option<f64> {
    let (in_run, all) =
        one.in_run.half_width().zip(one.estimate.half_width()).filter(|_| one.distinguishable)?;
    let of_runs = all * all - in_run * in_run;
    let most = (RESOLVED_WITHIN * one.estimate.estimate).powi(2) - of_runs;
    (most > 0.0).then(|| measured_s * in_run * in_run / most)
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "the half-width of its interval is at most {} of the tax" percent(RESOLVED_WITHIN);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Run, via};
    use hoptax_stats::Estimate;
    use std::collections::BTreeMap;

    /// The scatter of separate runs, as a part of the half-width of a difference of 100 µs, µs.
    const OF_RUNS: f64 = 12.0;
    /// Half-width from the rounds at which such a difference is just resolved, µs: 20² = 12² + 16².
    const JUST_RESOLVED: f64 = 16.0;

    /// A difference of `estimate` µs. Its rounds give a half-width of `half` µs.
    fn around(estimate: f64, half: f64, distinguishable: bool) -> Difference {
        let with = |half: f64| {
            let (low, high) = (Some(estimate - half), Some(estimate + half));
            Estimate { low, high, ..Estimate::bare(estimate, 60) }
        };
        Difference { estimate: with(half.hypot(OF_RUNS)), in_run: with(half), distinguishable }
    }

    /// A difference of 100 µs. Its rounds give a half-width of `half` × [`JUST_RESOLVED`].
    fn known(half: f64, distinguishable: bool) -> Option<Difference> {
        Some(around(100.0, half * JUST_RESOLVED, distinguishable))
    }

    fn tail(p90: Option<Difference>, p95: Option<Difference>, p99: Option<Difference>) -> Option<Tail> {
        let tax = Tax {
            added_p50: known(0.1, true),
            added_p90: p90,
            added_p95: p95,
            added_p99: p99,
            throughput_ratio: None,
            cpu_us_per_request: None,
            extra_upstream_requests: None,
            further: BTreeMap::new(),
        };
        super::tail(&tax, Some(180.0))
    }

    fn highest(halves: [f64; 3]) -> Option<Metric> {
        let [p90, p95, p99] = halves.map(|half| known(half, half < 5.0));
        tail(p90, p95, p99).expect("there is a p99").highest_resolved
    }

    #[test]
    fn the_highest_resolved_percentile_is_found() {
        assert_eq!(highest([0.2, 0.5, 0.999]), Some(Metric::AddedP99));
        assert_eq!(highest([0.2, 0.999, 1.001]), Some(Metric::AddedP95));
        assert_eq!(highest([0.999, 1.1, 15.0]), Some(Metric::AddedP90));
        assert_eq!(highest([1.001, 1.1, 1.2]), None);
        // A percentile with a narrow interval is not resolved if it is below the noise floor.
        let below_the_floor = tail(known(0.2, true), known(0.2, false), known(0.2, false)).expect("a p99");
        assert_eq!(below_the_floor.highest_resolved, Some(Metric::AddedP90));
        assert_eq!(tail(known(0.2, true), known(0.2, true), None), None);
    }

    #[test]
    fn three_times_too_wide_takes_nine_times_as_long() {
        let time = |p99: Option<Difference>| tail(None, None, p99).expect("a p99").time_for_20_percent_s;
        assert!((time(known(3.0, true)).expect("known") - 9.0 * 180.0).abs() < 1e-6);
        assert_eq!(time(known(0.999, true)), None, "it is resolved");
        assert_eq!(time(known(6.0, false)), None, "it may be zero");
        let bare = Difference::new(Estimate::bare(100.0, 1), 0.0, None);
        assert_eq!(time(Some(bare)), None, "it has no interval");
        let tax_below_zero = around(-100.0, 3.0 * JUST_RESOLVED, true);
        assert!((time(Some(tax_below_zero)).expect("known") - 9.0 * 180.0).abs() < 1e-6);
    }

    #[test]
    fn a_gateway_has_a_tail_and_direct_has_none() {
        let mut run = Run::closed(1);
        for round in 0..4 {
            // In each trial, 5 % of the requests are slow. How slow they are differs from round to round.
            let slow = [400, 500, 600, 900][round as usize];
            let times = (0..1000).map(move |index| if index % 20 == 0 { slow } else { 200 });
            let start = f64::from(round) * 10.0;
            run.push(via("direct", round).first().all_at_us(100).at_s(start));
            run.push(via("nginx", round).response_times_us(times).at_s(start + 2.0));
            run.push(via("direct", round).last().all_at_us(100).at_s(start + 4.0));
        }
        let analysis = run.analyse();
        assert_eq!(analysis.case("direct", 0).expect("measured").tail, None);
        let case = analysis.case("nginx", 0).expect("measured");
        let tail = case.tail.expect("a gateway");
        assert_eq!(tail.highest_resolved, Some(Metric::AddedP95), "{:?}", case.tax);
        let p99 = case.tax.as_ref().expect("a tax").added_p99.expect("measured").in_run;
        // Separate runs of a native process scatter by 6 %.
        let most = (0.2_f64.powi(2) - 0.06_f64.powi(2)).sqrt();
        let ratio = p99.half_width().expect("four rounds") / (most * p99.estimate);
        // The first trial begins at 0 s, and the last trial ends at 35 s.
        let expected = 35.0 * ratio * ratio;
        assert!(
            ratio > 1.0 && (tail.time_for_20_percent_s.expect("known") / expected - 1.0).abs() < 1e-9,
            "{tail:?}"
        );
    }
}
