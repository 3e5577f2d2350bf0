//! Load points.

use hoptax_format::spec::{HttpVersion, Retry};
use serde::Serialize;

/// A load point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Load {
    /// Index in the list of load points after sweeps are expanded.
    pub index: usize,
    /// Label in words; unique within a run.
    pub label: String,
    /// `closed` or `open`.
    #[serde(rename = "loop")]
    pub kind: &'static str,
    /// Connections.
    pub connections: u32,
    /// Requests per second; if the rate has stages, their mean. Absent in a closed loop.
    pub rate: Option<f64>,
    /// Stages of a changing rate; absent for a steady rate.
    pub stages: Option<Vec<LoadStage>>,
    /// `constant`, `jitter` or `poisson`; absent in a closed loop.
    pub arrivals: Option<&'static str>,
    /// Planned measured time of one trial, seconds.
    pub duration_s: f64,
    /// Number of requests after which a trial ends early; absent if only the time limits a trial.
    pub requests: Option<u64>,
    /// Maximum number of requests per connection; 1 without keep-alive. Absent if there is no limit.
    pub requests_per_connection: Option<u32>,
    /// Which requests are sent again instead of failing.
    pub retry: Retry,
    /// HTTP version.
    pub http: HttpVersion,
    /// Name of the host that sends the load; absent if it is the host of the role `generator`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The capacity search at this load point; absent if the load point is measured without a search.
    pub search: Option<LoadSearch>,
}

/// Range and precision of a search. The objectives are listed with the results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadSearch {
    /// Lowest rate tried, requests/s.
    pub from: f64,
    /// Highest rate tried, requests/s.
    pub to: f64,
    /// Required precision: half the width of the rate's interval ÷ the rate. The search ends when this
    /// precision is reached.
    pub precision: f64,
    /// Measured time of a confirming trial, seconds.
    pub confirm_s: f64,
}

/// A stage of a changing rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LoadStage {
    /// Requests per second at the start.
    pub from: f64,
    /// Requests per second at the end.
    pub to: f64,
    /// Duration, seconds.
    pub duration_s: f64,
}
