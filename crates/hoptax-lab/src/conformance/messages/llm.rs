//! Requests to language models: whether requests reach the upstream unchanged, and responses the client.

use super::events::Stream;
use super::link::{Head, NOTICE, Side, mark, value_of};
use super::model::{self, RETRY_AFTER};
use super::script::HEARTBEAT;
use super::state::Seen;
use super::{MessagesCase, case};
use crate::conformance::http2::side::{Deviation, Outcome};
use hoptax_format::llm::Api;
use hoptax_record::plan::LlmRequest;
use hoptax_wire::events::{Decoder, Step};
use serde_json::{Value, json};
use std::time::Duration;

const CHAT: &str = "OpenAI, chat completions";
const STREAM: &str = "OpenAI, chat completions, streaming";
const ERRORS: &str = "OpenAI, error codes";
/// Source of cases in which packets divide events.
const SPLIT: &str = "HTML, section 9.2";
/// Source of cases in which a client leaves.
const LEAVING: &str = "RFC 9112, section 9.6";

/// All cases of OpenAI's chat completions, embeddings and models, in the order of the test.
pub const OPENAI_CASES: [MessagesCase; 31] = [
    case("llm-request", "the members of a request", CHAT, |side| request(side, "", json!({}))),
    case("llm-unknown", "members of a request that no API has", CHAT, unknown),
    case("llm-tools", "tools of a request", CHAT, tools),
    case("llm-2m", "a prompt of 2 MiB", CHAT, |side| request(side, &"words ".repeat(350_000), json!({}))),
    case("llm-text", "a prompt with UTF-8 and escapes", CHAT, |side| request(side, TEXT, json!({}))),
    case("llm-model", "the name of the model at the upstream", CHAT, model_name),
    case("llm-key", "the key at the upstream", "OpenAI, authentication", key),
    case("llm-path", "the path at the upstream", CHAT, path),
    case("llm-response", "a response that is not streamed", CHAT, response),
    case("llm-usage", "its number of tokens", CHAT, usage),
    case("llm-stream", "each event of a stream", STREAM, |side| unchanged(side, "stream")),
    case("llm-stream-text", "the text of a stream", STREAM, |side| same_text(side, "stream", &["content"])),
    case("llm-stream-end", "the finish reason of a stream and `[DONE]`", STREAM, stream_end),
    case("llm-stream-usage", "the number of tokens, if asked for", STREAM, stream_usage),
    case("llm-stream-no-usage", "no number of tokens, if not asked for", STREAM, stream_no_usage),
    case("llm-stream-tools", "the call of a tool in pieces", STREAM, |side| same_text(side, "tools", &CALL)),
    case("llm-each", "each event before the next is sent", STREAM, each),
    case("llm-split-event", "events in two parts", SPLIT, |side| unchanged(side, "split-event")),
    case("llm-split-character", "characters in two parts", SPLIT, |side| unchanged(side, "split-character")),
    case("llm-split-line", "line ends in two parts", SPLIT, |side| unchanged(side, "split-line")),
    case("llm-heartbeat", "a comment before the first event", SPLIT, heartbeat),
    case("llm-429", "a rate limit: `retry-after`, body, no retry", ERRORS, |side| refused(side, "429")),
    case("llm-500", "an error: status, body, no retry", ERRORS, |side| refused(side, "500")),
    case("llm-error-event", "an error within a stream", STREAM, error_event),
    case("llm-cut", "a stream that breaks off", "RFC 9112, section 8", cut),
    case("llm-leave-head", "a client that leaves before the head", LEAVING, |side| leave(side, "hold", 0)),
    case("llm-leave-first", "a client that leaves before any text", LEAVING, |side| leave(side, "steps", 1)),
    case("llm-leave-midway", "a client that leaves within a stream", LEAVING, |side| leave(side, "steps", 3)),
    case("llm-embeddings", "embeddings", "OpenAI, embeddings", |side| embeddings(side, "float")),
    case("llm-embeddings-base64", "in base64", "OpenAI, embeddings", |side| embeddings(side, "base64")),
    case("llm-models", "the list of models", "OpenAI, models", models),
];

/// All cases of Anthropic's messages, in the order of the test.
pub const ANTHROPIC_CASES: [MessagesCase; 3] = [
    case("llm-anthropic-stream", "each event of a stream", "Anthropic, streaming", anthropic),
    case("llm-anthropic-ping", "a ping within a stream", "Anthropic, streaming", ping),
    case("llm-anthropic-429", "a rate limit", "Anthropic, errors", |side| refused(side, "anthropic-429")),
];

/// The members of a tool's call.
const CALL: [&str; 3] = ["tool_calls/0/id", "tool_calls/0/function/name", "tool_calls/0/function/arguments"];

const TEXT: &str = "ä 漢字 🌍 e\u{301} \"quoted\" \\ / \t\r\n \u{1} \u{2028} </script> {{ braces }}";

/// An id of the user, as long as `"stream_options":{"include_usage":true}` together with its name.
const USER: &str = "0123456789abcdef0123456789abcd";

/// A request and its response.
struct Exchange<'a> {
    stream: Stream<'a>,
    sent: Value,
}

impl<'a> Exchange<'a> {
    /// Sends a prompt. `members` are added to the usual ones of the request.
    fn chat(side: &'a Side<'a>, script: &str, prompt: &str, members: Value) -> Result<Self, Deviation> {
        let api = if script.starts_with("anthropic") { Api::Anthropic } else { Api::OpenAi };
        let number = side.upstream.next();
        let prompt = format!("{} {prompt}", mark(number, script));
        let mut sent = json!({
            "model": side.model,
            "max_tokens": 64,
            "temperature": 0.7,
            "messages": [{ "role": "user", "content": prompt }],
        });
        if api == Api::OpenAi {
            sent["user"] = USER.into();
        }
        if let (Value::Object(all), Value::Object(more)) = (&mut sent, members) {
            all.extend(more);
        }
        Self::send(side, number, api, api.path(), sent)
    }

    /// Asks for a stream.
    fn stream(side: &'a Side<'a>, script: &str) -> Result<Self, Deviation> {
        Self::chat(side, script, "", json!({ "stream": true }))
    }

    fn send(side: &'a Side<'a>, number: u64, api: Api, path: &str, sent: Value) -> Result<Self, Deviation> {
        let usual = LlmRequest { stream: sent["stream"] == true, ..LlmRequest::usual(api) };
        let headers = usual.headers(LlmRequest::USUAL_KEY);
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let link = side.send("POST", path, &headers, sent.to_string().as_bytes())?;
        Ok(Self { stream: Stream { side, link, number }, sent })
    }

    /// The head and the body, once it is whole.
    fn answer(&mut self, limit: Duration) -> Result<(Head, Vec<u8>), Deviation> {
        let link = &mut self.stream.link;
        link.until(limit, |link| Stream::body(link).is_whole);
        let body = Stream::body(link);
        match Head::read(&link.input) {
            Some(head) if body.is_whole => Ok((head, body.bytes)),
            _ if link.is_over => Err(Deviation::new("the connection ends early")),
            _ => Err(Deviation::new("no whole answer")),
        }
    }

    /// The body of an answer whose status must be 200.
    fn good(&mut self) -> Result<Vec<u8>, Deviation> {
        let (head, body) = self.answer(self.stream.side.patience)?;
        check(head.status() == 200, format!("status {} instead of 200", head.status()))?;
        Ok(body)
    }

    /// The data of all events.
    fn events(&mut self) -> Result<Vec<String>, Deviation> {
        Ok(data(&self.good()?))
    }

    /// Whether this number of events arrives at once.
    fn arrives(&mut self, number: usize) -> bool {
        self.stream.link.until(NOTICE, |link| data(&Stream::body(link).bytes).len() >= number)
    }

    /// The request as the upstream has received it.
    fn seen(&self) -> Value {
        let seen = self.stream.side.upstream.seen(self.stream.number);
        serde_json::from_slice(&seen.body).unwrap_or_default()
    }

    /// Compares the request with the one that the upstream has received, except for the model, which has its
    /// own case.
    fn is_seen(&self) -> Outcome {
        same("request", &self.sent, &self.seen(), &["model"])
    }
}

/// Fails with this text unless a rule is kept.
fn check(is_kept: bool, what: impl Into<String>) -> Outcome {
    if is_kept { Ok(()) } else { Err(Deviation::new(what)) }
}

/// The data of the events that have ended in these bytes.
fn data(bytes: &[u8]) -> Vec<String> {
    let (mut decoder, mut rest) = (Decoder::default(), bytes);
    let (mut all, mut current) = (Vec::new(), Vec::new());
    loop {
        let (consumed, step) = decoder.advance(rest);
        match step {
            Step::NeedMore => return all,
            Step::Data { data, begins } => {
                if begins && !current.is_empty() {
                    current.push(b'\n');
                }
                current.extend_from_slice(&rest[data]);
            }
            Step::Event => all.push(String::from_utf8_lossy(&std::mem::take(&mut current)).into_owned()),
            Step::Id { .. } | Step::Comment => {}
        }
        rest = &rest[consumed..];
    }
}

/// The data of the events that the upstream sends.
fn planned(script: &str, with_usage: bool) -> Vec<String> {
    data(model::events(script, with_usage).concat().as_bytes())
}

/// The events that are JSON.
fn values(events: &[String]) -> Vec<Value> {
    events.iter().filter_map(|event| serde_json::from_str(event).ok()).collect()
}

/// Fails if two objects differ. `ignored` lists members of the outermost object that may differ.
fn same(what: &str, sent: &Value, seen: &Value, ignored: &[&str]) -> Outcome {
    check(seen.is_object(), format!("{what}: not a JSON object"))?;
    let mut changes = Vec::new();
    list_changes("", sent, seen, &mut changes);
    changes.retain(|(name, _)| !name.split(['.', '[']).next().is_some_and(|name| ignored.contains(&name)));
    let changes: Vec<String> = changes.into_iter().map(|(name, how)| format!("`{name}` {how}")).collect();
    check(changes.is_empty(), format!("{what}: {}", changes.join(", ")))
}

/// Lists the members that differ, such as `choices[0].text`, and how.
fn list_changes(name: &str, sent: &Value, seen: &Value, changes: &mut Vec<(String, String)>) {
    let member = |member: &str| if name.is_empty() { member.to_owned() } else { format!("{name}.{member}") };
    match (sent, seen) {
        (Value::Object(sent), Value::Object(seen)) => {
            for (key, value) in sent {
                match seen.get(key) {
                    Some(other) => list_changes(&member(key), value, other, changes),
                    None => changes.push((member(key), "dropped".to_owned())),
                }
            }
            let added = seen.keys().filter(|key| !sent.contains_key(*key));
            changes.extend(added.map(|key| (member(key), "added".to_owned())));
        }
        (Value::Array(sent), Value::Array(seen)) if sent.len() == seen.len() => {
            for (index, (sent, seen)) in sent.iter().zip(seen).enumerate() {
                list_changes(&format!("{name}[{index}]"), sent, seen, changes);
            }
        }
        // The same number may be written with a fraction or without.
        (Value::Number(a), Value::Number(b)) if a.is_f64() != b.is_f64() && a.as_f64() == b.as_f64() => {}
        _ if sent == seen => {}
        // A gateway writes its own time here.
        _ if name == "created" => changes.push((name.to_owned(), "changed".to_owned())),
        (_, Value::Number(_) | Value::Bool(_) | Value::Null) => {
            changes.push((name.to_owned(), format!("changed to {seen}")));
        }
        _ => changes.push((name.to_owned(), "changed".to_owned())),
    }
}

/// Fails at the first event that differs. Gateways may name the model in another way.
fn same_events(sent: &[String], seen: &[String]) -> Outcome {
    check(sent.len() == seen.len(), format!("{} events instead of {}", seen.len(), sent.len()))?;
    for (number, (sent, seen)) in (1..).zip(sent.iter().zip(seen)) {
        match (serde_json::from_str::<Value>(sent), serde_json::from_str::<Value>(seen)) {
            (Ok(sent), Ok(seen)) => same(&format!("event {number}"), &sent, &seen, &["model"])?,
            _ => check(sent == seen, format!("event {number} is changed"))?,
        }
    }
    Ok(())
}

fn request(side: &Side<'_>, prompt: &str, members: Value) -> Outcome {
    let mut exchange = Exchange::chat(side, "response", prompt, members)?;
    exchange.good()?;
    exchange.is_seen()
}

/// One number is too large for a number of JavaScript.
fn unknown(side: &Side<'_>) -> Outcome {
    let members = json!({ "x_unknown": { "list": [1, null, "three"] }, "seed": 9_007_199_254_740_993_u64 });
    request(side, "", members)
}

fn tools(side: &Side<'_>) -> Outcome {
    let city = json!({ "type": "string", "enum": ["Köln", "Łódź"] });
    let parameters = json!({ "type": "object", "properties": { "city": city }, "required": ["city"] });
    let function = json!({ "name": "weather", "parameters": parameters, "strict": true });
    let tools = json!([{ "type": "function", "function": function }]);
    request(side, "", json!({ "tools": tools, "tool_choice": "auto", "parallel_tool_calls": false }))
}

/// What the upstream has seen of a usual request.
fn seen(side: &Side<'_>) -> Result<Seen, Deviation> {
    let mut exchange = Exchange::chat(side, "response", "", json!({}))?;
    exchange.good()?;
    Ok(side.upstream.seen(exchange.stream.number))
}

fn model_name(side: &Side<'_>) -> Outcome {
    let body: Value = serde_json::from_slice(&seen(side)?.body).unwrap_or_default();
    let (name, sent) = (body["model"].as_str().unwrap_or_default(), side.model);
    check(name == sent, format!("the upstream saw `{name}` instead of `{sent}`"))
}

fn key(side: &Side<'_>) -> Outcome {
    let key = value_of(&seen(side)?.head, "authorization");
    let what = if key.is_empty() { "no" } else { "another" };
    check(key == format!("Bearer {}", LlmRequest::USUAL_KEY), format!("the upstream saw {what} key"))
}

fn path(side: &Side<'_>) -> Outcome {
    let path = seen(side)?.path;
    check(path == Api::OpenAi.path(), format!("the upstream saw the path `{path}`"))
}

/// The response to a request that is not streamed.
fn completion(side: &Side<'_>) -> Result<Value, Deviation> {
    let body = Exchange::chat(side, "response", "", json!({}))?.good()?;
    Ok(serde_json::from_slice(&body).unwrap_or_default())
}

fn response(side: &Side<'_>) -> Outcome {
    same("response", &model::completion(), &completion(side)?, &["usage"])
}

fn usage(side: &Side<'_>) -> Outcome {
    same("usage", &model::usage(), &completion(side)?["usage"], &[])
}

fn unchanged(side: &Side<'_>, script: &str) -> Outcome {
    same_events(&planned(script, false), &Exchange::stream(side, script)?.events()?)
}

/// The texts of a member of the first choice, by its JSON pointer.
fn texts(events: &[String], pointer: &str) -> Vec<String> {
    let pointer = format!("/choices/0/{pointer}");
    let text = |event: &Value| Some(event.pointer(&pointer)?.as_str()?.to_owned());
    values(events).iter().filter_map(text).collect()
}

/// Compares the joined texts of all events, for each of these members of `delta`.
fn same_text(side: &Side<'_>, script: &str, members: &[&str]) -> Outcome {
    let seen = Exchange::stream(side, script)?.events()?;
    let text = |events: &[String], member: &str| texts(events, &format!("delta/{member}")).concat();
    let planned = planned(script, false);
    let changed = members.iter().find(|member| text(&seen, member) != text(&planned, member));
    check(changed.is_none(), format!("`{}` is changed", changed.unwrap_or(&"")))
}

fn stream_end(side: &Side<'_>) -> Outcome {
    let seen = Exchange::stream(side, "stream")?.events()?;
    let reasons = texts(&seen, "finish_reason").join(", ");
    check(reasons == "stop", format!("the finish reasons are `{reasons}` instead of `stop`"))?;
    check(seen.last().is_some_and(|last| last == "[DONE]"), "the last event is not `[DONE]`")
}

fn stream_usage(side: &Side<'_>) -> Outcome {
    let members = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let seen = values(&Exchange::chat(side, "stream", "", members)?.events()?);
    match seen.iter().map(|event| &event["usage"]).find(|usage| !usage.is_null()) {
        Some(seen) => same("usage", &model::usage(), seen, &[]),
        None => Err(Deviation::new("no usage arrives although the client asked for it")),
    }
}

fn stream_no_usage(side: &Side<'_>) -> Outcome {
    let mut exchange = Exchange::stream(side, "stream")?;
    let seen = values(&exchange.events()?);
    let has_usage = seen.iter().any(|event| !event["usage"].is_null());
    check(!has_usage, "usage arrives although the client did not ask for it")?;
    let is_asked = exchange.seen()["stream_options"]["include_usage"] == true;
    check(!is_asked, "the upstream is asked for usage although the client did not ask")
}

fn each(side: &Side<'_>) -> Outcome {
    let mut exchange = Exchange::stream(side, "steps")?;
    let planned = planned("steps", false);
    for number in 1..=planned.len() {
        exchange.stream.release();
        check(exchange.arrives(number), format!("event {number} waits for the next one"))?;
    }
    exchange.events().map(|_| ())
}

fn heartbeat(side: &Side<'_>) -> Outcome {
    let mut exchange = Exchange::stream(side, "heartbeat")?;
    let comment = HEARTBEAT.trim_ascii();
    let has = |bytes: &[u8]| bytes.windows(comment.len()).any(|part| part == comment);
    let is_prompt = exchange.stream.link.until(side.patience, |link| has(&Stream::body(link).bytes));
    exchange.stream.release();
    let body = exchange.good()?;
    check(has(&body), "a comment does not arrive")?;
    check(is_prompt, "a comment waits for the next event")?;
    same_events(&planned("heartbeat", false), &data(&body))
}

/// A gateway must not retry: the client does this, after the time that the response states.
fn refused(side: &Side<'_>, script: &str) -> Outcome {
    let (expected, sent) = model::refusal(script).unwrap_or_default();
    let mut exchange = Exchange::chat(side, script, "", json!({}))?;
    // Allow time for retries.
    let (head, body) = exchange.answer(side.patience * 4)?;
    let (status, after) = (head.status(), head.value("retry-after"));
    let times = side.upstream.seen(exchange.stream.number).requests;
    check(times == 1, format!("the upstream was asked {times} times"))?;
    check(status == expected, format!("status {status} instead of {expected}"))?;
    let is_passed = expected != 429 || after == RETRY_AFTER;
    check(is_passed, format!("retry-after is `{after}` instead of `{RETRY_AFTER}`"))?;
    let seen: Value = serde_json::from_slice(&body).unwrap_or_default();
    same("error", &sent, &seen, &[])
}

fn error_event(side: &Side<'_>) -> Outcome {
    let seen = Exchange::stream(side, "error")?.events()?;
    let is_error = |event: &Value| event["error"].is_object();
    let Some(error) = values(&seen).into_iter().find(is_error) else {
        return Err(Deviation::new("the error event does not arrive"));
    };
    check(!seen.iter().any(|event| event == "[DONE]"), "a stream with an error ends with `[DONE]`")?;
    let sent = values(&planned("error", false)).into_iter().find(is_error).unwrap_or_default();
    same("error", &sent, &error, &[])
}

/// The client must be able to distinguish a broken stream from a complete one, if no error event reports it.
fn cut(side: &Side<'_>) -> Outcome {
    let mut exchange = Exchange::stream(side, "cut")?;
    let link = &mut exchange.stream.link;
    link.until(side.patience, |link| link.is_over || Stream::body(link).is_whole);
    let body = Stream::body(link);
    let events = data(&body.bytes);
    let has_end = events.iter().any(|event| event == "[DONE]");
    check(!has_end, "a stream that broke off ends with `[DONE]`")?;
    let has_error = values(&events).iter().any(|event| event["error"].is_object());
    check(has_error || !body.is_whole, "a stream that broke off looks whole")?;
    check(body.is_whole || link.is_over, "the client does not see that the stream broke off")
}

/// Leaves after this number of events. The first has no text.
fn leave(side: &Side<'_>, script: &str, number: usize) -> Outcome {
    let mut exchange = Exchange::stream(side, script)?;
    let is_seen = side.sees(exchange.stream.number, side.patience, |seen| seen.requests > 0);
    check(is_seen, "the request does not arrive")?;
    (0..number).for_each(|_| exchange.stream.release());
    // A gateway may hold events back, which has its own case.
    exchange.arrives(number);
    exchange.stream.leave()
}

fn embeddings(side: &Side<'_>, format: &str) -> Outcome {
    let number = side.upstream.next();
    let input = [mark(number, "embeddings"), TEXT.to_owned()];
    let sent = json!({ "model": side.model, "input": input, "encoding_format": format });
    let mut exchange = Exchange::send(side, number, Api::OpenAi, "/v1/embeddings", sent)?;
    let body = exchange.good()?;
    exchange.is_seen()?;
    let seen: Value = serde_json::from_slice(&body).unwrap_or_default();
    same("response", &model::embeddings(format == "base64"), &seen, &[])
}

fn models(side: &Side<'_>) -> Outcome {
    let bearer = format!("Bearer {}", LlmRequest::USUAL_KEY);
    let (link, number) = side.get("/v1/models", &[("authorization", bearer.as_str())])?;
    let mut exchange = Exchange { stream: Stream { side, link, number }, sent: Value::Null };
    let body = exchange.good()?;
    let seen: Value = serde_json::from_slice(&body).unwrap_or_default();
    same("response", &model::models(), &seen, &[])
}

/// SDKs read the names of the events too.
fn anthropic(side: &Side<'_>) -> Outcome {
    let body = Exchange::stream(side, "anthropic")?.good()?;
    same_events(&planned("anthropic", false), &data(&body))?;
    let text = String::from_utf8_lossy(&body).into_owned();
    let sent = model::events("anthropic", false).concat();
    let is_name = |line: &&str| line.starts_with("event:");
    let is_same = text.lines().filter(is_name).eq(sent.lines().filter(is_name));
    check(is_same, "the names of the events are changed")
}

fn ping(side: &Side<'_>) -> Outcome {
    let seen = Exchange::stream(side, "anthropic")?.events()?;
    check(values(&seen).iter().any(|event| event["type"] == "ping"), "the ping does not arrive")
}
