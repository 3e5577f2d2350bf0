//! HTTP/1.0 and HTTP/1.1: one response at a time.

use crate::exchange::Answer;
use crate::recorder::Response;
use crate::redirect;
use crate::scratch::Scratch;
use crate::stream_head::StreamHead;
use crate::target::{Answered, Target};
use hoptax_format::messages::Carrier;
use hoptax_format::record::is_redirect;
use hoptax_wire::http1::{Malformed, ResponseDecoder, Step};

/// Status of a response that switches protocols (RFC 9110, section 15.2.2).
const SWITCHES: u16 = 101;

/// The reader of one connection. Between responses it owns no memory.
#[derive(Debug, Default)]
pub(crate) struct Http1 {
    decoder: ResponseDecoder,
    /// Input that the decoder could not use yet: the beginning of a head or of a chunk size.
    pub(super) spill: Vec<u8>,
}

/// Result of reading bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    More,
    /// The server has switched to WebSocket. [`Scratch::frames`] has what followed.
    Switched(Answered),
    /// The response is complete. `keep_alive` is true if the connection can carry another request.
    Whole {
        response: Response,
        keep_alive: bool,
    },
}

/// Why a response is not valid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The reason, with the line at fault.
    pub(crate) text: String,
}

impl Http1 {
    /// Prepares for the response to a request that was just sent to `target`.
    #[inline]
    pub(crate) fn expect_response(&mut self, target: &Target) {
        match target.handshake {
            None => self.decoder.begin(target.is_head),
            Some(_) => self.decoder.begin_upgrade(),
        }
    }

    /// Reads the next bytes of the response that `target` sent.
    ///
    /// # Errors
    /// If the bytes are not a valid response.
    pub(crate) fn read(
        &mut self,
        answer: &mut Answer,
        scratch: &mut Scratch,
        target: &Target,
        bytes: &[u8],
    ) -> Result<Read, Box<Refused>> {
        answer.bytes += bytes.len() as u64;
        if self.spill.is_empty() {
            return self.decode(answer, scratch, target, bytes);
        }
        let mut input = std::mem::take(&mut self.spill);
        input.extend_from_slice(bytes);
        let read = self.decode(answer, scratch, target, &input);
        scratch.pieces.give_back(input);
        read
    }

    /// Called when the connection has ended. Returns the response if the end of the connection completes it.
    pub(crate) fn read_end(&mut self, answer: &Answer, target: &Target) -> Option<Response> {
        matches!(self.decoder.end_of_input(), Ok(true)).then(|| answer.response(target))
    }

    fn decode(
        &mut self,
        answer: &mut Answer,
        scratch: &mut Scratch,
        target: &Target,
        mut input: &[u8],
    ) -> Result<Read, Box<Refused>> {
        loop {
            let step = self.decoder.advance_with(&mut scratch.heads[target.index as usize], input);
            let consumed = match step.map_err(|reason| refused(reason, input))? {
                Step::NeedMore => {
                    if !input.is_empty() {
                        self.spill = scratch.pieces.take();
                        self.spill.extend_from_slice(input);
                    }
                    return Ok(Read::More);
                }
                Step::Interim { consumed } => consumed,
                Step::Head { consumed, head } => {
                    answer.status = head.status;
                    if is_redirect(head.status) && scratch.redirected_to.is_none() {
                        scratch.redirected_to = redirect::location(&input[..consumed]);
                    }
                    target.checks.head(&input[..consumed], &mut answer.progress);
                    if target.is_web {
                        answer.read_web_status(&input[..consumed]);
                    }
                    if let Some(place) = scratch.stamps.get_mut(target.index as usize) {
                        answer.stamped = place.find(&input[..consumed]);
                    }
                    if let (SWITCHES, Some(handshake)) = (head.status, &target.handshake) {
                        scratch.frames.extend_from_slice(&input[consumed..]);
                        return Ok(Read::Switched(handshake.read(&input[..consumed])));
                    }
                    if target.stream.is_some() {
                        scratch.stream_head = Some(StreamHead::of_head(&input[..consumed]));
                    }
                    consumed
                }
                Step::Body { consumed, data } => {
                    answer.body += data.len() as u64;
                    target.checks.body(&input[data.clone()], &mut answer.progress);
                    match target.carrier() {
                        Some(Carrier::Grpc | Carrier::Events) => {
                            scratch.messages.extend_from_slice(&input[data]);
                        }
                        None if target.is_web => answer.read_messages(target, &input[data]),
                        Some(Carrier::WebSocket) | None => {}
                    }
                    consumed
                }
                Step::End { consumed, keep_alive } => {
                    // The additional bytes mean a wrong length, an unexpected body, or a second response. It
                    // is impossible to know which of these is true, so the response is not valid (RFC 9112
                    // §6.3).
                    if input.len() > consumed {
                        return Err(refused(Malformed::UnexpectedBytes, input));
                    }
                    return Ok(Read::Whole { response: answer.response(target), keep_alive });
                }
            };
            input = &input[consumed..];
        }
    }
}

fn refused(reason: Malformed, input: &[u8]) -> Box<Refused> {
    Box::new(Refused { text: reason.describe(input) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::Exchange;

    fn read_in_pieces(text: &str, piece: usize) -> (Result<Read, Box<Refused>>, Http1, Exchange) {
        let target = Target::of_get();
        let (mut codec, mut exchange) = (Http1::default(), Exchange::new(0));
        let mut scratch = Scratch::new(1, false);
        codec.expect_response(&target);
        let mut last = Ok(Read::More);
        for part in text.as_bytes().chunks(piece) {
            assert_eq!(last, Ok(Read::More), "more input after the end of {text:?}");
            last = codec.read(&mut exchange.answer, &mut scratch, &target, part);
        }
        (last, codec, exchange)
    }

    #[test]
    fn reads_the_same_response_in_any_pieces() {
        let text = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 201 Created\r\ntransfer-encoding: \
                    chunked\r\n\r\n\
                    3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";
        for piece in 1..=text.len() {
            let (read, codec, _) = read_in_pieces(text, piece);
            let bytes = text.len() as u64;
            let response = Response { status: 201, bytes, body: 7, failed: None, call: None };
            assert_eq!(read, Ok(Read::Whole { response, keep_alive: true }), "pieces of {piece}");
            assert_eq!(codec.spill.capacity(), 0, "no memory is kept between responses");
        }
    }

    #[test]
    fn bytes_after_a_response_make_it_malformed() {
        for head in ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "HTTP/1.1 204 No Content\r\n\r\n"] {
            let text = format!("{head}what?");
            let (read, ..) = read_in_pieces(&text, 1000);
            assert_eq!(read, Err(refused(Malformed::UnexpectedBytes, b"what?")), "{head:?}");
        }
    }

    #[test]
    fn the_end_of_the_connection_completes_only_responses_without_length() {
        let (read, mut codec, exchange) = read_in_pieces("HTTP/1.0 200 OK\r\n\r\nabc", 1000);
        assert_eq!(read, Ok(Read::More));
        let response = Response { status: 200, bytes: 22, body: 3, failed: None, call: None };
        assert_eq!(codec.read_end(&exchange.answer, &Target::of_get()), Some(response));
        let (_, mut codec, exchange) =
            read_in_pieces("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc", 1000);
        assert_eq!(codec.read_end(&exchange.answer, &Target::of_get()), None);
    }
}
