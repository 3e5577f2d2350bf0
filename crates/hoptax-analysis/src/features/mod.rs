//! What features cost: a gateway with features set against the same gateway without, in the rounds that have both; and of two
//! features together, whether they cost more or less than both alone.
//!
//! Direct is in none of these figures but one: how far it lies from itself is the noise floor here as well. What requests carry
//! for a feature's sake (a key, TLS) is part of its price.

mod family;
mod figures;

use super::difference::{Difference, LEAST_CHANGE};
use super::load::Load;
use super::noise::NoiseFloor;
use super::trial::{Trial, good_trials};
use family::Family;
use figures::{Figures, Side};
use hoptax_plan::recorded::RunRecord;
use hoptax_plan::{Feature, Metric};
use hoptax_record::TrialRecord;

/// By how much more a difference of two differences scatters than one of them.
const OF_TWO_DIFFERENCES: f64 = std::f64::consts::SQRT_2;

/// A figure of each kind; absent where it was not measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Prices {
    /// Response time at the median, µs.
    pub added_p50: Option<Difference>,
    /// Response time at the 99th percentile, µs.
    pub added_p99: Option<Difference>,
    /// CPU time of the gateway per completed request, µs.
    pub cpu_us_per_request: Option<Difference>,
    /// A ratio of throughputs: 1 costs nothing.
    pub throughput_ratio: Option<Difference>,
    /// Resident set, bytes.
    pub memory_rss_bytes: Option<Difference>,
}

impl Prices {
    fn new(of: impl Fn(Metric) -> Option<Difference>) -> Self {
        Self {
            added_p50: of(Metric::AddedP50),
            added_p99: of(Metric::AddedP99),
            cpu_us_per_request: of(Metric::CpuUsPerRequest),
            throughput_ratio: of(Metric::ThroughputRatio),
            memory_rss_bytes: of(Metric::MemoryRssBytes),
        }
    }

    /// One of them; absent for a metric that is no price.
    pub fn get(&self, metric: Metric) -> Option<&Difference> {
        match metric {
            Metric::AddedP50 => self.added_p50.as_ref(),
            Metric::AddedP99 => self.added_p99.as_ref(),
            Metric::CpuUsPerRequest => self.cpu_us_per_request.as_ref(),
            Metric::ThroughputRatio => self.throughput_ratio.as_ref(),
            Metric::MemoryRssBytes => self.memory_rss_bytes.as_ref(),
            _ => None,
        }
    }
}

/// What the features of one gateway cost at one load point.
#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    /// Label of the gateway with features.
    pub gateway: String,
    /// Label of the same gateway without.
    pub bare: String,
    /// What is switched on.
    pub features: Vec<Feature>,
    /// The load point.
    pub load: Load,
    /// With them less without them; of throughput with over without.
    pub prices: Prices,
    /// Of several features whose parts were measured as well: what they cost together beyond that.
    pub beyond: Option<Beyond>,
}

/// What features cost together, less what the parts cost alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Beyond {
    /// Labels of the gateways with one part each.
    pub alone: [String; 2],
    /// Together less the sum of both alone; of throughput together over the product of both.
    pub prices: Prices,
}

/// The prices of all gateways with features whose bare sibling is in the run: by load point, then in the plan's order. Load
/// points that are searched have none.
pub(super) fn prices(run: &RunRecord, records: &[TrialRecord], floors: &[NoiseFloor]) -> Vec<Price> {
    let families = family::families(&run.plan);
    if families.is_empty() {
        return Vec::new();
    }
    let mut prices = Vec::new();
    for floor in floors.iter().filter(|floor| floor.load.search.is_none()) {
        let read = |label: &str| (label.to_owned(), good_trials(records, label, floor.load.index));
        let trials: Vec<(String, Vec<Trial<'_>>)> =
            run.plan.gateways.iter().map(|gateway| read(&gateway.label)).collect();
        let of = |label: &str| {
            trials.iter().find(|(known, _)| known == label).map_or(&[][..], |(_, trials)| trials.as_slice())
        };
        prices.extend(families.iter().filter_map(|family| price(family, floor, &of)));
    }
    prices
}

/// Absent where no round has both.
fn price<'t, 'a: 't>(
    family: &Family<'_>,
    floor: &NoiseFloor,
    of: &dyn Fn(&str) -> &'t [Trial<'a>],
) -> Option<Price> {
    let figures = Figures::new(&[of(family.bare), of(family.gateway)])?;
    let prices = Prices::new(|metric| {
        let estimate = figures.resampled(metric, |read| set_against(metric, read(1)?, read(0)?))?;
        let least = figures.of_all(metric, Side(0)).map_or(0.0, |bare| least(metric, bare));
        let floor = noise(metric, floor).map(|noise| noise.max(least));
        Some(Difference::new(estimate, metric.neutral(), floor))
    });
    Some(Price {
        gateway: family.gateway.to_owned(),
        bare: family.bare.to_owned(),
        features: family.features.to_vec(),
        load: floor.load.clone(),
        prices,
        beyond: family.parts.and_then(|parts| beyond(family, parts, floor, of)),
    })
}

fn beyond<'t, 'a: 't>(
    family: &Family<'_>,
    parts: [&str; 2],
    floor: &NoiseFloor,
    of: &dyn Fn(&str) -> &'t [Trial<'a>],
) -> Option<Beyond> {
    let figures = Figures::new(&[of(family.bare), of(family.gateway), of(parts[0]), of(parts[1])])?;
    let prices = Prices::new(|metric| {
        let estimate = figures.resampled(metric, |read| {
            let (bare, both, one, other) = (read(0)?, read(1)?, read(2)?, read(3)?);
            set_against(metric, set_against(metric, both, one)?, set_against(metric, other, bare)?)
        })?;
        let least = figures.of_all(metric, Side(0)).map_or(0.0, |bare| least(metric, bare));
        let floor = noise(metric, floor).map(|noise| (noise * OF_TWO_DIFFERENCES).max(least));
        Some(Difference::new(estimate, metric.neutral(), floor))
    });
    Some(Beyond { alone: parts.map(str::to_owned), prices })
}

/// One figure set against another: less it, or over it.
fn set_against(metric: Metric, figure: f64, other: f64) -> Option<f64> {
    match metric {
        Metric::ThroughputRatio => (other > 0.0).then(|| figure / other),
        _ => Some(figure - other),
    }
}

/// The least change worth telling, where this is the figure without the feature.
fn least(metric: Metric, bare: f64) -> f64 {
    if metric == Metric::ThroughputRatio { LEAST_CHANGE } else { LEAST_CHANGE * bare }
}

/// How far direct lies from itself in a metric; nothing where direct has none of it.
fn noise(metric: Metric, floor: &NoiseFloor) -> Option<f64> {
    match metric {
        Metric::MemoryRssBytes => Some(0.0),
        _ => floor.get(metric),
    }
}

#[cfg(test)]
mod tests;
