//! Prints a mix as YAML: targets, answers of the built-in upstream, and the load.

use crate::fold::PathPart;
use crate::input::Options;
use crate::mix::{Chosen, Class, Key, Mix};
use crate::sketch::Sketch;
use crate::{secret, time};
use std::fmt::Write as _;

/// A mix, with the name and the options of its source.
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) options: &'a Options,
    pub(crate) mix: &'a Mix,
}

/// Number of stages that the log's time is divided into.
const STAGES: usize = 10;
/// Shortest log whose rate over time is used, seconds.
const SHORTEST: f64 = 10.0;
/// Largest weight of a target in a plan.
const MOST_WEIGHT: f64 = 1_000_000.0;
/// Longest body that is printed as text; longer ones become a size.
const LONGEST_TEXT: usize = 64 * 1024;
/// The first number is used for a load without a known rate, and is the minimum for a load with a rate. The
/// second number is the maximum.
const CONNECTIONS: (usize, usize) = (16, 1000);

pub(crate) fn plan(source: &Source<'_>, chosen: &Chosen<'_>) -> String {
    let mut out = heading(source, chosen);
    let represented = percent(chosen.own);
    let _ = writeln!(
        out,
        "\nimported: {{ from: {}, requests: {}, represented: {represented} }}",
        quoted(source.name),
        source.mix.requests()
    );
    let answers = answers(chosen);
    if !answers.is_empty() {
        let _ = write!(
            out,
            "\n# What the built-in upstream answers, with sizes and times as in the source.\nupstream:\n  \
            answers:\n{answers}"
        );
    }
    out.push_str("\ngateways: [nginx]\n\ntarget:\n");
    out.push_str(&list(chosen, "  "));
    out.push_str(&load(source, chosen));
    out
}

pub(crate) fn targets(source: &Source<'_>, chosen: &Chosen<'_>) -> String {
    format!("{}\n{}", heading(source, chosen), list(chosen, ""))
}

/// The same facts as the heading, for the terminal.
pub(crate) fn summary(source: &Source<'_>, chosen: &Chosen<'_>) -> String {
    heading(source, chosen).lines().map(|line| format!("{}\n", line.trim_start_matches("# "))).collect()
}

fn heading(source: &Source<'_>, chosen: &Chosen<'_>) -> String {
    let mix = source.mix;
    let mut out = format!("# Traffic from {}: {} requests", source.name, mix.requests());
    if let (Some((first, _)), Some((last, _))) =
        (mix.seconds().first_key_value(), mix.seconds().last_key_value())
    {
        let _ = write!(out, " from {} to {}", time::shown(*first as f64), time::shown(*last as f64));
    }
    let own = chosen.targets.iter().filter(|(.., classes)| *classes == 1).count();
    let _ = write!(
        out,
        ".\n# {own} of {} kinds have a target of their own: {} of the requests.",
        chosen.classes,
        percent(chosen.own)
    );
    if own < chosen.targets.len() {
        out.push_str(" The rest has one per method.");
    }
    out.push('\n');
    if let Some(note) = secret::note(&mix.left_out) {
        let _ = writeln!(out, "# {note}.");
    }
    out
}

/// Share as a percentage, rounded down, so that 100% means all.
fn percent(share: f64) -> String {
    format!("{}%", (share * 1000.0).floor() / 10.0)
}

fn list(chosen: &Chosen<'_>, indent: &str) -> String {
    let most = chosen.targets.iter().map(|(_, class, _)| class.count).max().unwrap_or(1) as f64;
    let factor = (MOST_WEIGHT / most).min(1.0);
    let mut out = String::new();
    let mut names = Vec::new();
    for (key, class, classes) in &chosen.targets {
        let name = unique(name(key, *classes), &mut names);
        let weight = ((class.count as f64 * factor).round() as u64).max(1);
        let _ = writeln!(out, "{indent}- name: {}\n{indent}  weight: {weight}", quoted(&name));
        if key.method != "GET" {
            let _ = writeln!(out, "{indent}  method: {}", key.method);
        }
        let _ = writeln!(out, "{indent}  path: {}", quoted(&path(key, class)));
        out.push_str(&headers(key, class, indent));
        out.push_str(&body(class, indent));
        out.push_str(&expect(class, indent));
    }
    out
}

/// Name of a target: method and path with `*` for holes, at most 64 characters.
fn name(key: &Key, classes: usize) -> String {
    let whole = match classes {
        1 => format!("{} {}", key.method, pattern(key, true)),
        _ => format!("{} (others)", key.method),
    };
    if whole.chars().count() <= 64 { whole } else { whole.chars().take(63).chain(['…']).collect() }
}

fn unique(name: String, names: &mut Vec<String>) -> String {
    let mut wanted = name.clone();
    let mut number = 2;
    while names.contains(&wanted) {
        let short: String = name.chars().take(58).collect();
        wanted = format!("{short} ({number})");
        number += 1;
    }
    names.push(wanted.clone());
    wanted
}

/// The path with `*` for each hole, and with its query if `with_query` is set.
fn pattern(key: &Key, with_query: bool) -> String {
    let mut out = String::new();
    for part in &key.parts {
        match part {
            PathPart::Text(text) => out.push_str(text),
            PathPart::Number | PathPart::Uuid | PathPart::Id(_) => out.push('*'),
        }
    }
    match out.find('?').filter(|_| !with_query) {
        Some(at) => out[..at].to_owned(),
        None => out,
    }
}

/// The path with a template for each hole.
fn path(key: &Key, class: &Class) -> String {
    let mut out = String::new();
    let mut numbers = class.numbers.iter();
    for part in &key.parts {
        match part {
            PathPart::Text(text) => out.push_str(&text.replace("{{", "\\{{")),
            PathPart::Uuid => out.push_str("{{uuid}}"),
            PathPart::Number => match numbers.next() {
                Some((low, high)) if low == high => out.push_str(&low.to_string()),
                Some((low, high)) => {
                    let _ = write!(out, "{{{{random {low} {high}}}}}");
                }
                None => out.push('1'),
            },
            PathPart::Id(length) => digits(*length, &mut out),
        }
    }
    out
}

/// Templates for an id with this many digits.
fn digits(mut length: usize, out: &mut String) {
    while length > 0 {
        let some = length.min(18);
        let low = 10_u64.pow(some as u32 - 1);
        let _ = write!(out, "{{{{random {low} {}}}}}", low * 10 - 1);
        length -= some;
    }
}

fn headers(key: &Key, class: &Class, indent: &str) -> String {
    let mut out = String::new();
    for (name, value) in key
        .host
        .iter()
        .map(|host| ("host", host.as_str()))
        .chain(class.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())))
    {
        let _ = writeln!(out, "{indent}    {}: {}", quoted(name), quoted(&value.replace("{{", "\\{{")));
    }
    if out.is_empty() { out } else { format!("{indent}  headers:\n{out}") }
}

fn body(class: &Class, indent: &str) -> String {
    let chunked = if class.is_chunked { ", chunked: true" } else { "" };
    match (&class.body, class.request_bytes.mean()) {
        (Some(text), _) if text.len() <= LONGEST_TEXT => {
            format!("{indent}  body: {{ text: {}{chunked} }}\n", quoted(&text.replace("{{", "\\{{")))
        }
        (_, Some(bytes)) if bytes >= 1.0 && class.is_chunked => {
            format!("{indent}  body: {{ size: {}B{chunked} }}\n", bytes.round())
        }
        (_, Some(bytes)) if bytes >= 1.0 => format!("{indent}  body: {}B\n", bytes.round()),
        _ => String::new(),
    }
}

/// The line with the expected statuses. Empty unless the source has a status that would count as a failure by
/// default.
fn expect(class: &Class, indent: &str) -> String {
    let known: Vec<u16> = class.answers.keys().flatten().copied().collect();
    if known.iter().all(|status| (200..400).contains(status)) {
        return String::new();
    }
    let good = "200-399".to_owned();
    let others = known.iter().filter(|status| !(200..400).contains(*status)).map(u16::to_string);
    format!(
        "{indent}  expect: {{ status: [{}] }}\n",
        std::iter::once(good).chain(others).collect::<Vec<_>>().join(", ")
    )
}

/// One answer for each path and status. Classes that differ only in the query or the host have answers for
/// the same path. The upstream chooses among these answers by weight.
fn answers(chosen: &Chosen<'_>) -> String {
    let mut out = String::new();
    for (key, class, _) in &chosen.targets {
        for (status, answers) in &class.answers {
            // hoptax sends no final response below 200.
            let Some(status) = status.filter(|status| (200..=599).contains(status)) else { continue };
            let _ = write!(
                out,
                "    - {{ method: {}, path: {}, weight: {}, status: {status}",
                key.method,
                quoted(&pattern(key, false)),
                answers.count.min(MOST_WEIGHT as u64)
            );
            let bodiless = matches!(status, 204 | 304) || key.method == "HEAD";
            if let Some(sizes) =
                distribution(&answers.bytes, |bytes| format!("{bytes}B")).filter(|_| !bodiless)
            {
                let _ = write!(out, ", body: {sizes}");
            }
            if let Some(times) = distribution(&answers.took, time_text) {
                let _ = write!(out, ", delay: {times}");
            }
            out.push_str(" }\n");
        }
    }
    out
}

/// `1024B`, or `"choice(20% 1ms, 80% 3ms)"`.
fn distribution(of: &Sketch, shown: impl Fn(u64) -> String) -> Option<String> {
    let groups = of.groups();
    match groups.as_slice() {
        [] => None,
        [(_, only)] => Some(shown(*only)),
        groups => {
            // Shares are printed in tenths of a percent, and must add up to 100 %.
            let mut tenths: Vec<i64> =
                groups.iter().map(|(share, _)| (share * 1000.0).round() as i64).collect();
            let largest = (0..tenths.len()).max_by_key(|index| tenths[*index]).unwrap_or_default();
            tenths[largest] += 1000 - tenths.iter().sum::<i64>();
            let part = |(tenths, (_, value)): (&i64, &(f64, u64))| {
                (*tenths > 0).then(|| format!("{}% {}", *tenths as f64 / 10.0, shown(*value)))
            };
            Some(format!(
                "\"choice({})\"",
                tenths.iter().zip(groups).filter_map(part).collect::<Vec<_>>().join(", ")
            ))
        }
    }
}

/// Nanoseconds with three significant digits.
fn time_text(nanoseconds: u64) -> String {
    match nanoseconds {
        0 => "0ms".to_owned(),
        ns if ns < 10_000 => format!("{ns}ns"),
        ns if ns < 10_000_000 => format!("{}us", ns.div_euclid(1000)),
        ns if ns < 10_000_000_000 => format!("{}ms", ns / 1_000_000),
        ns => format!("{}s", ns / 1_000_000_000),
    }
}

/// The rate over time as stages of an open loop, compressed. If the times are unknown, a closed loop.
fn load(source: &Source<'_>, chosen: &Chosen<'_>) -> String {
    let seconds = source.mix.seconds();
    let span = match (seconds.first_key_value(), seconds.last_key_value()) {
        (Some((first, _)), Some((last, _))) => (last - first + 1) as f64,
        _ => 0.0,
    };
    if span < SHORTEST {
        let (connections, _) = CONNECTIONS;
        return format!("\nload:\n  - {{ loop: closed, connections: {connections} }}\n");
    }
    let first = *seconds.keys().next().unwrap_or(&0) as f64;
    let mut counts = [0_u64; STAGES];
    for (second, count) in seconds {
        let stage = ((*second as f64 - first) / span * STAGES as f64) as usize;
        counts[stage.min(STAGES - 1)] += count;
    }
    let rate = |count: u64| count as f64 / (span / STAGES as f64) * source.options.scale;
    let for_each = source.options.seconds / STAGES as f64;
    let stages: Vec<String> = counts
        .iter()
        .map(|count| format!("{}/s for {}ms", rounded(rate(*count)), (for_each * 1000.0).round()))
        .collect();
    let highest = rate(counts.into_iter().max().unwrap_or_default());
    // Twice the mean number of requests in flight, which follows from Little's law.
    let busy = highest * mean_time(chosen) * 2.0;
    let connections = (busy.ceil() as usize).clamp(CONNECTIONS.0, CONNECTIONS.1);
    let factor =
        if source.options.scale == 1.0 { String::new() } else { format!(", times {}", source.options.scale) };
    format!(
        "\n# The rate of the source over {span} s{factor}, in {} s.\nload:\n  - loop: open\n    rate: [{}]\n    connections: {connections}\n",
        source.options.seconds,
        stages.join(", ")
    )
}

/// Mean time of a response, seconds.
fn mean_time(chosen: &Chosen<'_>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for answers in chosen.targets.iter().flat_map(|(_, class, _)| class.answers.values()) {
        if let Some(mean) = answers.took.mean() {
            sum += mean * answers.count as f64;
            count += answers.count as f64;
        }
    }
    if count > 0.0 { sum / count / 1e9 } else { 0.0 }
}

/// Three significant digits, or a whole number.
fn rounded(rate: f64) -> f64 {
    if rate >= 100.0 { rate.round() } else { (rate * 100.0).round() / 100.0 }
}

/// A YAML string in double quotes, which has the syntax of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests;
