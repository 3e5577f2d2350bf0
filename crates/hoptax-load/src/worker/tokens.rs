//! Streams of tokens: the events of language models.
//!
//! An event with content is a message. Other events begin or end the stream, or state its number of tokens. A
//! response is a success if it is complete, announces its end, and has no error event. If the client leaves
//! before the end, the rest does not matter.

use super::Worker;
use super::streams::codec_of;
use super::talks::Talk;
use crate::codec::Codec;
use crate::event_loop::EventLoop;
use crate::exchange::ExchangeId;
use crate::recorder::Times;
use hoptax_format::llm::{Leave, TokenCounts, TokenLimits, TokenSpec};
use hoptax_format::messages::StreamSpec;
use hoptax_format::record::Cause;
use hoptax_wire::http2::Code;

const UNENDED: &str = "the stream of tokens did not announce its end";
const ERROR: &str = "the server sent an error event within the stream of tokens";

impl Talk {
    /// Cause and description of the failure of a complete response with this status. `None` if it is no
    /// failure, or has no readable stream of tokens: it has an error status, or it is compressed.
    pub(super) fn token_fault(&self, spec: StreamSpec, status: u16) -> Option<(Cause, &'static str)> {
        let tokens = self.tokens.as_ref().filter(|_| spec.tokens.is_some())?;
        if !(200..300).contains(&status) || self.events.is_encoded {
            return None;
        }
        match (tokens.has_error, tokens.has_ended) {
            (true, _) => Some((Cause::StreamError, ERROR)),
            (false, false) => Some((Cause::StreamUnended, UNENDED)),
            (false, true) => None,
        }
    }

    /// Called when an exchange has its outcome. Returns the counts of its stream of tokens, and the time per
    /// token (nanoseconds) if known. `None` if the exchange has no such stream.
    pub(super) fn take_tokens(&mut self, spec: StreamSpec) -> Option<(TokenCounts, Option<u64>)> {
        let tokens = std::mem::take(&mut **self.tokens.as_mut().filter(|_| spec.tokens.is_some())?);
        // Anthropic also states a number at the beginning, which is not final.
        let usage = tokens.usage.filter(|_| tokens.has_ended);
        let counts = TokenCounts {
            ended: tokens.has_ended.into(),
            errors: tokens.has_error.into(),
            paused: tokens.pause.is_some_and(|pause| pause.is_over).into(),
            usage: usage.is_some().into(),
            usage_tokens: usage.unwrap_or(0),
            good: spec.tokens.and_then(|tokens| tokens.goodput).map(|_| 0),
            ..TokenCounts::default()
        };
        let per_token = match tokens.pause {
            Some(pause) => pause.per_token,
            None => self.per_token(tokens.first),
        };
        Some((counts, per_token))
    }

    /// Time per token so far, nanoseconds, if the first one arrived at `first`.
    pub(super) fn per_token(&self, first: Option<u64>) -> Option<u64> {
        let took = self.received.latest.zip(first).map(|(last, first)| last.at.saturating_sub(first));
        let others = self.received.different().saturating_sub(1);
        took.and_then(|took| took.checked_div(others))
    }

    /// Like [`Self::take_tokens`], for a response that was complete at `now`. Also checks the limits of
    /// goodput, which only a complete response can keep.
    pub(super) fn end_tokens(
        &mut self,
        spec: StreamSpec,
        (times, now): (Times, u64),
        is_success: bool,
    ) -> Option<(TokenCounts, Option<u64>)> {
        let first = self.tokens.as_ref().and_then(|tokens| tokens.first);
        let (counts, per_token) = self.take_tokens(spec)?;
        let first_content = first.zip(times.sent).map(|(first, sent)| first.saturating_sub(sent));
        let response_time = now.saturating_sub(times.scheduled);
        let is_good = |limits: TokenLimits| {
            // A check can expect the server to refuse, and a refusal is no stream.
            is_success && counts.ended > 0 && limits.hold(first_content, per_token, response_time)
        };
        let good = spec.tokens.and_then(|tokens| tokens.goodput).map(|limits| is_good(limits).into());
        Some((TokenCounts { good, ..counts }, per_token))
    }

    /// Nanoseconds until the client leaves, or until its pause ends. `None` if too few tokens have arrived
    /// for either.
    pub(super) fn acts_after(&mut self, tokens: TokenSpec) -> Option<u64> {
        match tokens.pause {
            None => self.has_enough(tokens).then_some(1),
            Some(pause) => self.begin_pause(pause),
        }
    }

    /// True if the client leaves after a number of tokens, and they have arrived.
    fn has_enough(&self, tokens: TokenSpec) -> bool {
        match tokens.leave {
            Some(Leave::AfterTokens(most)) => self.received.different() >= u64::from(most),
            Some(Leave::AfterNs(_)) | None => false,
        }
    }
}

impl<C: Codec> Worker<'_, C> {
    /// The settings of the stream of tokens of an exchange. `None` if it has no such stream.
    pub(super) fn token_spec(&self, id: ExchangeId) -> Option<TokenSpec> {
        let times = self.exchanges[id.index()].request?;
        self.setup.mix.target(times.target).stream.as_ref()?.spec.tokens
    }

    /// Like [`Talk::token_fault`], for the complete response of an exchange.
    #[inline]
    pub(super) fn token_fault(&self, id: ExchangeId) -> Option<(Cause, &'static str)> {
        let messages = self.messages.as_ref()?;
        let exchange = &self.exchanges[id.index()];
        let stream = self.setup.mix.target(exchange.request?.target).stream.as_ref()?;
        messages.talks[id.index()].token_fault(stream.spec, exchange.answer.status)
    }

    /// Called when the client leaves a stream of tokens on purpose. With HTTP/1, this ends the connection. It
    /// is no failure, so the next request gets a new connection at once.
    pub(super) fn leave<L: EventLoop>(&mut self, io: &mut L, id: ExchangeId, now: u64) {
        let request = self.exchanges[id.index()].request;
        let (Some(messages), Some(times)) = (&mut self.messages, request) else { return };
        let target = self.setup.mix.target(times.target);
        let Some(stream) = &target.stream else { return };
        let talk = &mut messages.talks[id.index()];
        // Only gaps count as lost: the client did not wait for later messages.
        self.recorder.messages_lost(times.scheduled, now, talk.received.missing(), 0);
        if let Some((counts, per_token)) = talk.take_tokens(stream.spec) {
            self.recorder.tokens_ended(times.scheduled, (TokenCounts { left: 1, ..counts }, per_token));
        }
        messages.end(id, stream.spec);
        let (connection, present) = (self.connection_of(id), !C::STREAMS || self.is_present(id));
        if C::STREAMS
            && let Some(codec) = codec_of(&mut self.connections, connection, present)
            && let Some((wire, out)) = codec.parts()
        {
            // Always reset, so that the server notices that the client has left. `close_endless` retires the
            // connection after many resets.
            wire.reset(self.exchanges[id.index()].stream.id, Code::CANCEL, out);
        }
        self.close_endless(io, id, now, false);
        let exchange = &mut self.exchanges[id.index()];
        exchange.request = None;
        let mut response = exchange.answer.response(target);
        if response.status == 0 {
            // The head has not arrived, so there is nothing to check.
            response.failed = None;
        }
        self.active -= 1;
        let counts = self.recorder.ended_by_client(times, Some(now), response);
        self.connections[connection.index()].answered += u32::from(counts);
        if C::STREAMS && present {
            self.send_waiting(connection, now);
        }
        self.freed(io, id, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::llm::Api;
    use hoptax_format::messages::StreamKind;

    #[test]
    fn what_a_stream_has_shown_is_taken_once() {
        let leave = Some(Leave::AfterTokens(3));
        let tokens = TokenSpec { api: Api::OpenAi, usage: false, leave, pause: None, goodput: None };
        let other = StreamSpec::grpc(StreamKind::ServerStream, 3, 0);
        let spec = StreamSpec { tokens: Some(tokens), ..other };
        let mut talk = Talk { tokens: Some(Box::default()), ..Talk::default() };
        let cause = |talk: &Talk, status| talk.token_fault(spec, status).map(|fault| fault.0);
        for (at, event, is_enough, fault) in [
            (100, r#"{"content":"hi"}"#, false, Some(Cause::StreamUnended)),
            (110, r#"{"content":"hi"}"#, false, Some(Cause::StreamUnended)),
            (130, r#"{"content":"hi"}"#, true, Some(Cause::StreamUnended)),
            (140, r#"{"output_tokens":5}"#, true, Some(Cause::StreamUnended)),
            (150, "[DONE]", true, None),
            (160, r#"{"error":{}}"#, true, Some(Cause::StreamError)),
        ] {
            let reader = talk.tokens.as_mut().expect("set");
            reader.scan.read(event.as_bytes());
            if reader.event_ends(false).has_content {
                reader.first.get_or_insert(at);
                talk.received.message(None, (at, 0), spec);
            }
            assert_eq!((talk.has_enough(tokens), cause(&talk, 200)), (is_enough, fault), "{event}");
            assert_eq!([302, 429].map(|status| cause(&talk, status)), [None; 2], "no stream");
        }
        assert_eq!((talk.token_fault(other, 200), talk.take_tokens(other)), (None, None));
        let seen = TokenCounts { ended: 1, errors: 1, usage: 1, usage_tokens: 5, ..TokenCounts::default() };
        assert_eq!(talk.take_tokens(spec), Some((seen, Some(15))));
        assert_eq!(talk.take_tokens(spec), Some((TokenCounts::default(), None)));
        let reader = talk.tokens.as_mut().expect("set");
        reader.scan.read(br#"{"type":"message_start","message":{"usage":{"output_tokens":1}}}"#);
        reader.event_ends(false);
        assert_eq!(talk.take_tokens(spec), Some((TokenCounts::default(), None)), "it has not ended");
    }
}
