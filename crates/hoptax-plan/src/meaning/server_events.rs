//! Server-sent events: those that the built-in upstream sends, and those that targets expect.

use super::reader::{Reader, Timed};
use crate::raw::{BytesText, Placed, RawEvents, RawUpstreamEvents, Short};
use crate::{Upstream, UpstreamEvents, calls, event_streams, units};
use hoptax_format::messages::{ENDLESS, Stamp, StreamSpec, UNKNOWN};
use std::time::Duration;

/// The media type of events.
const MEDIA_TYPE: &str = "text/event-stream";

/// Maximum of `per_write` and of `split`.
const MOST_PARTS: u32 = 1000;

/// Reads the events of the built-in upstream.
pub(super) fn of_upstream(reader: &mut Reader<'_>, typed: Placed<RawUpstreamEvents>) -> UpstreamEvents {
    let Placed { place, value: typed } = typed;
    let RawUpstreamEvents { count, gap, bytes, first, per_write, split, heartbeat } = typed;
    let count_place = count.as_ref().map_or(place, |typed| typed.place);
    let gap_place = gap.as_ref().map_or(count_place, |typed| typed.place);
    let count = count.map_or(UpstreamEvents::USUAL_COUNT, |typed| reader.messages(&typed, "count"));
    let gap = reader.time(gap, Duration::ZERO);
    let bytes = length(reader, bytes.as_ref());
    let first = reader.time(first, Duration::ZERO);
    let per_write = reader.count(per_write.as_ref(), "per_write", 1, MOST_PARTS);
    // Each write has at least one byte.
    let parts = reader.count(split.as_ref(), "split", 1, MOST_PARTS.min(bytes));
    if let Some(split) = split.filter(|_| parts > 1 && per_write > 1) {
        let message = format!("`split` cuts single events, but `per_write` sends {per_write} at a time");
        reader.fault(split.place, message, "remove one of the two");
    }
    let heartbeat = heartbeat
        .and_then(|typed| reader.time_above_zero(&typed, "heartbeat", "write a longer time, or remove it"));
    if count == ENDLESS && gap.is_zero() {
        let message = "endless events without a `gap` would be sent without a pause";
        reader.fault(count_place, message, "add `gap`, such as 100ms");
    }
    reader.accept(place, event_streams::check_write(bytes, per_write));
    let events = UpstreamEvents { count, gap, bytes, first, per_write, split: parts, heartbeat };
    let silence = gap.max(first).min(heartbeat.unwrap_or(Duration::MAX));
    let length = events.length();
    reader.streams.push(Timed { place: gap_place, stream: events.stream(), length, silence, deadline: None });
    events
}

/// Reads the length of an event's data, bytes.
fn length(reader: &mut Reader<'_>, typed: Option<&Placed<BytesText>>) -> u32 {
    let read = typed.and_then(|typed| Some((typed.place, reader.unit(typed, units::bytes)?)));
    let Some((place, value)) = read else { return UpstreamEvents::USUAL_BYTES };
    let (least, most) = (Stamp::TEXT_LENGTH as u32, calls::LONGEST_MESSAGE as u32);
    if value < least {
        let message = format!("an event of {value} bytes has no room for its number and its time");
        reader.fault(place, message, format!("write at least {least}"));
    } else if value > most {
        reader.fault(place, format!("`bytes` is too large: {value}"), format!("write {most} or less"));
    }
    value.clamp(least, most)
}

/// The request of a target.
pub(super) struct Request<'a> {
    /// The key that makes the target something else than a plain request: `grpc` or `websocket`.
    pub(super) other: Option<&'static str>,
    pub(super) method: &'a str,
    pub(super) headers: &'a [(String, String)],
}

impl Request<'_> {
    /// True if the request accepts events, or says nothing about what it accepts.
    fn accepts_events(&self) -> bool {
        let is_accept = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("accept");
        let mut accepted = self.headers.iter().filter(is_accept).map(|(_, value)| value).peekable();
        accepted.peek().is_none() || accepted.any(|value| value.to_ascii_lowercase().contains(MEDIA_TYPE))
    }
}

/// Reads the events that a target expects. `None` if its response is an ordinary one. If the built-in
/// upstream has events, plain GETs expect them, unless the plan says otherwise.
pub(super) fn expected(
    reader: &mut Reader<'_>,
    typed: Option<Placed<Short<RawEvents, bool>>>,
    request: &Request<'_>,
    upstream: &Upstream,
) -> Option<StreamSpec> {
    let built_in = match upstream {
        Upstream::BuiltIn(built_in) => Some(built_in.events.as_ref()),
        Upstream::Running(_) => None,
    };
    let Some(Placed { place, value }) = typed else {
        let is_implied = request.other.is_none() && request.method == "GET" && request.accepts_events();
        return built_in.flatten().filter(|_| is_implied).map(UpstreamEvents::stream);
    };
    let typed = match value {
        Short::Word(false) => return None,
        Short::Word(true) => None,
        Short::Full(typed) => Some(typed),
    };
    let refusal = match (request.other, built_in, &typed) {
        (Some(other), ..) => {
            Some((format!("a target with `{other}` has no `events`"), "remove `events`".to_owned()))
        }
        _ if request.method == "HEAD" => Some((
            "the response to HEAD has no body, and so no events".to_owned(),
            "remove `events`, or use GET".to_owned(),
        )),
        (None, Some(_), Some(_)) => Some((
            "the events of the built-in upstream are set in `upstream`".to_owned(),
            "write `events: true` here, and upstream: { events: { count: 20, gap: 100ms } }".to_owned(),
        )),
        (None, Some(None), None) => Some((
            "the built-in upstream sends no events".to_owned(),
            "add upstream: { events: { count: 20, gap: 100ms } }".to_owned(),
        )),
        (None, Some(Some(_)), None) if !request.accepts_events() => Some((
            "the built-in upstream sends events only to requests that accept them".to_owned(),
            format!("remove the header `accept`, or add {MEDIA_TYPE} to it"),
        )),
        (None, None, Some(RawEvents { count: None, every: None })) => {
            Some(("`events` is empty".to_owned(), "write true, or add `count` or `every`".to_owned()))
        }
        _ => None,
    };
    if let Some((message, help)) = refusal {
        reader.fault(place, message, help);
        return None;
    }
    match built_in {
        Some(events) => events.map(UpstreamEvents::stream),
        None => Some(of_running(reader, typed.unwrap_or_default())),
    }
}

/// The events of an upstream that already runs. It may send comments between them, so nothing is known of
/// the time without any byte.
fn of_running(reader: &mut Reader<'_>, typed: RawEvents) -> StreamSpec {
    let RawEvents { count, every } = typed;
    let place = every.as_ref().map(|typed| typed.place).or(count.as_ref().map(|typed| typed.place));
    let messages = count.map_or(UNKNOWN, |typed| reader.messages(&typed, "count"));
    let every = reader.time(every, Duration::ZERO);
    let stream = StreamSpec::events(messages, u64::try_from(every.as_nanos()).unwrap_or(u64::MAX));
    if let Some(place) = place {
        let (length, silence) = (Duration::from_nanos(stream.length_ns()), Duration::ZERO);
        reader.streams.push(Timed { place, stream, length, silence, deadline: None });
    }
    stream
}

/// Adds the header that asks for events.
pub(super) fn add_header(headers: &mut Vec<(String, String)>) {
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept")) {
        headers.push(("accept".to_owned(), MEDIA_TYPE.to_owned()));
    }
}
