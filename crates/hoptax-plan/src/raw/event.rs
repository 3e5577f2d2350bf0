//! Events in YAML.

use super::{AskText, Placed, Text, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Something that happens during each trial.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "event")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawEvent {
    /// Time from the start of a trial's measured time.
    pub(crate) at: Placed<Time>,
    /// The event: reload, change-route, restart-upstream or restart-gateway.
    #[serde(rename = "do")]
    pub(crate) action: Placed<RawAction>,
    /// For `change-route`: position of the new route. Default: last.
    pub(crate) route: Option<Placed<AskText>>,
    /// For `restart-upstream`: number of the instance, from 0. Default: 0.
    pub(crate) instance: Option<Placed<u32>>,
    /// For `restart-upstream`: how long the instance is down. Default: 200ms.
    pub(crate) down: Option<Placed<Time>>,
    /// Label of the gateway whose trials have the event. Default: all gateways, and direct for `restart-upstream`.
    #[schemars(with = "Option<Text>")]
    pub(crate) gateway: Option<Placed<String>>,
}

/// Kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "action")]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawAction {
    /// The gateway reads its configuration again.
    Reload,
    /// The gateway gets a new route.
    ChangeRoute,
    /// An instance of the upstream closes its listener and its connections, and listens again later.
    RestartUpstream,
    /// The gateway is stopped and started again.
    RestartGateway,
}
