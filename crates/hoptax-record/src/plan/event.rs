//! Events: reloads, restarts, route changes and scrapes during trials.

use super::RoutePosition;
use crate::units::show_duration;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// An event. It happens in each trial of the gateways to which it applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Time of the event, since the start of the measured time.
    pub at: Duration,
    /// The action.
    pub action: Action,
    /// Label of the gateway to which the event applies. If absent, it applies to every gateway.
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
        route: RoutePosition,
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

impl Action {
    /// The name in plans and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reload => "reload",
            Self::ChangeRoute { .. } => "change-route",
            Self::RestartUpstream { .. } => "restart-upstream",
            Self::RestartGateway => "restart-gateway",
            Self::Scrape => "scrape",
        }
    }

    /// Whether the action makes the running gateway read its configuration again.
    pub fn reloads(self) -> bool {
        matches!(self, Self::Reload | Self::ChangeRoute { .. })
    }

    /// Whether the action affects the upstream. If so, the event also happens in trials of direct.
    pub fn is_upstream(self) -> bool {
        matches!(self, Self::RestartUpstream { .. })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::ChangeRoute { route } => write!(f, " ({route})"),
            Self::RestartUpstream { instance, down } => {
                write!(f, " (instance {instance}, away for {})", show_duration(*down))
            }
            Self::Reload | Self::RestartGateway | Self::Scrape => Ok(()),
        }
    }
}

impl Event {
    /// Whether the trials of this gateway have the event. `None` means direct.
    pub fn concerns(&self, gateway: Option<&str>) -> bool {
        match (gateway, &self.gateway) {
            (None, only) => self.action.is_upstream() && only.is_none(),
            (Some(label), Some(only)) => label == only,
            (Some(_), None) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOWN: Duration = Duration::from_millis(200);

    #[test]
    fn direct_has_only_events_of_the_upstream() {
        let event = |action, gateway: Option<&str>| Event {
            at: Duration::ZERO,
            action,
            gateway: gateway.map(str::to_owned),
        };
        let upstream = Action::RestartUpstream { instance: 0, down: DOWN };
        let meets = |event: Event| [None, Some("a"), Some("b")].map(|who| event.concerns(who));
        assert_eq!(meets(event(Action::Reload, None)), [false, true, true]);
        assert_eq!(meets(event(Action::Reload, Some("b"))), [false, false, true]);
        assert_eq!(meets(event(upstream, None)), [true, true, true]);
        assert_eq!(meets(event(upstream, Some("a"))), [false, true, false]);
    }

    #[test]
    fn actions_are_shown_with_their_settings() {
        let restart = Action::RestartUpstream { instance: 1, down: DOWN };
        let actions = [Action::ChangeRoute { route: RoutePosition::Last }, restart, Action::RestartGateway];
        insta::assert_snapshot!(actions.map(|action| action.to_string()).join("\n"));
    }
}
