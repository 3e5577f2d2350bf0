//! Decodes frames, except those with header blocks and data.

use super::super::frame::{self, FrameHeader, HEADER, MAX_PAYLOAD, PREFACE, flag, kind};
use super::super::settings::{DEFAULT_WINDOW, MAX_WINDOW};
use super::super::{Code, Fault, Role, Sections};
use super::{Connection, Reading, Sent, Step, StreamRef};

/// Number of bytes consumed, and the event if there is one. `None` if more bytes are needed.
pub(super) type Found = Option<(usize, Option<Step>)>;

impl Connection {
    /// Decodes the next event. `input` must be one slice with all bytes that were not consumed so far.
    /// Returns the number of bytes consumed, and the event. Heads and trailers are in `sections` until the
    /// next call. Answers, for example to PING, are appended to `output`.
    ///
    /// Call this until the result is [`Step::NeedMore`], even when the input is empty.
    ///
    /// # Errors
    /// If the peer violated the protocol. `output` then ends with a GOAWAY frame. The connection cannot be
    /// used again, and all open streams are lost.
    pub fn advance(
        &mut self,
        input: &[u8],
        sections: &mut Sections,
        output: &mut Vec<u8>,
    ) -> Result<(usize, Step), Fault> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        self.step(input, sections, output).inspect_err(|&fault| {
            self.fault = Some(fault);
            frame::write_go_away(output, self.last_stream, fault.code());
        })
    }

    fn step(
        &mut self,
        input: &[u8],
        sections: &mut Sections,
        output: &mut Vec<u8>,
    ) -> Result<(usize, Step), Fault> {
        let mut at = 0;
        loop {
            if self.search
                && let Some(step) = self.search()
            {
                return Ok((at, step));
            }
            let rest = &input[at..];
            let found = match self.reading {
                Reading::Frame => self.frame(rest, sections, output)?,
                Reading::Data(data) => self.data(data, rest.len(), output),
                Reading::Skip { left } => self.skip(left, rest.len()),
                Reading::Preface => self.preface(rest)?,
            };
            let Some((consumed, step)) = found else { return Ok((at, Step::NeedMore)) };
            if let Some(step) = step {
                return Ok((at + consumed, moved(step, at)));
            }
            at += consumed;
        }
    }

    /// Returns the next event that needs no input: GOAWAY has excluded a stream, or a blocked stream can send
    /// again.
    fn search(&mut self) -> Option<Step> {
        if let (Role::Client, Some((last, code))) = (self.role, self.refused_by_peer)
            && let Some(stream) = self.streams.next(|stream| stream.id > last)
        {
            let stream = stream.named();
            self.streams.remove(stream.id);
            return Some(Step::Reset { stream, code, unprocessed: true });
        }
        if self.send_window > 0
            && let Some(stream) = self.streams.next(|stream| stream.blocked && stream.send_window > 0)
        {
            stream.blocked = false;
            return Some(Step::Writable { stream: stream.named() });
        }
        self.search = false;
        None
    }

    fn preface(&mut self, input: &[u8]) -> Result<Found, Fault> {
        let length = input.len().min(PREFACE.len());
        if input[..length] != PREFACE[..length] {
            return Err(Fault::Preface);
        }
        if length < PREFACE.len() {
            return Ok(None);
        }
        self.reading = Reading::Frame;
        Ok(Some((length, None)))
    }

    fn skip(&mut self, left: usize, available: usize) -> Found {
        let skipped = left.min(available);
        self.reading = if skipped == left { Reading::Frame } else { Reading::Skip { left: left - skipped } };
        (skipped > 0 || left == 0).then_some((skipped, None))
    }

    fn frame(&mut self, input: &[u8], sections: &mut Sections, output: &mut Vec<u8>) -> Result<Found, Fault> {
        let Some(header) = FrameHeader::read(input) else { return Ok(None) };
        self.check_order(header, input)?;
        if header.kind == kind::DATA {
            return self.data_frame(header, input, output);
        }
        if header.kind > kind::CONTINUATION {
            self.credit.spend(Fault::UnknownFlood)?;
            self.reading = Reading::Skip { left: header.length };
            return Ok(Some((HEADER, None)));
        }
        let end = HEADER + header.length;
        let Some(payload) = input.get(HEADER..end) else { return Ok(None) };
        let step = match header.kind {
            kind::HEADERS => self.headers_frame(header, payload, sections, output)?,
            kind::CONTINUATION => self.continuation(header, payload, sections, output)?,
            kind::PRIORITY => self.priority(header)?,
            kind::RST_STREAM => self.reset_frame(header, payload)?,
            kind::SETTINGS => self.settings(header, payload, output)?,
            kind::PUSH_PROMISE => return Err(Fault::Push),
            kind::PING => self.ping_frame(header, payload, output)?,
            kind::GOAWAY => self.go_away_frame(header, payload)?,
            _ => self.window_update(header, payload, output)?,
        };
        Ok(Some((end, step)))
    }

    /// Checks that the frame is allowed at this place.
    #[inline]
    fn check_order(&self, header: FrameHeader, input: &[u8]) -> Result<(), Fault> {
        if !self.peer_settings_known {
            if self.role == Role::Client && input.starts_with(b"HTTP/1.") {
                return Err(Fault::Http1Answer);
            }
            if header.kind != kind::SETTINGS || header.has(flag::ACK) {
                return Err(Fault::FirstFrame);
            }
        }
        if header.length > MAX_PAYLOAD {
            return Err(Fault::FrameTooLong);
        }
        match self.continued {
            Some(continued) if header.kind != kind::CONTINUATION || header.stream != continued.stream => {
                Err(Fault::BlockInterrupted)
            }
            None if header.kind == kind::CONTINUATION => Err(Fault::StrayContinuation),
            _ => Ok(()),
        }
    }

    /// Accepts a frame on a stream that is not open, if the peer may not know this yet.
    pub(super) fn check_closed(&self, id: u32) -> Result<(), Fault> {
        if self.is_idle(id) {
            Err(Fault::IdleStream)
        } else if id <= self.reset_up_to || id > self.last_opened() {
            Ok(())
        } else {
            Err(Fault::ClosedStream)
        }
    }

    fn priority(&mut self, header: FrameHeader) -> Result<Option<Step>, Fault> {
        if header.stream == 0 {
            return Err(Fault::StreamZero);
        }
        if header.length != 5 {
            return Err(Fault::PriorityLength);
        }
        self.credit.spend(Fault::PriorityFlood)?;
        Ok(None)
    }

    fn reset_frame(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Option<Step>, Fault> {
        let id = header.stream;
        if id == 0 {
            return Err(Fault::StreamZero);
        }
        let code = Code(u32::from_be_bytes(payload.try_into().map_err(|_| Fault::ResetLength)?));
        let Some(stream) = self.streams.get(id) else {
            if self.is_idle(id) {
                return Err(Fault::IdleStream);
            }
            self.credit.spend(Fault::ResetFlood)?;
            return Ok(None);
        };
        let stream = stream.named();
        self.streams.remove(id);
        if self.role == Role::Server {
            self.credit.reset()?;
        }
        Ok(Some(Step::Reset { stream, code, unprocessed: code == Code::REFUSED_STREAM }))
    }

    fn settings(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<Step>, Fault> {
        if header.stream != 0 {
            return Err(Fault::NotStreamZero);
        }
        self.credit.spend(Fault::SettingsFlood)?;
        if header.has(flag::ACK) {
            if !payload.is_empty() {
                return Err(Fault::SettingsLength);
            }
            self.our_settings_apply();
            return Ok(None);
        }
        if !payload.len().is_multiple_of(6) {
            return Err(Fault::SettingsLength);
        }
        let earlier = self.peer;
        let from = if self.role == Role::Client { Role::Server } else { Role::Client };
        self.peer.apply(payload, from)?;
        self.peer_settings_known = true;
        self.grow_send_windows(earlier.initial_window_size)?;
        if self.peer.header_table_size < self.table_size {
            self.table_size = self.peer.header_table_size;
            self.table_size_changed = true;
            // Some of our entries may still be in the table. We stop using them all, because this case is
            // rare.
            if self.sent != Sent::Nothing {
                self.sent = Sent::TooSmall;
            }
        }
        frame::write(output, kind::SETTINGS, flag::ACK, 0, &[]);
        Ok(Some(Step::Settings))
    }

    /// Applies a new initial window to the open streams. Their windows can become negative (RFC 9113, section
    /// 6.9.2).
    fn grow_send_windows(&mut self, earlier: u32) -> Result<(), Fault> {
        let growth = i64::from(self.peer.initial_window_size) - i64::from(earlier);
        if growth != 0 {
            self.search = true;
            for stream in self.streams.iter_mut() {
                stream.send_window += growth;
                if stream.send_window > i64::from(MAX_WINDOW) {
                    return Err(Fault::SettingsWindowOverflow);
                }
            }
        }
        Ok(())
    }

    /// The peer has acknowledged our settings. A smaller window and a smaller table apply from now on.
    fn our_settings_apply(&mut self) {
        if std::mem::replace(&mut self.settings_acknowledged, true) {
            return;
        }
        self.decoder.set_limit(self.config.header_table);
        let growth = i64::from(self.config.window) - i64::from(self.config.window.max(DEFAULT_WINDOW));
        for stream in self.streams.iter_mut() {
            stream.receive_window += growth;
        }
    }

    fn ping_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<Step>, Fault> {
        if header.stream != 0 {
            return Err(Fault::NotStreamZero);
        }
        let payload: [u8; 8] = payload.try_into().map_err(|_| Fault::PingLength)?;
        if header.has(flag::ACK) && self.pings > 0 {
            self.pings -= 1;
            return Ok(Some(Step::Pong(payload)));
        }
        self.credit.spend(Fault::PingFlood)?;
        if !header.has(flag::ACK) {
            frame::write(output, kind::PING, flag::ACK, 0, &payload);
        }
        Ok(None)
    }

    fn go_away_frame(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Option<Step>, Fault> {
        if header.stream != 0 {
            return Err(Fault::NotStreamZero);
        }
        let &[l0, l1, l2, l3, c0, c1, c2, c3] = payload.first_chunk().ok_or(Fault::GoAwayLength)?;
        self.credit.spend(Fault::GoAwayFlood)?;
        let last = u32::from_be_bytes([l0, l1, l2, l3]) & MAX_WINDOW;
        let code = Code(u32::from_be_bytes([c0, c1, c2, c3]));
        // The limit can only become lower (RFC 9113, section 6.8).
        let last = self.refused_by_peer.map_or(last, |(earlier, _)| earlier.min(last));
        self.refused_by_peer = Some((last, code));
        self.search = true;
        Ok(Some(Step::GoAway { last, code, debug: HEADER + 8..HEADER + header.length }))
    }

    fn window_update(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<Step>, Fault> {
        let payload = payload.try_into().map_err(|_| Fault::WindowUpdateLength)?;
        let increment = i64::from(u32::from_be_bytes(payload) & MAX_WINDOW);
        self.credit.spend(Fault::WindowUpdateFlood)?;
        self.search = true;
        if header.stream == 0 {
            self.send_window += increment;
            return match increment {
                0 => Err(Fault::ConnectionWindowZero),
                _ if self.send_window > i64::from(MAX_WINDOW) => Err(Fault::ConnectionWindowOverflow),
                _ => Ok(None),
            };
        }
        let Some(stream) = self.streams.get(header.stream) else {
            return if self.is_idle(header.stream) { Err(Fault::IdleStream) } else { Ok(None) };
        };
        stream.send_window += increment;
        let fault = match increment {
            0 => Fault::StreamWindowZero,
            _ if stream.send_window > i64::from(MAX_WINDOW) => Fault::StreamWindowOverflow,
            _ => return Ok(None),
        };
        Ok(Some(self.fail(header.stream, fault, output)))
    }

    /// Closes a stream on which the peer violated the protocol.
    pub(super) fn fail(&mut self, id: u32, fault: Fault, output: &mut Vec<u8>) -> Step {
        let tag = self.streams.get(id).map_or(0, |stream| stream.tag);
        self.streams.remove(id);
        self.refuse(id, fault.code(), output);
        Step::Failed { stream: StreamRef { id, tag }, fault }
    }

    /// Sends RST_STREAM. Frames that the peer sent before it learned of this are ignored.
    pub(super) fn refuse(&mut self, id: u32, code: Code, output: &mut Vec<u8>) {
        self.reset_up_to = self.reset_up_to.max(id);
        frame::write_reset(output, id, code);
    }
}

/// Adds `by` to the positions in a step.
#[inline]
fn moved(step: Step, by: usize) -> Step {
    let behind = |range: std::ops::Range<usize>| range.start + by..range.end + by;
    match step {
        Step::Body { stream, data, end } => Step::Body { stream, data: behind(data), end },
        Step::GoAway { last, code, debug } => Step::GoAway { last, code, debug: behind(debug) },
        other => other,
    }
}
