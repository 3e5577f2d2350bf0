//! Language models in YAML: the one that the built-in upstream plays, and requests.

use super::forms::one_of;
use super::{ApiText, Bytes, BytesText, DelayText, Placed, Share, Short, Sweep, Text, Time};
use crate::LlmFailureKind;
use schemars::JsonSchema;
use serde::Deserialize;

/// A language model that the built-in upstream plays.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "upstream-llm")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawUpstreamLlm {
    /// Its APIs: one, or a list. Default: all.
    pub(crate) apis: Option<Sweep<ApiText>>,
    /// Time from the head of a response until the first token. Default: 0s.
    pub(crate) first_token: Option<Placed<DelayText>>,
    /// Time between two writes. Default: 0s, all tokens are due at once.
    pub(crate) gap: Option<Placed<Time>>,
    /// Number of tokens of a response. Requests can ask for fewer. Default: 20.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) tokens: Option<Placed<u32>>,
    /// Length of the text of each token. Default: 40B.
    pub(crate) bytes_per_token: Option<Placed<BytesText>>,
    /// Number of tokens that are sent in one write. Default: 1.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) per_write: Option<Placed<u32>>,
    /// Number of writes that each token is sent in. Not with `per_write`. Default: 1.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) split: Option<Placed<u32>>,
    /// Whether lines of events end with CRLF. Default: false.
    pub(crate) crlf: Option<bool>,
    /// Whether responses have the headers that providers add, such as `x-request-id` and limits of rates.
    /// Default: false.
    pub(crate) headers_of_provider: Option<bool>,
    /// Number of tokens that responses claim to have. Default: the true number.
    pub(crate) usage: Option<u64>,
    /// Time without data after which the upstream sends a comment, or a `ping` of Anthropic. Default: none.
    pub(crate) heartbeat: Option<Placed<Time>>,
    /// Responses that fail. Default: none.
    pub(crate) failures: Option<Vec<Placed<RawLlmFailure>>>,
}

/// Responses of a language model that fail.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "llm-failure")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLlmFailure {
    /// What happens.
    pub(crate) kind: Placed<LlmFailureKind>,
    /// Share of responses. Default: 100%.
    pub(crate) share: Option<Placed<Share>>,
    /// Number of tokens before it, for `error-event`, `cut` and `silence`. Default: 0.
    pub(crate) at: Option<Placed<u32>>,
}

/// A request to a language model.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "llm")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLlm {
    /// API. Default: openai.
    pub(crate) api: Option<Placed<ApiText>>,
    /// Name of the model. Default: gpt-4o-mini.
    pub(crate) model: Option<Placed<String>>,
    /// Whether the response is a stream of tokens. Default: true.
    pub(crate) stream: Option<bool>,
    /// The prompt: a size, or a mapping with one of `text` and `file`. Default: 1KiB.
    pub(crate) prompt: Option<Placed<Short<RawPrompt, Bytes>>>,
    /// Maximum number of tokens of the response. Default: none; 1024 for Anthropic, which needs one.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) max_tokens: Option<Placed<u32>>,
    /// Number of tools that the request offers. Default: 0.
    #[schemars(range(max = 1000))]
    pub(crate) tools: Option<Placed<u32>>,
    /// Whether the model must call one of these tools. Only with `tools`. Default: false.
    pub(crate) tool_call: Option<Placed<bool>>,
    /// Whether the request asks for the number of tokens (`stream_options` of OpenAI). Default: true.
    pub(crate) include_usage: Option<bool>,
    /// Whether each prompt begins differently, so that no cache knows it. Default: false.
    pub(crate) unique: Option<bool>,
    /// When the client leaves before the end of a response. Only with streams. Default: never.
    pub(crate) leave: Option<Placed<RawLeave>>,
    /// When the client stops reading a response for a time. Only with streams, and without `leave`. Default:
    /// never.
    pub(crate) pause: Option<Placed<RawPause>>,
    /// API key. A secret key belongs in a file: see `headers`. Default: hoptax.
    pub(crate) key: Option<Placed<Text>>,
}

/// Limits of the times of streams of tokens. At least one.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "goodput", extend("minProperties" = 1))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawGoodput {
    /// From sending the request until the first token arrived.
    pub(crate) first_content: Option<Placed<Time>>,
    /// Time per token.
    pub(crate) token_time: Option<Placed<Time>>,
    /// From when the request was due until its response was whole.
    pub(crate) response_time: Option<Placed<Time>>,
}

/// A prompt. Give exactly one of `text` and `file`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "llm-prompt", transform = one_of("text file"))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPrompt {
    /// The text. It can contain templates.
    pub(crate) text: Option<Placed<Text>>,
    /// File with the text, without templates. A relative path starts from the plan's directory.
    pub(crate) file: Option<Placed<String>>,
}

/// When a client leaves. Give exactly one of `after` and `after_tokens`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "llm-leave", transform = one_of("after after_tokens"))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLeave {
    /// Time after it has sent the request.
    pub(crate) after: Option<Placed<Time>>,
    /// Number of tokens that have arrived.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) after_tokens: Option<Placed<u32>>,
}

/// When a client stops reading, and for how long.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "llm-pause")]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPause {
    /// Number of tokens that have arrived.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) after_tokens: Placed<u32>,
    /// Time without reading. Shorter than the timeout.
    pub(crate) time: Placed<Time>,
}
