//! Test harness. The same bytes must produce the same events, no matter where they are split.

use super::{Malformed, RequestDecoder, RequestStep, ResponseDecoder, Step};

/// An event of a decoder. All parts of one body are joined into one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    Interim,
    Head(String),
    Body(Vec<u8>),
    End(bool),
    EndOfInput(Result<bool, Malformed>),
    Malformed(Malformed),
}

/// Distance between two positions at which the input is split. Miri uses a larger distance, because it is a
/// thousand times slower.
const STEP: usize = if cfg!(miri) { 11 } else { 1 };

/// Calls `check` with the whole `input`, then with `input` split into single bytes, and then with `input`
/// split in two at every position.
pub(crate) fn for_every_split(input: &[u8], check: impl Fn(&[&[u8]])) {
    check(&[input]);
    check(&input.chunks(1).collect::<Vec<_>>());
    for cut in (0..=input.len()).step_by(STEP) {
        let (left, right) = input.split_at(cut);
        check(&[left, right]);
    }
}

/// Feeds `pieces` to a response decoder. `to_head` has one element per expected response. The element is true
/// if the request used the method HEAD.
pub(super) fn responses(pieces: &[&[u8]], to_head: &[bool], ends: bool) -> Vec<Event> {
    let mut decoder = ResponseDecoder::new();
    let mut due = to_head.iter();
    due.next().into_iter().for_each(|&to_head| decoder.begin(to_head));
    let mut events = Vec::new();
    let whole = feed(pieces, |input| {
        let step = match decoder.advance(input) {
            Ok(step) => step,
            Err(error) => return add(&mut events, Event::Malformed(error)),
        };
        let (consumed, event) = match step {
            Step::NeedMore => return None,
            Step::Interim { consumed } => (consumed, Event::Interim),
            Step::Head { consumed, head } => (consumed, Event::Head(format!("{head:?}"))),
            Step::Body { consumed, data } => (consumed, Event::Body(input[data].to_vec())),
            Step::End { consumed, keep_alive } => {
                due.next().into_iter().for_each(|&to_head| decoder.begin(to_head));
                (consumed, Event::End(keep_alive))
            }
        };
        add(&mut events, event);
        Some(consumed)
    });
    if ends && whole {
        events.push(Event::EndOfInput(decoder.end_of_input()));
    }
    events
}

pub(super) fn requests(pieces: &[&[u8]]) -> Vec<Event> {
    let mut decoder = RequestDecoder::new();
    let mut events = Vec::new();
    feed(pieces, |input| {
        let step = match decoder.advance(input) {
            Ok(step) => step,
            Err(error) => return add(&mut events, Event::Malformed(error)),
        };
        let (consumed, event) = match step {
            RequestStep::NeedMore => return None,
            RequestStep::Head { consumed, head } => {
                let text = |range| String::from_utf8_lossy(&input[range]).into_owned();
                let (method, target) = (text(head.method), text(head.target));
                assert_eq!(head.is_head, method == "HEAD");
                let rest = format!("{:?} {:?} keep_alive={}", head.version, head.framing, head.keep_alive);
                (consumed, Event::Head(format!("{method} {target} {rest}")))
            }
            RequestStep::Body { consumed, data } => (consumed, Event::Body(input[data].to_vec())),
            RequestStep::End { consumed, keep_alive } => (consumed, Event::End(keep_alive)),
        };
        add(&mut events, event);
        Some(consumed)
    });
    events
}

/// Calls `step` with the bytes that were not consumed so far, as a caller of a decoder does. Returns false,
/// and stops, if the input is malformed.
fn feed(pieces: &[&[u8]], mut step: impl FnMut(&[u8]) -> Option<usize>) -> bool {
    let mut kept = Vec::new();
    for piece in pieces {
        kept.extend_from_slice(piece);
        while let Some(consumed) = step(&kept) {
            if consumed == MALFORMED {
                return false;
            }
            kept.drain(..consumed);
        }
    }
    true
}

/// If the input is malformed, `step` returns this value instead of the number of consumed bytes. No input is
/// this long.
const MALFORMED: usize = usize::MAX;

fn add(events: &mut Vec<Event>, event: Event) -> Option<usize> {
    let malformed = matches!(event, Event::Malformed(_));
    match (events.last_mut(), event) {
        (_, Event::Body(data)) if data.is_empty() => {}
        (Some(Event::Body(earlier)), Event::Body(data)) => earlier.extend(data),
        (_, event) => events.push(event),
    }
    malformed.then_some(MALFORMED)
}
