//! The path split. The upstream's timestamps show how long requests take to reach the upstream, how long its
//! answers take to return, and how much a gateway adds to each.

use crate::figures::latency;
use crate::trials::pairs::{Added, Pairs, first_and_last};
use crate::trials::trial::Trial;
use hdrhistogram::Histogram;
use hoptax_format::stamp::ClockId;
use hoptax_record::report::{Difference, Path};
use hoptax_stats::{Estimate, Statistic, noise_of_drifts, share};

/// Largest share of timestamps that may contradict the generator's clock. Above this share, the upstream's
/// clock counts as a different clock. If both use the same clock, there is no contradiction, because no
/// request arrives before it is sent. The share is not zero, because the counters of CPUs can differ
/// slightly.
pub(crate) const IMPOSSIBLE: f64 = 0.001;
/// Largest share of responses that may have no timestamps. Above this share, the path split and the response
/// times would describe different requests.
pub(crate) const MISSING: f64 = 0.01;

/// Why there is no path split although the plan enables it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Refusal {
    OtherClock {
        generator: ClockId,
        upstream: ClockId,
    },
    /// This share of the timestamps contradicts the generator's clock.
    Impossible {
        share: f64,
    },
    /// This share of the responses has no timestamps.
    Missing {
        share: f64,
    },
}

/// Why a case has no path split. `None` if the case has a path split, if the plan does not enable it, or if
/// no request was answered.
pub(crate) fn refusal(trials: &[Trial<'_>]) -> Option<Refusal> {
    let (mut used, mut missing, mut impossible) = (0, 0, 0);
    for trial in trials {
        let Some(stamps) = &trial.load.stamps else { continue };
        if let (Some(generator), Some(upstream)) = (&stamps.clock, &trial.record.upstream_clock)
            && generator != upstream
        {
            return Some(Refusal::OtherClock { generator: generator.clone(), upstream: upstream.clone() });
        }
        used += stamps.used;
        missing += stamps.missing;
        impossible += stamps.impossible;
    }
    let stamped = (used + impossible) as f64;
    let above = |part: u64, whole: f64, limit: f64| share(part as f64, whole).filter(|share| *share > limit);
    match above(missing, stamped + missing as f64, MISSING) {
        Some(share) => Some(Refusal::Missing { share }),
        None => above(impossible, stamped, IMPOSSIBLE).map(|share| Refusal::Impossible { share }),
    }
}

/// Selects the histogram of one path.
type PathTimes = for<'x> fn(&'x Trial<'_>) -> Option<&'x Histogram<u64>>;

/// The times on the request path. `None` if the histogram is empty.
const REQUEST_PATH: PathTimes = |trial| trial.request_path.as_ref().filter(|times| !times.is_empty());
const RESPONSE_PATH: PathTimes = |trial| trial.response_path.as_ref().filter(|times| !times.is_empty());

/// The path split of a case, compared with the `direct` trials of the same load point. `None` if the plan
/// does not enable it, or if the timestamps cannot be used.
pub(crate) fn path(trials: &[Trial<'_>], direct: &[Trial<'_>], is_direct: bool) -> Option<Path> {
    if refusal(trials).is_some() {
        return None;
    }
    let responses: u64 =
        trials.iter().filter_map(|trial| trial.load.stamps.as_ref()).map(|stamps| stamps.used).sum();
    let comparable = !is_direct && refusal(direct).is_none();
    let pairs = comparable.then(|| Pairs::new(trials, direct));
    let added = |times_of| added(pairs.as_ref()?, direct, times_of);
    (responses > 0).then(|| Path {
        request_us_p50: own(trials, REQUEST_PATH),
        response_us_p50: own(trials, RESPONSE_PATH),
        added_request_us_p50: added(REQUEST_PATH),
        added_response_us_p50: added(RESPONSE_PATH),
        responses,
    })
}

fn own(trials: &[Trial<'_>], times_of: PathTimes) -> Option<Estimate> {
    let times = trials.iter().filter_map(|trial| Some((trial.round(), times_of(trial)?)));
    latency::of_histograms(&times.collect::<Vec<_>>()).p50
}

/// Computes an added time in the same way as the tax. The noise floor is that of the path's own times.
fn added(pairs: &Pairs<'_, '_>, direct: &[Trial<'_>], times_of: PathTimes) -> Option<Difference> {
    let estimate = Added::new(pairs, times_of).at(Statistic::P50)?;
    let median = |trial| Statistic::P50.of(times_of(trial)?);
    let drift = |(first, last)| Some(median(last)? - median(first)?);
    let floor = noise_of_drifts(&first_and_last(direct).into_iter().filter_map(drift).collect::<Vec<_>>());
    Some(Difference::new(estimate, 0.0, floor))
}

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "counted as impossible, and above {} there is no split either" percent(IMPOSSIBLE);
    METHODOLOGY "If more than {} of the responses carry no stamps" percent(MISSING);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Run, clock_id, via};

    fn path(run: &Run, gateway: &str) -> Option<Path> {
        run.analyse().case(gateway, 0).expect("measured").path.clone()
    }

    /// Three rounds. Direct takes 20 µs on the request path and 30 µs on the response path. The gateway adds
    /// 45 µs and 10 µs.
    fn run() -> Run {
        let mut run = Run::closed(1);
        for round in 0..3 {
            let more = u64::from(round);
            run.push(via("direct", round).first().paths_us(20 + more, 30));
            run.push(via("direct", round).last().paths_us(22 + more, 30));
            run.push(via("nginx", round).paths_us(66 + more, 40));
        }
        run
    }

    #[test]
    fn added_time_is_paired_within_rounds() {
        let path = path(&run(), "nginx").expect("stamped");
        let near =
            |value: f64, expected: f64| assert!((value - expected).abs() < 0.1, "{value} for {expected}");
        let there = path.added_request_us_p50.expect("three rounds");
        near(there.estimate.estimate, 45.0);
        // Direct and the gateway both drift by 1 µs per round. Each draw takes both from the same rounds, so
        // the drift cancels.
        let (low, high) = there.estimate.interval().expect("three rounds");
        assert!(high - low < 10.0, "{there:?}");
        assert!(there.distinguishable);
        near(path.added_response_us_p50.expect("three rounds").estimate.estimate, 10.0);
        near(path.request_us_p50.expect("three trials").estimate, 67.0);
        near(path.response_us_p50.expect("three trials").estimate, 40.0);
        assert_eq!(path.responses, 3000);
    }

    #[test]
    fn added_time_within_the_noise_is_not_distinguishable() {
        let mut run = Run::closed(1);
        for round in 0..3 {
            run.push(via("direct", round).first().paths_us(20, 30));
            run.push(via("direct", round).last().paths_us(60, 30));
            run.push(via("nginx", round).paths_us(50, 40 + u64::from(round)));
        }
        let path = path(&run, "nginx").expect("stamped");
        // On the request path the gateway adds 30 µs, but the two direct trials differ by 40 µs. On the
        // response path the direct trials do not differ.
        assert!(!path.added_request_us_p50.expect("three rounds").distinguishable);
        assert!(path.added_response_us_p50.expect("three rounds").distinguishable);
    }

    #[test]
    fn direct_has_no_added_times_and_without_timestamps_there_is_no_split() {
        assert_eq!(path(&Run::steady(3, 100, &[("nginx", 150)]), "nginx"), None);
        let path = path(&run(), "direct").expect("stamped");
        assert!(path.request_us_p50.is_some() && path.response_us_p50.is_some());
        assert_eq!((path.added_request_us_p50, path.added_response_us_p50), (None, None));
    }

    #[test]
    fn an_unreadable_histogram_is_left_out() {
        let mut run = run();
        let record =
            run.trials.iter_mut().find(|record| record.contender == "nginx").expect("there are three");
        let histograms = &mut record.load_record.as_mut().expect("measured").histograms;
        histograms.request_path.as_mut().expect("stamped").0 = "aGVsbG8=".into();
        let path = path(&run, "nginx").expect("stamped");
        assert_eq!(path.added_request_us_p50.expect("two rounds").estimate.trials, 2);
        assert_eq!(path.added_response_us_p50.expect("three rounds").estimate.trials, 3);
    }

    #[test]
    fn different_clocks_are_refused() {
        let refused = |trial| {
            let run = Run::closed(1).with([trial]);
            path(&run, "nginx").is_none()
        };
        let trial = || via("nginx", 0).paths_us(20, 30);
        assert!(!refused(trial()));
        assert!(!refused(trial().clocks(clock_id("a", 0), clock_id("a", 0))));
        assert!(refused(trial().clocks(clock_id("a", 0), clock_id("b", 0))));
        assert!(refused(trial().clocks(clock_id("a", 0), clock_id("a", 1))));
        assert!(!refused(trial().stamps(1000, 0, 1)), "one in a thousand and one");
        assert!(refused(trial().stamps(1000, 0, 2)));
        assert!(!refused(trial().stamps(1000, 10, 0)), "nearly all of them");
        assert!(refused(trial().stamps(1000, 11, 0)));
        assert!(refused(trial().stamps(0, 1000, 0)));
        assert!(refused(trial().stamps(0, 0, 1000)));
    }
}
