//! How things are requested, what happens meanwhile, and what is limited.

use crate::Metric;
use hoptax_load::spec::{HttpVersion, Shape};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One way of loading: one case per contender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// When requests are due.
    pub shape: Shape,
    /// Connections.
    pub connections: u32,
    /// Measured time of one trial; with stages, the sum of theirs.
    pub duration: Duration,
    /// Stop after this many requests, if that comes before the duration.
    pub requests: Option<u64>,
    /// Requests that a connection carries before it is replaced; absent is no limit.
    #[serde(default)]
    pub requests_per_connection: Option<u32>,
    /// Version of HTTP spoken.
    #[serde(default)]
    pub http: HttpVersion,
    /// The search that the shape's rate begins, where there is one.
    #[serde(default)]
    pub search: Option<Search>,
}

/// A search for the highest rates that a contender holds under one or several objectives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// What must hold.
    pub objectives: Vec<Objective>,
    /// Lowest rate tried, requests/s.
    pub from: f64,
    /// Highest rate tried, requests/s.
    pub to: f64,
    /// Half-width of the interval, as a part of the rate, at which the search ends.
    pub precision: f64,
    /// Measured time of a trial that confirms.
    pub confirm: Duration,
}

/// What must hold of a trial, all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// As it is shown.
    pub text: String,
    /// What must hold; at least one.
    pub terms: Vec<Term>,
}

/// One thing that must hold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Term {
    /// A figure of the response times lies below a bound.
    Time {
        /// Which.
        of: Figure,
        /// The bound.
        below: Duration,
    },
    /// The share of requests that were not answered with success lies below a bound.
    Errors {
        /// The bound, 0 to 1.
        below: f64,
    },
    /// At least this share of the requests due was answered with success.
    Throughput {
        /// The share, 0 to 1.
        least: f64,
    },
}

/// A figure of the response times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// The time below which this share of all requests due were answered, 0 to 1.
    Percentile(f64),
    /// The mean.
    Mean,
    /// The longest.
    Max,
}

/// Something that happens in each trial of the gateways it is meant for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, from the beginning of the measured time.
    pub at: Duration,
    /// What.
    pub action: Action,
    /// Label of the only gateway that it is meant for; every one when absent.
    #[serde(default)]
    pub gateway: Option<String>,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// The gateway reads its configuration again.
    Reload,
    /// The gateway is given one route more.
    ChangeRoute {
        /// Where among the others.
        route: Route,
    },
    /// An instance of the upstream closes its listener and its connections, and listens again later.
    RestartUpstream {
        /// Which, from 0.
        instance: u32,
        /// For how long it is away.
        down: Duration,
    },
    /// The gateway is stopped and started again.
    RestartGateway,
}

/// A place among routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// The first.
    First,
    /// The one in the middle.
    Middle,
    /// The last.
    Last,
}

/// A limit on one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// A label; every gateway when absent.
    pub gateway: Option<String>,
    /// What is limited.
    pub metric: Metric,
    /// At which load points.
    #[serde(default)]
    pub load: LoadSelector,
    /// The contender that changes are relative to.
    #[serde(default)]
    pub against: Option<String>,
    /// A breach is above this, in the metric's own unit.
    pub max: Option<f64>,
    /// A breach is below this.
    pub min: Option<f64>,
    /// A breach has grown by more than this share of the reference.
    #[serde(default)]
    pub max_change: Option<f64>,
    /// A breach has grown by less than this share of the reference.
    #[serde(default)]
    pub min_change: Option<f64>,
}

/// Selects load points: what is given must be so.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadSelector {
    /// Open loops (`true`) or closed ones.
    pub open: Option<bool>,
    /// This many connections.
    pub connections: Option<u32>,
    /// This rate, requests/s; of stages their mean.
    pub rate: Option<f64>,
}
