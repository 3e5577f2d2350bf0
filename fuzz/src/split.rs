//! Feeds input to decoders in pieces. The events must not depend on where the input is split.

/// Maximum number of places at which input is cut in two. Short input is cut at every place, and long input
/// at evenly spaced places.
const CUTS: usize = 64;

/// An event of a decoder. The parts of one body are joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Head(String),
    Body(Vec<u8>),
    End(bool),
    Malformed(String),
}

/// Result of one step of a decoder: the bytes consumed and the event. `None` if the decoder needs more input.
pub(crate) type Step = Option<(usize, Option<Event>)>;

/// Feeds `pieces` to a decoder as a connection does: bytes that the decoder did not consume are kept and put
/// before the next piece. Returns the events.
pub(crate) fn events(pieces: &[&[u8]], mut step: impl FnMut(&[u8]) -> Step) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut kept: Vec<u8> = Vec::new();
    for piece in pieces {
        kept.extend_from_slice(piece);
        let mut idle = 0;
        while let Some((consumed, event)) = step(&kept) {
            assert!(consumed <= kept.len(), "{consumed} bytes consumed of {}", kept.len());
            idle = if consumed == 0 { idle + 1 } else { 0 };
            assert!(idle < 4, "no progress");
            kept.drain(..consumed);
            let malformed = matches!(event, Some(Event::Malformed(_)));
            add(&mut events, event);
            if malformed {
                return events;
            }
        }
    }
    events
}

fn add(events: &mut Vec<Event>, event: Option<Event>) {
    match (events.last_mut(), event) {
        (_, None) => {}
        (_, Some(Event::Body(data))) if data.is_empty() => {}
        (Some(Event::Body(earlier)), Some(Event::Body(data))) => earlier.extend(data),
        (_, Some(event)) => events.push(event),
    }
}

/// Asserts that `read` returns the same events for the whole `input`, for `input` byte by byte, and for
/// `input` cut in two. Also asserts that more bytes after `input` only add events. Returns the events.
pub(crate) fn same_however_cut(input: &[u8], read: impl Fn(&[&[u8]]) -> Vec<Event>) -> Vec<Event> {
    let whole = read(&[input]);
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(read(&bytes), whole, "byte by byte");
    for cut in (0..input.len()).step_by(input.len().div_ceil(CUTS).max(1)) {
        let (left, right) = input.split_at(cut);
        assert_eq!(read(&[left, right]), whole, "cut at {cut}");
        assert_begins(&whole, &read(&[left]), "the front of the input");
    }
    for behind in [&b"\r\n"[..], b"HTTP/1.1 200 OK\r\n\r\n", b"\0"] {
        assert_begins(&read(&[input, behind]), &whole, "with bytes after it");
    }
    whole
}

/// Asserts that the events `all` start with the events `front`. If `front` ends with a body, this body can be
/// longer in `all`.
fn assert_begins(all: &[Event], front: &[Event], how: &str) {
    let begins = match front.split_last() {
        Some((Event::Body(part), before)) => match all.get(before.len()) {
            Some(Event::Body(more)) => all.starts_with(before) && more.starts_with(part),
            _ => false,
        },
        _ => all.starts_with(front),
    };
    assert!(begins, "{how}: {all:?} does not start with {front:?}");
}
