//! Limits on what was measured.

use super::{LoadPoint, Metric};
use hoptax_load::spec::Shape;

/// A limit on one metric of one gateway, or of every gateway; at every load point, or at those selected.
#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    /// A label; every gateway when absent.
    pub gateway: Option<String>,
    /// What is limited.
    pub metric: Metric,
    /// At which load points; at all of them when it selects nothing.
    pub load: LoadSelector,
    /// The contender of the same run that changes are relative to; the baseline run's gateway of the same label when
    /// absent.
    pub against: Option<String>,
    /// A breach is above this, in the metric's own unit.
    pub max: Option<f64>,
    /// A breach is below this.
    pub min: Option<f64>,
    /// A breach has grown by more than this share of the reference: 0.1 for `+10%`.
    pub max_change: Option<f64>,
    /// A breach has grown by less than this share of the reference: −0.05 for `-5%`.
    pub min_change: Option<f64>,
}

impl Budget {
    /// Limits `metric` of every gateway everywhere by nothing yet.
    pub fn of(metric: Metric) -> Self {
        Self {
            gateway: None,
            metric,
            load: LoadSelector::default(),
            against: None,
            max: None,
            min: None,
            max_change: None,
            min_change: None,
        }
    }

    /// Whether a limit of it is relative to something else that was measured.
    pub fn is_relative(&self) -> bool {
        self.max_change.is_some() || self.min_change.is_some()
    }
}

/// Selects load points: what is given must be so. Nothing given selects all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadSelector {
    /// Open loops (`true`) or closed ones.
    pub open: Option<bool>,
    /// So many connections.
    pub connections: Option<u32>,
    /// This rate, requests/s; of stages their mean.
    pub rate: Option<f64>,
}

impl LoadSelector {
    /// Whether it selects this load point.
    pub fn selects(&self, point: &LoadPoint) -> bool {
        let rate = match &point.shape {
            Shape::Closed => None,
            Shape::Open { rate, .. } => Some(rate.mean()),
        };
        self.open.is_none_or(|open| open == rate.is_some())
            && self.connections.is_none_or(|connections| connections == point.connections)
            && self.rate.is_none_or(|wanted| rate.is_some_and(|rate| (rate - wanted).abs() <= 1e-6 * wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_load::spec::{Arrivals, Rate};
    use std::time::Duration;

    #[test]
    fn selects_what_agrees_with_all_that_is_given() {
        let closed = LoadPoint::closed(16, Duration::from_secs(1));
        let shape = Shape::Open { rate: Rate::Fixed(1000.0), arrivals: Arrivals::Constant };
        let open = LoadPoint { shape, ..closed.clone() };
        let selected = |selector: &LoadSelector| (selector.selects(&closed), selector.selects(&open));
        assert_eq!(selected(&LoadSelector::default()), (true, true));
        let of_open = LoadSelector { open: Some(true), ..LoadSelector::default() };
        assert_eq!(selected(&of_open), (false, true));
        assert_eq!(selected(&LoadSelector { open: Some(false), ..of_open.clone() }), (true, false));
        assert_eq!(selected(&LoadSelector { connections: Some(8), ..of_open.clone() }), (false, false));
        let of_rate = |rate| LoadSelector { rate: Some(rate), ..LoadSelector::default() };
        assert_eq!(selected(&of_rate(1000.0)), (false, true));
        assert_eq!(selected(&of_rate(999.0)), (false, false));
    }
}
