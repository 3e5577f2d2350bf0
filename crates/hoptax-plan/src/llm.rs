//! Limits of language models and of requests to them, for plans, for `hoptax upstream` and for `hoptax load`.

use crate::calls::LONGEST_MESSAGE;
use crate::event_streams::{MOST_EVENTS, MOST_PER_WRITE, check_write};
use crate::units::{self, UnitError, show_size};
use hoptax_format::llm::{Api, Leave, Pause, TokenLimits};
use hoptax_format::messages::Stamp;
use hoptax_record::plan::{LlmFailure, LlmFailureKind, UpstreamLlm};

/// Maximum number of tokens of a response.
pub const MOST_TOKENS: u32 = MOST_EVENTS;
/// Maximum length of a prompt, bytes. The built-in upstream reads requests of up to 16 MiB, and JSON can
/// double a text.
pub const LONGEST_PROMPT: u64 = 8 << 20;
/// Maximum number of tools of a request.
pub const MOST_TOOLS: u32 = 1000;
/// Maximum length of the name of a model, characters.
const LONGEST_MODEL: usize = 200;

/// Reads the name of an API.
///
/// # Errors
/// If no API has this name.
pub fn api(name: &str) -> Result<Api, UnitError> {
    let message = || format!("`{name}` is not an API of language models");
    Api::parse(name).map_err(|help| UnitError::new(message(), help))
}

/// Reads the name of a model.
///
/// # Errors
/// If it is empty or too long, or contains spaces, braces or characters that are not ASCII.
pub fn model(name: &str) -> Result<String, UnitError> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}');
    if (1..=LONGEST_MODEL).contains(&name.len()) && name.bytes().all(is_plain) {
        return Ok(name.to_owned());
    }
    let help = format!("use 1 to {LONGEST_MODEL} printable characters of ASCII without spaces and braces");
    Err(UnitError::new(format!("`{}` is not the name of a model", name.escape_debug()), help))
}

/// Reads the length of a prompt, bytes.
///
/// # Errors
/// If it is no size, or too long.
pub fn prompt(text: &str) -> Result<u64, UnitError> {
    let bytes = units::size(text)?;
    check_prompt(bytes).map(|()| bytes)
}

/// Checks the length of a prompt, bytes.
///
/// # Errors
/// If it is too long.
pub fn check_prompt(bytes: u64) -> Result<(), UnitError> {
    if bytes <= LONGEST_PROMPT {
        return Ok(());
    }
    let message = format!("a prompt of {} is too long", show_size(bytes));
    Err(UnitError::new(message, format!("use at most {}", show_size(LONGEST_PROMPT))))
}

/// Checks that the lines of a file can be inserted into JSON unchanged. `name` is the name of the file.
///
/// # Errors
/// The first line that cannot.
pub fn check_lines(name: &str, text: &str) -> Result<(), UnitError> {
    let is_wrong = |line: &str| serde_json::from_str::<String>(&format!("\"{line}\"")).is_err();
    match text.lines().position(is_wrong) {
        None => Ok(()),
        Some(before) => Err(UnitError::new(
            format!("line {} of `{name}` cannot be in JSON as it is", before + 1),
            r#"write \" for a quotation mark and \\ for a backslash; JSON has no control characters"#,
        )),
    }
}

/// Reads when a client leaves: after a time such as `200ms`, or after tokens, such as `5 tokens`.
///
/// # Errors
/// If it is neither, or zero.
pub fn leave(text: &str) -> Result<Leave, UnitError> {
    let wrong = || UnitError::new(format!("no client can leave after `{text}`"), "use 200ms or 5 tokens");
    match before_tokens(text) {
        Some(number) => number_of_tokens(number).map(Leave::AfterTokens).ok_or_else(wrong),
        None => match u64::try_from(units::duration(text)?.as_nanos()) {
            Ok(0) => Err(wrong()),
            time => Ok(Leave::AfterNs(time.unwrap_or(u64::MAX))),
        },
    }
}

/// Reads after how many tokens a client stops reading, and for how long, as in `5 tokens,2s`.
///
/// # Errors
/// If a part is wrong, or zero.
pub fn pause(text: &str) -> Result<Pause, UnitError> {
    let wrong = || UnitError::new(format!("`{text}` is not a pause"), "use 5 tokens,2s");
    let (tokens, time) = text.split_once(',').ok_or_else(wrong)?;
    let after_tokens = before_tokens(tokens.trim()).and_then(number_of_tokens).ok_or_else(wrong)?;
    match u64::try_from(units::duration(time.trim())?.as_nanos()) {
        Ok(0) => Err(wrong()),
        time => Ok(Pause { after_tokens, time_ns: time.unwrap_or(u64::MAX) }),
    }
}

/// The text before the word `tokens`. `None` if the word is absent.
fn before_tokens(text: &str) -> Option<&str> {
    text.strip_suffix("tokens").or_else(|| text.strip_suffix("token"))
}

fn number_of_tokens(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|number| *number > 0)
}

/// Reads limits that make a request good, as in `first_content=300ms,token_time=50ms`.
///
/// # Errors
/// If a part is wrong, or a time has two limits.
pub fn goodput(text: &str) -> Result<TokenLimits, UnitError> {
    let mut limits = TokenLimits::default();
    for part in text.split(',').map(str::trim) {
        let wrong = || {
            let help = "write first_content=300ms, token_time=50ms or response_time=5s, joined with commas";
            UnitError::new(format!("`{part}` is not a limit of streams of tokens"), help)
        };
        let (name, time) = part.split_once('=').ok_or_else(wrong)?;
        let of = match name.trim() {
            "first_content" => &mut limits.first_content_ns,
            "token_time" => &mut limits.token_time_ns,
            "response_time" => &mut limits.response_time_ns,
            _ => return Err(wrong()),
        };
        if of.replace(limit(time.trim())?).is_some() {
            return Err(UnitError::new(format!("`{}` has two limits", name.trim()), "keep the stricter one"));
        }
    }
    Ok(limits)
}

/// Reads one of these limits, nanoseconds.
///
/// # Errors
/// If it is no time, or zero.
pub(crate) fn limit(text: &str) -> Result<u64, UnitError> {
    let time = units::duration(text)?;
    if time.is_zero() {
        return Err(UnitError::new("no request meets a limit of zero", "write a time such as 300ms"));
    }
    Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Reads a failure: its kind, the share of responses (100 % if it is absent) and the number of tokens before
/// it (0 if it is absent), as in `cut,10%,5`.
///
/// # Errors
/// If a part is wrong.
pub fn failure(text: &str) -> Result<LlmFailure, UnitError> {
    let mut parts = text.split(',').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let kind = LlmFailureKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
        let help = format!("use one of {}", LlmFailureKind::ALL.map(LlmFailureKind::name).join(", "));
        UnitError::new(format!("`{name}` is not a kind of failure"), help)
    })?;
    let share = parts.next().map_or(Ok(1.0), units::share)?;
    let at = match parts.next() {
        None => 0,
        Some(at) => at.parse::<u32>().map_err(|_| {
            UnitError::new(format!("`{at}` is not a number of tokens"), "write a number such as 5")
        })?,
    };
    match parts.next() {
        None => Ok(LlmFailure { kind, share, at }),
        Some(_) => Err(UnitError::new(
            format!("`{text}` has more than three parts"),
            "write KIND,SHARE,AT, such as cut,10%,5",
        )),
    }
}

/// Shows a failure in the form that [`failure`] reads.
pub fn show_failure(failure: &LlmFailure) -> String {
    let LlmFailure { kind, share, at } = failure;
    format!("{},{share},{at}", kind.name())
}

/// Checks whether a failure can happen in a response with this number of tokens.
///
/// # Errors
/// If a failure instead of a stream has a number of tokens, or if a failure within a stream comes too late.
pub fn check_failure(failure: &LlmFailure, tokens: u32) -> Result<(), UnitError> {
    let LlmFailure { kind, at, .. } = *failure;
    let name = kind.name();
    if at > 0 && !kind.is_in_stream() {
        let message = format!("`{name}` is an answer instead of a stream, so no tokens come before it");
        return Err(UnitError::new(message, "leave out the number of tokens"));
    }
    if at >= tokens {
        let message = format!("`{name}` after {at} tokens never happens: a response has {tokens}");
        return Err(UnitError::new(message, "use a lower number of tokens before it"));
    }
    Ok(())
}

/// Checks whether the built-in upstream can play this model. Each failure is checked by [`check_failure`].
///
/// # Errors
/// The key of the plan that is wrong, and the error.
pub fn check(model: &UpstreamLlm) -> Result<(), (&'static str, UnitError)> {
    let UpstreamLlm { tokens, bytes_per_token, per_write, split, .. } = *model;
    let stamp = Stamp::TEXT_LENGTH as u32;
    let most_bytes = u32::try_from(LONGEST_MESSAGE).unwrap_or(u32::MAX);
    for (key, value, (least, most)) in [
        ("tokens", tokens, (1, MOST_TOKENS)),
        ("bytes_per_token", bytes_per_token, (stamp, most_bytes)),
        ("per_write", per_write, (1, MOST_PER_WRITE)),
        ("split", split, (1, MOST_PER_WRITE.min(bytes_per_token))),
    ] {
        if !(least..=most).contains(&value) {
            let message = match key {
                "bytes_per_token" if value < least => {
                    format!("a token of {value} bytes has no room for its number and its time")
                }
                _ => format!("`{key}` cannot be {value}"),
            };
            return Err((key, UnitError::new(message, format!("use {least} to {most}"))));
        }
    }
    if split > 1 && per_write > 1 {
        let message = "a write cannot have several tokens and also a part of one";
        return Err(("split", UnitError::new(message, "leave out `split` or `per_write`")));
    }
    check_write(bytes_per_token, per_write).map_err(|error| ("per_write", error))?;
    if model.heartbeat.is_some_and(|time| time.is_zero()) {
        let help = "use a time such as 5s, or leave it out";
        return Err(("heartbeat", UnitError::new("the time until a comment is zero", help)));
    }
    let share: f64 = model.failures.iter().map(|failure| failure.share).sum();
    // The tolerance allows for rounding.
    if share > 1.0 + 1e-9 {
        let message = format!("the shares of `failures` add up to {}", units::show_share(share));
        return Err(("failures", UnitError::new(message, "lower them to 100% at most")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_read_as_they_are_shown() {
        for (text, shown) in
            [("rate-limit", "rate-limit,1,0"), ("cut, 10%, 5", "cut,0.1,5"), ("silence,1", "silence,1,0")]
        {
            let read = failure(text).expect(text);
            assert_eq!(show_failure(&read), shown);
            assert_eq!(failure(shown), Ok(read));
        }
        let told = ["teapot", "cut,2", "cut,1,x", "cut,1,2,3"]
            .map(|wrong| failure(wrong).expect_err(wrong).to_string());
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn names_prompts_and_lines_are_checked() {
        assert_eq!(api("responses"), Ok(Api::Responses));
        assert_eq!(model("openai/gpt-4o:beta").as_deref(), Ok("openai/gpt-4o:beta"));
        for wrong in ["", "a b", "{{seq}}", "é"] {
            assert!(model(wrong).is_err(), "{wrong}");
        }
        let (time, tokens) = (Leave::AfterNs(200_000_000), Leave::AfterTokens(5));
        assert_eq!((leave("200ms"), leave("5 tokens"), leave("5token")), (Ok(time), Ok(tokens), Ok(tokens)));
        for wrong in ["0s", "0 tokens", "tokens", "5"] {
            assert!(leave(wrong).is_err(), "{wrong}");
        }
        let one = Pause { after_tokens: 5, time_ns: 2_000_000_000 };
        assert_eq!((pause("5 tokens,2s"), pause("5token, 2000ms")), (Ok(one), Ok(one)));
        for wrong in ["", "5 tokens", "2s", "5,2s", "0 tokens,2s", "5 tokens,0s", "5 tokens,2"] {
            assert!(pause(wrong).is_err(), "{wrong}");
        }
        let limits =
            TokenLimits { token_time_ns: Some(5), response_time_ns: Some(2_000), ..TokenLimits::default() };
        assert_eq!(goodput("token_time=5ns, response_time = 2us"), Ok(limits));
        let mut told = vec![api("gemini").expect_err("none").to_string()];
        for wrong in ["", "age=5ms", "token_time=5", "token_time=0s", "token_time=1s,token_time=2s"] {
            told.push(goodput(wrong).expect_err(wrong).to_string());
        }
        assert_eq!(prompt("8MiB"), Ok(LONGEST_PROMPT));
        told.push(prompt("9MiB").expect_err("long").to_string());
        assert_eq!(check_lines("a", "plain\nsay \\\"hi\\\" é\n"), Ok(()));
        for wrong in ["\"", "\\", "a\tb"] {
            told.push(check_lines("a", &format!("x\n{wrong}")).expect_err(wrong).to_string());
        }
        insta::assert_snapshot!(told.join("\n"));
    }
}
