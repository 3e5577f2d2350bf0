//! Budgets: limits on metrics.

use super::LoadPoint;
use crate::Metric;
use hoptax_format::spec::{HttpVersion, Shape};
use serde::{Deserialize, Serialize};

/// A limit on one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Label of the gateway to which the budget applies. If absent, it applies to every gateway.
    pub gateway: Option<String>,
    /// The metric.
    pub metric: Metric,
    /// The load points to which the budget applies.
    #[serde(default)]
    pub load: LoadSelector,
    /// The contender to compare the gateway with, if the budget limits a relative change; absent otherwise.
    pub against: Option<String>,
    /// Upper limit, in the metric's own unit; absent if there is none.
    pub max: Option<f64>,
    /// Lower limit, in the metric's own unit; absent if there is none.
    pub min: Option<f64>,
    /// Largest allowed change, as a share of the reference; absent if there is none.
    pub max_change: Option<f64>,
    /// Smallest allowed change, as a share of the reference; absent if there is none.
    pub min_change: Option<f64>,
}

impl Budget {
    /// A budget for `metric` that applies to all gateways and load points. It has no limit yet.
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

    /// Whether the budget limits a change relative to a reference.
    pub fn is_relative(&self) -> bool {
        self.max_change.is_some() || self.min_change.is_some()
    }
}

/// Selects the load points that match all members that are present.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadSelector {
    /// True selects open loops, and false selects closed loops.
    pub open: Option<bool>,
    /// Number of connections.
    pub connections: Option<u32>,
    /// Number of streams on each connection. Absent in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    /// HTTP version. Absent in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpVersion>,
    /// Rate, requests/s. For a rate with stages, the mean rate.
    pub rate: Option<f64>,
}

impl LoadSelector {
    /// Whether the selector matches this load point.
    pub fn selects(&self, point: &LoadPoint) -> bool {
        let rate = match &point.shape {
            Shape::Closed => None,
            Shape::Open { rate, .. } => Some(rate.mean()),
        };
        self.open.is_none_or(|open| open == rate.is_some())
            && self.connections.is_none_or(|connections| connections == point.connections)
            && self.streams.is_none_or(|streams| streams == point.streams)
            && self.http.is_none_or(|http| http == point.http)
            && self.rate.is_none_or(|wanted| rate.is_some_and(|rate| (rate - wanted).abs() <= 1e-6 * wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::spec::{Arrivals, Rate};
    use std::time::Duration;

    #[test]
    fn all_given_fields_must_match() {
        let closed = LoadPoint::closed(16, Duration::from_secs(1));
        let shape = Shape::Open { rate: Rate::Fixed(1000.0), arrivals: Arrivals::Constant };
        let open = LoadPoint { shape, ..closed.clone() };
        let selected = |selector: &LoadSelector| (selector.selects(&closed), selector.selects(&open));
        assert_eq!(selected(&LoadSelector::default()), (true, true));
        let of_open = LoadSelector { open: Some(true), ..LoadSelector::default() };
        assert_eq!(selected(&of_open), (false, true));
        assert_eq!(selected(&LoadSelector { open: Some(false), ..of_open.clone() }), (true, false));
        assert_eq!(selected(&LoadSelector { connections: Some(8), ..of_open.clone() }), (false, false));
        let multiplexed = LoadPoint { http: HttpVersion::Http2, streams: 8, ..closed.clone() };
        for (http, streams, expected) in [
            (None, Some(8), (false, true)),
            (Some(HttpVersion::Http2), None, (false, true)),
            (Some(HttpVersion::Http11), None, (true, false)),
            (Some(HttpVersion::Http2), Some(1), (false, false)),
        ] {
            let selector = LoadSelector { http, streams, ..LoadSelector::default() };
            assert_eq!((selector.selects(&closed), selector.selects(&multiplexed)), expected, "{selector:?}");
        }
        let of_rate = |rate| LoadSelector { rate: Some(rate), ..LoadSelector::default() };
        assert_eq!(selected(&of_rate(1000.0)), (false, true));
        assert_eq!(selected(&of_rate(999.0)), (false, false));
    }
}
