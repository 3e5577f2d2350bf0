//! Load points: how requests are sent.

use super::{
    ArrivalsText, ConnectionCount, HttpText, KeepAliveText, ObjectiveText, Placed, Rate, RequestCount,
    SearchedText, Share, Short, StageText, StreamCount, Sweep, Text, Time,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Kind of loop. In a closed loop, each connection sends the next request when the previous response ends. In
/// an open loop, requests are due at scheduled times, even if responses are late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "loop")]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawLoop {
    Closed,
    Open,
}

/// Which requests are sent again instead of failing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "retry")]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawRetry {
    Off,
    IdleClose,
}

/// A load point. If a value is a list, hoptax measures one load point for each element. If several values are
/// lists, hoptax measures all combinations, and the value of the first list changes slowest.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "load")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLoad {
    /// Kind of loop: `closed` or `open`.
    #[serde(rename = "loop")]
    pub(crate) loops: Sweep<RawLoop>,
    /// Search for the highest rate at which each contender meets an objective. In a closed loop of streams,
    /// search for the largest number of connections. Cannot be combined with `rate` and `requests`.
    pub(crate) search: Option<Placed<RawSearch>>,
    /// Total number of connections.
    pub(crate) connections: Sweep<ConnectionCount>,
    /// Maximum number of requests in flight on each connection, 1 to 1000. More than 1 needs `http: 2`. The
    /// server can allow fewer. Default: 1.
    pub(crate) streams: Option<Sweep<StreamCount>>,
    /// Scheduled requests per second, minute or hour, over all connections. An open loop needs a `rate` or a
    /// `search`. A closed loop cannot have a rate. A list of stages (`100/s for 10s`, `ramp to 5000/s over
    /// 60s`) is one rate that changes during a trial. A list of such lists gives several load points.
    pub(crate) rate: Option<Sweep<Short<Vec<Placed<StageText>>, Rate>>>,
    /// How the scheduled requests of an open loop are spaced in time. Default: constant.
    pub(crate) arrivals: Option<Sweep<ArrivalsText>>,
    /// Measured time of one trial. Default: the length of the stages. Without stages, the default is 300ms,
    /// or longer at a low rate or with a slow upstream. If the plan has `trials` or `events`, or the load
    /// point has a `search`, the default is 10s.
    pub(crate) duration: Option<Sweep<Time>>,
    /// Number of requests after which a trial stops. Also give a `duration`, which is the time limit.
    pub(crate) requests: Option<Sweep<RequestCount>>,
    /// Whether connections are reused: `on`, `off`, or the number of requests after which a connection is
    /// replaced. Default: on.
    pub(crate) keepalive: Option<Sweep<KeepAliveText>>,
    /// Which requests are sent again instead of failing. `idle-close`: if the server closes a reused
    /// connection before the first byte of the response, the request is sent once more, on a new connection,
    /// as HTTP clients do. This applies only to GET, HEAD, OPTIONS, PUT, DELETE and TRACE. Default: off.
    pub(crate) retry: Option<Sweep<RawRetry>>,
    /// HTTP version: 1.0, 1.1 or 2. HTTP/2 uses ALPN over TLS, and prior knowledge without TLS. Direct uses
    /// the same version. Default: 1.1.
    pub(crate) http: Option<Sweep<HttpText>>,
    /// Host that sends this load: a name from `hosts`, or `local`. A list measures the same load from each of
    /// its hosts. Default: the host of the role `generator`.
    pub(crate) from: Option<Sweep<Text>>,
}

/// A search for the highest rate at which a contender meets an objective. With several objectives, the search
/// finds a rate for each of them.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "search")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawSearch {
    /// Objective, such as `p99 < 10ms and errors < 0.1%`, or a list of objectives. Cannot be combined with
    /// `bounds`.
    pub(crate) slo: Option<Sweep<ObjectiveText>>,
    /// Upper bounds on p99. The search finds the highest rate for each bound, with errors below 0.1%. Cannot
    /// be combined with `slo`. Default if there is no `slo`: 1ms, 5ms, 10ms, 50ms and 100ms.
    pub(crate) bounds: Option<Sweep<Time>>,
    /// Lowest rate or number of connections that the search tries.
    pub(crate) from: Placed<SearchedText>,
    /// Highest rate or number of connections that the search tries.
    pub(crate) to: Placed<SearchedText>,
    /// Required precision of the rate. The search stops when half the width of the rate's interval is below
    /// this share of the rate. Default: 5%.
    pub(crate) precision: Option<Placed<Share>>,
    /// Measured time of each trial that confirms the rate. Default: twice `duration`.
    pub(crate) confirm: Option<Placed<Time>>,
}

/// Selects load points. All given keys must match.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "load_selector")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLoadSelector {
    /// Kind of loop.
    #[serde(rename = "loop")]
    pub(crate) loops: Option<RawLoop>,
    /// Number of connections.
    pub(crate) connections: Option<ConnectionCount>,
    /// Number of streams on each connection.
    pub(crate) streams: Option<StreamCount>,
    /// HTTP version.
    pub(crate) http: Option<Placed<HttpText>>,
    /// Rate. If the load point has stages, this is the mean rate of its stages.
    pub(crate) rate: Option<Placed<Rate>>,
}
