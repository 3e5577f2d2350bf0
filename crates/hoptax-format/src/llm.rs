//! Requests to language models: the APIs, what a client expects of a response, and the record of the results.
//!
//! The *content* of a response is the text of the model. Its *tokens* are the events with content: each has a
//! [`Stamp`](crate::messages::Stamp) in its text, because AI gateways rebuild everything else. Tokens are the
//! messages of [`crate::messages`].

use crate::histogram::Encoded;
use serde::{Deserialize, Serialize};

/// An API of language models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// Chat completions of OpenAI.
    OpenAi,
    /// Responses of OpenAI.
    Responses,
    /// Messages of Anthropic.
    Anthropic,
}

impl Api {
    /// All APIs.
    pub const ALL: [Self; 3] = [Self::OpenAi, Self::Responses, Self::Anthropic];

    /// The name in plans and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
        }
    }

    /// The API with this name.
    ///
    /// # Errors
    /// If no API has this name. The message lists the names.
    pub fn parse(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|api| api.name() == name);
        known.ok_or_else(|| "use openai, responses or anthropic".to_owned())
    }

    /// The usual path.
    pub fn path(self) -> &'static str {
        match self {
            Self::OpenAi => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Anthropic => "/v1/messages",
        }
    }

    /// The API of a path, which must have no query. Only the end of the path counts, because gateways replace
    /// the prefix `/v1`.
    pub fn of_path(path: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|api| path.ends_with(&api.path().as_bytes()["/v1".len()..]))
    }
}

/// What a client expects of a stream of tokens, and what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSpec {
    /// The API, which determines how a stream ends.
    pub api: Api,
    /// True if the client has asked for the number of tokens, or the API always has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub usage: bool,
    /// When the client leaves. Absent if it waits for the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leave: Option<Leave>,
    /// When the client stops reading for a time. Absent if it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
    /// Limits that make a request [good](TokenCounts::good). Absent if good requests are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput: Option<TokenLimits>,
}

/// Limits of the times of a stream of tokens, nanoseconds. A time that equals its limit is within it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenLimits {
    /// From sending the request until the first token arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_content_ns: Option<u64>,
    /// Time per token ([`TokenHistograms::per_token`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_time_ns: Option<u64>,
    /// From when the request was due until its response was whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_time_ns: Option<u64>,
}

impl TokenLimits {
    /// True if a stream is within all limits. Without tokens, a stream exceeds any limit of
    /// `first_content_ns`. With fewer than two tokens, it has no time per token, and cannot exceed the limit
    /// of it.
    pub fn hold(self, first_content: Option<u64>, token_time: Option<u64>, response_time: u64) -> bool {
        let Self { first_content_ns, token_time_ns, response_time_ns } = self;
        first_content_ns.is_none_or(|most| first_content.is_some_and(|time| time <= most))
            && token_time_ns.zip(token_time).is_none_or(|(most, time)| time <= most)
            && response_time_ns.is_none_or(|most| response_time <= most)
    }
}

/// When a client leaves before the end of a response. It closes the connection (HTTP/2: resets the stream),
/// and the exchange counts as completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leave {
    /// This time after it has sent the request, nanoseconds. A response that ends earlier is whole.
    AfterNs(u64),
    /// When this number of tokens has arrived; at least 1.
    AfterTokens(u32),
}

/// When a client stops reading. After a number of tokens, it reads nothing for some time, and then continues.
/// With HTTP/2, it returns no window for the stream, so data that fit into the window still arrive. A
/// response that ends during the pause is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Number of tokens before the pause; at least 1.
    pub after_tokens: u32,
    /// How long the client reads nothing, nanoseconds.
    pub time_ns: u64,
}

/// What the client has seen of the streams that were scheduled in the measured time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokensRecord {
    /// Numbers of streams and events.
    pub counts: TokenCounts,
    /// Times, nanoseconds.
    pub histograms: TokenHistograms,
}

/// Numbers of streams and events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCounts {
    /// Streams whose end was announced: `[DONE]`, `response.completed` or `message_stop`.
    pub ended: u64,
    /// Whole responses without such an end. They count as failed.
    pub unended: u64,
    /// Streams with an error event. They count as failed.
    pub errors: u64,
    /// Streams that the client left on purpose ([`TokenSpec::leave`]).
    pub left: u64,
    /// Streams that ended after their pause ([`TokenSpec::pause`]) was over. Absent if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub paused: u64,
    /// Events without content, not including comments.
    pub other_events: u64,
    /// Streams that announced their end and stated the number of tokens of the response.
    pub usage: u64,
    /// Sum of the stated numbers of tokens.
    pub usage_tokens: u64,
    /// Requests that succeeded within all limits of [`TokenSpec::goodput`]. Absent without limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good: Option<u64>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl TokenCounts {
    /// Adds the counts of another worker or trial.
    pub fn add(&mut self, other: &Self) {
        let Self { ended, unended, errors, left, paused, other_events, usage, usage_tokens, good } = other;
        self.ended += ended;
        self.unended += unended;
        self.errors += errors;
        self.left += left;
        self.paused += paused;
        self.other_events += other_events;
        self.usage += usage;
        self.usage_tokens += usage_tokens;
        self.good = self.good.into_iter().chain(*good).reduce(|mine, theirs| mine + theirs);
    }
}

/// Times of streams, nanoseconds. The time to the first content is
/// [`MessageHistograms::first_message`](crate::messages::MessageHistograms::first_message).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenHistograms {
    /// From sending the request until the first event arrived, with content or without.
    pub first_event: Encoded,
    /// Age of the first token of each stream. Empty if upstream and generator have different clocks.
    pub first_age: Encoded,
    /// Time per token (TPOT) of each stream with at least two tokens: (arrival of the last token − arrival of
    /// the first) ÷ (tokens − 1). Tokens after a [`Pause`] do not count.
    pub per_token: Encoded,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_good_if_no_time_exceeds_its_limit() {
        let (first, token, response) = (Some(10), Some(5), Some(100));
        let all = TokenLimits { first_content_ns: first, token_time_ns: token, response_time_ns: response };
        for (name, times, expected) in [
            ("at the limits", (first, token, 100), true),
            ("a late first token", (Some(11), token, 100), false),
            ("slow tokens", (first, Some(6), 100), false),
            ("a long response", (first, token, 101), false),
            ("one token", (first, None, 100), true),
            ("no token", (None, None, 100), false),
        ] {
            assert_eq!(all.hold(times.0, times.1, times.2), expected, "{name}");
            assert!(TokenLimits::default().hold(times.0, times.1, times.2), "{name}, without limits");
        }
    }
}
