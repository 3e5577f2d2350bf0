//! Header blocks: collects their fragments, and decides whether they are requests, responses or trailers.

use super::super::credit::CONTINUATIONS;
use super::super::frame::{FrameHeader, MAX_PAYLOAD, flag};
use super::super::message::Kind;
use super::super::section::Section;
use super::super::{Code, Fault, Role, Sections};
use super::{Connection, Continued, Step};

impl Connection {
    pub(super) fn headers_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        sections: &mut Sections,
        output: &mut Vec<u8>,
    ) -> Result<Option<Step>, Fault> {
        if header.stream == 0 {
            return Err(Fault::StreamZero);
        }
        let fragment = fragment(header, payload)?;
        let end_stream = header.has(flag::END_STREAM);
        if header.has(flag::END_HEADERS) {
            return self.block(header.stream, end_stream, fragment, sections, output);
        }
        self.block.clear();
        self.block.extend_from_slice(fragment);
        self.continued = Some(Continued { stream: header.stream, end_stream, frames: 0 });
        Ok(None)
    }

    pub(super) fn continuation(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        sections: &mut Sections,
        output: &mut Vec<u8>,
    ) -> Result<Option<Step>, Fault> {
        let mut continued = self.continued.take().ok_or(Fault::StrayContinuation)?;
        continued.frames += 1;
        if continued.frames > CONTINUATIONS {
            return Err(Fault::ContinuationFlood);
        }
        if self.block.len() + payload.len() > (self.config.max_fields as usize).max(MAX_PAYLOAD) {
            return Err(Fault::BlockTooLong);
        }
        self.block.extend_from_slice(payload);
        if !header.has(flag::END_HEADERS) {
            self.continued = Some(continued);
            return Ok(None);
        }
        let block = std::mem::take(&mut self.block);
        let step = self.block(continued.stream, continued.end_stream, &block, sections, output);
        self.block = block;
        step
    }

    /// Handles a whole block. Every block is decoded, because it can change the dynamic table.
    fn block(
        &mut self,
        id: u32,
        end: bool,
        block: &[u8],
        sections: &mut Sections,
        output: &mut Vec<u8>,
    ) -> Result<Option<Step>, Fault> {
        let Some(stream) = self.streams.get(id) else {
            return match self.role {
                Role::Server if !id.is_multiple_of(2) && id > self.last_stream && !self.going_away => {
                    self.request_head(id, end, block, sections, output)
                }
                _ => self.late_block(id, block, sections),
            };
        };
        let (receiving, has_head) = (stream.receiving, stream.has_head);
        let step = if has_head {
            let decoded = self.decode(Kind::Trailers, &mut sections.trailers, block)?;
            let decoded = if receiving { decoded } else { Err(Fault::EndedStream) };
            decoded.and_then(|()| self.trailers(id, end))
        } else {
            let decoded = self.decode(Kind::Response, &mut sections.head, block)?;
            decoded.and_then(|()| self.response(id, end, &sections.head))
        };
        match step {
            Ok(step @ Step::Interim { .. }) => {
                self.credit.spend(Fault::HeadersFlood)?;
                Ok(Some(step))
            }
            Ok(step) => {
                self.credit.progress();
                self.close_if_ended(id);
                Ok(Some(step))
            }
            Err(fault) => Ok(Some(self.fail(id, fault, output))),
        }
    }

    /// Decodes a block. The outer error ends the connection, and the inner error only the stream.
    fn decode(
        &mut self,
        kind: Kind,
        section: &mut Section,
        block: &[u8],
    ) -> Result<Result<(), Fault>, Fault> {
        section.decode(&mut self.decoder, kind, self.config.max_fields as usize, block)
    }

    /// Ignores a block on a stream that is not open, if the peer may not know this yet.
    fn late_block(&mut self, id: u32, block: &[u8], sections: &mut Sections) -> Result<Option<Step>, Fault> {
        if id.is_multiple_of(2) || self.skipped.contains(&id) {
            return Err(Fault::WrongStream);
        }
        self.check_closed(id)?;
        self.credit.spend(Fault::HeadersFlood)?;
        // Only the effect on the dynamic table matters.
        self.decode(Kind::Trailers, &mut sections.trailers, block)?.ok();
        Ok(None)
    }

    /// Opens a stream of a client.
    fn request_head(
        &mut self,
        id: u32,
        end: bool,
        block: &[u8],
        sections: &mut Sections,
        output: &mut Vec<u8>,
    ) -> Result<Option<Step>, Fault> {
        if id > self.last_stream + 2 {
            self.skipped = self.last_stream + 1..id;
        }
        self.last_stream = id;
        let kind = Kind::Request { connect_protocol: self.config.connect_protocol };
        let decoded = self.decode(kind, &mut sections.head, block)?;
        if self.streams.len() >= self.config.streams as usize {
            self.credit.spend(Fault::HeadersFlood)?;
            self.refuse(id, Code::REFUSED_STREAM, output);
            return Ok(None);
        }
        let expected = sections.head.content_length();
        let fault = match decoded {
            Ok(()) if end && expected.is_some_and(|length| length > 0) => Some(Fault::BodyTooShort),
            decoded => decoded.err(),
        };
        if let Some(fault) = fault {
            self.credit.spend(Fault::HeadersFlood)?;
            return Ok(Some(self.fail(id, fault, output)));
        }
        self.credit.progress();
        let mut stream = self.new_stream(id);
        (stream.has_head, stream.receiving, stream.expected) = (true, !end, expected);
        let stream = self.streams.insert(stream).named();
        Ok(Some(Step::Head { stream, end }))
    }

    /// Applies the head of a response to its stream.
    fn response(&mut self, id: u32, end: bool, head: &Section) -> Result<Step, Fault> {
        let stream = self.streams.get(id).ok_or(Fault::ClosedStream)?;
        let named = stream.named();
        match head.status() {
            101 => return Err(Fault::SwitchingProtocols),
            100..=199 if end => return Err(Fault::InterimWithEnd),
            100..=199 => return Ok(Step::Interim { stream: named }),
            _ => {}
        }
        stream.has_head = true;
        let has_no_body = stream.is_head_request || matches!(head.status(), 204 | 304);
        stream.expected = if has_no_body { Some(0) } else { head.content_length() };
        if end && stream.expected.is_some_and(|expected| expected > 0) {
            return Err(Fault::BodyTooShort);
        }
        stream.receiving = !end;
        Ok(Step::Head { stream: named, end })
    }

    fn trailers(&mut self, id: u32, end: bool) -> Result<Step, Fault> {
        let stream = self.streams.get(id).ok_or(Fault::ClosedStream)?;
        if !end {
            return Err(Fault::TrailersWithoutEnd);
        }
        if stream.expected.is_some_and(|expected| expected > 0) {
            return Err(Fault::BodyTooShort);
        }
        stream.receiving = false;
        Ok(Step::Trailers { stream: stream.named() })
    }
}

/// The payload of a HEADERS frame without its padding and priority. It is the beginning of the header block.
fn fragment(header: FrameHeader, payload: &[u8]) -> Result<&[u8], Fault> {
    let mut fragment = payload;
    let mut padding = 0;
    if header.has(flag::PADDED) {
        let (&length, rest) = payload.split_first().ok_or(Fault::HeadersLength)?;
        (padding, fragment) = (length as usize, rest);
    }
    if header.has(flag::PRIORITY) {
        fragment = fragment.get(5..).ok_or(Fault::HeadersLength)?;
    }
    let end = fragment.len().checked_sub(padding).ok_or(Fault::Padding)?;
    Ok(&fragment[..end])
}
