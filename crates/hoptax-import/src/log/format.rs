//! Format strings: `$variable` as in nginx, `%directive` as in Apache, `%OPERATOR%` as in Envoy.

use crate::seen::{Seen, origin_form, request_line};
use crate::time;
use std::time::Duration;

/// What a part of a line means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Request,
    Method,
    /// Path with query.
    Target,
    Path,
    Query,
    Host,
    Status,
    /// Length of the response's body.
    Bytes,
    RequestBytes,
    /// Time for the whole request, in units of this many nanoseconds.
    Took(u64),
    /// Time of the service behind the server, in units of this many nanoseconds.
    ServiceTook(u64),
    Time,
    Ignored,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Literal(String),
    Field(Field),
}

/// A format string, ready to read lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Step>);

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;
const MICROSECOND: u64 = 1_000;

impl Pattern {
    /// Fails if two fields have no text between them, or there is no method and path.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        let mut rest = text.trim_end_matches('\n');
        let is_envoy = ["%START_TIME", "%REQ(", "%RESPONSE_CODE%"].iter().any(|sign| text.contains(sign));
        while !rest.is_empty() {
            let length = match rest.as_bytes()[0] {
                b'$' => nginx(rest, &mut steps),
                b'%' if is_envoy => envoy(rest, &mut steps)?,
                b'%' => apache(rest, &mut steps)?,
                _ => {
                    let end = rest.find(['$', '%']).unwrap_or(rest.len());
                    literal(&mut steps, &rest[..end]);
                    end
                }
            };
            rest = &rest[length..];
        }
        let fields = || {
            steps.iter().filter_map(|step| if let Step::Field(field) = step { Some(*field) } else { None })
        };
        if steps.windows(2).any(|pair| matches!(pair, [Step::Field(_), Step::Field(_)])) {
            return Err("two variables have no text between them, so lines cannot be split".to_owned());
        }
        let has = |field| fields().any(|one| one == field);
        if has(Field::Request) || has(Field::Method) && (has(Field::Target) || has(Field::Path)) {
            return Ok(Self(steps));
        }
        Err("the format has no method and path. It needs `$request`, or `$request_method` and `$request_uri`"
            .to_owned())
    }

    /// Reads a line; `None` if it does not have this format. More text after the format's end is ignored.
    pub(super) fn read(&self, line: &str) -> Option<Seen> {
        let mut found = Found::default();
        let (mut rest, mut steps) = (line, self.0.iter().peekable());
        while let Some(step) = steps.next() {
            match step {
                Step::Literal(text) => rest = rest.strip_prefix(text.as_str())?,
                Step::Field(field) => {
                    let end = match steps.peek() {
                        Some(Step::Literal(next)) => end_of_field(rest, next)?,
                        // The last field ends with its word, because logs often have more fields than the
                        // format says.
                        _ => rest.find(' ').unwrap_or(rest.len()),
                    };
                    found.set(*field, &rest[..end])?;
                    rest = &rest[end..];
                }
            }
        }
        found.seen()
    }
}

/// Where the next literal begins. Within quotes, a backslash escapes a quote.
fn end_of_field(rest: &str, next: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + rest[from..].find(next)?;
        let escapes = rest[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
        if !next.starts_with('"') || escapes % 2 == 0 {
            return Some(at);
        }
        from = at + 1;
    }
}

/// The fields of a line.
#[derive(Default)]
struct Found {
    seen: Seen,
    path: Option<String>,
    query: Option<String>,
    service_took: Option<Duration>,
    bad_request: bool,
}

impl Found {
    fn set(&mut self, field: Field, text: &str) -> Option<()> {
        let absent = text.is_empty() || text == "-";
        match field {
            Field::Request => match request_line(text) {
                Some((method, target)) => (self.seen.method, self.seen.target) = (method, target),
                None => self.bad_request = true,
            },
            Field::Method => text.clone_into(&mut self.seen.method),
            Field::Target => origin_form(text).clone_into(&mut self.seen.target),
            Field::Path => self.path = Some(text.to_owned()),
            Field::Query if !absent => self.query = Some(text.trim_start_matches('?').to_owned()),
            // A name has no space. This distinguishes lines that begin with a host from others.
            Field::Host if text.contains(' ') => return None,
            Field::Host if !absent => self.seen.host = Some(text.to_ascii_lowercase()),
            // A status distinguishes lines of the format from others.
            Field::Status => {
                self.seen.status = Some(text.parse().ok().filter(|status| (100..=999).contains(status))?);
            }
            Field::Bytes if !absent => self.seen.response_bytes = Some(text.parse().ok()?),
            Field::RequestBytes if !absent => self.seen.request_bytes = Some(text.parse().ok()?),
            Field::Took(unit) if !absent => self.seen.took = duration(text, unit),
            Field::ServiceTook(unit) if !absent => self.service_took = duration(text, unit),
            Field::Time => self.seen.at = Some(time::any(text)?),
            _ => {}
        }
        Some(())
    }

    fn seen(mut self) -> Option<Seen> {
        if self.bad_request {
            // nginx also logs requests that it could not parse, such as a TLS handshake. Such a line still
            // has the format.
            self.seen.method.clear();
        }
        if let Some(path) = self.path.filter(|_| self.seen.target.is_empty()) {
            let query = self.query.filter(|_| !path.contains('?'));
            self.seen.target = query.map_or(path.clone(), |query| format!("{path}?{query}"));
        }
        self.seen.took = self.service_took.or(self.seen.took);
        Some(self.seen)
    }
}

/// A duration. nginx writes a duration for each server that it tried: `0.001, 0.020`. Only the last server
/// has answered.
fn duration(text: &str, unit: u64) -> Option<Duration> {
    let last = text.rsplit([',', ':']).map(str::trim).find(|part| !part.is_empty())?;
    let number: f64 = last.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)?;
    Duration::try_from_secs_f64(number * unit as f64 / SECOND as f64).ok()
}

fn literal(steps: &mut Vec<Step>, text: &str) {
    match steps.last_mut() {
        Some(Step::Literal(last)) => last.push_str(text),
        _ => steps.push(Step::Literal(text.to_owned())),
    }
}

/// `$name` or `${name}`. Returns its length.
fn nginx(rest: &str, steps: &mut Vec<Step>) -> usize {
    let braced = rest.strip_prefix("${").and_then(|inner| inner.split_once('}')).map(|(name, _)| name);
    let name = braced.unwrap_or_else(|| {
        let name = &rest[1..];
        &name[..name
            .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .unwrap_or(name.len())]
    });
    steps.push(Step::Field(match name {
        "request" => Field::Request,
        "request_method" => Field::Method,
        "request_uri" => Field::Target,
        "uri" | "document_uri" => Field::Path,
        "args" | "query_string" => Field::Query,
        "host" | "http_host" | "server_name" => Field::Host,
        "status" => Field::Status,
        "body_bytes_sent" => Field::Bytes,
        "content_length" | "http_content_length" => Field::RequestBytes,
        "request_time" => Field::Took(SECOND),
        "upstream_response_time" => Field::ServiceTook(SECOND),
        "time_local" | "time_iso8601" | "msec" => Field::Time,
        _ => Field::Ignored,
    }));
    name.len() + if braced.is_some() { 3 } else { 1 }
}

/// `%REQ(:METHOD)%`, `%DURATION%` and so on. Returns its length.
fn envoy(rest: &str, steps: &mut Vec<Step>) -> Result<usize, String> {
    let end = rest[1..].find('%').ok_or_else(|| format!("`{rest}` has no second `%`"))?;
    let operator = &rest[1..=end];
    steps.push(Step::Field(match operator {
        "REQ(:METHOD)" => Field::Method,
        "REQ(X-ENVOY-ORIGINAL-PATH?:PATH)" | "REQ(:PATH)" => Field::Target,
        "REQ(:AUTHORITY)" | "REQ(HOST)" => Field::Host,
        "RESPONSE_CODE" => Field::Status,
        "BYTES_SENT" => Field::Bytes,
        "BYTES_RECEIVED" => Field::RequestBytes,
        "DURATION" => Field::Took(MILLISECOND),
        "RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)" => Field::ServiceTook(MILLISECOND),
        operator if operator.starts_with("START_TIME") => Field::Time,
        _ => Field::Ignored,
    }));
    Ok(end + 2)
}

/// `%r`, `%>s`, `%{Host}i` and so on. Returns its length.
fn apache(rest: &str, steps: &mut Vec<Step>) -> Result<usize, String> {
    let inner = &rest[1..];
    if inner.starts_with('%') {
        literal(steps, "%");
        return Ok(2);
    }
    // Between `%` and the letter: conditions on the status, `<` or `>`, and an argument in braces.
    let skipped =
        inner.find(|letter: char| !letter.is_ascii_digit() && !"!,<>".contains(letter)).unwrap_or(0);
    let after = &inner[skipped..];
    let (argument, letter) = match after.strip_prefix('{') {
        Some(more) => more.split_once('}').ok_or_else(|| format!("`{rest}` has no `}}`"))?,
        None => ("", after),
    };
    // Two directives have two letters: ^ti and ^to. They are not used in access logs of requests.
    let letter = letter.chars().next().ok_or_else(|| format!("`{rest}` ends without a letter"))?;
    let field = match (letter, argument.to_ascii_lowercase().as_str()) {
        ('r', _) => Field::Request,
        ('m', _) => Field::Method,
        ('U', _) => Field::Path,
        ('q', _) => Field::Query,
        ('v' | 'V', _) | ('i', "host") => Field::Host,
        ('s', _) => Field::Status,
        ('b' | 'B', _) => Field::Bytes,
        // Includes the head, which is short.
        ('O', _) => Field::Bytes,
        ('i', "content-length") => Field::RequestBytes,
        ('D', _) | ('T', "us") => Field::Took(MICROSECOND),
        ('T', "ms") => Field::Took(MILLISECOND),
        ('T', _) => Field::Took(SECOND),
        ('t', "") => {
            // `%t` writes the brackets itself.
            literal(steps, "[");
            steps.push(Step::Field(Field::Time));
            literal(steps, "]");
            return Ok(1 + skipped + 1);
        }
        _ => Field::Ignored,
    };
    steps.push(Step::Field(field));
    let braces = if after.starts_with('{') { argument.len() + 2 } else { 0 };
    Ok(1 + skipped + braces + letter.len_utf8())
}
