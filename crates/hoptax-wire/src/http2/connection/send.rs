//! Encodes what we send.

use super::super::Code;
use super::super::frame::{self, HEADER, MAX_PAYLOAD, flag, kind};
use super::super::hpack::{self, Block};
use super::super::settings::{self, DEFAULT_WINDOW, MAX_WINDOW};
use super::{Connection, Sent};

impl Connection {
    /// Sends the head of a request on a new stream. Events of the stream contain `tag`. `is_head` is true if
    /// the method is HEAD. For `varying` and `end`, see [`Connection::send_head`].
    ///
    /// Returns the stream's number, or `None` if [`Connection::capacity`] is 0.
    pub fn request(
        &mut self,
        tag: u32,
        is_head: bool,
        block: &Block,
        varying: &[u8],
        end: bool,
        output: &mut Vec<u8>,
    ) -> Option<u32> {
        if self.capacity() == 0 {
            return None;
        }
        let id = self.next_stream;
        self.next_stream += 2;
        let mut stream = self.new_stream(id);
        stream.tag = tag;
        stream.is_head_request = is_head;
        stream.sending = !end;
        self.streams.insert(stream);
        self.credit.progress();
        self.write_block(id, block, varying, end, output);
        Some(id)
    }

    /// Sends the head of a response, interim or final, or trailers. `varying` has fields that differ from one
    /// use of the block to the next, written by [`hpack::write_literal`], pseudo-headers first. `end` is true
    /// if nothing follows on the stream.
    ///
    /// Returns false, and sends nothing, if the peer has reset the stream or our side of it has ended.
    pub fn send_head(
        &mut self,
        stream: u32,
        block: &Block,
        varying: &[u8],
        end: bool,
        output: &mut Vec<u8>,
    ) -> bool {
        let Some(open) = self.streams.get(stream).filter(|open| open.sending) else { return false };
        if self.fault.is_some() {
            return false;
        }
        open.sending = !end;
        self.credit.sent(0);
        self.write_block(stream, block, varying, end, output);
        self.close_if_ended(stream);
        true
    }

    /// Sends as much of `data` as the windows allow. `end` is true if nothing follows on the stream. Returns
    /// the number of bytes sent. If not all of `data` was sent, the stream has not ended, and
    /// [`Step::Writable`](super::Step::Writable) follows when more can be sent.
    ///
    /// Returns `None`, and sends nothing, if the peer has reset the stream or our side of it has ended.
    pub fn send_data(&mut self, stream: u32, data: &[u8], end: bool, output: &mut Vec<u8>) -> Option<usize> {
        let id = stream;
        let window = self.send_window;
        let stream = self.streams.get(id).filter(|stream| stream.sending && self.fault.is_none())?;
        let allowed = window.min(stream.send_window).max(0) as usize;
        let length = data.len().min(allowed);
        let is_whole = length == data.len();
        let end = end && is_whole;
        stream.send_window -= length as i64;
        stream.blocked = !is_whole;
        stream.sending = !end;
        self.send_window -= length as i64;
        self.credit.sent(length);
        let mut rest = &data[..length];
        while rest.len() > MAX_PAYLOAD {
            let part;
            (part, rest) = rest.split_at(MAX_PAYLOAD);
            frame::write(output, kind::DATA, 0, id, part);
        }
        if end || !rest.is_empty() {
            frame::write(output, kind::DATA, if end { flag::END_STREAM } else { 0 }, id, rest);
        }
        if end {
            self.close_if_ended(id);
        }
        Some(length)
    }

    /// Closes a stream with RST_STREAM. Frames that the peer sends before it learns of this are ignored.
    /// Returns false if the stream is already closed.
    pub fn reset(&mut self, stream: u32, code: Code, output: &mut Vec<u8>) -> bool {
        if self.streams.get(stream).is_none() {
            return false;
        }
        self.streams.remove(stream);
        self.refuse(stream, code, output);
        true
    }

    /// Gives `bytes` of the windows of the stream and of the connection back to the peer. Call this for the
    /// data of [`Step::Body`](super::Step::Body) if [`Config::release`](super::Config::release) is
    /// [`Release::ByCaller`](super::Release::ByCaller). The stream can be closed already.
    pub fn release(&mut self, stream: u32, bytes: u32, output: &mut Vec<u8>) {
        self.give_back(bytes, output);
        let threshold = threshold(self.config.window);
        let Some(stream) = self.streams.get(stream).filter(|stream| stream.receiving) else { return };
        stream.to_release += bytes;
        if stream.to_release >= threshold && !stream.is_held {
            let increment = std::mem::take(&mut stream.to_release);
            stream.receive_window += i64::from(increment);
            frame::write_window_update(output, stream.id, increment);
        }
    }

    /// Gives nothing of a stream's window back to the peer until [`Self::end_hold`]. The stream can be closed
    /// already.
    pub fn hold(&mut self, stream: u32) {
        if let Some(stream) = self.streams.get(stream) {
            stream.is_held = true;
        }
    }

    /// Ends a [`Self::hold`]. The stream can be closed already.
    pub fn end_hold(&mut self, stream: u32, output: &mut Vec<u8>) {
        if let Some(held) = self.streams.get(stream) {
            held.is_held = false;
        }
        self.release(stream, 0, output);
    }

    /// Gives `bytes` of the connection's window back to the peer.
    pub(super) fn give_back(&mut self, bytes: u32, output: &mut Vec<u8>) {
        self.to_release += bytes;
        if self.to_release >= threshold(self.config.connection_window) {
            let increment = std::mem::take(&mut self.to_release);
            self.receive_window += i64::from(increment);
            frame::write_window_update(output, 0, increment);
        }
    }

    /// Announces a larger window for the data that each stream receives, in bytes: at most 2^31-1. It also
    /// applies to the open streams (RFC 9113, section 6.9.2). Windows never shrink: a smaller value is
    /// ignored.
    pub fn grow_window(&mut self, window: u32, output: &mut Vec<u8>) {
        let window = window.min(MAX_WINDOW);
        if window <= self.config.window {
            return;
        }
        // Until our first settings are acknowledged, open streams have at least the initial window.
        let least = if self.settings_acknowledged { 0 } else { DEFAULT_WINDOW };
        let growth = i64::from(window.max(least)) - i64::from(self.config.window.max(least));
        self.config.window = window;
        for stream in self.streams.iter_mut() {
            stream.receive_window += growth;
        }
        settings::write_window(output, window);
    }

    /// Sends PING. [`Step::Pong`](super::Step::Pong) returns the answer.
    pub fn ping(&mut self, payload: [u8; 8], output: &mut Vec<u8>) {
        self.pings += 1;
        frame::write(output, kind::PING, 0, 0, &payload);
    }

    /// Sends GOAWAY: open streams continue, and new streams are ignored.
    pub fn go_away(&mut self, code: Code, output: &mut Vec<u8>) {
        self.going_away = true;
        frame::write_go_away(output, self.last_stream, code);
    }

    fn write_block(&mut self, id: u32, block: &Block, varying: &[u8], end: bool, output: &mut Vec<u8>) {
        let start = output.len();
        output.extend_from_slice(&[0; HEADER]);
        if std::mem::take(&mut self.table_size_changed) {
            hpack::table_size(output, self.table_size);
        }
        let encoding = match (&block.indexed, self.sent) {
            (Some(indexed), Sent::Set(set)) if set == indexed.set => &indexed.later,
            (Some(indexed), Sent::Nothing) if indexed.size <= self.table_size => {
                self.sent = Sent::Set(indexed.set);
                &indexed.first
            }
            _ => &block.plain,
        };
        let (pseudo, others) = encoding.bytes.split_at(encoding.pseudo);
        output.extend_from_slice(pseudo);
        output.extend_from_slice(varying);
        output.extend_from_slice(others);
        let flags = if end { flag::END_STREAM } else { 0 };
        frame::split_block(output, start, flags, id);
    }
}

/// Number of released bytes at which a WINDOW_UPDATE is sent. It is half of the window, so that the other
/// half is always open.
fn threshold(window: u32) -> u32 {
    (window / 2).max(1)
}
