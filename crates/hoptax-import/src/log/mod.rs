//! Access logs: one request per line, as text in a known format or as JSON.

mod format;
mod json;
pub(crate) mod lines;

use crate::input::{ImportError, Options};
use crate::mix::Mix;
use crate::seen::Seen;
use format::Pattern;
use lines::Input;
use std::io::BufRead as _;

/// Names of formats, and the format string that each means. JSON has no format string: its keys are known by
/// name.
pub const FORMATS: [(&str, &str); 5] = [
    ("vhost_combined", "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\""),
    (
        "combined",
        r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#,
    ),
    ("common", r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent"#),
    (
        "envoy",
        "[%START_TIME%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%\" %RESPONSE_CODE% \
         %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% \
         \"%REQ(X-FORWARDED-FOR)%\" \"%REQ(USER-AGENT)%\" \"%REQ(X-REQUEST-ID)%\" \"%REQ(:AUTHORITY)%\" \
         \"%UPSTREAM_HOST%\"",
    ),
    ("json", ""),
];

/// Number of lines that are read to detect the format.
const LOOKED_AT: usize = 20;
/// Largest share of lines that may be unreadable.
const MOST_UNREADABLE: f64 = 0.5;

/// How to read a line.
enum Format {
    Text(Box<Pattern>),
    Json,
}

impl Format {
    fn read(&self, line: &str) -> Option<Seen> {
        match self {
            Self::Text(pattern) => pattern.read(line),
            Self::Json => json::read(line),
        }
    }
}

/// Reads all lines of a log into the mix.
pub(crate) fn read(
    name: &str,
    input: &mut Input<'_>,
    options: &Options,
    mix: &mut Mix,
    notes: &mut Vec<String>,
) -> Result<(), ImportError> {
    let mut first = Vec::new();
    let mut reader = Lines { name, input, number: 0 };
    while first.len() < LOOKED_AT
        && let Some(line) = reader.next()?
    {
        first.push(line);
    }
    let format = match &options.format {
        Some(typed) => named(typed)?,
        None => detect(name, first.iter().map(|(_, text)| text.as_str()))?,
    };
    let mut counts = Counts::default();
    for (number, line) in &first {
        counts.add(*number, line, &format, options, mix);
    }
    while let Some((number, line)) = reader.next()? {
        counts.add(number, &line, &format, options, mix);
    }
    counts.check(name, notes)
}

/// The lines of a log that are not empty, with their numbers from 1.
struct Lines<'a, 'b> {
    name: &'a str,
    input: &'a mut Input<'b>,
    number: u64,
}

impl Lines<'_, '_> {
    /// Longest line, bytes. A longer one is not a line of a log.
    const LONGEST: u64 = 1 << 20;

    fn next(&mut self) -> Result<Option<(u64, String)>, ImportError> {
        loop {
            let mut line = Vec::new();
            let mut limited = std::io::Read::take(&mut *self.input, Self::LONGEST);
            let read = limited.read_until(b'\n', &mut line);
            read.map_err(|error| ImportError::new(format!("cannot read {}: {error}", self.name)))?;
            if line.is_empty() {
                return Ok(None);
            }
            self.number += 1;
            if line.len() as u64 == Self::LONGEST && !line.ends_with(b"\n") {
                let message =
                    format!("{}: line {} is longer than 1 MiB. Is it a log?", self.name, self.number);
                return Err(ImportError::new(message));
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_start_matches('\u{feff}').trim_end_matches(['\n', '\r']);
            if !text.trim().is_empty() {
                return Ok(Some((self.number, text.to_owned())));
            }
        }
    }
}

/// Numbers of lines by outcome.
#[derive(Default)]
struct Counts {
    lines: u64,
    unreadable: u64,
    first_unreadable: Option<(u64, String)>,
    not_requests: u64,
    other_hosts: u64,
}

impl Counts {
    fn add(&mut self, number: u64, line: &str, format: &Format, options: &Options, mix: &mut Mix) {
        self.lines += 1;
        match format.read(line) {
            None => {
                self.unreadable += 1;
                self.first_unreadable.get_or_insert_with(|| (number, line.to_owned()));
            }
            Some(seen) if !seen.can_be_sent() => self.not_requests += 1,
            Some(seen) if options.host.is_some() && seen.host != options.host => self.other_hosts += 1,
            Some(seen) => mix.add(seen),
        }
    }

    fn check(self, name: &str, notes: &mut Vec<String>) -> Result<(), ImportError> {
        if let Some((number, line)) = &self.first_unreadable {
            let shown: String = line.chars().take(200).collect();
            if self.unreadable as f64 > MOST_UNREADABLE * self.lines as f64 {
                return Err(ImportError::new(format!(
                    "{name}: {} of {} lines do not have the format; the first is line {number}:\n  \
                     {shown}\nName the format with --format: combined, common, envoy, json, or the format \
                     string of the server's configuration",
                    self.unreadable, self.lines
                )));
            }
            notes.push(format!(
                "{name}: {} of {} lines do not have the format and were left out; the first is line \
                {number}: {shown}",
                self.unreadable, self.lines
            ));
        }
        if self.not_requests > 0 {
            notes.push(format!(
                "{name}: {} lines are not requests that can be sent, such as `-` or CONNECT",
                self.not_requests
            ));
        }
        if self.other_hosts > 0 {
            notes.push(format!("{name}: {} requests to other hosts were left out", self.other_hosts));
        }
        Ok(())
    }
}

/// The format that the user named or wrote.
fn named(typed: &str) -> Result<Format, ImportError> {
    if typed == "json" {
        return Ok(Format::Json);
    }
    let known = FORMATS.iter().find(|(name, _)| *name == typed).map(|(_, text)| *text);
    if known.is_none() && !typed.contains(['$', '%']) {
        let names: Vec<&str> = FORMATS.iter().map(|(name, _)| *name).collect();
        return Err(ImportError::new(format!(
            "--format: there is no format `{typed}`. Use one of {}, or a format string such as '$remote_addr \
            \"$request\" $status'",
            names.join(", ")
        )));
    }
    let pattern =
        Pattern::parse(known.unwrap_or(typed)).map_err(|why| ImportError::new(format!("--format: {why}")))?;
    Ok(Format::Text(Box::new(pattern)))
}

/// The first format that fits most of these lines.
fn detect<'a>(name: &str, lines: impl Iterator<Item = &'a str> + Clone) -> Result<Format, ImportError> {
    let all = lines.clone().count();
    for (format_name, _) in FORMATS {
        let format = named(format_name)?;
        if lines.clone().filter(|line| format.read(line).is_some()).count() * 2 > all {
            return Ok(format);
        }
    }
    let first: String = lines.clone().next().unwrap_or_default().chars().take(200).collect();
    Err(ImportError::new(format!(
        "{name}: unknown format of the log. Its first line is:\n  {first}\nName the format with --format: \
         the format string of the server's configuration, such as nginx's `log_format`, or --from har, curl \
         or openapi if it is not a log"
    )))
}

#[cfg(test)]
mod tests;
