//! What features cost: a gateway with features set against the same gateway without, in the rounds that have both; and of two
//! features together, whether they cost more or less than both alone.
//!
//! Direct is in none of these figures but one: how far it lies from itself is the noise floor here as well. What requests carry
//! for a feature's sake (a key, TLS) is part of its price.

mod family;
mod figures;

use super::compare::LEAST_CHANGE;
use super::noise::NoiseFloor;
use super::tax::{Difference, TaxMetric};
use super::trial::Trial;
use super::{Load, good_trials};
use crate::plan::Feature;
use crate::record::{RunRecord, TrialRecord};
use family::Family;
use figures::{Figures, Side};
use serde::Serialize;

/// By how much more a difference of two differences scatters than one of them.
const OF_TWO_DIFFERENCES: f64 = std::f64::consts::SQRT_2;

/// What a feature may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriceMetric {
    /// Response time at the median, µs more.
    AddedP50,
    /// Response time at the 99th percentile, µs more.
    AddedP99,
    /// CPU time of the gateway per completed request, µs more.
    CpuUsPerRequest,
    /// Throughput with it over throughput without.
    ThroughputRatio,
    /// Largest resident set of the gateway's processes, bytes more: the mean of the rounds.
    MemoryRssBytes,
}

impl PriceMetric {
    /// Every one, in the order in which they are shown.
    pub const ALL: [Self; 5] =
        [Self::AddedP50, Self::AddedP99, Self::CpuUsPerRequest, Self::ThroughputRatio, Self::MemoryRssBytes];

    /// As it is written in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::AddedP50 => "added_p50",
            Self::AddedP99 => "added_p99",
            Self::CpuUsPerRequest => "cpu_us_per_request",
            Self::ThroughputRatio => "throughput_ratio",
            Self::MemoryRssBytes => "memory_rss_bytes",
        }
    }

    fn neutral(self) -> f64 {
        if self == Self::ThroughputRatio { 1.0 } else { 0.0 }
    }

    /// How far direct lies from itself in this; nothing where direct has none of it.
    fn noise(self, floor: &NoiseFloor) -> Option<f64> {
        match self {
            Self::AddedP50 => floor.get(TaxMetric::AddedP50),
            Self::AddedP99 => floor.get(TaxMetric::AddedP99),
            Self::ThroughputRatio => floor.get(TaxMetric::ThroughputRatio),
            Self::CpuUsPerRequest | Self::MemoryRssBytes => Some(0.0),
        }
    }
}

/// A figure of each kind; absent where it was not measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    fn new(of: impl Fn(PriceMetric) -> Option<Difference>) -> Self {
        Self {
            added_p50: of(PriceMetric::AddedP50),
            added_p99: of(PriceMetric::AddedP99),
            cpu_us_per_request: of(PriceMetric::CpuUsPerRequest),
            throughput_ratio: of(PriceMetric::ThroughputRatio),
            memory_rss_bytes: of(PriceMetric::MemoryRssBytes),
        }
    }

    /// One of them.
    pub fn get(&self, metric: PriceMetric) -> Option<&Difference> {
        match metric {
            PriceMetric::AddedP50 => self.added_p50.as_ref(),
            PriceMetric::AddedP99 => self.added_p99.as_ref(),
            PriceMetric::CpuUsPerRequest => self.cpu_us_per_request.as_ref(),
            PriceMetric::ThroughputRatio => self.throughput_ratio.as_ref(),
            PriceMetric::MemoryRssBytes => self.memory_rss_bytes.as_ref(),
        }
    }
}

/// What the features of one gateway cost at one load point.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    #[serde(flatten)]
    pub prices: Prices,
    /// Of several features whose parts were measured as well: what they cost together beyond that.
    pub beyond: Option<Beyond>,
}

/// What features cost together, less what the parts cost alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beyond {
    /// Labels of the gateways with one part each.
    pub alone: [String; 2],
    /// Together less the sum of both alone; of throughput together over the product of both.
    #[serde(flatten)]
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
        let estimate = figures.resampled(metric, |read| metric.set_against(read(1)?, read(0)?))?;
        let least = figures.of_all(metric, Side(0)).map_or(0.0, |bare| metric.least(bare));
        let floor = metric.noise(floor).map(|noise| noise.max(least));
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
            metric.set_against(metric.set_against(both, one)?, metric.set_against(other, bare)?)
        })?;
        let least = figures.of_all(metric, Side(0)).map_or(0.0, |bare| metric.least(bare));
        let floor = metric.noise(floor).map(|noise| (noise * OF_TWO_DIFFERENCES).max(least));
        Some(Difference::new(estimate, metric.neutral(), floor))
    });
    Some(Beyond { alone: parts.map(str::to_owned), prices })
}

impl PriceMetric {
    /// One figure set against another: less it, or over it.
    fn set_against(self, figure: f64, other: f64) -> Option<f64> {
        match self {
            Self::ThroughputRatio => (other > 0.0).then(|| figure / other),
            _ => Some(figure - other),
        }
    }

    /// The least change worth telling, where this is the figure without the feature.
    fn least(self, bare: f64) -> f64 {
        if self == Self::ThroughputRatio { LEAST_CHANGE } else { LEAST_CHANGE * bare }
    }
}

#[cfg(test)]
mod tests;
