//! The response time after a start, at times with logarithmic spacing.

use hoptax_record::report::CurvePoint;
use hoptax_record::start::{START_WINDOW_NS, StartLoad};
use hoptax_stats::median;
use std::collections::BTreeMap;

/// Number of points for each power of ten. More would show noise.
const PER_DECADE: f64 = 12.0;

/// The curve of several starts. A point is the median time and the median response time over the starts.
/// There is a point if at least half of the starts have answers at this place.
pub(super) fn curve(loads: &[&StartLoad]) -> Vec<CurvePoint> {
    let mut places: BTreeMap<i32, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for load in loads {
        for (place, (s, us)) in of_one(load) {
            let (times, values) = places.entry(place).or_default();
            times.extend(median(&s));
            values.extend(median(&us));
        }
    }
    places
        .into_values()
        .filter(|(times, _)| 2 * times.len() >= loads.len())
        .filter_map(|(times, values)| {
            Some(CurvePoint { since_start_s: median(&times)?, p50_us: median(&values)? })
        })
        .collect()
}

/// The times of one start's windows, s, and their median response times, µs, at each place. The place of a
/// time is its logarithm.
fn of_one(load: &StartLoad) -> BTreeMap<i32, (Vec<f64>, Vec<f64>)> {
    let mut places: BTreeMap<i32, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for (at, window) in load.windows.iter().enumerate().filter(|(_, window)| window.completed > 0) {
        let s = (load.after_ns as f64 + (at as f64 + 0.5) * START_WINDOW_NS as f64) / 1e9;
        let (times, values) = places.entry((s.log10() * PER_DECADE).floor() as i32).or_default();
        times.push(s);
        values.push(window.p50_ns as f64 / 1e3);
    }
    places
}
