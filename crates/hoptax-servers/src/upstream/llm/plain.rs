//! Responses that are not streamed, including errors.

use super::super::answer::{AnswerTo, allowed_fields};
use super::request::Asked;
use super::text::Facts;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hoptax_format::llm::Api;
use hoptax_format::stamp;
use hoptax_wire::http1::{Version, response_head};
use hoptax_wire::http2::{Block, response_fields};
use serde_json::{Value, json};

/// Number of dimensions of an embedding: the default and the maximum.
const DIMENSIONS: u64 = 1536;
const MOST_DIMENSIONS: u64 = 4096;

/// A response that has a body of JSON.
#[derive(Debug)]
pub(in crate::upstream) struct Whole {
    status: u16,
    body: String,
}

impl Whole {
    pub(super) fn ok(body: &Value) -> Self {
        Self { status: 200, body: body.to_string() }
    }

    /// An error as the API writes it.
    pub(super) fn error(api: Api, status: u16, message: &str) -> Self {
        let (of_openai, code, of_anthropic) = match status {
            404 => ("invalid_request_error", None, "not_found_error"),
            429 => ("requests", Some("rate_limit_exceeded"), "rate_limit_error"),
            500 => ("server_error", None, "api_error"),
            503 | 529 => ("server_error", None, "overloaded_error"),
            _ => ("invalid_request_error", None, "invalid_request_error"),
        };
        let body = match api {
            Api::Anthropic => json!({
                "type": "error",
                "error": { "type": of_anthropic, "message": message },
                "request_id": "req_hoptax",
            }),
            Api::OpenAi | Api::Responses => {
                json!({ "error": { "message": message, "type": of_openai, "param": null, "code": code } })
            }
        };
        Self { status, body: body.to_string() }
    }

    /// A response with a text, or with a call of a tool.
    pub(super) fn text(api: Api, asked: &Asked<'_>, facts: &Facts<'_>, text: &str) -> Self {
        let Facts { id, created, input, output, is_limited, .. } = *facts;
        let total = u64::from(input) + output;
        let status = if is_limited { "incomplete" } else { "completed" };
        let (model, item) = (&asked.model, item(api, asked, (id, status), text));
        let ends = |limited, called, usual| match asked.tool {
            _ if is_limited => limited,
            Some(_) => called,
            None => usual,
        };
        Self::ok(&match api {
            Api::OpenAi => json!({
                "id": format!("chatcmpl-{id:016x}"), "object": "chat.completion", "created": created,
                "model": model, "service_tier": "default", "system_fingerprint": "fp_hoptax",
                "choices": [{
                    "index": 0, "logprobs": null, "message": item,
                    "finish_reason": ends("length", "tool_calls", "stop"),
                }],
                "usage": {
                    "prompt_tokens": input, "completion_tokens": output, "total_tokens": total,
                    "prompt_tokens_details": { "cached_tokens": 0 },
                    "completion_tokens_details": { "reasoning_tokens": 0 },
                },
            }),
            Api::Responses => json!({
                "id": format!("resp_{id:016x}"), "object": "response", "created_at": created,
                "status": status,
                "incomplete_details": is_limited.then(|| json!({ "reason": "max_output_tokens" })),
                "error": null, "instructions": null, "model": model,
                "output": [item],
                "usage": {
                    "input_tokens": input, "output_tokens": output, "total_tokens": total,
                    "input_tokens_details": { "cached_tokens": 0 },
                    "output_tokens_details": { "reasoning_tokens": 0 },
                },
            }),
            Api::Anthropic => json!({
                "id": format!("msg_{id:016x}"), "type": "message", "role": "assistant", "model": model,
                "content": [item],
                "stop_reason": ends("max_tokens", "tool_use", "end_turn"),
                "stop_sequence": null,
                "usage": {
                    "input_tokens": input, "output_tokens": output,
                    "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                },
            }),
        })
    }

    /// One embedding for each text of a request. All of them are the same.
    pub(super) fn embeddings(asked: &Asked<'_>, input: u32) -> Self {
        let dimensions = asked.dimensions.unwrap_or(DIMENSIONS).clamp(1, MOST_DIMENSIONS);
        // JSON and base64 represent these numbers exactly.
        let numbers: Vec<f32> = (0..dimensions).map(|at| ((at * 37 % 101) as f32 - 50.0) / 1024.0).collect();
        let embedding: Value = if asked.is_base64 {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            STANDARD.encode(bytes).into()
        } else {
            numbers.into()
        };
        // Copying the text takes less memory and time than copying the values.
        let embedding = embedding.to_string();
        let data: Vec<String> = (0..asked.inputs)
            .map(|index| format!(r#"{{"object":"embedding","index":{index},"embedding":{embedding}}}"#))
            .collect();
        let usage = json!({ "prompt_tokens": input, "total_tokens": input });
        let (data, model) = (data.join(","), Value::from(&*asked.model));
        let body = format!(r#"{{"object":"list","data":[{data}],"model":{model},"usage":{usage}}}"#);
        Self { status: 200, body }
    }

    /// The list of models, which routers request. The upstream accepts the names of other models too.
    pub(super) fn models() -> Self {
        const CREATED: u32 = 1_700_000_000;
        let models = ["gpt-4o-mini", "gpt-4o", "text-embedding-3-small"]
            .map(|id: &str| json!({ "id": id, "object": "model", "created": CREATED, "owned_by": "hoptax" }));
        Self::ok(&json!({ "object": "list", "data": models }))
    }

    fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        const LATER: [(&str, &str); 3] =
            [("retry-after", "1"), ("retry-after-ms", "1000"), ("x-should-retry", "true")];
        let later = if self.status == 429 { &LATER[..] } else { &[] };
        [("content-type", "application/json")].into_iter().chain(later.iter().copied())
    }

    /// The response over HTTP/1, with the headers of all responses. With `stamps`, the second line has space
    /// for a stamp.
    pub(in crate::upstream) fn http1(
        &self,
        to: AnswerTo,
        (headers, stamps): (&[(String, String)], bool),
    ) -> Vec<u8> {
        let stamp = stamps.then_some((stamp::HEADER, stamp::BLANK));
        let connection = match (to.version, to.keep_alive) {
            (Version::Http11, true) => None,
            (Version::Http10, true) => Some(("connection", "keep-alive")),
            (_, false) => Some(("connection", "close")),
        };
        let others = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).filter(is_free);
        let all = stamp.into_iter().chain(self.headers()).chain(others).chain(connection);
        let head = response_head(Version::Http11, self.status, all, Some(self.body.len() as u64));
        let mut response = head.expect("the usual answers have the same headers");
        response.extend_from_slice(self.body.as_bytes());
        response
    }

    /// The head and the body over HTTP/2.
    pub(in crate::upstream) fn http2(self, headers: &[(String, String)]) -> (Block, Vec<u8>) {
        let all = self.headers().chain(allowed_fields(headers).filter(is_free));
        let fields = response_fields(self.status, all, Some(self.body.len() as u64));
        (Block::plain(&fields.expect("the usual answers have the same headers")), self.body.into_bytes())
    }
}

/// The message of a response, or its call of a tool.
fn item(api: Api, asked: &Asked<'_>, (id, status): (u64, &str), text: &str) -> Value {
    let Some(name) = &asked.tool else {
        return match api {
            Api::OpenAi => {
                json!({ "role": "assistant", "content": text, "refusal": null, "annotations": [] })
            }
            Api::Responses => json!({
                "id": format!("msg_{id:016x}"), "type": "message", "status": status, "role": "assistant",
                "content": [{ "type": "output_text", "annotations": [], "logprobs": [], "text": text }],
            }),
            Api::Anthropic => json!({ "type": "text", "text": text }),
        };
    };
    let (input, call) = (json!({ "town": text }), format!("call_{id:016x}"));
    match api {
        Api::OpenAi => json!({
            "role": "assistant", "content": null, "refusal": null, "annotations": [],
            "tool_calls": [{
                "id": call, "type": "function",
                "function": { "name": name, "arguments": input.to_string() },
            }],
        }),
        Api::Responses => json!({
            "id": format!("fc_{id:016x}"), "type": "function_call", "status": status, "call_id": call,
            "name": name, "arguments": input.to_string(),
        }),
        Api::Anthropic => json!({
            "type": "tool_use", "id": format!("toolu_{id:016x}"), "name": name, "input": input,
        }),
    }
}

/// True if the response does not set this header itself.
fn is_free((name, _): &(&str, &str)) -> bool {
    !name.eq_ignore_ascii_case("content-type")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_the_api() {
        for (status, of_openai, of_anthropic) in [
            (400, "invalid_request_error", "invalid_request_error"),
            (404, "invalid_request_error", "not_found_error"),
            (429, "requests", "rate_limit_error"),
            (500, "server_error", "api_error"),
            (529, "server_error", "overloaded_error"),
        ] {
            for (api, expected) in
                [(Api::OpenAi, of_openai), (Api::Responses, of_openai), (Api::Anthropic, of_anthropic)]
            {
                let error = Whole::error(api, status, "a \"b\"");
                let to = AnswerTo { version: Version::Http11, keep_alive: true, head: false, failed: false };
                let headers = [("x-a".to_owned(), "b".to_owned()), ("Content-Type".into(), "x/y".into())];
                let text = String::from_utf8(error.http1(to, (&headers, true))).expect("text");
                let (head, body) = text.split_once("\r\n\r\n").expect("a head");
                let body: Value = serde_json::from_str(body).expect("JSON");
                assert_eq!(body["error"]["type"], expected);
                assert_eq!(body["error"]["message"], "a \"b\"");
                assert!(head.contains(&format!("\r\n{}: ", stamp::HEADER)), "{head}");
                for header in ["retry-after: 1\r\n", "retry-after-ms: 1000\r\n", "x-should-retry: true\r\n"] {
                    assert_eq!(head.contains(header), status == 429, "{head}");
                }
                assert!(head.contains("x-a: b") && !head.contains("x/y"), "{head}");
            }
        }
    }

    #[test]
    fn a_response_and_its_message_have_the_same_status() {
        for (is_limited, status) in [(false, "completed"), (true, "incomplete")] {
            let facts = Facts {
                id: 1,
                created: 1,
                model: "",
                tokens: 1,
                input: 1,
                output: 1,
                include_usage: false,
                is_limited,
                tool: None,
                last: Some(0),
                padded: None,
            };
            let body = Whole::text(Api::Responses, &Asked::default(), &facts, "hi").body;
            let body: Value = serde_json::from_str(&body).expect("JSON");
            assert_eq!((&body["status"], &body["output"][0]["status"]), (&status.into(), &status.into()));
        }
    }

    #[test]
    fn embeddings_have_the_same_numbers_in_both_forms() {
        let read = |is_base64| {
            let asked = Asked { dimensions: Some(3), inputs: 1, is_base64, ..Asked::default() };
            let body = Whole::embeddings(&asked, 7).body;
            let body: Value = serde_json::from_str(&body).expect("JSON");
            assert_eq!(body["usage"]["total_tokens"], 7);
            body["data"][0]["embedding"].clone()
        };
        let encoded = read(true);
        let bytes = STANDARD.decode(encoded.as_str().expect("a text")).expect("base64");
        let number = |four: &[u8]| f64::from(f32::from_le_bytes(four.try_into().expect("four bytes")));
        let decoded: Vec<Value> = bytes.chunks_exact(4).map(|four| number(four).into()).collect();
        assert_eq!(read(false), Value::from(decoded));
    }
}
