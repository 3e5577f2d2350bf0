//! Streams of OpenAI's API "responses".
//!
//! The events after the tokens would repeat the whole text. Here they have empty texts, because repeated
//! stamps would count as repeated tokens.

use super::text::{Facts, Writer};
use std::fmt;

/// Arguments of a call of a tool in the events after the tokens.
const NO_ARGUMENTS: &str = "{}";
/// Status of a response before it ends, and status if the client's limit has ended it.
const IN_PROGRESS: &str = "in_progress";
const INCOMPLETE: &str = "incomplete";
const PART: &str = r#"{"type":"output_text","annotations":[],"logprobs":[],"text":""}"#;

/// Number of events before the tokens.
fn opening(facts: &Facts<'_>) -> u32 {
    if facts.tool.is_some() { 3 } else { 4 }
}

/// The whole response, as some events contain it. The field is its status.
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
        write!(to, r#""model":{model},"output":[{}],"usage":{{"#, whole_item(facts, status))?;
        write!(to, r#""input_tokens":{input},"input_tokens_details":{{"cached_tokens":0}},"#)?;
        write!(to, r#""output_tokens":{output},"output_tokens_details":{{"reasoning_tokens":0}},"#)?;
        write!(to, r#""total_tokens":{total}}}}}"#)
    }
}

/// The message of a response, or its call of a tool. The fields are its status, and its parts or its
/// arguments.
struct Item<'a>(&'a Facts<'a>, &'static str, &'static str);

impl fmt::Display for Item<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(facts, status, parts) = self;
        let id = facts.id;
        if let Some(tool) = facts.tool {
            write!(to, r#"{{"id":"fc_{id:016x}","type":"function_call","status":"{status}","#)?;
            return write!(to, r#""call_id":"call_{id:016x}","name":{tool},"arguments":"{parts}"}}"#);
        }
        write!(to, r#"{{"id":"msg_{id:016x}","type":"message","status":"{status}","role":"assistant","#)?;
        write!(to, r#""content":[{parts}]}}"#)
    }
}

/// The message or call after the tokens.
fn whole_item<'a>(facts: &'a Facts<'a>, status: &'static str) -> Item<'a> {
    Item(facts, status, if facts.tool.is_some() { NO_ARGUMENTS } else { PART })
}

/// The beginning of an event about a part. The fields are the type and the number of the event.
struct OfPart<'a>(&'a Facts<'a>, &'static str, u32);

impl fmt::Display for OfPart<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(facts, kind, number) = self;
        let id = facts.id;
        let (item, place) = match facts.tool {
            None => ("msg", r#","content_index":0"#),
            Some(_) => ("fc", ""),
        };
        write!(to, r#"{{"type":"{kind}","sequence_number":{number},"item_id":"{item}_{id:016x}","#)?;
        write!(to, r#""output_index":0{place}"#)
    }
}

/// An event with the whole response or with its message. The event contains `value` under the key `name`.
fn whole(kind: &str, number: u32, (name, value): (&str, &dyn fmt::Display), to: &mut Writer<'_>) {
    to.event(kind, format_args!(r#"{{"type":"{kind}","sequence_number":{number},{name}:{value}}}"#));
}

pub(super) fn open(facts: &Facts<'_>, to: &mut Writer<'_>) {
    let response = Response(facts, IN_PROGRESS);
    whole("response.created", 0, (r#""response""#, &response), to);
    whole("response.in_progress", 1, (r#""response""#, &response), to);
    let item = Item(facts, IN_PROGRESS, "");
    whole("response.output_item.added", 2, (r#""output_index":0,"item""#, &item), to);
    if facts.tool.is_none() {
        const KIND: &str = "response.content_part.added";
        to.event(KIND, format_args!(r#"{},"part":{PART}}}"#, OfPart(facts, KIND, 3)));
    }
}

/// Appends a token with its number and content.
pub(super) fn token(facts: &Facts<'_>, (number, content): (u32, &[u8]), to: &mut Writer<'_>) {
    let (start, end) = facts.around(number);
    let (kind, more) = match facts.tool {
        None => ("response.output_text.delta", r#","logprobs":[]"#),
        Some(_) => ("response.function_call_arguments.delta", ""),
    };
    let part = OfPart(facts, kind, opening(facts) + number);
    to.token(
        kind,
        format_args!(r#"{part}{more},"delta":"{start}"#),
        content,
        format_args!(r#"{end}""#),
        facts.padded,
    );
}

pub(super) fn close(facts: &Facts<'_>, to: &mut Writer<'_>) {
    let mut number = opening(facts) + facts.tokens;
    if let Some(tool) = facts.tool {
        const KIND: &str = "response.function_call_arguments.done";
        let part = OfPart(facts, KIND, number);
        to.event(KIND, format_args!(r#"{part},"name":{tool},"arguments":"{NO_ARGUMENTS}"}}"#));
        number += 1;
    } else {
        const KINDS: [&str; 2] = ["response.output_text.done", "response.content_part.done"];
        let part = OfPart(facts, KINDS[0], number);
        to.event(KINDS[0], format_args!(r#"{part},"logprobs":[],"text":""}}"#));
        let part = OfPart(facts, KINDS[1], number + 1);
        to.event(KINDS[1], format_args!(r#"{part},"part":{PART}}}"#));
        number += 2;
    }
    let (kind, status) = match facts.is_limited {
        true => ("response.incomplete", INCOMPLETE),
        false => ("response.completed", "completed"),
    };
    let item = whole_item(facts, status);
    whole("response.output_item.done", number, (r#""output_index":0,"item""#, &item), to);
    whole(kind, number + 1, (r#""response""#, &Response(facts, status)), to);
}

pub(super) fn error(facts: &Facts<'_>, to: &mut Writer<'_>) {
    const WHY: &str = r#""code":"server_error","message":"The server had an error.","param":null"#;
    let number = opening(facts) + facts.tokens;
    to.event("error", format_args!(r#"{{"type":"error","sequence_number":{number},{WHY}}}"#));
}
