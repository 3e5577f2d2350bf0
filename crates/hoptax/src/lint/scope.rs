//! What `hoptax lint` checks of a pack.

use hoptax_format::llm::Api;
use std::time::Duration;

/// What to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Settings and answers.
    All,
    /// Only the settings.
    Settings,
    /// Only the answers.
    Answers,
    /// Only the answers to gRPC calls.
    Calls,
    /// Only server-sent events. In one case, the upstream is silent for this long.
    Events(Duration),
    /// Only WebSockets. In one case, both sides are silent for this long.
    WebSockets(Duration),
    /// Only requests to language models, with an API that [has cases](hoptax_lab::conformance::llm_cases).
    Llm(Api),
}

impl Scope {
    /// True if settings are checked. This measures CPU time, which other gateways would change.
    pub fn has_settings(self) -> bool {
        matches!(self, Self::All | Self::Settings)
    }

    /// What clients and the upstream exchange instead of requests and responses, in the words of the report.
    pub(super) fn messages(self) -> Option<&'static str> {
        match self {
            Self::Events(_) => Some("server-sent events"),
            Self::WebSockets(_) => Some("WebSocket"),
            Self::Llm(Api::Anthropic) => Some("Anthropic's messages"),
            Self::Llm(_) => Some("OpenAI's chat completions"),
            _ => None,
        }
    }
}
