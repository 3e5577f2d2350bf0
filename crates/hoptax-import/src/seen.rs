//! A request that a source contains.

use std::time::Duration;

/// A request, with the known facts about its response.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// Path and query, as sent.
    pub(crate) target: String,
    pub(crate) host: Option<String>,
    pub(crate) status: Option<u16>,
    /// When the request arrived or was answered, seconds since 1970.
    pub(crate) at: Option<f64>,
    pub(crate) request_bytes: Option<u64>,
    /// Length of the response's body.
    pub(crate) response_bytes: Option<u64>,
    /// Time that the service needed for the response.
    pub(crate) took: Option<Duration>,
    /// Headers to send, without `host` and without credentials.
    pub(crate) headers: Vec<(String, String)>,
    /// The body to send, if it is copied.
    pub(crate) body: Option<String>,
    /// True if the body was sent in chunks.
    pub(crate) is_chunked: bool,
}

impl Seen {
    /// Whether hoptax can send the request: it needs a path, and a method other than CONNECT.
    pub(crate) fn can_be_sent(&self) -> bool {
        let method = !self.method.is_empty() && self.method.len() <= 32;
        method
            && self.method.bytes().all(|byte| byte.is_ascii_alphabetic() || b"-_".contains(&byte))
            && self.method != "CONNECT"
            && self.target.starts_with('/')
    }
}

/// Whether these headers announce a body in chunks.
pub(crate) fn announce_chunks(headers: &[(String, String)]) -> bool {
    let chunked = |(name, value): &(String, String)| {
        name.eq_ignore_ascii_case("transfer-encoding") && value.to_ascii_lowercase().contains("chunked")
    };
    headers.iter().any(chunked)
}

/// Splits `GET /path HTTP/1.1`. A path that is a whole URL (as in requests to a forward proxy) loses its
/// scheme and host.
pub(crate) fn request_line(line: &str) -> Option<(String, String)> {
    let mut words = line.split(' ').filter(|word| !word.is_empty());
    let (method, target) = (words.next()?, words.next()?);
    let last = words.next();
    if words.next().is_some() || last.is_some_and(|version| !version.starts_with("HTTP/")) {
        return None;
    }
    Some((method.to_owned(), origin_form(target).to_owned()))
}

/// The path and query of a URL, or of a path.
pub(crate) fn origin_form(target: &str) -> &str {
    match target.split_once("://") {
        Some((scheme, rest))
            if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") =>
        {
            rest.find('/').map_or("/", |at| &rest[at..])
        }
        _ => target,
    }
}

/// Host (with port) and path of a URL.
pub(crate) fn url_parts(url: &str) -> Option<(&str, String)> {
    let (scheme, rest) = url.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let rest = rest.split('#').next().unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    let path = &rest[end..];
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    (!host.is_empty()).then_some((host, path))
}
