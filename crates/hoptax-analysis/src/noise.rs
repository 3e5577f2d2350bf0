//! The noise floor: how far the two direct trials of a round differ.

use super::load::Load;
use super::metric::of_trial;
use super::pairs::first_and_last;
use super::trial::Trial;
use hoptax_plan::Metric;
use hoptax_stats::noise_of_drifts;

/// The noise floor of a load point, for each metric of the tax. In each round, the last direct trial is
/// compared with the first one. [`noise_of_drifts`] computes the noise floor from these differences. A value
/// is absent if no round has both trials.
#[derive(Debug, Clone, PartialEq)]
pub struct NoiseFloor {
    /// The load point.
    pub load: Load,
    /// Number of rounds that have both direct trials.
    pub rounds: u32,
    /// Noise floor of the added time at the median, µs.
    pub added_p50: Option<f64>,
    /// Noise floor of the added time at the 90th percentile, µs.
    pub added_p90: Option<f64>,
    /// Noise floor of the added time at the 95th percentile, µs.
    pub added_p95: Option<f64>,
    /// Noise floor of the added time at the 99th percentile, µs.
    pub added_p99: Option<f64>,
    /// Noise floor of the throughput ratio, as the distance from 1.
    pub throughput_ratio: Option<f64>,
    /// Noise floor of the gateway's CPU time, µs. It is zero, because direct has no gateway.
    pub cpu_us_per_request: f64,
    /// Noise floor of the extra upstream requests per request.
    pub extra_upstream_requests: Option<f64>,
}

impl NoiseFloor {
    /// Computes the noise floor of `load` from all its direct trials.
    pub fn new(load: Load, direct: &[Trial<'_>]) -> Self {
        let pairs = first_and_last(direct);
        let of = |metric: Metric| {
            let drifts: Vec<f64> =
                pairs.iter().filter_map(|(first, last)| drift(metric, first, last)).collect();
            noise_of_drifts(&drifts)
        };
        Self {
            load,
            rounds: pairs.len() as u32,
            added_p50: of(Metric::AddedP50),
            added_p90: of(Metric::AddedP90),
            added_p95: of(Metric::AddedP95),
            added_p99: of(Metric::AddedP99),
            throughput_ratio: of(Metric::ThroughputRatio),
            cpu_us_per_request: 0.0,
            extra_upstream_requests: of(Metric::ExtraUpstreamRequests),
        }
    }

    /// The noise floor of one metric. Absent for a metric that is not a tax.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::AddedP50 => self.added_p50,
            Metric::AddedP90 => self.added_p90,
            Metric::AddedP95 => self.added_p95,
            Metric::AddedP99 => self.added_p99,
            Metric::ThroughputRatio => self.throughput_ratio,
            Metric::CpuUsPerRequest => Some(self.cpu_us_per_request),
            Metric::ExtraUpstreamRequests => self.extra_upstream_requests,
            _ => None,
        }
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
    fn is_computed_from_differences_of_direct() {
        // The two direct trials differ by 30 and −40 µs: mean −5, s² = 2450. √(25 + 2450 / 2) = 35.36.
        let mut run = Run::closed(1);
        run.direct(0, 100, 130).direct(1, 140, 100);
        let floor = &run.analyse().noise_floor[0];
        assert_eq!(floor.rounds, 2);
        assert!((floor.added_p50.expect("two rounds") - 1250.0_f64.sqrt()).abs() < 0.2);
        assert_eq!(floor.throughput_ratio, Some(0.0));
    }

    #[test]
    fn is_absent_without_a_complete_round() {
        let mut run = Run::closed(1);
        run.push(via("direct", 0).first().all_at_us(100));
        let floor = &run.analyse().noise_floor[0];
        assert_eq!((floor.rounds, floor.added_p50), (0, None));
    }
}
