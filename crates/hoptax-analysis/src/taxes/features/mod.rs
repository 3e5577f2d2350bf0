//! Prices of features. Compares a gateway that has features with the same gateway without features. Uses only
//! the rounds that have trials of both. For two features that are used together, also computes whether they
//! cost more or less than the sum of their prices.
//!
//! Direct is used only for the noise floor. If a feature needs an addition to the request (a key, TLS), the
//! price includes the cost of the addition.

mod family;
mod figures;

use crate::taxes::another_run::{Scatter, Scatters, widen_between};
use crate::taxes::difference::LEAST_CHANGE;
use crate::trials::trial::{Trial, good_trials};
use family::Family;
use figures::{Figures, Side};
use hoptax_plan::Metric;
use hoptax_record::report::{Beyond, Difference, NoiseFloor, Price, Prices};
use hoptax_record::{RunRecord, TrialRecord};
use hoptax_stats::Estimate;

/// Scatter of a difference between two differences ÷ scatter of a single difference.
const OF_TWO_DIFFERENCES: f64 = std::f64::consts::SQRT_2;

fn prices_of(of: impl Fn(Metric) -> Option<Difference>) -> Prices {
    Prices {
        added_p50: of(Metric::AddedP50),
        added_p99: of(Metric::AddedP99),
        cpu_us_per_request: of(Metric::CpuUsPerRequest),
        throughput_ratio: of(Metric::ThroughputRatio),
        memory_rss_bytes: of(Metric::MemoryRssBytes),
    }
}

/// The prices of all gateways that the run contains both with and without features. Sorted by load point,
/// then in the plan's order. Searches are left out.
pub(crate) fn prices(
    run: &RunRecord,
    records: &[TrialRecord],
    floors: &[NoiseFloor],
    scatters: &Scatters<'_>,
) -> Vec<Price> {
    let families = family::families(&run.plan);
    if families.is_empty() {
        return Vec::new();
    }
    let mut prices = Vec::new();
    for floor in floors.iter().filter(|floor| floor.load.search.is_none() && floor.load.left_out.is_none()) {
        let read = |label: &str| (label.to_owned(), good_trials(records, label, floor.load.index));
        let trials: Vec<(String, Vec<Trial<'_>>)> =
            run.plan.gateways.iter().map(|gateway| read(&gateway.label)).collect();
        let of = |label: &str| {
            let found = trials.iter().find(|(known, _)| known == label);
            (found.map_or(&[][..], |(_, trials)| trials.as_slice()), scatters.of(label))
        };
        prices.extend(families.iter().filter_map(|family| price(family, floor, &of)));
    }
    prices
}

/// The price of a gateway's features. `None` if no round has trials of both gateways.
fn price<'t, 'a: 't>(
    family: &Family<'_>,
    floor: &NoiseFloor,
    of: &dyn Fn(&str) -> (&'t [Trial<'a>], Scatter),
) -> Option<Price> {
    let sides = [of(family.bare), of(family.gateway)];
    let figures = Figures::new(&sides.map(|(trials, _)| trials))?;
    let prices = prices_of(|metric| {
        let in_run = figures.resampled(metric, |read| compared(metric, read(1)?, read(0)?))?;
        let least = figures.of_all(metric, Side(0)).map_or(0.0, |bare| least(metric, bare));
        let floor = noise(metric, floor).map(|noise| noise.max(least));
        let found = Difference::new(in_run, metric.neutral(), floor);
        Some(found.with_interval(widened(metric, in_run, &figures, &sides), metric.neutral()))
    });
    Some(Price {
        gateway: family.gateway.to_owned(),
        bare: family.bare.to_owned(),
        features: family.features.clone(),
        load: floor.load.clone(),
        prices,
        beyond: family.parts.and_then(|parts| beyond(family, parts, floor, of)),
    })
}

fn beyond<'t, 'a: 't>(
    family: &Family<'_>,
    parts: [&str; 2],
    floor: &NoiseFloor,
    of: &dyn Fn(&str) -> (&'t [Trial<'a>], Scatter),
) -> Option<Beyond> {
    let sides = [of(family.bare), of(family.gateway), of(parts[0]), of(parts[1])];
    let figures = Figures::new(&sides.map(|(trials, _)| trials))?;
    let prices = prices_of(|metric| {
        let in_run = figures.resampled(metric, |read| {
            let (bare, both, one, other) = (read(0)?, read(1)?, read(2)?, read(3)?);
            compared(metric, compared(metric, both, one)?, compared(metric, other, bare)?)
        })?;
        let least = figures.of_all(metric, Side(0)).map_or(0.0, |bare| least(metric, bare));
        let floor = noise(metric, floor).map(|noise| (noise * OF_TWO_DIFFERENCES).max(least));
        let found = Difference::new(in_run, metric.neutral(), floor);
        Some(found.with_interval(widened(metric, in_run, &figures, &sides), metric.neutral()))
    });
    Some(Beyond { alone: parts.map(str::to_owned), prices })
}

/// The price with an interval for another run.
fn widened(
    metric: Metric,
    in_run: Estimate,
    figures: &Figures<'_, '_>,
    sides: &[(&[Trial<'_>], Scatter)],
) -> Estimate {
    let of = |(at, (_, scatter)): (usize, &(&[Trial<'_>], Scatter))| {
        Some((figures.of_all(metric, Side(at))?, *scatter))
    };
    widen_between(metric, in_run, &sides.iter().enumerate().filter_map(of).collect::<Vec<_>>())
}

/// The difference of two figures, or their ratio.
fn compared(metric: Metric, figure: f64, other: f64) -> Option<f64> {
    match metric {
        Metric::ThroughputRatio => (other > 0.0).then(|| figure / other),
        _ => Some(figure - other),
    }
}

/// The smallest change to report, given the figure without the feature.
fn least(metric: Metric, bare: f64) -> f64 {
    if metric == Metric::ThroughputRatio { LEAST_CHANGE } else { LEAST_CHANGE * bare }
}

/// The noise floor of a metric. Zero for memory, because direct has no gateway whose memory could be
/// measured.
fn noise(metric: Metric, floor: &NoiseFloor) -> Option<f64> {
    match metric {
        Metric::MemoryRssBytes => Some(0.0),
        _ => floor.get(metric),
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
hoptax_pages::stated! {
    METHODOLOGY "its noise floor is multiplied by √{}. Of"
        number((OF_TWO_DIFFERENCES * OF_TWO_DIFFERENCES).round());
}
