//! Verification paths: their responses show what the upstream received.
//!
//! A verification path contains `/.hoptax/` after any routing prefix, or is the path of token reviews.
//! Verification paths are requested before any trial. For all other requests, the only cost is a search for
//! [`MARK`] in paths that are long enough.

use super::answer::pattern;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hoptax_format::clock;
use hoptax_plan::units;
use hoptax_record::Digest;
use hoptax_wire::http1::{RequestHead, Version, chunked, fields, response_head};
use hoptax_wire::http2::{Block, FieldList, OutField, Section, response_fields};
use serde_json::json;

/// A path that contains this text is a verification path.
pub const MARK: &str = "/.hoptax/";

/// Header in the response to `header/N`; its value is N bytes long.
pub const LONG_HEADER: &str = "x-hoptax-long";

/// Response header that the header-rewrite feature must remove. The upstream sends it in responses to
/// verification paths.
pub const RESPONSE_REMOVED: &str = "x-hoptax-internal";

/// Path at which the upstream answers token reviews, as a Kubernetes API server does.
pub const TOKEN_REVIEW_PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// Trailer of the response to `trailers`.
pub const TRAILER: (&str, &str) = ("x-hoptax-trailer", "by-upstream");

/// Header of the interim response to `hints`.
const HINT: (&str, &str) = ("link", "</style.css>; rel=preload; as=style");

const LARGEST: usize = 64 << 20;

const LONGEST_NS: u64 = 60 * clock::SECOND;

const CHUNK: usize = 4000;

/// Content length that the response to `close-midway` announces. Only half of the body is sent.
const MIDWAY: usize = 1000;

/// Maximum number of bytes of a token review that the upstream reads.
const LONGEST_REVIEW: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Asked {
    Echo,
    Status(u16),
    Bytes(usize),
    Chunked(usize),
    Header(usize),
    Slow(u64),
    Trailers,
    Hints,
    Early,
    GoAway,
    Close,
    CloseMidway,
    TokenReview,
    #[default]
    Unknown,
}

/// A request to a verification path that is being read.
#[derive(Debug, Default)]
pub(super) struct Special {
    asked: Asked,
    method: String,
    target: String,
    /// Absent if the request is on a stream of HTTP/2.
    version: Option<Version>,
    keep_alive: bool,
    is_head: bool,
    headers: Vec<(String, String)>,
    trailers: Vec<(String, String)>,
    body_bytes: u64,
    digest: Digest,
    body: Vec<u8>,
}

/// Facts about the instance that are included in responses.
#[derive(Debug, Clone)]
pub(super) struct InstanceFacts<'a> {
    pub(super) instance: u32,
    pub(super) tls: Option<(String, String)>,
    /// Number of token reviews that the whole upstream has received.
    pub(super) reviews: u64,
    /// Numbers of delayed responses of the whole upstream, and of those whose client went away before.
    pub(super) delayed: u64,
    pub(super) abandoned: u64,
    /// Secret that signs valid tokens. Without a secret, no token is valid.
    pub(super) token_secret: Option<&'a str>,
}

/// What to do after a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// If absent, the connection or the stream closes without a response.
    pub(super) response: Option<Response>,
    pub(super) delay_ns: u64,
}

/// A response, independent of the HTTP version.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Response {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// Whether the head contains the length of the body.
    has_length: bool,
    /// True if the connection or the stream closes after half of the body.
    pub(super) is_cut: bool,
    /// Whether 103 Early Hints precedes the response.
    has_hints: bool,
    /// Whether [`TRAILER`] follows the body. Its length is then not announced.
    has_trailer: bool,
    /// True if the connection accepts no further request.
    pub(super) ends_connection: bool,
}

/// A response as it is sent over HTTP/2.
#[derive(Debug)]
pub(super) struct StreamResponse {
    pub(super) interim: Option<Block>,
    pub(super) head: Block,
    /// The part of the body that is sent.
    pub(super) body: Vec<u8>,
    pub(super) trailers: Option<Block>,
}

impl Response {
    fn new(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        let headers = vec![("content-type", content_type.to_owned())];
        Self { status, headers, body, has_length: true, ..Self::default() }
    }

    fn text(status: u16, body: String) -> Self {
        Self::new(status, "text/plain", body.into_bytes())
    }

    fn filled(size: usize) -> Self {
        Self::new(200, "text/plain", pattern(size))
    }

    fn json(status: u16, value: &serde_json::Value) -> Self {
        Self::new(status, "application/json", value.to_string().into_bytes())
    }

    fn has_body(&self) -> bool {
        !matches!(self.status, 204 | 304)
    }

    fn length(&self) -> Option<u64> {
        (self.has_body() && self.has_length).then_some(self.body.len() as u64)
    }

    /// Length of the part of the body that is sent.
    fn sent(&self, is_head: bool) -> usize {
        match self.has_body() && !is_head {
            true if self.is_cut => self.body.len() / 2,
            true => self.body.len(),
            false => 0,
        }
    }

    fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let of_body = self.headers.iter().filter(|_| self.has_body());
        let own = [(RESPONSE_REMOVED, "by-upstream")];
        own.into_iter().chain(of_body.map(|(name, value)| (*name, value.as_str())))
    }
}

#[inline]
pub(super) fn is_special(target: &[u8]) -> bool {
    target.len() > MARK.len() && (target.starts_with(TOKEN_REVIEW_PATH.as_bytes()) || mark(target).is_some())
}

fn mark(target: &[u8]) -> Option<usize> {
    let at = memchr::memmem::find(target, MARK.as_bytes())?;
    (!target[..at].contains(&b'?')).then_some(at + MARK.len())
}

fn asked(target: &str) -> Asked {
    let path = target.split('?').next().unwrap_or_default();
    if path.starts_with(TOKEN_REVIEW_PATH) {
        return Asked::TokenReview;
    }
    let Some(at) = mark(path.as_bytes()) else { return Asked::Unknown };
    let (what, how) = path[at..].split_once('/').unwrap_or((&path[at..], ""));
    let number = || how.parse::<usize>().ok().filter(|&number| number <= LARGEST);
    let understood = match what {
        "echo" => Some(Asked::Echo),
        "status" => how.parse().ok().filter(|status| (200..=599).contains(status)).map(Asked::Status),
        "bytes" => number().map(Asked::Bytes),
        "chunked" => number().map(Asked::Chunked),
        "header" => number().map(Asked::Header),
        "slow" => units::duration(how)
            .ok()
            .and_then(|long| u64::try_from(long.as_nanos()).ok())
            .filter(|&long| long <= LONGEST_NS)
            .map(Asked::Slow),
        "trailers" => Some(Asked::Trailers),
        "hints" => Some(Asked::Hints),
        "early" => Some(Asked::Early),
        "goaway" => Some(Asked::GoAway),
        "close" => Some(Asked::Close),
        "close-midway" => Some(Asked::CloseMidway),
        _ => None,
    };
    understood.unwrap_or(Asked::Unknown)
}

impl Special {
    /// Starts reading a request whose head is at the beginning of `input`.
    pub(super) fn new(head: &RequestHead, input: &[u8]) -> Self {
        let text = |part: &std::ops::Range<usize>| String::from_utf8_lossy(&input[part.clone()]).into_owned();
        let target = text(&head.target);
        let mut headers = Vec::new();
        // The decoder has accepted the head, so its fields can be parsed.
        let _ = fields(input, |field| {
            let name = field.name.to_ascii_lowercase();
            headers.push((name, String::from_utf8_lossy(field.value).into_owned()));
        });
        Self {
            asked: asked(&target),
            method: text(&head.method),
            target,
            version: Some(head.version),
            keep_alive: head.keep_alive,
            is_head: head.is_head,
            headers,
            ..Self::default()
        }
    }

    /// Starts reading a request over HTTP/2. `:authority` becomes the header `host`.
    pub(super) fn of_stream(head: &Section) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let target = text(head.path().unwrap_or_default());
        let name = |name: &[u8]| match name {
            b":authority" => Some("host".to_owned()),
            [b':', ..] => None,
            name => Some(text(name)),
        };
        let headers = head.fields().iter().filter_map(|(field, value)| Some((name(field)?, text(value))));
        Self {
            asked: asked(&target),
            method: text(head.method()),
            headers: headers.collect(),
            target,
            keep_alive: true,
            is_head: head.method() == b"HEAD",
            ..Self::default()
        }
    }

    /// The version of the request; absent if it is on a stream of HTTP/2.
    pub(super) fn version(&self) -> Option<Version> {
        self.version
    }

    /// False if the client closes the connection after this request.
    pub(super) fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// True if the response does not wait for the end of the request.
    pub(super) fn is_early(&self) -> bool {
        self.asked == Asked::Early
    }

    /// Adds the trailers of a request over HTTP/2.
    pub(super) fn stream_trailers(&mut self, fields: &FieldList) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.trailers.extend(fields.iter().map(|(name, value)| (text(name), text(value))));
    }

    /// Adds the trailers of a request over HTTP/1. `end` begins with its last chunk.
    pub(super) fn http1_trailers(&mut self, end: &[u8]) {
        let end = String::from_utf8_lossy(end);
        let fields = end.lines().filter_map(|line| line.split_once(':'));
        self.trailers
            .extend(fields.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())));
    }

    pub(super) fn is_review(&self) -> bool {
        self.asked == Asked::TokenReview
    }

    pub(super) fn body(&mut self, part: &[u8]) {
        self.body_bytes += part.len() as u64;
        self.digest.add(part);
        if self.is_review() {
            let room = LONGEST_REVIEW.saturating_sub(self.body.len());
            self.body.extend_from_slice(&part[..part.len().min(room)]);
        }
    }

    /// Returns the response. Called when the whole request has been read.
    pub(super) fn answer(&self, facts: &InstanceFacts<'_>) -> Outcome {
        let mut delay_ns = 0;
        let response = match self.asked {
            Asked::Echo => Response::json(200, &self.echo(facts)),
            Asked::Status(status) => Response::text(status, format!("status {status}\n")),
            Asked::Bytes(size) => Response::filled(size),
            Asked::Chunked(size) => Response { has_length: false, ..Response::filled(size) },
            Asked::Header(size) => {
                let mut response = Response::text(200, "a long header\n".to_owned());
                response.headers.push((LONG_HEADER, "h".repeat(size)));
                response
            }
            Asked::Slow(delay) => {
                delay_ns = delay;
                Response::text(200, "slow\n".to_owned())
            }
            Asked::Trailers => {
                let mut response = Response::text(200, "trailers follow\n".to_owned());
                response.headers.push(("trailer", TRAILER.0.to_owned()));
                Response { has_length: false, has_trailer: true, ..response }
            }
            Asked::Hints => Response { has_hints: true, ..Response::text(200, "after hints\n".to_owned()) },
            Asked::Early => Response::text(200, "early\n".to_owned()),
            Asked::GoAway => {
                Response { ends_connection: true, ..Response::text(200, "the last response\n".to_owned()) }
            }
            Asked::Close => return Outcome { response: None, delay_ns },
            Asked::CloseMidway => Response { is_cut: true, ..Response::filled(MIDWAY) },
            Asked::TokenReview => self.review(facts.token_secret),
            Asked::Unknown => Response::text(
                404,
                "known paths are echo, status/N, bytes/N, chunked/N, header/N, slow/DURATION, trailers, \
                hints, early, goaway, close and close-midway\n"
                    .to_owned(),
            ),
        };
        Outcome { response: Some(response), delay_ns }
    }

    /// Writes a response for HTTP/1.
    pub(super) fn http1(&self, response: &Response) -> Vec<u8> {
        let version = self.version.unwrap_or(Version::Http11);
        let is_chunked = !response.has_length && version == Version::Http11;
        let connection = match (version, self.keep_alive && !response.ends_connection) {
            (Version::Http11, true) => None,
            (Version::Http10, true) => Some(("connection", "keep-alive")),
            (_, false) => Some(("connection", "close")),
        };
        let headers = response.headers().chain(connection);
        // HTTP/1.0 has no chunks, so it needs the length.
        let length =
            if is_chunked { None } else { response.has_body().then_some(response.body.len() as u64) };
        let mut bytes =
            response_head(Version::Http11, response.status, headers, length).expect("headers of our own");
        if response.has_hints && version == Version::Http11 {
            let hints = response_head(Version::Http11, 103, [HINT], None).expect("a header of our own");
            bytes.splice(..0, hints);
        }
        let body = &response.body[..response.sent(self.is_head)];
        if !is_chunked {
            bytes.extend_from_slice(body);
            return bytes;
        }
        // The head was written without a framing field, so add this field here.
        bytes.truncate(bytes.len() - 2);
        bytes.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
        if !self.is_head {
            chunked(&mut bytes, body, CHUNK);
            if response.has_trailer {
                // The trailers precede the last empty line.
                bytes.truncate(bytes.len() - 2);
                bytes.extend_from_slice(format!("{}: {}\r\n\r\n", TRAILER.0, TRAILER.1).as_bytes());
            }
        }
        bytes
    }

    /// Encodes a response for HTTP/2.
    pub(super) fn http2(&self, response: Response) -> StreamResponse {
        let fields = response_fields(response.status, response.headers(), response.length());
        let head = Block::plain(&fields.expect("headers of our own"));
        let interim = response
            .has_hints
            .then(|| Block::plain(&response_fields(103, [HINT], None).expect("a header of our own")));
        let trailer = || OutField { name: TRAILER.0.into(), value: TRAILER.1.into() };
        let trailers = (response.has_trailer && !self.is_head).then(|| Block::plain(&[trailer()]));
        let sent = response.sent(self.is_head);
        let mut body = response.body;
        body.truncate(sent);
        StreamResponse { interim, head, body, trailers }
    }

    fn echo(&self, facts: &InstanceFacts<'_>) -> serde_json::Value {
        let tls = facts.tls.as_ref().map(|(version, cipher)| json!({ "version": version, "cipher": cipher }));
        json!({
            "hoptax": "echo",
            "method": self.method,
            "path": self.target,
            "protocol": self.version.map_or("HTTP/2", Version::as_str),
            "headers": self.headers,
            "trailers": self.trailers,
            "body_bytes": self.body_bytes,
            "body_digest": self.digest.text(),
            "instance": facts.instance,
            "tls": tls,
            "token_reviews": facts.reviews,
            "delayed": facts.delayed,
            "abandoned": facts.abandoned,
        })
    }

    /// Answers like a Kubernetes API server: status 201 and the result in the body. A gateway that cannot
    /// send a body may send the token in `authorization` without a body. The result is then in the status.
    fn review(&self, secret: Option<&str>) -> Response {
        let posted: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let by_header = self.body_bytes == 0;
        let token = if by_header {
            let header = self.headers.iter().find(|(name, _)| name == "authorization");
            header.and_then(|(_, value)| value.strip_prefix("Bearer ")).unwrap_or_default()
        } else {
            posted["spec"]["token"].as_str().unwrap_or_default()
        };
        let subject = secret.and_then(|secret| subject(token, secret));
        let status = match &subject {
            Some(name) => json!({
                "authenticated": true,
                "user": { "username": name, "uid": name, "groups": ["system:authenticated"] },
            }),
            None => json!({ "authenticated": false, "error": "unknown token" }),
        };
        let code = match (by_header, subject.is_some()) {
            (false, _) => 201,
            (true, true) => 200,
            (true, false) => 401,
        };
        let review = json!({
            "kind": "TokenReview",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": { "creationTimestamp": null },
            // The token is left out of the response, because the response might be logged.
            "spec": {},
            "status": status,
        });
        Response::json(code, &review)
    }
}

/// The subject of a token; `None` if the token was not signed with `secret` (HS256).
fn subject(token: &str, secret: &str) -> Option<String> {
    let (text, signature) = token.rsplit_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    ring::hmac::verify(&key, text.as_bytes(), &signature).ok()?;
    let claims = URL_SAFE_NO_PAD.decode(text.split_once('.')?.1).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    claims["sub"].as_str().map(str::to_owned)
}
