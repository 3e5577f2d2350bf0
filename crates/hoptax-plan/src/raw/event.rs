//! Events in YAML.

use super::{AskText, Placed, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// An event that happens during each trial.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "event")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawEvent {
    /// Time of the event, counted from the start of the trial's measured time.
    pub(crate) at: Placed<Time>,
    /// The event: reload, change-route, restart-upstream, restart-gateway or scrape.
    #[serde(rename = "do")]
    pub(crate) action: Placed<RawAction>,
    /// For `change-route`: position of the new route among the routes. Default: last.
    pub(crate) route: Option<Placed<AskText>>,
    /// For `restart-upstream`: number of the instance, from 0. Default: 0.
    pub(crate) instance: Option<Placed<u32>>,
    /// For `restart-upstream`: time between closing the instance and listening again. Default: 200ms.
    pub(crate) down: Option<Placed<Time>>,
    /// Label of a gateway. The event then happens only in trials of this gateway. Default: the event happens
    /// in trials of all gateways, and `restart-upstream` also in trials of direct.
    pub(crate) gateway: Option<Placed<String>>,
}

/// Kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "action")]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawAction {
    /// The gateway reads its unchanged configuration again.
    Reload,
    /// hoptax adds a new route to the gateway's configuration.
    ChangeRoute,
    /// An instance of the upstream closes its listener and its connections. It listens again later.
    RestartUpstream,
    /// hoptax stops the gateway and starts it again.
    RestartGateway,
    /// hoptax reads the gateway's page of metrics once.
    Scrape,
}
