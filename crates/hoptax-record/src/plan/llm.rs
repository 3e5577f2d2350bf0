//! Language models: the one that the built-in upstream plays, and requests to it.

use super::delay::Delay;
use hoptax_format::llm::{Api, Leave, Pause, TokenSpec};
use hoptax_format::messages::{Carrier, StreamKind, StreamSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
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
    /// Whether responses have the headers that providers add to each: identifiers, limits of rates, and the
    /// time in the model. The identifiers are all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub headers_of_provider: bool,
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
            headers_of_provider: false,
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
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::RateLimit, Self::ServerError, Self::Overloaded, Self::ErrorEvent, Self::Cut, Self::Silence];

    /// The name in plans and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::RateLimit => "rate-limit",
            Self::ServerError => "server-error",
            Self::Overloaded => "overloaded",
            Self::ErrorEvent => "error-event",
            Self::Cut => "cut",
            Self::Silence => "silence",
        }
    }

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
    /// Whether the model must call one of these tools. Ignored if there are none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tool_call: bool,
    /// Whether to ask for the number of tokens of a stream (`stream_options` of OpenAI).
    #[serde(default)]
    pub include_usage: bool,
    /// Whether each prompt begins differently, so that no cache knows a part of it.
    #[serde(default)]
    pub unique: bool,
    /// When the client stops reading a stream for a time. Absent if it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Pause>,
}

impl LlmRequest {
    /// The model if nothing else is said.
    pub const USUAL_MODEL: &str = "gpt-4o-mini";
    /// The API key if nothing else is said.
    pub const USUAL_KEY: &str = "hoptax";
    /// Length of the prompt if nothing else is said, bytes.
    pub const USUAL_PROMPT: u64 = 1024;
    /// Maximum number of tokens for Anthropic's API, which needs one, if the request names none.
    const ANTHROPIC_TOKENS: u32 = 1024;

    /// A streamed request with the usual settings.
    pub fn usual(api: Api) -> Self {
        Self {
            api,
            model: Self::USUAL_MODEL.to_owned(),
            stream: true,
            max_tokens: None,
            tools: 0,
            tool_call: false,
            include_usage: true,
            unique: false,
            pause: None,
        }
    }

    /// The tokens of a streamed response: their number, or [`hoptax_format::messages::UNKNOWN`], and the time
    /// between two. `None` if the response is not streamed.
    pub fn tokens(&self, messages: u32, gap: Duration, leave: Option<Leave>) -> Option<StreamSpec> {
        let usage = self.include_usage || self.api != Api::OpenAi;
        let every_ns = u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX);
        self.stream.then(|| StreamSpec {
            carrier: Carrier::Events,
            tokens: Some(TokenSpec { api: self.api, usage, leave, pause: self.pause, goodput: None }),
            ..StreamSpec::grpc(StreamKind::ServerStream, messages, every_ns)
        })
    }

    /// The maximum number of tokens that the request names.
    pub fn most_tokens(&self) -> Option<u32> {
        self.max_tokens.or((self.api == Api::Anthropic).then_some(Self::ANTHROPIC_TOKENS))
    }

    /// The headers of a request that SDKs send, in order. `key` is the API key.
    pub fn headers(&self, key: &str) -> Vec<(String, String)> {
        let accept = if self.stream { "text/event-stream" } else { "application/json" };
        let bearer = format!("Bearer {key}");
        let login = match self.api {
            Api::Anthropic => vec![("x-api-key", key), ("anthropic-version", "2023-06-01")],
            Api::OpenAi | Api::Responses => vec![("authorization", bearer.as_str())],
        };
        let all = [("content-type", "application/json"), ("accept", accept)].into_iter().chain(login);
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// True if this header has the [usual key](Self::USUAL_KEY).
    pub fn is_usual_key(name: &str, value: &str) -> bool {
        let key = match name.to_ascii_lowercase().as_str() {
            "authorization" => value.strip_prefix("Bearer "),
            "x-api-key" => Some(value),
            _ => None,
        };
        key == Some(Self::USUAL_KEY)
    }

    /// Adds [the headers](Self::headers) that `headers` does not have.
    pub fn add_headers(&self, key: &str, headers: &mut Vec<(String, String)>) {
        for (name, value) in self.headers(key) {
            if !headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(&name)) {
                headers.push((name, value));
            }
        }
    }

    /// The body of a request with this prompt, as JSON. If prompts are [unique](Self::unique), it is a
    /// template.
    pub fn body(&self, prompt: &str) -> String {
        match self.unique {
            true => self.body_of_template(&prompt.replace("{{", "\\{{")),
            false => self.json(prompt),
        }
    }

    /// The body of a request, as a template that gives JSON. The prompt is a template, whose values need no
    /// escapes in JSON.
    pub fn body_of_template(&self, prompt: &str) -> String {
        let start = if self.unique { "{{uuid}} " } else { "" };
        // JSON doubles the backslash that makes braces literal. Other braces of JSON never follow each other.
        self.json(&format!("{start}{prompt}")).replace("\\\\{{", "\\{{")
    }

    fn json(&self, prompt: &str) -> String {
        let mut body = json!({ "model": self.model });
        // Gateways that do not know the newer `max_completion_tokens` would drop it.
        let (input, most) = match self.api {
            Api::Responses => ("input", "max_output_tokens"),
            Api::OpenAi | Api::Anthropic => ("messages", "max_tokens"),
        };
        body[input] = json!([{ "role": "user", "content": prompt }]);
        if let Some(tokens) = self.most_tokens() {
            body[most] = tokens.into();
        }
        if self.tools > 0 {
            body["tools"] = (1..=self.tools).map(|number| self.tool(number)).collect();
            if self.tool_call {
                body["tool_choice"] = match self.api {
                    Api::Anthropic => json!({ "type": "any" }),
                    Api::OpenAi | Api::Responses => "required".into(),
                };
            }
        }
        if self.stream {
            body["stream"] = true.into();
        }
        if self.stream && self.include_usage && self.api == Api::OpenAi {
            body["stream_options"] = json!({ "include_usage": true });
        }
        body.to_string()
    }

    /// A tool of typical length.
    fn tool(&self, number: u32) -> Value {
        let name = format!("get_weather_{number}");
        let description = "Returns the weather of a town. Call it before you recommend clothes or a route.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "town": { "type": "string", "description": "Name of the town, with its country" },
                "day": { "type": "string", "enum": ["today", "tomorrow"] },
            },
            "required": ["town"],
        });
        match self.api {
            Api::Anthropic => {
                json!({ "name": name, "description": description, "input_schema": parameters })
            }
            Api::Responses => json!({
                "type": "function", "name": name, "description": description, "parameters": parameters,
            }),
            Api::OpenAi => json!({
                "type": "function",
                "function": { "name": name, "description": description, "parameters": parameters },
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::template::{Files, Place, Program, Values, sources_in};
    use std::collections::BTreeMap;

    fn parsed(body: &str) -> Value {
        serde_json::from_str(body).expect("JSON")
    }

    #[test]
    fn bodies_are_those_of_each_api() {
        let openai = LlmRequest::usual(Api::OpenAi);
        let message = json!([{ "role": "user", "content": "Say \"hi\"" }]);
        let expected = json!({
            "model": "gpt-4o-mini", "messages": message, "stream": true,
            "stream_options": { "include_usage": true },
        });
        assert_eq!(parsed(&openai.body("Say \"hi\"")), expected);
        let whole = LlmRequest { stream: false, max_tokens: Some(7), ..openai.clone() };
        let expected = json!({ "model": "gpt-4o-mini", "messages": message, "max_tokens": 7 });
        assert_eq!(parsed(&whole.body("Say \"hi\"")), expected);
        let responses = LlmRequest { api: Api::Responses, max_tokens: Some(7), ..openai.clone() };
        let expected =
            json!({ "model": "gpt-4o-mini", "input": message, "stream": true, "max_output_tokens": 7 });
        assert_eq!(parsed(&responses.body("Say \"hi\"")), expected);
        let anthropic = LlmRequest { api: Api::Anthropic, ..openai };
        let expected =
            json!({ "model": "gpt-4o-mini", "messages": message, "stream": true, "max_tokens": 1024 });
        assert_eq!(parsed(&anthropic.body("Say \"hi\"")), expected);
    }

    #[test]
    fn tools_and_headers_are_those_of_each_api() {
        let bearer = ("authorization", "Bearer k");
        for (api, name, choice, header) in [
            (Api::OpenAi, "/tools/1/function/name", json!("required"), bearer),
            (Api::Responses, "/tools/1/name", json!("required"), bearer),
            (Api::Anthropic, "/tools/1/name", json!({ "type": "any" }), ("x-api-key", "k")),
        ] {
            let request = LlmRequest { tools: 2, ..LlmRequest::usual(api) };
            let body = parsed(&request.body(""));
            assert_eq!(body.get("tool_choice"), None, "{body}");
            for (tools, expected) in [(0, None), (1, Some(&choice))] {
                let body = parsed(&LlmRequest { tools, tool_call: true, ..request.clone() }.body(""));
                assert_eq!(body.get("tool_choice"), expected, "{body}");
            }
            assert_eq!(body.pointer(name), Some(&json!("get_weather_2")), "{body}");
            let headers = request.headers("k");
            let expected = [("accept", "text/event-stream"), header];
            let has = |(name, value): (&str, &str)| headers.contains(&(name.to_owned(), value.to_owned()));
            assert!(expected.into_iter().all(has), "{headers:?}");
        }
    }

    /// The prompt of a body that the load engine has expanded, without the UUID at its beginning.
    fn expanded(body: &str) -> String {
        let (none, mut program, mut out) = (BTreeMap::new(), Program::default(), Vec::new());
        let files = Files::new(&none, &sources_in(body));
        program.push_template(body, Place::Body, &files).expect(body);
        program.write(&mut Values::new(&files, (0, 1), 1, 0), &mut out);
        let body = parsed(str::from_utf8(&out).expect("text"));
        let prompt = body["messages"][0]["content"].as_str().expect("a text");
        let (uuid, prompt) = prompt.split_once(' ').expect("a UUID first");
        assert_eq!(uuid.len(), 36, "{uuid}");
        prompt.to_owned()
    }

    #[test]
    fn only_templates_are_expanded() {
        let unique = LlmRequest { unique: true, tools: 1, ..LlmRequest::usual(Api::OpenAi) };
        for prompt in ["plain", "{{seq}}", "a \\{{ b", "\\\\{{{ \"c\"}}", "{\n{"] {
            assert_eq!(expanded(&unique.body(prompt)), prompt);
        }
        let prompt = "{{random 7 7}} \"\n\\{{x}} \\";
        assert_eq!(expanded(&unique.body_of_template(prompt)), "7 \"\n{{x}} \\");
        let same = LlmRequest { unique: false, ..unique };
        assert_eq!(parsed(&same.body("{{x"))["messages"][0]["content"], "{{x");
    }
}
