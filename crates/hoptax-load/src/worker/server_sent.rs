//! Server-sent events: the messages of responses whose body is an event stream.
//!
//! An event has arrived when the empty line at its end has arrived. Each stamp in it counts as a message, and
//! an event without stamps counts as one. In a stream of tokens, an event without content is no message.

use super::Worker;
use super::event_reader::Read;
use super::talks::Talk;
use super::token_reader::TokenEvent;
use crate::codec::Codec;
use crate::exchange::ExchangeId;

impl<C: Codec> Worker<'_, C> {
    /// Reads a part of a response with events.
    pub(super) fn hear_events(&mut self, id: ExchangeId, now: u64, mut data: &[u8]) {
        let request = self.exchanges[id.index()].request;
        let (Some(messages), Some(times)) = (&mut self.messages, request) else { return };
        let Some(stream) = &self.setup.mix.target(times.target).stream else { return };
        let (spec, read) = (stream.spec, messages.reads);
        let talk = &mut messages.talks[id.index()];
        let Talk { events, received, tokens, .. } = talk;
        if events.is_encoded {
            // The data may contain events, so the time limit begins again.
            return self.timeouts.heard(id, now);
        }
        let mut tokens = tokens.as_deref_mut().filter(|_| spec.tokens.is_some());
        let after_pause = tokens.as_ref().is_some_and(|tokens| tokens.pause.is_some());
        let (had_message, mut has_heard) = (received.latest.is_some(), false);
        loop {
            let (consumed, step) = match &mut tokens {
                None => events.advance(data),
                Some(tokens) => events.advance_with(data, |part| tokens.scan.read(part)),
            };
            data = &data[consumed..];
            if step == Read::Event
                && let Some(tokens) = &mut tokens
            {
                let TokenEvent { is_first, has_content } = tokens.event_ends(!events.stamps.is_empty());
                self.recorder.token_event(times, now, is_first, has_content);
                if !has_content {
                    events.stamps.clear();
                    has_heard = true;
                    continue;
                }
                tokens.first.get_or_insert(now);
            }
            match step {
                Read::More => break,
                Read::Comment => self.recorder.comment_arrived(now),
                Read::Event if events.stamps.is_empty() => {
                    let (_, mut arrival) = received.message(None, (now, read), spec);
                    arrival.after_pause = after_pause;
                    self.recorder.message_arrived(times, arrival);
                }
                Read::Event => {
                    for (index, stamp) in events.stamps.drain(..).enumerate() {
                        let (_, mut arrival) = received.message(Some(stamp), (now, read), spec);
                        (arrival.merged_into_one, arrival.after_pause) = (index > 0, after_pause);
                        self.recorder.message_arrived(times, arrival);
                    }
                }
            }
            has_heard = true;
        }
        let is_first = !had_message && received.latest.is_some();
        if let Some(tokens) = spec.tokens
            && talk.due.is_none()
            && let Some(after) = talk.acts_after(tokens)
        {
            // The bytes of this read are still in use, so the client leaves at the next turn.
            talk.due = Some(now.saturating_add(after));
            messages.queue(id, now, None);
            if tokens.pause.is_some() {
                self.hold_window(id);
            }
        }
        if has_heard {
            self.timeouts.heard(id, now);
        }
        if is_first {
            self.first_message(id);
        }
    }

    /// Called when the first message of a response has arrived. This shows that the connection is useful,
    /// though the response may not end before the load does.
    pub(super) fn first_message(&mut self, id: ExchangeId) {
        self.pace.proved();
        let connection = self.connection_of(id);
        self.connections[connection.index()].failures = 0;
    }
}
