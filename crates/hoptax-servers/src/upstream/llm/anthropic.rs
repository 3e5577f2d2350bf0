//! Streams of Anthropic's messages.

use super::text::{Facts, Writer};

/// Data of the event that keeps a connection open.
pub(super) const PING: &str = r#"{"type": "ping"}"#;

pub(super) fn open(facts: &Facts<'_>, to: &mut Writer<'_>) {
    const BLOCK: &str = r#"{"type":"content_block_start","index":0,"content_block":{"type":"#;
    const KIND: &str = r#""type":"message","role":"assistant","content":[]"#;
    const STOP: &str = r#""stop_reason":null,"stop_sequence":null"#;
    const CACHE: &str = r#""cache_creation_input_tokens":0,"cache_read_input_tokens":0"#;
    let Facts { id, model, input, .. } = facts;
    to.event(
        "message_start",
        format_args!(
            r#"{{"type":"message_start","message":{{"id":"msg_{id:016x}","model":{model},{KIND},{STOP},{}{}"#,
            format_args!(r#""usage":{{"input_tokens":{input},"#),
            format_args!(r#"{CACHE},"output_tokens":0}}}}}}"#)
        ),
    );
    match facts.tool {
        None => to.event("content_block_start", format_args!(r#"{BLOCK}"text","text":""}}}}"#)),
        Some(tool) => to.event(
            "content_block_start",
            format_args!(r#"{BLOCK}"tool_use","id":"toolu_{id:016x}","name":{tool},"input":{{}}}}}}"#),
        ),
    }
    to.event("ping", format_args!("{PING}"));
}

/// Appends a token with its number and content.
pub(super) fn token(facts: &Facts<'_>, (number, content): (u32, &[u8]), to: &mut Writer<'_>) {
    const BEFORE: &str = r#"{"type":"content_block_delta","index":0,"delta":{"type":"#;
    let (start, end) = facts.around(number);
    let kind = match facts.tool {
        None => r#""text_delta","text""#,
        Some(_) => r#""input_json_delta","partial_json""#,
    };
    to.token(
        "content_block_delta",
        format_args!(r#"{BEFORE}{kind}:"{start}"#),
        content,
        format_args!(r#"{end}"}}"#),
        None,
    );
}

pub(super) fn close(facts: &Facts<'_>, to: &mut Writer<'_>) {
    const STOP: &str = r#"{"type":"content_block_stop","index":0}"#;
    let reason = match facts.tool {
        _ if facts.is_limited => "max_tokens",
        None => "end_turn",
        Some(_) => "tool_use",
    };
    let output = facts.output;
    to.event("content_block_stop", format_args!("{STOP}"));
    to.event(
        "message_delta",
        format_args!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":null}},{}"#,
            format_args!(r#""usage":{{"output_tokens":{output}}}}}"#)
        ),
    );
    to.event("message_stop", format_args!(r#"{{"type":"message_stop"}}"#));
}

pub(super) fn error(to: &mut Writer<'_>) {
    const ERROR: &str = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    to.event("error", format_args!("{ERROR}"));
}
