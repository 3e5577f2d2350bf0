//! Tests of whole connections. [`faults`] has an input for each fault.

mod faults;
mod floods;
mod flow;
mod messages;
mod pair;
mod sending;

use super::super::frame::{FrameHeader, HEADER, flag, kind};
use super::super::hpack::{Block, OutField};
use super::super::*;

/// An event of a connection. The parts of one body are joined.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Event {
    /// A stream and its new head: status or method, path, and the other fields.
    Head(u32, String, bool),
    Interim(u32, u16),
    Body(u32, String, bool),
    Trailers(u32, String),
    Reset(u32, Code, bool),
    Failed(u32, Fault),
    Writable(u32),
    Settings,
    GoAway(u32, Code, String),
    Pong([u8; 8]),
    Fault(Fault),
}

use Event::{Body, Failed, GoAway, Head, Interim, Reset, Trailers, Writable};

/// Feeds `pieces` to the connection, as a caller does. Returns the events and the bytes for the peer.
fn feed(connection: &mut Connection, pieces: &[&[u8]]) -> (Vec<Event>, Vec<u8>) {
    let (mut kept, mut events, mut output) = (Vec::new(), Vec::new(), Vec::new());
    let mut sections = Sections::new();
    for piece in pieces {
        kept.extend_from_slice(piece);
        loop {
            let (consumed, step) = match connection.advance(&kept, &mut sections, &mut output) {
                Ok(found) => found,
                Err(fault) => {
                    events.push(Event::Fault(fault));
                    return (events, output);
                }
            };
            let is_end = step == Step::NeedMore;
            if let Some(event) = event(step, &kept, &sections) {
                add(&mut events, event);
            }
            kept.drain(..consumed);
            if is_end {
                break;
            }
        }
        assert!(kept.len() < HEADER + frame::MAX_PAYLOAD, "{} bytes are kept", kept.len());
    }
    (events, output)
}

fn event(step: Step, input: &[u8], sections: &Sections) -> Option<Event> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(match step {
        Step::NeedMore => return None,
        Step::Head { stream, end } => {
            let head = &sections.head;
            let first = match head.path() {
                Some(path) => format!("{} {}", text(head.method()), text(path)),
                None => head.status().to_string(),
            };
            Head(stream.id, [first, fields(head.fields())].join(" ").trim_end().to_owned(), end)
        }
        Step::Interim { stream } => Interim(stream.id, sections.head.status()),
        Step::Body { stream, data, end } => Body(stream.id, text(&input[data]), end),
        Step::Trailers { stream } => Trailers(stream.id, fields(sections.trailers.fields())),
        Step::Reset { stream, code, unprocessed } => Reset(stream.id, code, unprocessed),
        Step::Failed { stream, fault } => Failed(stream.id, fault),
        Step::Writable { stream } => Writable(stream.id),
        Step::Settings => Event::Settings,
        Step::GoAway { last, code, debug } => GoAway(last, code, text(&input[debug])),
        Step::Pong(payload) => Event::Pong(payload),
    })
}

/// The fields that are not pseudo-headers.
fn fields(list: &FieldList) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes);
    let regular = list.iter().filter(|field| !field.0.starts_with(b":"));
    let lines: Vec<String> = regular.map(|(name, value)| format!("{}={}", text(name), text(value))).collect();
    lines.join(" ")
}

fn add(events: &mut Vec<Event>, event: Event) {
    if let (Some(Body(stream, earlier, end)), Body(next, data, ends)) = (events.last_mut(), &event)
        && stream == next
        && !*end
    {
        earlier.push_str(data);
        *end = *ends;
        return;
    }
    events.push(event);
}

/// Feeds `input` to copies of the connection in all splits, and asserts that the events are always
/// `expected`.
fn assert_events(connection: &Connection, input: &[u8], expected: &[Event]) {
    crate::http1::splits::for_every_split(input, |pieces| {
        assert_eq!(feed(&mut connection.clone(), pieces).0, expected);
    });
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write(&mut bytes, kind, flags, stream, payload);
    bytes
}

fn settings(entries: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (id, value) in entries {
        payload.extend_from_slice(&id.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    frame(kind::SETTINGS, 0, 0, &payload)
}

fn data(stream: u32, data: &[u8], end: bool) -> Vec<u8> {
    frame(kind::DATA, if end { flag::END_STREAM } else { 0 }, stream, data)
}

fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

fn reset(stream: u32, code: Code) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &code.0.to_be_bytes())
}

/// A block with these fields, as literals and references to the static table.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let fields: Vec<OutField> = fields
        .iter()
        .map(|(name, value)| OutField { name: (*name).into(), value: (*value).into() })
        .collect();
    Block::plain(&fields).bytes().to_vec()
}

fn headers(stream: u32, fields: &[(&str, &str)], end: bool) -> Vec<u8> {
    let flags = flag::END_HEADERS | if end { flag::END_STREAM } else { 0 };
    frame(kind::HEADERS, flags, stream, &block(fields))
}

const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")];
const OK: [(&str, &str); 1] = [(":status", "200")];

fn get() -> Block {
    let parts =
        RequestParts { method: "GET", scheme: "http", authority: "a", path: "/", content_length: None };
    Block::plain(&request_fields(parts, []).expect("valid"))
}

/// A client that has received the server's settings and has sent `requests` requests.
fn client(requests: u32) -> Connection {
    let mut client = Connection::client(Config::default(), &mut Vec::new());
    assert_eq!(feed(&mut client, &[&settings(&[])]).0, [Event::Settings]);
    for tag in 0..requests {
        client.request(tag, false, &get(), &[], true, &mut Vec::new()).expect("a free stream");
    }
    client
}

/// A server that has received the client's preface and settings.
fn server(config: Config) -> Connection {
    let mut server = Connection::server(config, &mut Vec::new());
    let input = [&PREFACE[..], &settings(&[])].concat();
    assert_eq!(feed(&mut server, &[&input]).0, [Event::Settings]);
    server
}

/// Kinds, streams and payloads of frames.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u32, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some(header) = FrameHeader::read(bytes) {
        let end = HEADER + header.length;
        frames.push((header.kind, header.stream, bytes[HEADER..end].to_vec()));
        bytes = &bytes[end..];
    }
    assert!(bytes.is_empty());
    frames
}
