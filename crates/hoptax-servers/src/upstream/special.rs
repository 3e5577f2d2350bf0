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

const LARGEST: usize = 64 << 20;

const LONGEST_NS: u64 = 60 * clock::SECOND;

const CHUNK: usize = 4000;

/// Content length that the response to `close-midway` announces. Only half of the body is sent.
const MIDWAY: usize = 1000;

/// Maximum number of bytes of a token review that the upstream reads.
const LONGEST_REVIEW: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Echo,
    Status(u16),
    Bytes(usize),
    Chunked(usize),
    Header(usize),
    Slow(u64),
    Close,
    CloseMidway,
    TokenReview,
    Unknown,
}

/// A request to a verification path that is being read.
#[derive(Debug)]
pub(super) struct Special {
    asked: Asked,
    method: String,
    target: String,
    version: Version,
    keep_alive: bool,
    is_head: bool,
    headers: Vec<(String, String)>,
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
    /// Secret that signs valid tokens. Without a secret, no token is valid.
    pub(super) token_secret: Option<&'a str>,
}

/// What to do after a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Bytes to send; usually a whole response.
    pub(super) bytes: Vec<u8>,
    pub(super) delay_ns: u64,
    pub(super) closes: bool,
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
            version: head.version,
            keep_alive: head.keep_alive,
            is_head: head.is_head,
            headers,
            body_bytes: 0,
            digest: Digest::default(),
            body: Vec::new(),
        }
    }

    pub(super) fn version(&self) -> Version {
        self.version
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
        let text =
            |status, body: String| self.whole(status, &[("content-type", "text/plain")], body.as_bytes());
        let plain = |bytes: Vec<u8>| Outcome { bytes, delay_ns: 0, closes: !self.keep_alive };
        match self.asked {
            Asked::Echo => plain(self.json(200, &self.echo(facts))),
            Asked::Status(status) => plain(text(status, format!("status {status}\n"))),
            Asked::Bytes(size) => plain(self.whole(200, &[("content-type", "text/plain")], &pattern(size))),
            Asked::Chunked(size) => plain(self.chunked(&pattern(size))),
            Asked::Header(size) => {
                let value = String::from_utf8(vec![b'h'; size]).expect("one letter");
                let headers = [("content-type", "text/plain"), (LONG_HEADER, value.as_str())];
                plain(self.whole(200, &headers, b"a long header\n"))
            }
            Asked::Slow(delay_ns) => Outcome { delay_ns, ..plain(text(200, "slow\n".to_owned())) },
            Asked::Close => Outcome { bytes: Vec::new(), delay_ns: 0, closes: true },
            Asked::CloseMidway => {
                let mut bytes = self.whole(200, &[("content-type", "text/plain")], &pattern(MIDWAY));
                bytes.truncate(bytes.len() - MIDWAY / 2);
                Outcome { bytes, delay_ns: 0, closes: true }
            }
            Asked::TokenReview => plain(self.review(facts.token_secret)),
            Asked::Unknown => plain(text(
                404,
                "known paths are echo, status/N, bytes/N, chunked/N, header/N, slow/DURATION, close and \
                close-midway\n"
                    .to_owned(),
            )),
        }
    }

    fn echo(&self, facts: &InstanceFacts<'_>) -> serde_json::Value {
        let tls = facts.tls.as_ref().map(|(version, cipher)| json!({ "version": version, "cipher": cipher }));
        json!({
            "hoptax": "echo",
            "method": self.method,
            "path": self.target,
            "protocol": self.version.as_str(),
            "headers": self.headers,
            "body_bytes": self.body_bytes,
            "body_digest": self.digest.text(),
            "instance": facts.instance,
            "tls": tls,
            "token_reviews": facts.reviews,
        })
    }

    /// Answers like a Kubernetes API server: status 201 and the result in the body. A gateway that cannot
    /// send a body may send the token in `authorization` without a body. The result is then in the status.
    fn review(&self, secret: Option<&str>) -> Vec<u8> {
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
        self.json(code, &review)
    }

    fn json(&self, status: u16, value: &serde_json::Value) -> Vec<u8> {
        self.whole(status, &[("content-type", "application/json")], value.to_string().as_bytes())
    }

    fn whole(&self, status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let has_body = !matches!(status, 204 | 304);
        let headers: &[_] = if has_body { headers } else { &[] };
        let mut bytes = self.head(status, headers, has_body.then_some(body.len() as u64));
        if has_body && !self.is_head {
            bytes.extend_from_slice(body);
        }
        bytes
    }

    fn chunked(&self, body: &[u8]) -> Vec<u8> {
        if self.version == Version::Http10 {
            return self.whole(200, &[("content-type", "text/plain")], body);
        }
        let mut bytes = self.head(200, &[("content-type", "text/plain")], None);
        // The head was written without a framing field, so add this field here.
        bytes.truncate(bytes.len() - 2);
        bytes.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
        if !self.is_head {
            chunked(&mut bytes, body, CHUNK);
        }
        bytes
    }

    fn head(&self, status: u16, headers: &[(&str, &str)], length: Option<u64>) -> Vec<u8> {
        let connection = match (self.version, self.keep_alive) {
            (Version::Http11, true) => None,
            (Version::Http10, true) => Some(("connection", "keep-alive")),
            (_, false) => Some(("connection", "close")),
        };
        let own = [(RESPONSE_REMOVED, "by-upstream")];
        let headers = own.into_iter().chain(headers.iter().copied()).chain(connection);
        response_head(Version::Http11, status, headers, length).expect("headers of our own")
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
