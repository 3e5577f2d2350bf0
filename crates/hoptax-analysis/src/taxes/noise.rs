//! The noise floor: how far the two direct trials of a round differ.

use crate::trials::metric::of_trial;
use crate::trials::pairs::first_and_last;
use crate::trials::trial::Trial;
use hoptax_plan::Metric;
use hoptax_record::report::{Load, NoiseFloor};
use hoptax_stats::noise_of_drifts;
use std::collections::BTreeMap;

/// Computes the noise floor of `load` from all its direct trials. In each round, the last direct trial is
/// compared with the first one, and [`noise_of_drifts`] computes the noise floor from these differences.
pub(crate) fn noise_floor(load: Load, direct: &[Trial<'_>]) -> NoiseFloor {
    let pairs = first_and_last(direct);
    let of = |metric: Metric| {
        let drifts: Vec<f64> = pairs.iter().filter_map(|(first, last)| drift(metric, first, last)).collect();
        noise_of_drifts(&drifts)
    };
    let mut further: BTreeMap<Metric, f64> =
        Metric::further().filter_map(|metric| Some((metric, of(metric)?))).collect();
    if further.keys().any(|metric| Metric::OF_MESSAGES.contains(metric)) {
        further.extend([Metric::CpuUsPerMessage, Metric::CpuUsPerStreamSecond].map(|metric| (metric, 0.0)));
    }
    NoiseFloor {
        load,
        rounds: pairs.len() as u32,
        added_p50: of(Metric::AddedP50),
        added_p90: of(Metric::AddedP90),
        added_p95: of(Metric::AddedP95),
        added_p99: of(Metric::AddedP99),
        throughput_ratio: of(Metric::ThroughputRatio),
        cpu_us_per_request: 0.0,
        extra_upstream_requests: of(Metric::ExtraUpstreamRequests),
        further,
    }
}

/// Difference between the direct trials `first` and `last` of a round, in a metric of the tax. `None` if one
/// of them has no value.
fn drift(metric: Metric, first: &Trial<'_>, last: &Trial<'_>) -> Option<f64> {
    let (first, last) = (of_trial(metric, first)?, of_trial(metric, last)?);
    match metric {
        Metric::ThroughputRatio => (first > 0.0).then(|| last / first - 1.0),
        _ => Some(last - first),
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Run, via};

    #[test]
    fn is_computed_from_differences_of_direct_in_complete_rounds() {
        // The two direct trials differ by 30 and −40 µs: mean −5, s² = 2450. √(25 + 2450 / 2) = 35.36.
        let mut run = Run::closed(1);
        run.direct(0, 100, 130).direct(1, 140, 100);
        let floor = &run.analyse().noise_floor[0];
        assert_eq!(floor.rounds, 2);
        assert!((floor.added_p50.expect("two rounds") - 1250.0_f64.sqrt()).abs() < 0.2);
        assert_eq!(floor.throughput_ratio, Some(0.0));
        let run = Run::closed(1).with([via("direct", 0).first().all_at_us(100)]);
        let floor = &run.analyse().noise_floor[0];
        assert_eq!((floor.rounds, floor.added_p50), (0, None));
    }
}
