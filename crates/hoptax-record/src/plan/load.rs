//! Load points, events and budgets.

use crate::Metric;
use hoptax_format::spec::{HttpVersion, Retry, Shape};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A load point: one way to send requests. Each contender has one case at each load point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// When requests are due.
    pub shape: Shape,
    /// Number of connections.
    pub connections: u32,
    /// Measured time of one trial. If the rate has stages, the sum of their durations.
    pub duration: Duration,
    /// Number of requests after which a trial ends early; absent if only the time limits a trial.
    pub requests: Option<u64>,
    /// Number of requests on a connection before the connection is replaced; absent if there is no limit.
    #[serde(default)]
    pub requests_per_connection: Option<u32>,
    /// Which requests are sent again instead of failing. Older versions sent no request again.
    #[serde(default)]
    pub retry: Retry,
    /// HTTP version.
    #[serde(default)]
    pub http: HttpVersion,
    /// Name of the host that sends this load; absent if it is the host of the role `generator`, and in older
    /// runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The capacity search, which starts at the rate of `shape`; absent if there is no search.
    #[serde(default)]
    pub search: Option<Search>,
    /// Why the run left this load point out, for every contender; absent if it was measured, and in older
    /// runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// A search for the highest rate at which a contender meets an objective. It can have several objectives,
/// each with its own highest rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// The objectives.
    pub objectives: Vec<Objective>,
    /// Lowest rate tried, requests/s.
    pub from: f64,
    /// Highest rate tried, requests/s.
    pub to: f64,
    /// Required precision: half the width of the rate's interval ÷ the rate. The search ends when this
    /// precision is reached.
    pub precision: f64,
    /// Measured time of a confirming trial.
    pub confirm: Duration,
}

/// An objective. A trial must meet all of its conditions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// The text that is displayed.
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
    /// At least this share of the due requests must get a successful response.
    Throughput {
        /// The share, 0 to 1.
        least: f64,
    },
}

/// A figure of the response times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// A percentile of the response times of all due requests, 0 to 1.
    Percentile(f64),
    /// The mean.
    Mean,
    /// The maximum.
    Max,
}

/// An event. It happens in each trial of the gateways to which it applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Time of the event, since the start of the measured time.
    pub at: Duration,
    /// The action.
    pub action: Action,
    /// Label of the gateway to which the event applies. If absent, it applies to every gateway.
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
        /// How long the instance is down.
        down: Duration,
    },
    /// The gateway is stopped and started again.
    RestartGateway,
    /// The gateway's page of metrics is read once.
    Scrape,
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
    /// Label of the gateway to which the budget applies. If absent, it applies to every gateway.
    pub gateway: Option<String>,
    /// The metric.
    pub metric: Metric,
    /// The load points to which the budget applies.
    #[serde(default)]
    pub load: LoadSelector,
    /// The contender to compare the gateway with, if the budget limits a relative change; absent otherwise.
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

/// Selects the load points that match all members that are present.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadSelector {
    /// True selects open loops, and false selects closed loops.
    pub open: Option<bool>,
    /// Number of connections.
    pub connections: Option<u32>,
    /// Rate, requests/s. For a rate with stages, the mean rate.
    pub rate: Option<f64>,
}
