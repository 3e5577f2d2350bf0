//! What fills the event streams of an instance.

use super::answer::Answers;
use super::events::Events;
use super::llm::Llm;
use super::stream::{EventStream, Next, Sent};

/// The events and the language model of an instance.
#[derive(Debug, Clone)]
pub(super) struct Sources {
    pub(super) events: Option<Events>,
    pub(super) llm: Option<Llm>,
}

impl Sources {
    /// The heads of all streams.
    pub(super) fn answers_mut(&mut self) -> impl Iterator<Item = &mut Answers> {
        let events = self.events.iter_mut().map(Events::answers_mut);
        events.chain(self.llm.iter_mut().map(Llm::answers_mut))
    }

    /// The heads of streams with events, or of the language model's.
    pub(super) fn answers(&self, is_of_model: bool) -> Option<&Answers> {
        match is_of_model {
            true => self.llm.as_ref().map(Llm::answers),
            false => self.events.as_ref().map(Events::answers),
        }
    }

    /// Like [`Sources::answers`].
    pub(super) fn answers_of(&mut self, is_of_model: bool) -> Option<&mut Answers> {
        match is_of_model {
            true => self.llm.as_mut().map(Llm::answers_mut),
            false => self.events.as_mut().map(Events::answers_mut),
        }
    }

    /// True if the parts of an event are sent one by one.
    pub(super) fn are_split(&self, stream: &EventStream) -> bool {
        match stream.completion {
            Some(_) => self.llm.as_ref().is_some_and(Llm::is_split),
            None => self.events.as_ref().is_some_and(Events::is_split),
        }
    }

    /// What a stream does at the time `now`.
    pub(super) fn next(&self, stream: &EventStream, now: u64) -> Next {
        match (&stream.completion, &self.llm, &self.events) {
            (Some(of), Some(llm), _) => llm.next(stream, of, now),
            (None, _, Some(events)) => events.next(stream, now),
            _ => Next::End,
        }
    }

    /// The rest of the part that is sent next, and whether it ends the stream. `next` is [`Next::Send`] or
    /// [`Next::Comment`].
    pub(super) fn part(&mut self, stream: &EventStream, next: Next) -> (&[u8], bool) {
        match (&stream.completion, &mut self.llm, &mut self.events) {
            (Some(of), Some(llm), _) => llm.part(stream, of, next),
            (None, _, Some(events)) => events.part(stream, next),
            _ => (&[], true),
        }
    }

    /// Called when the next bytes of the part that [`Sources::part`] has returned were sent. Returns what is
    /// now complete.
    pub(super) fn sent(&self, stream: &mut EventStream, bytes: usize, next: Next, now: u64) -> Sent {
        match (stream.completion, &self.llm, &self.events) {
            (Some(mut of), Some(llm), _) => {
                let sent = llm.sent(stream, &mut of, (bytes, next), now);
                stream.completion = Some(of);
                sent
            }
            (None, _, Some(events)) => {
                Sent { events: events.sent(stream, bytes, next, now), ..Sent::default() }
            }
            _ => Sent::default(),
        }
    }
}
