//! Streams of OpenAI's responses.
//!
//! The texts in the events after the tokens are empty, because a stamp in them would be a repeated token.

use super::text::{Facts, Writer};
use std::fmt;

/// Number of events before the tokens.
const OPENING: u32 = 4;
/// The status of a response, before it ends and if the client's limit ends it.
const IN_PROGRESS: &str = "in_progress";
const INCOMPLETE: &str = "incomplete";
const PART: &str = r#"{"type":"output_text","annotations":[],"logprobs":[],"text":""}"#;

/// The response as events state it: its status, its output and its usage.
struct Response<'a>(&'a Facts<'a>, &'static str);

impl fmt::Display for Response<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(facts, status) = self;
        let Facts { id, created, model, input, output, .. } = facts;
        write!(to, r#"{{"id":"resp_{id:016x}","object":"response","created_at":{created},"#)?;
        let why = if *status == INCOMPLETE { r#"{"reason":"max_output_tokens"}"# } else { "null" };
        write!(to, r#""status":"{status}","error":null,"incomplete_details":{why},"instructions":null,"#)?;
        if *status == IN_PROGRESS {
            return write!(to, r#""model":{model},"output":[],"usage":null}}"#);
        }
        let total = u64::from(*input) + output;
        write!(to, r#""model":{model},"output":[{}],"usage":{{"#, Item(facts, status, PART))?;
        write!(to, r#""input_tokens":{input},"input_tokens_details":{{"cached_tokens":0}},"#)?;
        write!(to, r#""output_tokens":{output},"output_tokens_details":{{"reasoning_tokens":0}},"#)?;
        write!(to, r#""total_tokens":{total}}}}}"#)
    }
}

/// The message of a response: its status, and its parts.
struct Item<'a>(&'a Facts<'a>, &'static str, &'static str);

impl fmt::Display for Item<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(facts, status, parts) = self;
        let id = facts.id;
        write!(to, r#"{{"id":"msg_{id:016x}","type":"message","status":"{status}","role":"assistant","#)?;
        write!(to, r#""content":[{parts}]}}"#)
    }
}

/// The beginning of an event of a part: its type, and its number in the stream.
struct OfPart<'a>(&'a Facts<'a>, &'static str, u32);

impl fmt::Display for OfPart<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(facts, kind, number) = self;
        let id = facts.id;
        write!(to, r#"{{"type":"response.{kind}","sequence_number":{number},"item_id":"msg_{id:016x}","#)?;
        to.write_str(r#""output_index":0,"content_index":0"#)
    }
}

/// An event with the whole response or with its message. `value` is named `name`.
fn whole(kind: &str, number: u32, (name, value): (&str, &dyn fmt::Display), to: &mut Writer<'_>) {
    to.event(kind, format_args!(r#"{{"type":"{kind}","sequence_number":{number},{name}:{value}}}"#));
}

pub(super) fn open(facts: &Facts<'_>, to: &mut Writer<'_>) {
    let response = Response(facts, IN_PROGRESS);
    whole("response.created", 0, (r#""response""#, &response), to);
    whole("response.in_progress", 1, (r#""response""#, &response), to);
    let item = Item(facts, IN_PROGRESS, "");
    whole("response.output_item.added", 2, (r#""output_index":0,"item""#, &item), to);
    let part = OfPart(facts, "content_part.added", 3);
    to.event("response.content_part.added", format_args!(r#"{part},"part":{PART}}}"#));
}

/// `number` is that of the token.
pub(super) fn token(facts: &Facts<'_>, number: u32, content: &[u8], to: &mut Writer<'_>) {
    let part = OfPart(facts, "output_text.delta", OPENING + number);
    to.token(
        "response.output_text.delta",
        format_args!(r#"{part},"logprobs":[],"delta":""#),
        content,
        format_args!(r#""}}"#),
    );
}

pub(super) fn close(facts: &Facts<'_>, to: &mut Writer<'_>) {
    let number = OPENING + facts.tokens;
    let part = OfPart(facts, "output_text.done", number);
    to.event("response.output_text.done", format_args!(r#"{part},"logprobs":[],"text":""}}"#));
    let part = OfPart(facts, "content_part.done", number + 1);
    to.event("response.content_part.done", format_args!(r#"{part},"part":{PART}}}"#));
    let (kind, status) = match facts.is_limited {
        true => ("response.incomplete", INCOMPLETE),
        false => ("response.completed", "completed"),
    };
    let item = Item(facts, status, PART);
    whole("response.output_item.done", number + 2, (r#""output_index":0,"item""#, &item), to);
    whole(kind, number + 3, (r#""response""#, &Response(facts, status)), to);
}

pub(super) fn error(facts: &Facts<'_>, to: &mut Writer<'_>) {
    const WHY: &str = r#""code":"server_error","message":"The server had an error.","param":null"#;
    let number = OPENING + facts.tokens;
    to.event("error", format_args!(r#"{{"type":"error","sequence_number":{number},{WHY}}}"#));
}
