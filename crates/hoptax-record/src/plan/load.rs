//! Load points, events and budgets.

use crate::Metric;
use hoptax_load::spec::{HttpVersion, Shape};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One way of loading; it gives one case per contender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// When requests are due.
    pub shape: Shape,
    /// Number of connections.
    pub connections: u32,
    /// Measured time of one trial; with stages, their sum.
    pub duration: Duration,
    /// A trial ends early after this many requests; absent if only time ends it.
    pub requests: Option<u64>,
    /// Requests on a connection before it is replaced; absent without a limit.
    #[serde(default)]
    pub requests_per_connection: Option<u32>,
    /// HTTP version.
    #[serde(default)]
    pub http: HttpVersion,
    /// The capacity search that starts at the shape's rate; absent if there is none.
    #[serde(default)]
    pub search: Option<Search>,
}

/// A search for the highest rates that a contender holds under one or more objectives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// The objectives.
    pub objectives: Vec<Objective>,
    /// Lowest rate tried, requests/s.
    pub from: f64,
    /// Highest rate tried, requests/s.
    pub to: f64,
    /// The search ends at this half-width of the interval, as a share of the rate.
    pub precision: f64,
    /// Measured time of a confirming trial.
    pub confirm: Duration,
}

/// Conditions that a trial must meet, all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// As displayed.
    pub text: String,
    /// The conditions; at least one.
    pub terms: Vec<Term>,
}

/// One condition.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Term {
    /// A figure of the response times must be below a bound.
    Time {
        /// The figure.
        of: Figure,
        /// The bound.
        below: Duration,
    },
    /// The share of requests without a successful response must be below a bound.
    Errors {
        /// The bound, 0 to 1.
        below: f64,
    },
    /// At least this share of the requests due must get a successful response.
    Throughput {
        /// The share, 0 to 1.
        least: f64,
    },
}

/// A figure of the response times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// The percentile of all requests due, 0 to 1.
    Percentile(f64),
    /// The mean.
    Mean,
    /// The maximum.
    Max,
}

/// An event in each trial of the gateways that it applies to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Time since the start of the measured time.
    pub at: Duration,
    /// The action.
    pub action: Action,
    /// Label of the gateway that it applies to; every gateway if absent.
    #[serde(default)]
    pub gateway: Option<String>,
}

/// An action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// The gateway reloads its configuration.
    Reload,
    /// The gateway gets one more route.
    ChangeRoute {
        /// Position of the route among the others.
        route: Route,
    },
    /// An instance of the upstream closes its listener and its connections, and listens again later.
    RestartUpstream {
        /// Index of the instance, from 0.
        instance: u32,
        /// How long it is down.
        down: Duration,
    },
    /// The gateway is stopped and started again.
    RestartGateway,
}

/// A position among routes.
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
    /// Label of the gateway that it applies to; every gateway if absent.
    pub gateway: Option<String>,
    /// The metric.
    pub metric: Metric,
    /// The load points that it applies to.
    #[serde(default)]
    pub load: LoadSelector,
    /// The contender that changes are relative to; absent if the budget limits no change.
    #[serde(default)]
    pub against: Option<String>,
    /// Upper limit, in the metric's own unit; absent if there is none.
    pub max: Option<f64>,
    /// Lower limit, in the metric's own unit; absent if there is none.
    pub min: Option<f64>,
    /// Largest allowed change, as a share of the reference; absent if there is none.
    #[serde(default)]
    pub max_change: Option<f64>,
    /// Smallest allowed change, as a share of the reference; absent if there is none.
    #[serde(default)]
    pub min_change: Option<f64>,
}

/// Selects load points: those that match every given member.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadSelector {
    /// Open loops (`true`) or closed loops (`false`).
    pub open: Option<bool>,
    /// This number of connections.
    pub connections: Option<u32>,
    /// This rate, requests/s; for stages their mean.
    pub rate: Option<f64>,
}
