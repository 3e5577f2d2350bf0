//! Figures with their intervals.

use hoptax_analysis as analysis;
use hoptax_record::report::{Contrast, Difference, Estimate, Latency, Throughput};
use hoptax_stats as stats;

/// A figure with its interval.
pub fn estimate(one: stats::Estimate) -> Estimate {
    let stats::Estimate { estimate, low, high, trials } = one;
    Estimate { estimate, low, high, trials }
}

pub(super) fn contrast(one: stats::Contrast) -> Contrast {
    let stats::Contrast { estimate, low, high, p_value, rounds } = one;
    Contrast { estimate, low, high, p_value, rounds }
}

pub(super) fn difference(one: analysis::Difference) -> Difference {
    Difference {
        estimate: estimate(one.estimate),
        half_width_in_run: one.in_run.half_width(),
        distinguishable: one.distinguishable,
    }
}

pub(crate) fn latency(one: &analysis::Latency) -> Latency {
    Latency {
        p50: one.p50.map(estimate),
        p90: one.p90.map(estimate),
        p95: one.p95.map(estimate),
        p99: one.p99.map(estimate),
        p999: one.p999.map(estimate),
        max: one.max.map(estimate),
        mean: one.mean.map(estimate),
        samples: one.samples,
        unit: "us",
    }
}

pub(crate) fn throughput(one: &analysis::Throughput) -> Throughput {
    Throughput { estimate: estimate(one.estimate), unit: "requests/s" }
}
