//! Clients that stop reading a stream of tokens for a time.
//!
//! With HTTP/1, the worker stops reading the connection. With HTTP/2, other streams need the connection, so
//! the worker only stops extending the window of this stream. Data that fit into the window still arrive.

use super::Worker;
use super::streams::codec_of;
use super::talks::Talk;
use super::token_reader::Paused;
use crate::codec::Codec;
use crate::event_loop::EventLoop;
use crate::exchange::ExchangeId;
use hoptax_format::llm::Pause;

impl Talk {
    /// Begins the pause if enough tokens have arrived. Returns its length, nanoseconds.
    pub(super) fn begin_pause(&mut self, pause: Pause) -> Option<u64> {
        if self.received.different() < u64::from(pause.after_tokens) {
            return None;
        }
        let tokens = self.tokens.as_ref().filter(|tokens| tokens.pause.is_none())?;
        let per_token = self.per_token(tokens.first);
        self.tokens.as_mut()?.pause = Some(Paused { per_token, is_over: false });
        Some(pause.time_ns.max(1))
    }

    /// True while the client reads nothing.
    pub(super) fn is_paused(&self) -> bool {
        let pause = self.tokens.as_ref().and_then(|tokens| tokens.pause);
        pause.is_some_and(|pause| !pause.is_over)
    }

    /// Called when the time without reading is over.
    pub(super) fn end_pause(&mut self) {
        if let Some(pause) = self.tokens.as_mut().and_then(|tokens| tokens.pause.as_mut()) {
            pause.is_over = true;
        }
    }
}

impl<C: Codec> Worker<'_, C> {
    /// HTTP/1: called when a part of a stream was read, and more of it will come. Stops reading the
    /// connection if the client pauses.
    pub(super) fn stop_reading<L: EventLoop>(&self, io: &mut L, id: ExchangeId) {
        if self.messages.as_ref().is_some_and(|messages| messages.talks[id.index()].is_paused()) {
            io.pause(self.token(self.connection_of(id)));
        }
    }

    /// HTTP/2: called when a pause begins. The server gets no window for the stream.
    pub(super) fn hold_window(&mut self, id: ExchangeId) {
        if !C::STREAMS {
            return;
        }
        let (connection, present) = (self.connection_of(id), self.is_present(id));
        if let Some(codec) = codec_of(&mut self.connections, connection, present)
            && let Some((wire, _)) = codec.parts()
        {
            wire.hold(self.exchanges[id.index()].stream.id);
        }
    }

    /// Called when a pause is over.
    pub(super) fn read_on<L: EventLoop>(&mut self, io: &mut L, id: ExchangeId, now: u64) {
        let Some(messages) = &mut self.messages else { return };
        messages.talks[id.index()].due = None;
        messages.talks[id.index()].end_pause();
        let connection = self.connection_of(id);
        if !C::STREAMS {
            return io.resume(self.token(connection));
        }
        let present = self.is_present(id);
        let Some(codec) = codec_of(&mut self.connections, connection, present) else { return };
        codec.prepare(&mut self.scratch.pieces);
        let Some((wire, out)) = codec.parts() else { return };
        wire.end_hold(self.exchanges[id.index()].stream.id, out);
        if out.is_empty() {
            self.scratch.pieces.give_back(std::mem::take(out));
        } else if present {
            self.list(connection);
        } else {
            self.finish_former(io, connection, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::llm::{Api, TokenCounts, TokenSpec};
    use hoptax_format::messages::{StreamKind, StreamSpec};

    #[test]
    fn a_stream_pauses_once_and_its_time_per_token_is_that_before() {
        let pause = Pause { after_tokens: 3, time_ns: 50 };
        let tokens =
            TokenSpec { api: Api::OpenAi, usage: false, leave: None, pause: Some(pause), goodput: None };
        let spec = StreamSpec { tokens: Some(tokens), ..StreamSpec::grpc(StreamKind::ServerStream, 5, 0) };
        let mut talk = Talk { tokens: Some(Box::default()), ..Talk::default() };
        for (at, begins) in [(100, None), (110, None), (130, Some(50)), (1000, None)] {
            talk.tokens.as_mut().expect("set").first.get_or_insert(at);
            talk.received.message(None, (at, 0), spec);
            assert_eq!((talk.begin_pause(pause), talk.is_paused()), (begins, begins.is_some()), "{at}");
            if begins.is_some() {
                talk.end_pause();
            }
        }
        let seen = TokenCounts { paused: 1, ..TokenCounts::default() };
        assert_eq!(talk.take_tokens(spec), Some((seen, Some(15))));
        assert!(!talk.is_paused(), "the next stream");
    }
}
