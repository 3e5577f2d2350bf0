//! Load points.

use hoptax_load::spec::HttpVersion;
use serde::Serialize;

/// A load point.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Load {
    /// Index in the plan's expanded list.
    pub index: usize,
    /// In words; distinct within a run.
    pub label: String,
    /// `closed` or `open`.
    #[serde(rename = "loop")]
    pub kind: &'static str,
    /// Connections.
    pub connections: u32,
    /// Requests per second, of stages their mean; absent in a closed loop.
    pub rate: Option<f64>,
    /// The stages of a rate that changes; absent for a steady one.
    pub stages: Option<Vec<LoadStage>>,
    /// `constant`, `jitter` or `poisson`; absent in a closed loop.
    pub arrivals: Option<&'static str>,
    /// Measured time of one trial as planned, s.
    pub duration_s: f64,
    /// Requests after which a trial ends early; absent if only time ends it.
    pub requests: Option<u64>,
    /// Requests that a connection carries, 1 without keep-alive; absent if there is no limit.
    pub requests_per_connection: Option<u32>,
    /// Version of HTTP spoken.
    pub http: HttpVersion,
    /// The search for capacity that the load point is; absent for one at which cases are measured.
    pub search: Option<LoadSearch>,
}

/// What a search tries; its objectives are listed with what was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadSearch {
    /// Lowest rate, requests/s.
    pub from: f64,
    /// Highest rate, requests/s.
    pub to: f64,
    /// Half-width of the interval, as a part of the rate, at which it ends.
    pub precision: f64,
    /// Measured time of a confirming trial, s.
    pub confirm_s: f64,
}

/// A stage of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LoadStage {
    /// Requests per second at its beginning.
    pub from: f64,
    /// Requests per second at its end.
    pub to: f64,
    /// How long it takes, s.
    pub duration_s: f64,
}
