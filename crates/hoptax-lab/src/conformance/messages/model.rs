//! The scripted upstream as a language model. The prompt has a mark with the number of the request and the
//! name of the answer, because gateways rebuild everything else in a request.

use super::script::{HEARTBEAT, Request, Script};
use serde_json::{Value, json};
use std::io::{self, ErrorKind, Write as _};
use std::thread;
use std::time::Duration;

/// Pause between two parts of an event, so that they arrive in reads of their own.
const PAUSE: Duration = Duration::from_millis(20);

/// The pieces of a response's text.
const WORDS: [&str; 4] = ["Hello", ", wörld 🌍", " \"and\" \\ so on\n", "!"];

/// Value of `retry-after` in a response with status 429, seconds.
pub(super) const RETRY_AFTER: &str = "1";

/// A number of tokens that no tokenizer would count.
pub(super) fn usage() -> Value {
    json!({
        "prompt_tokens": 21,
        "completion_tokens": 1_234_567,
        "total_tokens": 1_234_588,
        "prompt_tokens_details": { "cached_tokens": 3 },
        "completion_tokens_details": { "reasoning_tokens": 0 },
    })
}

fn chat(object: &str, choices: Value) -> Value {
    json!({
        "id": "chatcmpl-1", "object": object, "created": 1_700_000_000, "model": "gpt-4o-mini-2024-07-18",
        "service_tier": "default", "system_fingerprint": "fp_1", "choices": choices,
    })
}

/// A chat completion that is not streamed.
pub(super) fn completion() -> Value {
    let text = WORDS.concat();
    let message = json!({ "role": "assistant", "content": text, "refusal": null, "annotations": [] });
    let choice = json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": "stop" });
    let mut completion = chat("chat.completion", json!([choice]));
    completion["usage"] = usage();
    completion
}

/// Two numbers, as numbers or as base64 of their bytes.
pub(super) fn embeddings(is_base64: bool) -> Value {
    let embedding = if is_base64 { json!("AACAPgAAAL8=") } else { json!([0.25, -0.5]) };
    let embedding = json!({ "object": "embedding", "index": 0, "embedding": embedding });
    let usage = json!({ "prompt_tokens": 1_234_567, "total_tokens": 1_234_567 });
    json!({ "object": "list", "data": [embedding], "model": "text-embedding-3-small", "usage": usage })
}

/// The answer to `GET /v1/models`.
pub(super) fn models() -> Value {
    let model = |id: &str| json!({ "id": id, "object": "model", "created": 1_700_000_000, "owned_by": "me" });
    json!({ "object": "list", "data": [model("gpt-4o-mini"), model("text-embedding-3-small")] })
}

/// The status and the body of an answer that refuses a request. `None` if the script is another one.
pub(super) fn refusal(script: &str) -> Option<(u16, Value)> {
    let error = |kind: &str| json!({ "message": "as planned", "type": kind, "param": null, "code": kind });
    match script {
        "429" => Some((429, json!({ "error": error("rate_limit_exceeded") }))),
        "500" => Some((500, json!({ "error": error("server_error") }))),
        "anthropic-429" => {
            let error = json!({ "type": "rate_limit_error", "message": "as planned" });
            Some((429, json!({ "type": "error", "error": error, "request_id": "req_1" })))
        }
        _ => None,
    }
}

/// The events of a stream.
pub(super) fn events(script: &str, with_usage: bool) -> Vec<String> {
    if script.starts_with("anthropic") {
        let named = |event: Value| {
            format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
        };
        return anthropic().into_iter().map(named).collect();
    }
    let mut events: Vec<String> =
        chunks(script, with_usage).iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    if script != "error" {
        events.push("data: [DONE]\n\n".to_owned());
    }
    events
}

fn chunks(script: &str, with_usage: bool) -> Vec<Value> {
    let chunk = |choices: Value| chat("chat.completion.chunk", choices);
    let delta = |delta: Value, finish: Option<&str>| {
        chunk(json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }]))
    };
    let mut chunks = vec![delta(json!({ "role": "assistant", "content": "", "refusal": null }), None)];
    if script == "tools" {
        let function = json!({ "name": "weather", "arguments": "" });
        let call = json!({ "index": 0, "id": "call_1", "type": "function", "function": function });
        chunks.push(delta(json!({ "tool_calls": [call] }), None));
        for part in ["{\"ci", "ty\": \"Köln\"}"] {
            let call = json!({ "index": 0, "function": { "arguments": part } });
            chunks.push(delta(json!({ "tool_calls": [call] }), None));
        }
    } else {
        chunks.extend(WORDS.map(|word| delta(json!({ "content": word }), None)));
    }
    match script {
        "error" => chunks.extend(refusal("500").map(|(_, error)| error)),
        "tools" => chunks.push(delta(json!({}), Some("tool_calls"))),
        _ => chunks.push(delta(json!({}), Some("stop"))),
    }
    if with_usage {
        let mut last = chunk(json!([]));
        last["usage"] = usage();
        chunks.push(last);
    }
    chunks
}

fn anthropic() -> Vec<Value> {
    let text = |text: &str| {
        let delta = json!({ "type": "text_delta", "text": text });
        json!({ "type": "content_block_delta", "index": 0, "delta": delta })
    };
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude",
        "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": 21, "output_tokens": 1 },
    });
    let block = json!({ "type": "text", "text": "" });
    let delta = json!({ "stop_reason": "end_turn", "stop_sequence": null });
    let mut events = vec![
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "ping" }),
    ];
    events.extend(WORDS.map(text));
    events.extend([
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 1_234_567 } }),
        json!({ "type": "message_stop" }),
    ]);
    events
}

/// The parts that a stream is sent in.
fn parts(script: &str, events: &[String]) -> Vec<Vec<u8>> {
    let in_two = |place: fn(&[u8]) -> usize| -> Vec<Vec<u8>> {
        let halves = events.iter().map(|event| event.as_bytes().split_at(place(event.as_bytes())));
        halves.flat_map(|(start, end)| [start.to_vec(), end.to_vec()]).collect()
    };
    match script {
        // Within the JSON.
        "split-event" => in_two(|event| event.len() / 2),
        // Within the first character of several bytes.
        "split-character" => in_two(|event| event.iter().position(|byte| !byte.is_ascii()).unwrap_or(0) + 1),
        // Between CR and LF.
        "split-line" => {
            let stream = events.concat().replace('\n', "\r\n");
            stream.split_inclusive('\r').map(|part| part.as_bytes().to_vec()).collect()
        }
        _ => events.iter().map(|event| event.as_bytes().to_vec()).collect(),
    }
}

impl Script<'_> {
    /// Answers a request as the mark in its prompt says.
    ///
    /// # Errors
    /// If the client leaves, or the script breaks off.
    pub(super) fn model(&mut self, request: &Request) -> io::Result<()> {
        let Request { number, script, body, .. } = request;
        let asked: Value = serde_json::from_slice(body).unwrap_or_default();
        match script.as_str() {
            "/v1/models" => return self.json(200, &models()),
            "embeddings" => return self.json(200, &embeddings(asked["encoding_format"] == "base64")),
            "hold" => self.released(*number, 1)?,
            _ => {}
        }
        if let Some((status, body)) = refusal(script) {
            return self.json(status, &body);
        }
        if matches!(script.as_str(), "response" | "hold") {
            return self.json(200, &completion());
        }
        self.begin()?;
        let events = events(script, asked["stream_options"]["include_usage"] == true);
        if script == "heartbeat" {
            self.chunk(HEARTBEAT)?;
            self.released(*number, 1)?;
        }
        for (index, part) in parts(script, &events).iter().enumerate() {
            match script.as_str() {
                "steps" => self.released(*number, index as u64 + 1)?,
                "cut" if index == 3 => return Err(ErrorKind::ConnectionAborted.into()),
                _ if script.starts_with("split") => thread::sleep(PAUSE),
                _ => {}
            }
            self.chunk(part)?;
        }
        self.stream.write_all(b"0\r\n\r\n")
    }

    fn json(&mut self, status: u16, body: &Value) -> io::Result<()> {
        let body = body.to_string();
        let length = body.len();
        let mut head = format!("HTTP/1.1 {status} Planned\r\ncontent-type: application/json\r\n");
        head += &format!("content-length: {length}\r\n");
        if status == 429 {
            head += &format!("retry-after: {RETRY_AFTER}\r\n");
        }
        self.stream.write_all(format!("{head}\r\n{body}").as_bytes())
    }
}
