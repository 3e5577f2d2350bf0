//! Events: what is done to a gateway or the upstream while a trial is measured.

use super::Ask;
use super::units::show_duration;
use std::fmt;
use std::time::Duration;

/// For how long a restarted upstream instance is away where the plan does not say.
pub(super) const USUAL_DOWN: Duration = Duration::from_millis(200);

/// Something that happens in each trial of the gateways it is meant for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When, from the beginning of the measured time.
    pub at: Duration,
    /// What.
    pub action: Action,
    /// Label of the only gateway that it is meant for; every one when absent.
    pub gateway: Option<String>,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The gateway reads its configuration again, which has not changed.
    Reload,
    /// The gateway is given one route that it has not had, at this place among the others, in the place of the one that the
    /// event before gave it.
    ChangeRoute {
        /// Where.
        route: Ask,
    },
    /// An instance of the upstream closes its listener and its connections, and listens again later.
    RestartUpstream {
        /// Which, from 0.
        instance: u32,
        /// For how long it is away.
        down: Duration,
    },
    /// The gateway is stopped as its pack says, and started again.
    RestartGateway,
}

impl Action {
    /// As plans and reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reload => "reload",
            Self::ChangeRoute { .. } => "change-route",
            Self::RestartUpstream { .. } => "restart-upstream",
            Self::RestartGateway => "restart-gateway",
        }
    }

    /// Whether the gateway has to read its configuration again for it.
    pub fn reloads(self) -> bool {
        matches!(self, Self::Reload | Self::ChangeRoute { .. })
    }

    /// Whether it is done to the upstream, so that direct meets it as well.
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
            Self::Reload | Self::RestartGateway => Ok(()),
        }
    }
}

impl Event {
    /// Whether it happens in trials of this gateway, or of direct (`None`).
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

    #[test]
    fn direct_meets_only_what_is_done_to_the_upstream() {
        let event = |action, gateway: Option<&str>| Event {
            at: Duration::ZERO,
            action,
            gateway: gateway.map(str::to_owned),
        };
        let upstream = Action::RestartUpstream { instance: 0, down: USUAL_DOWN };
        let meets = |event: Event| [None, Some("a"), Some("b")].map(|who| event.concerns(who));
        assert_eq!(meets(event(Action::Reload, None)), [false, true, true]);
        assert_eq!(meets(event(Action::Reload, Some("b"))), [false, false, true]);
        assert_eq!(meets(event(upstream, None)), [true, true, true]);
        assert_eq!(meets(event(upstream, Some("a"))), [false, true, false]);
    }

    #[test]
    fn is_told_with_its_settings() {
        let shown = |action: Action| action.to_string();
        assert_eq!(shown(Action::ChangeRoute { route: Ask::Last }), "change-route (last)");
        let restart = Action::RestartUpstream { instance: 1, down: USUAL_DOWN };
        assert_eq!(shown(restart), "restart-upstream (instance 1, away for 200ms)");
        assert_eq!(shown(Action::RestartGateway), "restart-gateway");
    }
}
