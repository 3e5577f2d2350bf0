//! Language models: the one that the built-in upstream plays, and requests to it.

use super::Delay;
use hoptax_format::llm::Api;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The language model that the built-in upstream plays. It answers POST requests whose path ends like that of
/// an [`Api`] or with `/embeddings`, and `GET /v1/models`. Other requests get the usual answers.
///
/// A response that is not streamed is sent when the last token of a stream would be due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpstreamLlm {
    /// The APIs that it has. Requests for others get status 404.
    pub apis: Vec<Api>,
    /// Time from the head of a response, which is sent at once, until the first token is due. It is drawn for
    /// each response.
    pub first_token: Delay,
    /// Time between the moments when two writes are due.
    pub gap: Duration,
    /// Number of tokens of a response; fewer if the request asks for fewer.
    pub tokens: u32,
    /// Length of the text of each token, bytes; at least
    /// [`Stamp::TEXT_LENGTH`](hoptax_format::messages::Stamp::TEXT_LENGTH). It begins with a stamp.
    pub bytes_per_token: u32,
    /// Number of tokens that are due at the same time and are sent in one write; at least 1.
    pub per_write: u32,
    /// Number of writes that an event is sent in, one after another; at least 1. More than one only if
    /// `per_write` is 1. The text then has characters of several bytes, so that some are cut.
    pub split: u32,
    /// Whether lines of events end with CRLF instead of LF.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub crlf: bool,
    /// Number of tokens that a response claims to have. Absent if it is the true number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<u64>,
    /// Time without data after which the upstream sends a comment (Anthropic: a `ping` event). Absent if it
    /// sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Duration>,
    /// Failures. Their shares add up to 1 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<LlmFailure>,
}

impl UpstreamLlm {
    /// Text of a token if the plan does not say otherwise, bytes.
    pub const USUAL_BYTES: u32 = 40;
    /// Number of tokens if the plan does not say otherwise.
    pub const USUAL_TOKENS: u32 = 20;

    /// Time from the first token until the last one is due, if a response has this number of tokens.
    pub fn length(&self, tokens: u32) -> Duration {
        self.gap.saturating_mul(tokens.saturating_sub(1) / self.per_write.max(1))
    }
}

impl Default for UpstreamLlm {
    fn default() -> Self {
        Self {
            apis: Api::ALL.to_vec(),
            first_token: Delay::Fixed(Duration::ZERO),
            gap: Duration::ZERO,
            tokens: Self::USUAL_TOKENS,
            bytes_per_token: Self::USUAL_BYTES,
            per_write: 1,
            split: 1,
            crlf: false,
            usage: None,
            heartbeat: None,
            failures: Vec::new(),
        }
    }
}

/// Responses of a language model that fail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LlmFailure {
    /// What happens.
    pub kind: LlmFailureKind,
    /// Share of responses, 0 to 1.
    pub share: f64,
    /// Number of tokens before it. Only of kinds that are within a stream; other responses do not have them.
    #[serde(default)]
    pub at: u32,
}

/// How a response of a language model fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LlmFailureKind {
    /// Status 429 with `retry-after: 1`.
    RateLimit,
    /// Status 500.
    ServerError,
    /// Status 529 (Anthropic) or 503.
    Overloaded,
    /// An error event within the stream, which then ends.
    ErrorEvent,
    /// The connection is closed within the stream (HTTP/2: the stream is reset).
    Cut,
    /// Nothing follows, and the connection stays open.
    Silence,
}

impl LlmFailureKind {
    /// True if it is within a stream.
    pub fn is_in_stream(self) -> bool {
        matches!(self, Self::ErrorEvent | Self::Cut | Self::Silence)
    }
}

/// A request to a language model. The body of the target is the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LlmRequest {
    /// The API.
    pub api: Api,
    /// Name of the model.
    pub model: String,
    /// Whether the response is a stream of tokens.
    pub stream: bool,
    /// Maximum number of tokens of the response. Absent if the request names none; Anthropic's API needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Number of tools that the request offers.
    #[serde(default)]
    pub tools: u32,
    /// Whether a stream of OpenAI's chat completions has the number of tokens (`stream_options`).
    #[serde(default)]
    pub include_usage: bool,
    /// Whether each prompt begins differently, so that no cache knows a part of it.
    #[serde(default)]
    pub unique: bool,
}
