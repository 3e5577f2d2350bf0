//! Decodes requests, for servers.

use super::body::{Body, BodyStep};
use super::head::{
    FramingFields, HeadCache, Rules, bounded, field_room, find_or_parse, version, within_bounds,
};
use super::{Framing, Malformed, Version};
use std::ops::Range;

/// An event of the request decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestStep {
    /// The input is incomplete: append more bytes and call again.
    NeedMore,
    /// The head.
    Head {
        /// Number of bytes consumed: the head, and any empty lines before it.
        consumed: usize,
        /// Contents of the head.
        head: RequestHead,
    },
    /// A part of the body, possibly an empty part.
    Body {
        /// Number of bytes consumed: the data, and any framing before it.
        consumed: usize,
        /// Position of the data in the input.
        data: Range<usize>,
    },
    /// The request is complete. The next step reads the head of the next request.
    End {
        /// Number of bytes consumed.
        consumed: usize,
        /// True if the client allows another request on the connection.
        keep_alive: bool,
    },
}

/// Contents of a request's head. Ranges are positions in the input of the step that returned the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead {
    /// Position of the method.
    pub method: Range<usize>,
    /// Position of the request target, exactly as it was sent.
    pub target: Range<usize>,
    /// HTTP version.
    pub version: Version,
    /// Framing of the body; never [`Framing::UntilClose`].
    pub framing: Framing,
    /// True if the client allows another request on the connection.
    pub keep_alive: bool,
    /// True if the client offers another protocol for the connection (RFC 9110 §7.8): `connection` contains
    /// `upgrade`. The header `upgrade` names the protocol.
    pub upgrade: bool,
    /// True if the client waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
    /// True if the method is HEAD, whose response has no body.
    pub is_head: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Body { body: Body, keep_alive: bool },
}

/// Decodes the requests of one server connection, one after another.
#[derive(Debug, Clone)]
pub struct RequestDecoder {
    state: State,
}

impl Default for RequestDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl RequestDecoder {
    /// Creates a decoder for a new connection.
    pub fn new() -> Self {
        Self { state: State::Head }
    }

    /// Decodes the next event. `input` must be one slice with all bytes that were not consumed so far.
    ///
    /// # Errors
    /// If the bytes are not a request, or the end of the request is ambiguous. The server can then only
    /// answer with status 400 and close the connection.
    pub fn advance(&mut self, input: &[u8]) -> Result<RequestStep, Malformed> {
        self.step(None, input)
    }

    /// Like [`RequestDecoder::advance`], but looks for the head in a cache first.
    ///
    /// # Errors
    /// See [`RequestDecoder::advance`].
    pub fn advance_with(
        &mut self,
        cache: &mut HeadCache<RequestHead>,
        input: &[u8],
    ) -> Result<RequestStep, Malformed> {
        self.step(Some(cache), input)
    }

    /// True between two requests. Bytes that were not consumed may be the beginning of the next request.
    pub fn is_between(&self) -> bool {
        self.state == State::Head
    }

    fn step(
        &mut self,
        cache: Option<&mut HeadCache<RequestHead>>,
        input: &[u8],
    ) -> Result<RequestStep, Malformed> {
        match &mut self.state {
            State::Head => {
                let Some((consumed, head)) = find_or_parse(cache, input, parse)? else {
                    return Ok(RequestStep::NeedMore);
                };
                self.state =
                    State::Body { body: Body::new(head.framing, Rules::Strict), keep_alive: head.keep_alive };
                Ok(RequestStep::Head { consumed, head })
            }
            State::Body { body, keep_alive } => {
                let keep_alive = *keep_alive;
                Ok(match body.advance(input)? {
                    BodyStep::NeedMore => RequestStep::NeedMore,
                    BodyStep::Data { consumed, data } => RequestStep::Body { consumed, data },
                    BodyStep::End { consumed } => {
                        self.state = State::Head;
                        RequestStep::End { consumed, keep_alive }
                    }
                })
            }
        }
    }
}

/// Parses the head at the start of `input`. Returns `None` if the head is incomplete.
fn parse(input: &[u8]) -> Result<Option<(usize, RequestHead)>, Malformed> {
    if input.is_empty() {
        return Ok(None);
    }
    let input = within_bounds(input);
    let mut room = field_room();
    let mut request = httparse::Request::new(&mut []);
    let parsed = request.parse_with_uninit_headers(input, &mut room);
    let Some(length) = bounded(parsed, input.len())? else { return Ok(None) };
    let version = version(request.version);
    let framing_fields = FramingFields::read(request.headers, Rules::Strict)?;
    if framing_fields.hosts > 1 || (framing_fields.hosts == 0 && version == Version::Http11) {
        return Err(Malformed::Host);
    }
    let method = request.method.unwrap_or_default();
    let head = RequestHead {
        method: place(input, method),
        target: place(input, request.path.unwrap_or_default()),
        version,
        framing: framing_fields.framing(version, Rules::Strict)?.unwrap_or(Framing::None),
        keep_alive: framing_fields.persists(version),
        // An HTTP/1.0 client cannot change the protocol (RFC 9110 §7.8).
        upgrade: framing_fields.upgrade && version == Version::Http11,
        // An HTTP/1.0 client does not know status 100 (RFC 9110 §10.1.1).
        expect_continue: framing_fields.expect_continue && version == Version::Http11,
        is_head: method == "HEAD",
    };
    Ok(Some((length, head)))
}

/// Returns the position of `part` in `whole`. `part` must be borrowed from `whole`.
fn place(whole: &[u8], part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    start..start + part.len()
}

#[cfg(test)]
mod tests {
    use super::super::splits::{Event, for_every_split, requests};
    use super::*;

    fn head(method: &str, target: &str, version: Version, framing: Framing, keep_alive: bool) -> Event {
        Event::Head(format!("{method} {target} {version:?} {framing:?} keep_alive={keep_alive}"))
    }

    fn body(text: &str) -> Event {
        Event::Body(text.as_bytes().to_vec())
    }

    use Event::End;
    use Framing::{Chunked, Length, None};
    use Version::{Http10, Http11};

    fn well_formed() -> Vec<(&'static str, Vec<Event>)> {
        vec![
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", vec![head("GET", "/", Http11, None, true), End(true)]),
            (
                "\r\n\r\nGET /x?y=z HTTP/1.1\nhost: a\n\n",
                vec![head("GET", "/x?y=z", Http11, None, true), End(true)],
            ),
            ("GET / HTTP/1.0\r\n\r\n", vec![head("GET", "/", Http10, None, false), End(false)]),
            (
                "GET / HTTP/1.0\r\nhost: a\r\nconnection: Keep-Alive\r\n\r\n",
                vec![head("GET", "/", Http10, None, true), End(true)],
            ),
            (
                "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
                vec![head("GET", "/", Http11, None, false), End(false)],
            ),
            (
                "POST /p HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello",
                vec![head("POST", "/p", Http11, Length(5), true), body("hello"), End(true)],
            ),
            (
                "PUT /p HTTP/1.1\r\nhost: a\r\ntransfer-encoding: \
                chunked\r\n\r\n2;e\r\nhe\r\n3\r\nllo\r\n0\r\nt: v\r\n\r\n",
                vec![head("PUT", "/p", Http11, Chunked, true), body("hello"), End(true)],
            ),
            (
                "HEAD http://a/b HTTP/1.1\r\nhost: a\r\n\r\n",
                vec![head("HEAD", "http://a/b", Http11, None, true), End(true)],
            ),
        ]
    }

    #[test]
    fn reads_successive_requests_on_every_split() {
        for (input, expected) in well_formed() {
            for_every_split(input.as_bytes(), |pieces| assert_eq!(requests(pieces), expected, "{input:?}"));
        }
        let all: String = well_formed().iter().map(|(input, _)| *input).collect();
        let expected: Vec<Event> = well_formed().into_iter().flat_map(|(_, events)| events).collect();
        for_every_split(all.as_bytes(), |pieces| assert_eq!(requests(pieces), expected));
    }

    #[test]
    fn refuses_malformed_requests_on_every_split() {
        for (input, expected) in [
            ("GET / HTTP/1.1\r\n\r\n", Malformed::Host),
            ("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", Malformed::Host),
            ("GET /\r\n\r\n", Malformed::Head("the request line is not a method, a target and a version")),
            ("GET / HTTP/3.0\r\n\r\n", Malformed::Head("the version is not HTTP/1.0 or HTTP/1.1")),
            (
                "G@T / HTTP/1.1\r\n\r\n",
                Malformed::Head("the request line is not a method, a target and a version"),
            ),
            ("\x16\x03\x01\x02", Malformed::Head("the request line is not a method, a target and a version")),
            (
                "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
                Malformed::TwoFramings,
            ),
            (
                "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n",
                Malformed::TwoFramings,
            ),
            ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n", Malformed::TransferCoding),
            ("POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n", Malformed::TransferCoding),
            ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5, 05x\r\n\r\n", Malformed::ContentLength),
            (
                "POST / HTTP/1.1\r\nhost: a\r\ncontent-length : 5\r\n\r\n",
                Malformed::Head("a header's name contains an invalid character"),
            ),
            (
                "POST / HTTP/1.1\r\nhost: a\r\nx: y\r\n folded\r\n\r\n",
                Malformed::Head("a header's name contains an invalid character"),
            ),
        ] {
            for_every_split(input.as_bytes(), |pieces| {
                assert_eq!(requests(pieces), [Event::Malformed(expected)], "{input:?}");
            });
        }
    }

    #[test]
    fn reports_clients_that_wait_for_continue() {
        for (version, expects) in [("HTTP/1.1", true), ("HTTP/1.0", false)] {
            let input =
                format!("POST / {version}\r\nhost: a\r\nexpect: 100-Continue\r\ncontent-length: 1\r\n\r\n");
            let Ok(RequestStep::Head { head, consumed }) = RequestDecoder::new().advance(input.as_bytes())
            else {
                panic!("a head")
            };
            assert_eq!((head.expect_continue, consumed), (expects, input.len()));
        }
    }

    #[test]
    fn reports_clients_that_offer_another_protocol() {
        for (version, connection, offers) in [
            ("HTTP/1.1", "Upgrade", true),
            ("HTTP/1.1", "keep-alive, upgrade", true),
            ("HTTP/1.1", "keep-alive", false),
            ("HTTP/1.0", "upgrade", false),
        ] {
            let input = format!("GET / {version}\r\nhost: a\r\nconnection: {connection}\r\n\r\n");
            let Ok(RequestStep::Head { head, .. }) = RequestDecoder::new().advance(input.as_bytes()) else {
                panic!("a head")
            };
            assert_eq!(head.upgrade, offers, "{version} {connection}");
        }
    }

    #[test]
    fn a_cache_does_not_change_the_results() {
        let mut cache = HeadCache::new();
        for _ in 0..2 {
            for (input, _) in well_formed() {
                for end in 0..=input.len() {
                    let input = &input.as_bytes()[..end];
                    let cached = RequestDecoder::new().advance_with(&mut cache, input);
                    assert_eq!(RequestDecoder::new().advance(input), cached);
                }
            }
        }
    }
}
