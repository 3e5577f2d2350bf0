//! Server-sent events: when they arrive, and whether they are unchanged.

use super::link::{Body, Head, Link, NOTICE, Side, value_of};
use super::script::{ENDS, EVENT, HEARTBEAT, MARKED, STEPS};
use crate::conformance::http2::side::{Deviation, Outcome};
use hoptax_wire::events::{LAST_EVENT_ID, MEDIA_TYPE};
use std::time::Duration;

const ACCEPT: (&str, &str) = ("accept", MEDIA_TYPE);

/// A response that is being read.
pub(super) struct Stream<'a> {
    pub(super) side: &'a Side<'a>,
    pub(super) link: Link,
    pub(super) number: u64,
}

impl<'a> Stream<'a> {
    /// Sends the request, and waits for the head of the response.
    fn open(side: &'a Side<'a>, path: &str, headers: &[(&str, &str)]) -> Result<Self, Deviation> {
        let (link, number) = side.get(path, &[&[ACCEPT][..], headers].concat())?;
        Ok(Self { side, link, number })
    }

    /// Waits for the head.
    fn head(&mut self, limit: Duration) -> Result<Head, Deviation> {
        self.link.until(limit, |link| Head::read(&link.input).is_some());
        match Head::read(&self.link.input) {
            Some(head) if head.status() == 200 => Ok(head),
            Some(head) => Err(Deviation(format!("status {} instead of 200", head.status()))),
            None if self.link.is_over => Err(Deviation::new("the connection ends early")),
            None => Err(Deviation::new("the head of the response waits for the first event")),
        }
    }

    pub(super) fn body(link: &Link) -> Body {
        match Head::read(&link.input) {
            Some(head) => Body::read(&head, &link.input[head.length..], link.is_over),
            None => Body::default(),
        }
    }

    /// Whether this number of bytes of the body arrives in time.
    fn arrives(&mut self, length: usize) -> bool {
        let patience = self.side.patience;
        self.link.until(patience, |link| Self::body(link).bytes.len() >= length)
    }

    /// Lets the upstream do its next step.
    pub(super) fn release(&self) {
        self.side.upstream.release(self.number);
    }

    /// Closes the connection. The upstream must notice.
    pub(super) fn leave(self) -> Outcome {
        let Self { side, link, number } = self;
        drop(link);
        match side.sees(number, NOTICE, |seen| seen.left) {
            true => Ok(()),
            false => Err(Deviation::new("the upstream does not see within 1 s that the client left")),
        }
    }

    /// Waits until the body is whole, and compares it.
    fn ends_with(&mut self, expected: &[u8]) -> Outcome {
        self.link.until(self.side.patience, |link| Self::body(link).is_whole);
        let body = Self::body(&self.link);
        match body.is_whole {
            _ if body.bytes.len() < expected.len() => Err(Deviation::new("a part of the events is missing")),
            _ if body.bytes != expected => Err(Deviation::new("the bytes of the events are changed")),
            false => Err(Deviation::new("the end of the stream does not arrive")),
            true => Ok(()),
        }
    }
}

pub(super) fn head(side: &Side<'_>) -> Outcome {
    let mut stream = Stream::open(side, "/steps", &[])?;
    stream.head(side.patience)?;
    (0..STEPS).for_each(|_| stream.release());
    stream.ends_with(&EVENT.repeat(STEPS))
}

pub(super) fn first(side: &Side<'_>) -> Outcome {
    let mut stream = Stream::open(side, "/steps", &[])?;
    stream.release();
    if !stream.arrives(EVENT.len()) {
        return Err(Deviation::new("the first event does not arrive before the second is sent"));
    }
    match Stream::body(&stream.link).bytes == EVENT {
        true => Ok(()),
        false => Err(Deviation::new("other bytes arrive instead of the first event")),
    }
}

pub(super) fn each(side: &Side<'_>) -> Outcome {
    let mut stream = Stream::open(side, "/steps", &[])?;
    for number in 1..=STEPS {
        stream.release();
        if !stream.arrives(number * EVENT.len()) {
            return Err(Deviation(format!("event {number} waits for the next one")));
        }
    }
    stream.ends_with(&EVENT.repeat(STEPS))
}

pub(super) fn comment(side: &Side<'_>) -> Outcome {
    let mut stream = Stream::open(side, "/comment", &[])?;
    if !stream.arrives(HEARTBEAT.len()) {
        return Err(Deviation::new("a comment waits for the next event"));
    }
    stream.release();
    stream.ends_with(&[HEARTBEAT, EVENT].concat())
}

pub(super) fn line_ends(side: &Side<'_>) -> Outcome {
    Stream::open(side, "/ends", &[])?.ends_with(ENDS)
}

pub(super) fn mark(side: &Side<'_>) -> Outcome {
    Stream::open(side, "/mark", &[])?.ends_with(MARKED)
}

pub(super) fn last_id(side: &Side<'_>) -> Outcome {
    let sent = (LAST_EVENT_ID, "event 7");
    let mut stream = Stream::open(side, "/ends", &[sent])?;
    stream.ends_with(ENDS)?;
    let seen = side.upstream.seen(stream.number);
    for (name, value) in [sent, ACCEPT] {
        let seen = value_of(&seen.head, name);
        if seen != value {
            return Err(Deviation(format!("the upstream saw {name} `{seen}` instead of `{value}`")));
        }
    }
    Ok(())
}

pub(super) fn silence(side: &Side<'_>) -> Outcome {
    let mut stream = Stream::open(side, "/steps", &[])?;
    stream.release();
    stream.arrives(EVENT.len());
    let ends = stream.link.until(side.silence, |link| link.is_over || Stream::body(link).is_whole);
    if ends || stream.link.is_over {
        return Err(Deviation(format!("the stream ends within {:?} of silence", side.silence)));
    }
    (1..STEPS).for_each(|_| stream.release());
    stream.ends_with(&EVENT.repeat(STEPS))
}

/// The end must arrive although the connection can stay open.
pub(super) fn end(side: &Side<'_>) -> Outcome {
    let mut stream = Stream::open(side, "/steps", &[])?;
    (0..STEPS).for_each(|_| stream.release());
    stream.ends_with(&EVENT.repeat(STEPS))
}

/// The client must be able to distinguish a broken stream from a complete one.
pub(super) fn abort(side: &Side<'_>) -> Outcome {
    let mut stream = Stream::open(side, "/abort", &[])?;
    let ends = stream.link.until(side.patience, |link| link.is_over || Stream::body(link).is_whole);
    if Stream::body(&stream.link).is_whole {
        return Err(Deviation::new("a stream that broke off looks whole"));
    }
    match ends || stream.link.is_over {
        true => Ok(()),
        false => Err(Deviation::new("the client does not see that the stream broke off")),
    }
}

pub(super) fn leave(side: &Side<'_>) -> Outcome {
    let mut stream = Stream::open(side, "/steps", &[])?;
    stream.release();
    stream.arrives(EVENT.len());
    stream.leave()
}
