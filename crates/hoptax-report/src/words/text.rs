//! Short texts that several formats use.

use crate::words::format::{Scale, number};
use hoptax_analysis::Load;
use hoptax_format::messages::Carrier;
use hoptax_format::spec::{HttpVersion, Retry};
use hoptax_plan::{Target, connections_in_words};
use hoptax_record::Stage;
use hoptax_stats::Estimate;

/// An estimate with its interval: `41 µs (38–44)`. Every report says once that this is the 95 % interval.
pub(crate) fn with_interval(estimate: &Estimate, scale: Scale) -> String {
    let value = scale.value(estimate.estimate);
    match estimate.interval() {
        Some((low, high)) => format!("{value} ({})", scale.interval(low, high)),
        None if estimate.trials > 1 => format!("{value} (no interval)"),
        None => format!("{value} (one trial: no interval)"),
    }
}

/// The load point as part of a sentence: `at 1,000/s over 32 connections`.
pub(crate) fn place(load: &Load) -> String {
    let connections = connections_in_words(load.connections, load.streams) + &manner(load);
    let rate = load.rate.map(|rate| format!("{}/s", number(rate)));
    match (rate, &load.stages) {
        (Some(rate), None) => format!("at {rate} over {connections}"),
        (Some(rate), Some(stages)) => {
            format!("in {} stages ({rate} on average) over {connections}", stages.len())
        }
        (None, _) => format!("at {connections}"),
    }
}

/// Says how many passes of a recorder failed, and why: `1 failed: perf ended.`
pub(crate) fn failed_passes(passes: u32, failed: u32, failure: &str) -> String {
    let failed = if passes == 0 { "No pass succeeded".to_owned() } else { format!("{failed} failed") };
    format!("{failed}: {failure}.")
}

/// Describes how connections are used. Empty if connections use HTTP/1.1 and carry any number of requests, if
/// no request is sent again, and if the host of the role `generator` sends the load. Without this
/// description, two load points could have the same label.
fn manner(load: &Load) -> String {
    let version = match load.http {
        HttpVersion::Http10 => " in HTTP/1.0",
        HttpVersion::Http11 => "",
        HttpVersion::Http2 => " in HTTP/2",
    };
    let kept = match load.requests_per_connection {
        None => String::new(),
        Some(1) => " without keep-alive".to_owned(),
        Some(most) => format!(" of {most} requests each"),
    };
    let again = if load.retry == Retry::IdleClose { " with retries" } else { "" };
    let from = load.from.as_ref().map_or_else(String::new, |host| format!(" from {host}"));
    format!("{version}{kept}{again}{from}")
}

/// A time span to the second: `58 s`, `2 min 58 s`, `1 h 5 min`.
pub(crate) fn span(seconds: f64) -> String {
    let all = seconds.round() as u64;
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    let parts = match (hours, minutes) {
        (0, 0..=1) => [(0, "min"), (all, "s")],
        (0, _) => [(minutes, "min"), (seconds, "s")],
        _ => [(hours, "h"), (minutes, "min")],
    };
    let parts = parts.into_iter().filter(|(count, unit)| *count > 0 || (all == 0 && *unit == "s"));
    parts.map(|(count, unit)| format!("{count} {unit}")).collect::<Vec<_>>().join(" ")
}

/// A list as part of a sentence: `a`, `a and b`, `a, b and c`.
pub(crate) fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

/// Names further contenders: `The same holds for: a, b.` Empty if there are none.
pub(crate) fn same_holds_for(others: &[&str]) -> String {
    if others.is_empty() { String::new() } else { format!("The same holds for: {}.", others.join(", ")) }
}

/// A message as a sentence that ends with a full stop.
pub(crate) fn stop(message: &str) -> String {
    let message = message.trim_end();
    if message.ends_with(['.', '!', '?']) { message.into() } else { format!("{message}.") }
}

pub(crate) fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Missing => "not installed",
        Stage::Start => "did not start",
        Stage::Verify => "answer differs from direct's",
        Stage::Trial => "during a trial",
        Stage::LeftOut => "left out",
    }
}

pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Escapes untrusted text, so that Markdown does not interpret it as markup.
pub(crate) fn inline(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => safe.push_str("&lt;"),
            '\\' | '|' | '*' | '_' | '[' | ']' | '`' => safe.extend(['\\', letter]),
            '\n' | '\r' => safe.push(' '),
            letter => safe.push(letter),
        }
    }
    safe
}

/// Splits a text at white space, but keeps a number and its unit together.
fn words(text: &str) -> Vec<String> {
    const UNITS: [&str; 9] = ["%", "µs", "ms", "s", "k", "B", "KiB", "MiB", "GiB"];
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_end_matches([',', '.', ':', ';', ')']);
        match words.last_mut() {
            Some(number) if UNITS.contains(&bare) && number.ends_with(|c: char| c.is_ascii_digit()) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.into()),
        }
    }
    words
}

/// Wraps a text to lines of at most `width` columns. All lines except the first are indented by two spaces. A
/// number and its unit stay on the same line.
pub fn wrapped(text: &str, width: usize) -> String {
    filled(text, "", "  ", width)
}

/// Wraps a text to lines of at most `width` columns. `lead` comes before the text, and may contain ANSI
/// styles. `indent` comes before each further line.
pub(crate) fn filled(text: &str, lead: &str, indent: &str, width: usize) -> String {
    let mut out = lead.to_owned();
    let mut column = visible(lead);
    for word in words(text) {
        let length = word.chars().count();
        if column > indent.len() && column + 1 + length > width {
            out.push('\n');
            out.push_str(indent);
            column = indent.len();
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(&word);
        column += length;
    }
    out.push('\n');
    out
}

/// Number of columns that a text takes up. ANSI styles do not count.
fn visible(text: &str) -> usize {
    let mut inside = false;
    let mut columns = 0;
    for letter in text.chars() {
        match letter {
            '\u{1b}' => inside = true,
            'm' if inside => inside = false,
            _ => columns += usize::from(!inside),
        }
    }
    columns
}

/// The word for one message: `token` if all streams of these targets carry tokens, `event` if they carry
/// events.
pub(crate) fn message_word(targets: &[Target]) -> &'static str {
    let streams = || targets.iter().filter_map(|target| target.stream);
    match streams().next() {
        Some(_) if streams().all(|stream| stream.tokens.is_some()) => "token",
        Some(_) if streams().all(|stream| stream.carrier == Carrier::Events) => "event",
        _ => "message",
    }
}

#[cfg(test)]
mod tests {
    use super::{span, words};

    #[test]
    fn spans_have_at_most_two_units() {
        for (seconds, text) in [
            (0.2, "0 s"),
            (58.4, "58 s"),
            (119.0, "119 s"),
            (120.0, "2 min"),
            (178.0, "2 min 58 s"),
            (3600.0, "1 h"),
            (3940.0, "1 h 5 min"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }

    #[test]
    fn a_unit_stays_with_its_number() {
        assert_eq!(words("adds 41 µs (95 %: 38–44)."), ["adds", "41 µs", "(95 %:", "38–44)."]);
    }
}
