//! Taxes and noise floors.

use super::figures::difference;
use super::load::load;
use hoptax_analysis as analysis;
use hoptax_plan::Metric;
use hoptax_record::report::{NoiseFloor, NoiseFloors, Tail, Tax};

pub(crate) fn tax(one: &analysis::Tax) -> Tax {
    Tax {
        added_p50: one.added_p50.map(difference),
        added_p90: one.added_p90.map(difference),
        added_p95: one.added_p95.map(difference),
        added_p99: one.added_p99.map(difference),
        throughput_ratio: one.throughput_ratio.map(difference),
        cpu_us_per_request: one.cpu_us_per_request.map(difference),
        extra_upstream_requests: one.extra_upstream_requests.map(difference),
    }
}

pub(super) fn tail(one: &analysis::Tail) -> Tail {
    Tail {
        metric: Metric::AddedP99,
        resolved: one.is_p99_resolved(),
        highest_resolved: one.highest,
        time_for_20_percent_s: one.time_for_p99_s,
    }
}

pub(super) fn noise_floors(floors: &[analysis::NoiseFloor]) -> NoiseFloors {
    NoiseFloors {
        definition: "root mean square over rounds of (last direct − first direct)",
        by_load: floors.iter().map(noise_floor).collect(),
    }
}

fn noise_floor(one: &analysis::NoiseFloor) -> NoiseFloor {
    NoiseFloor {
        load: load(&one.load),
        rounds: one.rounds,
        added_p50: one.added_p50,
        added_p90: one.added_p90,
        added_p95: one.added_p95,
        added_p99: one.added_p99,
        throughput_ratio: one.throughput_ratio,
        cpu_us_per_request: one.cpu_us_per_request,
        extra_upstream_requests: one.extra_upstream_requests,
    }
}
