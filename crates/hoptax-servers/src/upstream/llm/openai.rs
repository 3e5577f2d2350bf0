//! Streams of OpenAI's chat completions.

use super::text::{Facts, Writer};
use std::fmt;

/// The beginning of each chunk.
struct Head<'a>(&'a Facts<'a>);

impl fmt::Display for Head<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { id, created, model, .. } = self.0;
        write!(to, r#"{{"id":"chatcmpl-{id:016x}","object":"chat.completion.chunk","created":{created},"#)?;
        write!(to, r#""model":{model},"service_tier":"default","system_fingerprint":"fp_hoptax","choices":"#)
    }
}

/// The end of each chunk but the one with the numbers of tokens.
fn end(facts: &Facts<'_>) -> &'static str {
    if facts.include_usage { r#","usage":null}"# } else { "}" }
}

pub(super) fn open(facts: &Facts<'_>, to: &mut Writer<'_>) {
    const ROLE: &str = r#"{"role":"assistant","content":"","refusal":null}"#;
    to.event("", format_args!("{}{}{}", Head(facts), Choice(ROLE, "null"), end(facts)));
}

pub(super) fn token(facts: &Facts<'_>, content: &[u8], to: &mut Writer<'_>) {
    to.token(
        "",
        format_args!(r#"{}[{{"index":0,"delta":{{"content":""#, Head(facts)),
        content,
        format_args!(r#""}},"logprobs":null,"finish_reason":null}}]{}"#, end(facts)),
    );
}

pub(super) fn close(facts: &Facts<'_>, to: &mut Writer<'_>) {
    let reason = if facts.is_limited { r#""length""# } else { r#""stop""# };
    to.event("", format_args!("{}{}{}", Head(facts), Choice("{}", reason), end(facts)));
    if facts.include_usage {
        to.event("", format_args!(r#"{}[],"usage":{}}}"#, Head(facts), Usage(facts)));
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

/// The only choice of a chunk: what is new, and why it ends.
struct Choice(&'static str, &'static str);

impl fmt::Display for Choice {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(delta, reason) = self;
        write!(to, r#"[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{reason}}}]"#)
    }
}
