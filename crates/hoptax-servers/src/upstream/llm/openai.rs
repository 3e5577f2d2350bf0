//! Streams of OpenAI's chat completions.

use super::text::{Facts, Writer};
use std::fmt;

/// The reason of the end (`finish_reason`) in all chunks except the last.
const OPEN: &str = "null";

/// The beginning of each chunk.
struct Head<'a>(&'a Facts<'a>);

impl fmt::Display for Head<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { id, created, model, .. } = self.0;
        write!(to, r#"{{"id":"chatcmpl-{id:016x}","object":"chat.completion.chunk","created":{created},"#)?;
        write!(to, r#""model":{model},"service_tier":"default","system_fingerprint":"fp_hoptax","choices":"#)
    }
}

/// Appends a chunk with one choice: the delta, whose content is between two parts, and the reason of the end.
fn chunk(
    facts: &Facts<'_>,
    (before, content, after): (fmt::Arguments<'_>, &[u8], fmt::Arguments<'_>),
    reason: &str,
    to: &mut Writer<'_>,
) {
    let usage = if facts.include_usage { r#","usage":null"# } else { "" };
    to.token(
        "",
        format_args!(r#"{}[{{"index":0,"delta":{before}"#, Head(facts)),
        content,
        format_args!(r#"{after},"logprobs":null,"finish_reason":{reason}}}]{usage}"#),
        facts.padded,
    );
}

pub(super) fn open(facts: &Facts<'_>, to: &mut Writer<'_>) {
    const ROLE: &str = r#"{"role":"assistant","content":"","refusal":null}"#;
    const CALL: &str = r#"{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_"#;
    let id = facts.id;
    let Some(tool) = facts.tool else {
        return chunk(facts, (format_args!("{ROLE}"), b"", format_args!("")), OPEN, to);
    };
    chunk(
        facts,
        (
            format_args!(r#"{CALL}{id:016x}","type":"function","function":{{"name":{tool},"#),
            b"",
            format_args!(r#""arguments":""}}}}],"refusal":null}}"#),
        ),
        OPEN,
        to,
    );
}

/// Appends a token with its number and content.
pub(super) fn token(facts: &Facts<'_>, (number, content): (u32, &[u8]), to: &mut Writer<'_>) {
    let (start, end) = facts.around(number);
    let (before, after) = match facts.tool {
        None => (r#"{"content":""#, r#""}"#),
        Some(_) => (r#"{"tool_calls":[{"index":0,"function":{"arguments":""#, r#""}}]}"#),
    };
    chunk(facts, (format_args!("{before}{start}"), content, format_args!("{end}{after}")), OPEN, to);
}

pub(super) fn close(facts: &Facts<'_>, to: &mut Writer<'_>) {
    let reason = match facts.tool {
        _ if facts.is_limited => r#""length""#,
        None => r#""stop""#,
        Some(_) => r#""tool_calls""#,
    };
    chunk(facts, (format_args!("{{}}"), b"", format_args!("")), reason, to);
    if facts.include_usage {
        let (head, usage) = (Head(facts), Usage(facts));
        to.token("", format_args!(r#"{head}[],"usage":{usage}"#), b"", format_args!(""), facts.padded);
    }
    to.event("", format_args!("[DONE]"));
}

pub(super) fn error(to: &mut Writer<'_>) {
    const KIND: &str = r#""type":"server_error","param":null,"code":null"#;
    to.event("", format_args!(r#"{{"error":{{"message":"The server had an error.",{KIND}}}}}"#));
}

/// The numbers of tokens.
struct Usage<'a>(&'a Facts<'a>);

impl fmt::Display for Usage<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { input, output, .. } = self.0;
        let total = u64::from(*input) + output;
        write!(to, r#"{{"prompt_tokens":{input},"completion_tokens":{output},"total_tokens":{total},"#)?;
        to.write_str(r#""prompt_tokens_details":{"cached_tokens":0},"#)?;
        to.write_str(r#""completion_tokens_details":{"reasoning_tokens":0}}"#)
    }
}
