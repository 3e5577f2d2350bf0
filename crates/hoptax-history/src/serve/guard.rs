//! Decides which requests are allowed. A page of another site that is open in the same browser can send
//! requests to this server. Such a page must neither read a response nor change anything.

use super::options::Access;
use super::pages::template;
use super::problem::Problem;
use axum::extract::Request;
use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use ring::digest::{SHA256, digest};
use std::net::{IpAddr, SocketAddr};

/// Maximum size of a request body, in bytes. It is large enough for the longest note.
pub(super) const MOST_BODY: usize = 128 << 10;

/// Header that a program sends with each request that changes something. A page of another site cannot send
/// this header.
const OWN: HeaderName = HeaderName::from_static("x-hoptax");

/// The host names of this server, and the token that requests must contain.
#[derive(Debug)]
pub(super) struct Guard {
    address: SocketAddr,
    /// Name of this machine. Requests must not use this name if the server listens on loopback.
    host: String,
    /// Digests of the token, and of the cookie that replaces the token.
    token: Option<Secret>,
    is_read_only: bool,
}

#[derive(Debug)]
struct Secret {
    token: [u8; 32],
    cookie: String,
}

impl Guard {
    pub(super) fn new(address: SocketAddr, access: &Access) -> Self {
        let host = host_name().to_ascii_lowercase();
        // The cookie contains a digest instead of the token, because a browser sends the cookie to every port
        // of the host.
        let token = access.token().map(|token| Secret {
            token: digested(token),
            cookie: hex(&digested(&format!("hoptax page {token}"))),
        });
        Self { address, host, token, is_read_only: matches!(access, Access::ReadOnly(_)) }
    }

    /// True if nobody may change anything.
    pub(super) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// True if the server answers requests for this host name. Other names are refused, because an attacker
    /// could make another name resolve to this machine (DNS rebinding).
    fn answers_to(&self, authority: &str) -> bool {
        let name = without_port(authority).trim_end_matches('.').to_ascii_lowercase();
        match name.parse::<IpAddr>() {
            Ok(ip) => {
                ip.is_loopback()
                    || ip == self.address.ip()
                    || self.address.ip().is_unspecified() && !ip.is_unspecified()
            }
            Err(_) => {
                name == "localhost"
                    || name.ends_with(".localhost")
                    || !self.address.ip().is_loopback() && name == self.host
            }
        }
    }

    fn name_of_cookie(&self) -> String {
        format!("hoptax_{}", self.address.port())
    }

    fn knows(&self, secret: &Secret, headers: &HeaderMap) -> bool {
        let bearer = text(headers, &header::AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let name = self.name_of_cookie();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies =
            cookies.flat_map(|line| line.split(';')).filter_map(|one| one.trim().split_once('='));
        bearer.is_some_and(|token| equal_in_constant_time(&digested(token), &secret.token))
            || cookies.any(|(key, value)| {
                key == name && equal_in_constant_time(&digested(value), &digested(&secret.cookie))
            })
    }

    /// Response to a request with the right token in its address. The response sets the cookie, and makes the
    /// browser open the same address without the token.
    fn accept_token(&self, secret: &Secret, uri: &Uri) -> Option<Response> {
        let query = uri.query()?;
        let (shown, others): (Vec<&str>, Vec<&str>) =
            query.split('&').partition(|part| part.starts_with("token="));
        let token = unescaped(shown.first()?.strip_prefix("token=")?);
        if !equal_in_constant_time(&digested(&token), &secret.token) {
            return None;
        }
        let place = match others.is_empty() {
            true => uri.path().to_owned(),
            false => format!("{}?{}", uri.path(), others.join("&")),
        };
        let cookie =
            format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.name_of_cookie(), secret.cookie);
        // Send a page that opens the address by itself, instead of a redirect. After a redirect that began at
        // another site, browsers would not send a cookie with `SameSite=Strict`.
        Some(([(header::SET_COOKIE, cookie)], template::onwards(&place)).into_response())
    }
}

/// Name of this machine.
#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Name of this machine. Without it, the server answers only to addresses and to `localhost`.
#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

fn needs_token() -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "a token is needed",
        "open the address that `hoptax serve` printed, or send the header `Authorization: Bearer TOKEN`",
    )
}

fn forbidden(error: impl Into<String>, help: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, error, help)
}

/// Decides whether a request may proceed. Returns `None` if the request may proceed, or a response to send
/// instead.
pub(super) fn admit(guard: &Guard, request: &Request) -> Result<Option<Response>, Problem> {
    let authority = authority(request)?;
    if !guard.answers_to(authority) {
        return Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            format!("{authority} is not a name of this server"),
            format!("open http://{} instead", guard.address),
        ));
    }
    // Style and scripts of the pages are the same for everybody, and the page that asks for a token needs
    // them.
    let is_public = *request.method() == Method::GET && request.uri().path().starts_with("/assets/");
    if let Some(secret) = &guard.token
        && !is_public
    {
        let is_known = guard.knows(secret, request.headers());
        // The token leaves the address bar also if the browser has the cookie already.
        if (!is_known || *request.method() == Method::GET)
            && let Some(answer) = guard.accept_token(secret, request.uri())
        {
            return Ok(Some(answer));
        }
        if !is_known {
            return Err(needs_token());
        }
    }
    refuse_other_sites(request.headers())?;
    if !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE) {
        if guard.is_read_only {
            let help = "start `hoptax serve` without --read-only to change them";
            return Err(forbidden("this server only shows runs", help));
        }
        check_change(request.headers(), authority)?;
        check_length(request.headers())?;
    }
    Ok(None)
}

fn authority(request: &Request) -> Result<&str, Problem> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let asked = |error: &str| Problem::new(StatusCode::BAD_REQUEST, error, "send one Host header");
    match (request.uri().authority(), hosts.next(), hosts.next()) {
        (_, _, Some(_)) => Err(asked("there is more than one Host header")),
        (Some(authority), ..) => Ok(authority.as_str()),
        (None, Some(host), None) => host.to_str().map_err(|_| asked("the Host header is not text")),
        (None, None, None) => Err(asked("there is no Host header")),
    }
}

/// Refuses requests that pages of other sites send, except navigation. Browsers do not let such a page read
/// the response, but preparing the response would cost time.
fn refuse_other_sites(headers: &HeaderMap) -> Result<(), Problem> {
    let is = |name: &'static str, value: &str| headers.get(name).is_some_and(|found| found == value);
    let other = is("sec-fetch-site", "cross-site") || is("sec-fetch-site", "same-site");
    if other && !is("sec-fetch-mode", "navigate") {
        let help = "open the page directly, or send the request from a program";
        return Err(forbidden("the request comes from a page of another site", help));
    }
    Ok(())
}

/// Accepts a change only from our own pages and from programs, because a page or form of another site could
/// send the same request.
fn check_change(headers: &HeaderMap, authority: &str) -> Result<(), Problem> {
    let content = text(headers, &header::CONTENT_TYPE).unwrap_or_default();
    let kind = content.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "a change must be JSON",
            "send the header `Content-Type: application/json`",
        ));
    }
    let help = "to make changes, use the pages of this server, or its JSON interface";
    let foreign = |error: String| forbidden(error, help);
    if let Some(site) = headers.get("sec-fetch-site")
        && site != "same-origin"
    {
        return Err(foreign("another site requested this change".into()));
    }
    let origin = headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or("null"));
    match origin {
        Some(origin) if is_origin_of(origin, authority) => Ok(()),
        Some(origin) => Err(foreign(format!("{origin} requested this change"))),
        None if headers.contains_key(OWN) || headers.contains_key("sec-fetch-site") => Ok(()),
        None => {
            Err(forbidden("the request does not say where it comes from", "send the header `X-Hoptax: 1`"))
        }
    }
}

/// Refuses a request if its headers declare a body that is longer than any valid body. Does not read the
/// body.
fn check_length(headers: &HeaderMap) -> Result<(), Problem> {
    let announced = text(headers, &header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    match announced {
        Some(length) if length > MOST_BODY as u64 => Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("a body of {length} bytes is too long"),
            format!("send at most {MOST_BODY} bytes"),
        )),
        _ => Ok(()),
    }
}

fn is_origin_of(origin: &str, authority: &str) -> bool {
    let of =
        |scheme| origin.strip_prefix(scheme).is_some_and(|host: &str| host.eq_ignore_ascii_case(authority));
    of("http://") || of("https://")
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

fn without_port(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    authority.rsplit_once(':').map_or(authority, |(name, _)| name)
}

fn digested(text: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    bytes
}

/// Compares two values. The comparison takes the same time for all values, so that the time does not reveal
/// how many bytes of a guess are right.
fn equal_in_constant_time(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes `%41` and `+` in a query value. Bytes that are not UTF-8 become U+FFFD, which no token contains.
fn unescaped(value: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'%').then(|| std::str::from_utf8(after.get(..2)?).ok()).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(if first == b'+' { b' ' } else { first });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(address: &str) -> Guard {
        Guard {
            host: "lab".into(),
            ..Guard::new(address.parse().expect("an address"), &Access::ReadOnly(None))
        }
    }

    #[test]
    fn names_that_others_could_point_here_are_refused() {
        let loopback = guard("127.0.0.1:7300");
        let own = "127.0.0.1:7300 localhost LOCALHOST:80 [::1]:7300 127.9.9.9 a.localhost localhost.";
        for own in own.split(' ') {
            assert!(loopback.answers_to(own), "{own}");
        }
        let others = "evil.example evil.example:7300 localhost.evil.example 10.0.0.1 lab :7300 0.0.0.0";
        for other in others.split(' ').chain([""]) {
            assert!(!loopback.answers_to(other), "{other}");
        }
        let everywhere = guard("0.0.0.0:7300");
        for own in ["10.0.0.1:7300", "lab:7300", "localhost"] {
            assert!(everywhere.answers_to(own), "{own}");
        }
        assert!(!everywhere.answers_to("evil.example") && !guard("10.0.0.1:1").answers_to("10.0.0.2"));
    }

    #[test]
    fn values_of_a_query_are_unescaped() {
        for (typed, meant) in
            [("a%2Bb", "a+b"), ("a+b", "a b"), ("%", "%"), ("%4", "%4"), ("%zz", "%zz"), ("", "")]
        {
            assert_eq!(unescaped(typed), meant);
        }
    }
}
