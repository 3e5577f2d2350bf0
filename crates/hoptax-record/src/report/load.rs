//! Load points.

use hoptax_load::spec::HttpVersion;
use serde::Serialize;

/// A load point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Load {
    /// Index in the plan's expanded list.
    pub index: usize,
    /// Label in words; unique within a run.
    pub label: String,
    /// `closed` or `open`.
    #[serde(rename = "loop")]
    pub kind: &'static str,
    /// Connections.
    pub connections: u32,
    /// Requests per second, the mean over stages; absent in a closed loop.
    pub rate: Option<f64>,
    /// Stages of a changing rate; absent for a steady rate.
    pub stages: Option<Vec<LoadStage>>,
    /// `constant`, `jitter` or `poisson`; absent in a closed loop.
    pub arrivals: Option<&'static str>,
    /// Planned measured time of one trial, seconds.
    pub duration_s: f64,
    /// Requests after which a trial ends early; absent if only time ends it.
    pub requests: Option<u64>,
    /// Requests per connection, 1 without keep-alive; absent without a limit.
    pub requests_per_connection: Option<u32>,
    /// HTTP version.
    pub http: HttpVersion,
    /// The capacity search at this load point; absent for a load point with cases.
    pub search: Option<LoadSearch>,
}

/// Range and precision of a search; its objectives are listed with the results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadSearch {
    /// Lowest rate tried, requests/s.
    pub from: f64,
    /// Highest rate tried, requests/s.
    pub to: f64,
    /// The search ends at this half-width of the interval, as a share of the rate.
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
