//! Events, as typed.

use super::{AskText, Placed, Text, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// What happens while a trial is measured.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "event")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawEvent {
    /// When, from the beginning of the measured time of each trial.
    pub(crate) at: Placed<Time>,
    /// What: reload, change-route, restart-upstream or restart-gateway.
    #[serde(rename = "do")]
    pub(crate) action: Placed<RawAction>,
    /// Where among the routes `change-route` puts the new one. Default: last.
    pub(crate) route: Option<Placed<AskText>>,
    /// Which instance of the upstream is restarted, from 0. Default: 0.
    pub(crate) instance: Option<Placed<u32>>,
    /// For how long the instance is away. Default: 200ms.
    pub(crate) down: Option<Placed<Time>>,
    /// Label of the only gateway in whose trials it happens. Default: every one; direct too, where it is done to the upstream.
    #[schemars(with = "Option<Text>")]
    pub(crate) gateway: Option<Placed<String>>,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "action")]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawAction {
    /// The gateway reads its configuration again.
    Reload,
    /// The gateway is given a route that it has not had.
    ChangeRoute,
    /// An instance of the upstream goes away and comes back.
    RestartUpstream,
    /// The gateway is stopped and started again.
    RestartGateway,
}
