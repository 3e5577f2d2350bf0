//! Parsing and printing of values with units: `250ms`, `1000/s`, `64KiB`, `1%`.
//!
//! A number without a unit is an error if a unit is needed, because `timeout: 3` could mean seconds or
//! milliseconds. The command line uses the same parsers.

pub use super::stages::{pace, stages};
pub use hoptax_record::units::*;

use super::{Delay, Metric, Quantity};
use hoptax_format::Address;
use hoptax_format::spec::Arrivals;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Longest accepted duration: a year. A longer duration is a typing error. Durations in nanoseconds must also
/// fit into 64 bits.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Why a value is not valid, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {help}")]
pub struct UnitError {
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub help: String,
}

impl UnitError {
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

/// Parses a duration: a number followed by `ns`, `us`, `ms`, `s`, `m` or `h`, as in `250ms` or `1.5s`.
///
/// # Errors
/// If there is no number, no unit, an unknown unit or a sign, or the duration is more than a year.
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    const EXAMPLES: &str = "write a number and a unit, such as 250ms, 5s or 1.5m";
    let (number, unit) =
        split(text).ok_or_else(|| UnitError::new(format!("`{text}` is not a duration"), EXAMPLES))?;
    if unit.is_empty() {
        return Err(UnitError::new(
            format!("the duration `{text}` has no unit"),
            format!("write {number}s for seconds or {number}ms for milliseconds"),
        ));
    }
    let unit = if unit == "µs" { "us" } else { unit };
    let Some((_, nanoseconds)) = TIME_UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(UnitError::new(
            format!("unknown unit of time `{unit}` in `{text}`"),
            "use ns, us, ms, s, m or h",
        ));
    };
    let total = (number * nanoseconds).round();
    if total > LONGEST.as_nanos() as f64 {
        return Err(UnitError::new(format!("`{text}` is more than a year"), "use at most 8760h (365 days)"));
    }
    Ok(Duration::from_nanos(total as u64))
}

const RATE_EXAMPLES: &str = "write requests per second, minute or hour: 1000/s, 60/m, 100/h";

/// Parses a rate into requests per second. A rate is a number, `/`, and `s`, `m` or `h`, as in `1000/s` or
/// `60/m`.
///
/// # Errors
/// If the text has another form, or the rate is zero.
pub fn rate(text: &str) -> Result<f64, UnitError> {
    match rate_or_zero(text)? {
        0.0 => Err(UnitError::new("a rate of zero sends nothing", RATE_EXAMPLES)),
        rate => Ok(rate),
    }
}

/// Parses a rate like [`rate`], but accepts zero.
///
/// # Errors
/// If the text has another form.
pub(crate) fn rate_or_zero(text: &str) -> Result<f64, UnitError> {
    let Some((count, per)) = text.split_once('/') else {
        return Err(match text.trim().parse::<f64>() {
            Ok(_) => UnitError::new(
                format!("the rate `{text}` has no unit"),
                format!("write {}/s for requests per second", text.trim()),
            ),
            Err(_) => UnitError::new(format!("`{text}` is not a rate"), RATE_EXAMPLES),
        });
    };
    let Some((number, "")) = split(count) else {
        return Err(UnitError::new(format!("`{text}` is not a rate"), RATE_EXAMPLES));
    };
    let seconds = match per.trim() {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        other => {
            return Err(UnitError::new(
                format!("unknown unit of time `{other}` in the rate `{text}`"),
                "use /s, /m or /h",
            ));
        }
    };
    Ok(number / seconds)
}

/// Parses a size into bytes. A size is a number followed by `B`, `KiB`, `MiB`, `GiB` (powers of 1024) or
/// `kB`, `MB`, `GB` (powers of 1000).
///
/// # Errors
/// If there is no number, no unit, an unknown unit, or a fraction of a byte.
pub fn size(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split(text).ok_or_else(|| {
        UnitError::new(
            format!("`{text}` is not a size"),
            "write a number and a unit, such as 512B, 1KiB or 10kB",
        )
    })?;
    if unit.is_empty() {
        return Err(UnitError::new(
            format!("the size `{text}` has no unit"),
            format!("write {number}B for bytes or {number}KiB for units of 1024 bytes"),
        ));
    }
    let Some((_, bytes)) = SIZE_UNITS.iter().find(|(name, _)| *name == unit) else {
        let near = SIZE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        return Err(UnitError::new(
            format!("unknown unit of size `{unit}` in `{text}`"),
            near.map_or("use B, KiB, MiB, GiB, kB, MB or GB".to_owned(), |(name, bytes)| {
                format!("did you mean `{name}` ({bytes} bytes)?")
            }),
        ));
    };
    let total = number * *bytes as f64;
    if total.fract() != 0.0 || total >= (1u64 << 53) as f64 {
        return Err(UnitError::new(
            format!("`{text}` is not a whole number of bytes, or is too large"),
            "write a whole number of bytes below 8388608GiB (2^53 bytes)",
        ));
    }
    Ok(total as u64)
}

/// Parses [a size](size), or a plain number of bytes. Returns `u32::MAX` if it is larger.
///
/// # Errors
/// If the text is neither.
pub fn bytes(text: &str) -> Result<u32, UnitError> {
    let bytes = text.trim().parse::<u64>().or_else(|_| size(text))?;
    Ok(u32::try_from(bytes).unwrap_or(u32::MAX))
}

/// Parses a share: a percentage (`1%`) or a number from 0 to 1 (`0.01`).
///
/// # Errors
/// If the text is not a number, or the share is outside 0 to 1.
pub fn share(text: &str) -> Result<f64, UnitError> {
    let value = match split(text) {
        Some((number, "%")) => number / 100.0,
        Some((number, "")) => number,
        _ => {
            return Err(UnitError::new(
                format!("`{text}` is not a share"),
                "write a percentage such as 1%, or a number from 0 to 1 such as 0.01",
            ));
        }
    };
    if value > 1.0 {
        let number = text.trim().trim_end_matches('%').trim_end();
        return Err(UnitError::new(
            format!("the share `{text}` is more than 100%"),
            if text.contains('%') {
                "write at most 100%".to_owned()
            } else {
                format!("write at most 1; did you mean `{number}%`?")
            },
        ));
    }
    Ok(value)
}

/// Parses arrivals: `constant`, `jitter` (±10 %), `jitter(25%)` or `poisson`.
///
/// # Errors
/// If the text is none of these, or the jitter is outside 0 to 100 %.
pub fn arrivals(text: &str) -> Result<Arrivals, UnitError> {
    match call(text) {
        Some(("constant", None)) => Ok(Arrivals::Constant),
        Some(("jitter", None)) => Ok(Arrivals::Jitter(DEFAULT_JITTER)),
        Some(("jitter", Some(argument))) => Ok(Arrivals::Jitter(share(argument)?)),
        Some(("poisson", None)) => Ok(Arrivals::Poisson),
        _ => {
            let name = text.split('(').next().unwrap_or_default().trim();
            let help = nearest(name, ["constant", "jitter", "poisson"]).map_or_else(
                || "use constant, jitter, jitter(25%) or poisson".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            Err(UnitError::new(format!("unknown arrivals `{text}`"), help))
        }
    }
}

/// Parses a delay: `2ms`, `uniform(1ms, 5ms)`, `exponential(2ms)` or `choice(99% 0ms, 1% 50ms)`.
///
/// # Errors
/// If the text is none of these.
pub fn delay(text: &str) -> Result<Delay, UnitError> {
    match call(text) {
        Some(("uniform", Some(arguments))) => uniform(text, arguments),
        Some(("exponential", Some(mean))) => {
            let mean = duration(mean)?;
            if mean.is_zero() {
                return Err(UnitError::new(
                    "the mean of an exponential delay is zero",
                    "write 0ms for no delay",
                ));
            }
            Ok(Delay::Exponential { mean })
        }
        Some(("choice", Some(arguments))) => choice(arguments),
        Some((name, Some(_))) => Err(UnitError::new(
            format!("unknown distribution `{name}`"),
            nearest(name, ["uniform", "exponential", "choice"]).map_or_else(
                || "use uniform(1ms, 5ms), exponential(2ms) or choice(99% 0ms, 1% 50ms)".to_owned(),
                |near| format!("did you mean `{near}`?"),
            ),
        )),
        Some((name @ ("uniform" | "exponential" | "choice"), None)) => Err(UnitError::new(
            format!("the distribution `{name}` has no arguments"),
            "write uniform(1ms, 5ms), exponential(2ms) or choice(99% 0ms, 1% 50ms)",
        )),
        None => Err(UnitError::new(
            format!("`{text}` has no closing parenthesis"),
            "inside braces, put quotes around a value with a comma: { delay: \"uniform(1ms, 5ms)\" }",
        )),
        _ => Ok(Delay::Fixed(duration(text)?)),
    }
}

fn uniform(text: &str, arguments: &str) -> Result<Delay, UnitError> {
    let Some((from, to)) = arguments.split_once(',') else {
        return Err(UnitError::new(
            format!("`{text}` needs two bounds: the shortest delay and the longest delay"),
            "write uniform(1ms, 5ms)",
        ));
    };
    let (from, to) = (duration(from)?, duration(to)?);
    if from > to {
        return Err(UnitError::new(
            format!("the bounds of `{text}` are in the wrong order"),
            format!("write uniform({}, {})", show_duration(to), show_duration(from)),
        ));
    }
    Ok(Delay::Uniform { from, to })
}

/// Parses `1KiB` or `choice(90% 1KiB, 10% 64KiB)`: sizes with their shares, which add up to 1.
///
/// # Errors
/// If the text has another form.
pub fn sizes(text: &str) -> Result<Vec<(f64, u64)>, UnitError> {
    let arguments = text.trim().strip_prefix("choice(").and_then(|rest| rest.strip_suffix(')'));
    match arguments {
        Some(arguments) => shares_of(arguments, size, "size", "write choice(90% 1KiB, 10% 64KiB)"),
        None => Ok(vec![(1.0, size(text)?)]),
    }
}

fn choice(arguments: &str) -> Result<Delay, UnitError> {
    shares_of(arguments, duration, "delay", "write choice(99% 0ms, 1% 50ms)").map(Delay::Choice)
}

/// Parses `99% VALUE, 1% VALUE`.
fn shares_of<T>(
    arguments: &str,
    value: fn(&str) -> Result<T, UnitError>,
    what: &str,
    example: &str,
) -> Result<Vec<(f64, T)>, UnitError> {
    let mut choices = Vec::new();
    for part in arguments.split(',').map(str::trim) {
        let Some((of_all, text)) = part.split_once(char::is_whitespace) else {
            return Err(UnitError::new(format!("the choice `{part}` needs a share and a {what}"), example));
        };
        choices.push((share(of_all)?, value(text)?));
    }
    let sum: f64 = choices.iter().map(|(share, _)| share).sum();
    // The tolerance allows three shares of 33.3333333 % each.
    if (sum - 1.0).abs() > 1e-9 {
        return Err(UnitError::new(
            format!("the shares add up to {}", show_share(sum)),
            "change them to add up to 100%",
        ));
    }
    Ok(choices)
}

/// Parses a budget's limit in the unit of its metric. Times are returned in microseconds, sizes in bytes, and
/// ratios and shares as numbers.
///
/// # Errors
/// If the limit is not in the metric's unit.
pub fn budget_value(metric: Metric, text: &str) -> Result<f64, UnitError> {
    match metric {
        _ if metric.is_time() => Ok(duration(text)?.as_nanos() as f64 / 1000.0),
        Metric::ErrorShare | Metric::GoodputShare => share(text),
        _ if metric.quantity() == Quantity::Bytes => Ok(size(text)? as f64),
        Metric::Throughput | Metric::GoodRate => rate(text),
        // All other metrics are ratios.
        _ => match split(text) {
            Some((number, "")) => Ok(number),
            Some((number, "%")) => Ok(number / 100.0),
            _ => Err(UnitError::new(
                format!("`{text}` is not a ratio"),
                "write a number such as 0.9, or a percentage such as 90%",
            )),
        },
    }
}

/// Shows a budget's limit in the unit of its metric.
pub fn show_budget_value(metric: Metric, value: f64) -> String {
    match metric {
        _ if metric.is_time() => show_duration(Duration::from_nanos((value * 1000.0).round() as u64)),
        Metric::ErrorShare | Metric::GoodputShare => show_share(value),
        _ if metric.quantity() == Quantity::Bytes => show_size(value as u64),
        Metric::Throughput | Metric::GoodRate => show_rate(value),
        _ => value.to_string(),
    }
}

/// Parses a change, which is a percentage with a sign. Returns the change as a share.
///
/// # Errors
/// If the text is not a percentage with a sign, or is −100 % or less.
pub fn change(text: &str) -> Result<f64, UnitError> {
    let text = text.trim();
    let (sign, rest) = match text.strip_prefix('+') {
        Some(rest) => (1.0, rest),
        None => (-1.0, text.strip_prefix(['-', '−']).unwrap_or(text)),
    };
    match split(rest) {
        Some((percent, "%")) if sign > 0.0 || percent < 100.0 => Ok(sign * percent / 100.0),
        Some((_, "%")) => Err(UnitError::new(
            format!("a change of `{text}` would leave nothing"),
            "write a smaller change, such as -10%",
        )),
        _ => Err(UnitError::new(
            format!("`{text}` is not a change"),
            "write a percentage with a sign, such as +10%, or a limit in the metric's unit without a sign",
        )),
    }
}

/// Shows a change in plan syntax: `+10%`.
pub fn show_change(change: f64) -> String {
    // Round to 0.01 %, because 0.1 × 100 is not exactly 10.
    let percent = (change * 1e4).round() / 1e2;
    if percent < 0.0 { format!("{percent}%") } else { format!("+{percent}%") }
}

/// The scheme, host and port of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Whether the scheme is `https`.
    pub tls: bool,
    /// A host name, or an IP address without brackets.
    pub host: String,
    /// Port number, never 0.
    pub port: u16,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", authority(&self.host, self.port))
    }
}

/// `HOST:PORT`, for a host name or an address without brackets.
pub fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The value of the `host` header for a host name, or an address without brackets. The default port of the
/// scheme is left out, as browsers and curl do, because some servers do not recognise their name if a port
/// follows it.
pub fn host_header(tls: bool, host: &str, port: u16) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    if port == if tls { 443 } else { 80 } { host } else { format!("{host}:{port}") }
}

/// The value of the `host` header for an address. See [`host_header`]. For a Unix socket, it is `localhost`,
/// which curl users write in such URLs.
pub fn host_header_of(tls: bool, address: &Address) -> String {
    match address {
        Address::Tcp(address) => host_header(tls, &address.ip().to_string(), address.port()),
        Address::Unix(_) => LOCALHOST.to_owned(),
    }
}

/// Host of requests to a Unix socket.
pub const LOCALHOST: &str = "localhost";

/// Maximum length of the path of a Unix socket, bytes (unix(7)). hoptax appends up to `LONGEST_END` bytes to
/// the path, for TLS and for further instances.
const LONGEST_SOCKET: usize = 107;
const LONGEST_END: usize = ".256.tls".len();

/// Checks the path of a Unix socket.
///
/// # Errors
/// If it is too long.
pub fn socket_path(path: &str) -> Result<(), UnitError> {
    if path.len() + LONGEST_END <= LONGEST_SOCKET {
        return Ok(());
    }
    let most = LONGEST_SOCKET - LONGEST_END;
    let message = format!("the path `{path}` is too long for a Unix socket");
    Err(UnitError::new(message, format!("choose a path of at most {most} bytes")))
}

/// The URL of a service on a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixSocket {
    /// Whether the service speaks TLS.
    pub tls: bool,
    /// Absolute path of the socket.
    pub path: PathBuf,
}

impl fmt::Display for UnixSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+unix:{}", if self.tls { "https" } else { "http" }, self.path.display())
    }
}

/// Parses `http+unix:/path` and `https+unix:/path`. Also accepts `unix:/path`, two slashes before the path,
/// and a path with `%2F` for each slash. Returns `None` for other URLs.
pub fn unix_socket(url: &str) -> Option<Result<UnixSocket, UnitError>> {
    let (scheme, rest) = url.split_once(':')?;
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "unix" | "http+unix" => false,
        "https+unix" => true,
        _ => return None,
    };
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let path =
        if path.starts_with("%2") { path.replace("%2F", "/").replace("%2f", "/") } else { path.to_owned() };
    if !path.starts_with('/') || path.ends_with('/') {
        let message = format!("the URL `{url}` does not name a Unix socket");
        return Some(Err(UnitError::new(message, "write http+unix:/path/to/socket, with an absolute path")));
    }
    Some(socket_path(&path).map(|()| UnixSocket { tls, path: path.into() }))
}

/// Parses `http://host:port` and `https://host:port`. The port defaults to 80 or 443.
///
/// # Errors
/// If the scheme is neither `http` nor `https`, the host or the port is not valid, or the URL has a path, a
/// query or a user.
pub fn origin(url: &str) -> Result<Origin, UnitError> {
    const FORM: &str = "write http://host:port or https://host:port";
    let refuse = |why: &str, help: String| UnitError::new(format!("the URL `{url}` {why}"), help);
    if unix_socket(url).is_some() {
        let help = format!("{FORM}; only an upstream can be on a Unix socket");
        return Err(refuse("names a Unix socket", help));
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(refuse("has no scheme", FORM.to_owned()));
    };
    let tls = scheme.eq_ignore_ascii_case("https");
    if !tls && !scheme.eq_ignore_ascii_case("http") {
        return Err(refuse("is neither http nor https", FORM.to_owned()));
    }
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#']) {
        let origin = authority.split(['/', '?', '#']).next().unwrap_or_default();
        return Err(refuse(
            "has a path or a query",
            format!("write {scheme}://{origin}; a path belongs in `target.path`"),
        ));
    }
    if authority.contains('@') {
        return Err(refuse(
            "has a user name",
            "remove it; credentials belong in `target.headers`".to_owned(),
        ));
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_address = bare.parse::<std::net::IpAddr>().is_ok();
    let is_name = !host.is_empty()
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
    if !is_address && !is_name {
        return Err(refuse("has no valid host", FORM.to_owned()));
    }
    let port = match port.map(str::parse::<u16>) {
        None if tls => 443,
        None => 80,
        Some(Ok(port)) if port > 0 => port,
        Some(_) => return Err(refuse("has no valid port", "use a port from 1 to 65535".to_owned())),
    };
    Ok(Origin { tls, host: bare.to_owned(), port })
}

/// Parses CPU numbers in the kernel's notation (`0`, `0,2`, `2-3`). Returns them sorted, without duplicates.
///
/// # Errors
/// If the text is empty or has another form.
pub fn cpu_list(text: &str) -> Result<Vec<u32>, UnitError> {
    let refuse =
        || UnitError::new(format!("`{text}` is not a list of CPUs"), "write \"0\", \"0,2\" or \"2-3\"");
    let mut cpus = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = match (from.trim().parse(), to.trim().parse()) {
            (Ok(from), Ok(to)) if from <= to && to < 65_536 => (from, to),
            _ => return Err(refuse()),
        };
        cpus.extend(from..=to);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// The known name that is most similar to `typed`. `None` if no name is similar enough to be suggested.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_ascii_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&typed, &name.to_ascii_lowercase()), name))
        .filter(|(distance, name)| *distance <= name.len().max(typed.len()).div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Splits a plain decimal number from the text that follows it. Signs and exponents are not accepted: `1e3s`
/// is more likely a typing error than a thousand seconds.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim_start()))
}

/// Splits `name(arguments)` into name and arguments. A bare `name` has no arguments.
fn call(text: &str) -> Option<(&str, Option<&str>)> {
    let text = text.trim();
    match text.split_once('(') {
        None => Some((text, None)),
        Some((name, rest)) => Some((name.trim_end(), Some(rest.strip_suffix(')')?.trim()))),
    }
}

#[cfg(test)]
mod tests;
