//! The events of a stream, in each API.

use super::text::{Facts, Writer};
use super::{anthropic, openai, responses};
use hoptax_format::llm::Api;

/// Appends the events before the tokens.
pub(super) fn open(api: Api, facts: &Facts<'_>, to: &mut Writer<'_>) {
    match api {
        Api::OpenAi => openai::open(facts, to),
        Api::Responses => responses::open(facts, to),
        Api::Anthropic => anthropic::open(facts, to),
    }
}

/// Appends a token: its number, and its content, which needs no escapes.
pub(super) fn token(api: Api, facts: &Facts<'_>, token: (u32, &[u8]), to: &mut Writer<'_>) {
    match api {
        Api::OpenAi => openai::token(facts, token, to),
        Api::Responses => responses::token(facts, token, to),
        Api::Anthropic => anthropic::token(facts, token, to),
    }
}

/// Appends the events after the tokens.
pub(super) fn close(api: Api, facts: &Facts<'_>, to: &mut Writer<'_>) {
    match api {
        Api::OpenAi => openai::close(facts, to),
        Api::Responses => responses::close(facts, to),
        Api::Anthropic => anthropic::close(facts, to),
    }
}

/// Appends an error after the tokens.
pub(super) fn error(api: Api, facts: &Facts<'_>, to: &mut Writer<'_>) {
    match api {
        Api::OpenAi => openai::error(to),
        Api::Responses => responses::error(facts, to),
        Api::Anthropic => anthropic::error(to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const FACTS: Facts<'static> = Facts {
        id: 0xabc,
        created: 1_700_000_000,
        model: r#""a\"b""#,
        tokens: 2,
        input: 9,
        output: 1_234_567,
        include_usage: true,
        is_limited: false,
        tool: None,
        last: Some(1),
        padded: None,
    };

    /// The data of all events of a stream. Also checks the names of events: none for OpenAI's chat
    /// completions, and the type for other APIs.
    fn stream(api: Api, facts: &Facts<'_>) -> Vec<Value> {
        let mut text = Vec::new();
        let mut writer = Writer { text: &mut text, line_end: "\n", events: 0 };
        open(api, facts, &mut writer);
        (0..facts.tokens).for_each(|number| token(api, facts, (number, "é~".as_bytes()), &mut writer));
        close(api, facts, &mut writer);
        error(api, facts, &mut writer);
        let events = writer.events;
        let text = String::from_utf8(text).expect("text");
        let found: Vec<Value> = text.split_terminator("\n\n").map(|event| data(api, event)).collect();
        assert_eq!(found.len() as u64, events);
        found
    }

    fn data(api: Api, event: &str) -> Value {
        let (name, data) = match event.split_once('\n') {
            Some((name, data)) => (name.strip_prefix("event: "), data),
            None => (None, event),
        };
        let data = data.strip_prefix("data: ").expect("one line of data");
        if data == "[DONE]" {
            return data.into();
        }
        let value: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{data}: {error}"));
        assert_eq!(name, if api == Api::OpenAi { None } else { value["type"].as_str() }, "{event}");
        value
    }

    #[test]
    fn chat_completions_are_chunks_and_end_with_done() {
        let found = stream(Api::OpenAi, &FACTS);
        let chunks = &found[..5];
        for chunk in chunks {
            let facts = ["id", "object", "model"].map(|name| chunk[name].as_str().expect("a text"));
            assert_eq!(facts, ["chatcmpl-0000000000000abc", "chat.completion.chunk", "a\"b"]);
            assert_eq!(chunk["created"], 1_700_000_000);
        }
        let deltas: Vec<String> =
            chunks[..4].iter().map(|chunk| chunk["choices"][0]["delta"].to_string()).collect();
        let role = r#"{"content":"","refusal":null,"role":"assistant"}"#;
        assert_eq!(deltas, [role, r#"{"content":"é~"}"#, r#"{"content":"é~"}"#, "{}"]);
        assert_eq!(chunks[2]["choices"][0]["finish_reason"], Value::Null);
        assert_eq!(chunks[3]["choices"][0]["finish_reason"], "stop");
        assert!(chunks[..4].iter().all(|chunk| chunk.get("usage") == Some(&Value::Null)));
        assert_eq!((chunks[4]["choices"].to_string(), &found[5]), ("[]".into(), &"[DONE]".into()));
        assert_eq!(chunks[4]["usage"]["completion_tokens"], 1_234_567);
        assert_eq!(chunks[4]["usage"]["total_tokens"], 1_234_576);
        assert!(found[6]["error"]["type"].is_string() && found.len() == 7);
        let short = stream(Api::OpenAi, &Facts { include_usage: false, is_limited: true, ..FACTS });
        assert_eq!((short.len(), short[0].get("usage")), (6, None));
        assert_eq!(short[3]["choices"][0]["finish_reason"], "length");
    }

    #[test]
    fn responses_number_their_events() {
        let found = stream(Api::Responses, &FACTS);
        let kinds: Vec<&str> = found.iter().map(|event| event["type"].as_str().expect("a type")).collect();
        let expected = [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
            "error",
        ];
        assert_eq!(kinds, expected);
        let numbers = found[..10].iter().map(|event| event["sequence_number"].as_u64());
        assert!(numbers.eq((0..10).map(Some)));
        let id = Value::from("msg_0000000000000abc");
        assert_eq!((&found[5]["delta"], &found[5]["item_id"]), (&"é~".into(), &id));
        let (created, completed) = (&found[0]["response"], &found[9]["response"]);
        assert_eq!((&created["model"], &created["usage"]), (&"a\"b".into(), &Value::Null));
        assert_eq!(completed["usage"]["output_tokens"], 1_234_567);
        assert_eq!((&completed["status"], &completed["output"][0]), (&"completed".into(), &found[8]["item"]));
    }

    #[test]
    fn messages_are_blocks() {
        let found = stream(Api::Anthropic, &FACTS);
        let kinds: Vec<&str> = found.iter().map(|event| event["type"].as_str().expect("a type")).collect();
        let expected = [
            "message_start",
            "content_block_start",
            "ping",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
            "error",
        ];
        assert_eq!(kinds, expected);
        assert_eq!(found[0]["message"]["model"], "a\"b");
        assert_eq!(found[0]["message"]["usage"]["input_tokens"], 9);
        assert_eq!(found[3]["delta"]["text"], "é~");
        assert_eq!(found[6]["delta"]["stop_reason"], "end_turn");
        assert_eq!(found[6]["usage"]["output_tokens"], 1_234_567);
        assert!(found[8]["error"]["type"].is_string());
    }
}
