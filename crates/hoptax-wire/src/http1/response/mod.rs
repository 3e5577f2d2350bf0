//! Decodes responses, for clients.

use super::body::{Body, BodyStep};
use super::head::{
    FramingFields, HeadCache, Rules, bounded, field_room, find_or_parse, start_line_length, version,
    within_bounds,
};
use super::lenient::{Line, Lines};
use super::{Framing, MAX_HEAD, Malformed, Version};
use std::ops::Range;

/// Status of a response that switches protocols (RFC 9110, section 15.2.2).
const SWITCHES: u16 = 101;

/// An event of the response decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The input is incomplete: append more bytes and call again.
    NeedMore,
    /// An interim head (status 1xx). The final response follows.
    Interim {
        /// Number of bytes consumed.
        consumed: usize,
    },
    /// The head.
    Head {
        /// Number of bytes consumed: exactly the head.
        consumed: usize,
        /// Contents of the head.
        head: ResponseHead,
    },
    /// A part of the body, possibly an empty part.
    Body {
        /// Number of bytes consumed: the data, and any framing before it.
        consumed: usize,
        /// Position of the data in the input.
        data: Range<usize>,
    },
    /// The response is complete. Call [`ResponseDecoder::begin`] before the next response.
    End {
        /// Number of bytes consumed.
        consumed: usize,
        /// True if the connection can carry another request.
        keep_alive: bool,
    },
}

/// Contents of a response's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHead {
    /// Status code, 100 to 999.
    pub status: u16,
    /// HTTP version.
    pub version: Version,
    /// Framing of the body.
    pub framing: Framing,
    /// True if the connection can carry another request after this response.
    pub keep_alive: bool,
}

/// Contents of a response's head that do not depend on the request. The final framing is not among them,
/// because it depends on the request's method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedResponse {
    status: u16,
    version: Version,
    framing: Option<Framing>,
    persists: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Head { to_head: bool, upgrades: bool },
    Body { body: Body, keep_alive: bool },
}

/// Decodes the responses of one client connection, one after another.
#[derive(Debug, Clone)]
pub struct ResponseDecoder {
    state: State,
}

impl Default for ResponseDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseDecoder {
    /// Creates a decoder for a new connection. It does not expect a response until [`ResponseDecoder::begin`]
    /// is called.
    pub fn new() -> Self {
        Self { state: State::Idle }
    }

    /// Prepares for the next response. `to_head` is true if the request used the method HEAD.
    pub fn begin(&mut self, to_head: bool) {
        self.state = State::Head { to_head, upgrades: false };
    }

    /// Prepares for the response to a request that asks for another protocol. If its status is 101, the
    /// response ends with its head, and the bytes after it belong to the other protocol.
    pub fn begin_upgrade(&mut self) {
        self.state = State::Head { to_head: false, upgrades: true };
    }

    /// Decodes the next event. `input` must be one slice with all bytes that were not consumed so far.
    ///
    /// # Errors
    /// If the bytes are not a response, or no response was expected. The connection cannot be used again.
    pub fn advance(&mut self, input: &[u8]) -> Result<Step, Malformed> {
        self.step(None, input)
    }

    /// Like [`ResponseDecoder::advance`], but looks for the head in a cache first.
    ///
    /// # Errors
    /// See [`ResponseDecoder::advance`].
    pub fn advance_with(
        &mut self,
        cache: &mut HeadCache<ParsedResponse>,
        input: &[u8],
    ) -> Result<Step, Malformed> {
        self.step(Some(cache), input)
    }

    /// Call this when the connection has ended. Returns true if the end of the connection completes a
    /// response. Returns false if no response was expected.
    ///
    /// # Errors
    /// [`Malformed::CutShort`] if a response was expected or is incomplete.
    pub fn end_of_input(&mut self) -> Result<bool, Malformed> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => Ok(false),
            State::Body { body, .. } if body.ends_with_connection() => Ok(true),
            State::Head { .. } | State::Body { .. } => Err(Malformed::CutShort),
        }
    }

    fn step(
        &mut self,
        cache: Option<&mut HeadCache<ParsedResponse>>,
        input: &[u8],
    ) -> Result<Step, Malformed> {
        match &mut self.state {
            State::Idle if input.is_empty() => Ok(Step::NeedMore),
            State::Idle => Err(Malformed::UnexpectedBytes),
            State::Head { to_head, upgrades } => {
                let (to_head, upgrades) = (*to_head, *upgrades);
                let Some((consumed, parsed)) = find_or_parse(cache, input, ParsedResponse::parse)? else {
                    return Ok(Step::NeedMore);
                };
                if parsed.status == SWITCHES {
                    if !upgrades {
                        return Err(Malformed::Upgrade);
                    }
                    self.state = State::Idle;
                    return Ok(Step::Head { consumed, head: parsed.switching() });
                }
                if parsed.status < 200 {
                    return Ok(Step::Interim { consumed });
                }
                let head = parsed.answering(to_head);
                self.state = State::Body {
                    body: Body::new(head.framing, Rules::Lenient),
                    keep_alive: head.keep_alive,
                };
                Ok(Step::Head { consumed, head })
            }
            State::Body { body, keep_alive } => {
                let keep_alive = *keep_alive;
                Ok(match body.advance(input)? {
                    BodyStep::NeedMore => Step::NeedMore,
                    BodyStep::Data { consumed, data } => Step::Body { consumed, data },
                    BodyStep::End { consumed } => {
                        self.state = State::Idle;
                        Step::End { consumed, keep_alive }
                    }
                })
            }
        }
    }
}

impl ParsedResponse {
    /// Parses the head at the start of `input`. Returns `None` if the head is incomplete.
    fn parse(input: &[u8]) -> Result<Option<(usize, Self)>, Malformed> {
        match input.first() {
            None => return Ok(None),
            // A server ignores empty lines before a request (RFC 9112 §2.2), but a client accepts no bytes
            // before a response.
            Some(b'\r' | b'\n') => return Err(Malformed::Head("an empty line precedes the status")),
            Some(_) => {}
        }
        let input = within_bounds(input);
        let mut room = field_room();
        let mut response = httparse::Response::new(&mut []);
        let mut config = httparse::ParserConfig::default();
        config.allow_multiple_spaces_in_response_status_delimiters(true);
        let parsed = config.parse_response_with_uninit_headers(&mut response, input, &mut room);
        let (status, version) = (response.code.unwrap_or(0), version(response.version));
        let (length, framing_fields) = match parsed {
            // httparse reads the reason phrase at the end of the status line. So the status line is correct,
            // and a header line is wrong.
            Err(_) if response.reason.is_some() => {
                let Some(read) = Self::lines(input)? else { return Ok(None) };
                read
            }
            parsed => {
                let Some(length) = bounded(parsed, input.len())? else { return Ok(None) };
                (length, FramingFields::read(response.headers, Rules::Lenient)?)
            }
        };
        if status < 100 {
            return Err(Malformed::Status);
        }
        let framing = framing_fields.framing(version, Rules::Lenient)?;
        Ok(Some((length, Self { status, version, framing, persists: framing_fields.persists(version) })))
    }

    /// Reads the header lines of a head that httparse refuses. Returns the length of the head, and the fields
    /// that affect framing and connection. Returns `None` if the head is incomplete.
    fn lines(input: &[u8]) -> Result<Option<(usize, FramingFields)>, Malformed> {
        let Some(start) = start_line_length(input) else { return Ok(None) };
        let mut lines = Lines::new(&input[start..]);
        let mut framing_fields = FramingFields::default();
        loop {
            match lines.next()? {
                Line::Field(field) => framing_fields.add(field.name, field.value, Rules::Lenient)?,
                Line::End => return Ok(Some((input.len() - lines.rest().len(), framing_fields))),
                Line::Partial if input.len() < MAX_HEAD => return Ok(None),
                Line::Partial => return Err(Malformed::HeadTooLong),
            }
        }
    }

    /// The head of a response that switches protocols. The connection carries no further request.
    fn switching(self) -> ResponseHead {
        let Self { status, version, .. } = self;
        ResponseHead { status, version, framing: Framing::None, keep_alive: false }
    }

    /// Completes the head with the framing of RFC 9112 §6.3, which depends on whether the request used the
    /// method HEAD.
    fn answering(self, to_head: bool) -> ResponseHead {
        let bodyless = to_head || matches!(self.status, 204 | 304);
        let framing = if bodyless { Framing::None } else { self.framing.unwrap_or(Framing::UntilClose) };
        ResponseHead {
            status: self.status,
            version: self.version,
            framing,
            keep_alive: self.persists && framing != Framing::UntilClose,
        }
    }
}

#[cfg(test)]
mod tests;
