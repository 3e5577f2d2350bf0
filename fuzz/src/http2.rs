//! HTTP/2 connections. Wherever the input is split, the connection gives the same events, with and without a
//! cache of heads. Heads obey RFC 9113, and bodies have the announced length.

use super::split::{self, Event, Step, same_however_cut};
use hoptax_wire::http2::{
    Block, Config, Connection, Fault, FieldList, RequestParts, Sections, Step as Found, request_fields,
};
use std::collections::BTreeMap;

/// The first byte determines the role and the settings. The rest of `input` is what the peer sends, for a
/// client after its SETTINGS, and for a server after the preface.
pub fn holds(input: &[u8]) -> bool {
    let Some((&options, input)) = input.split_first() else { return false };
    let events = same_however_cut(input, |pieces| read(options, pieces, true));
    assert_eq!(read(options, &[input], false), events, "without a cache");
    !matches!(events.last(), Some(Event::Malformed(_)))
}

/// A connection that is ready for `input`.
fn connection(options: u8) -> Connection {
    let small = options & 2 == 2;
    let config = Config {
        streams: 2,
        window: if small { 5 } else { 1 << 20 },
        header_table: if small { 0 } else { 4096 },
        max_fields: if small { 200 } else { 65_536 },
        connect_protocol: options & 4 == 4,
        ..Config::default()
    };
    let mut output = Vec::new();
    let (mut sections, is_client) = (Sections::new(), options & 1 == 1);
    if !is_client {
        let mut server = Connection::server(config, &mut output);
        server.advance(hoptax_wire::http2::PREFACE, &mut sections, &mut output).expect("a valid preface");
        return server;
    }
    let mut client = Connection::client(config, &mut output);
    client.advance(&[0, 0, 0, 4, 0, 0, 0, 0, 0], &mut sections, &mut output).expect("valid settings");
    let parts =
        RequestParts { method: "GET", scheme: "http", authority: "a", path: "/", content_length: None };
    let get = Block::plain(&request_fields(parts, []).expect("a valid request"));
    for tag in 0..2 {
        client.request(tag, options & 8 == 8, &get, &[], true, &mut output).expect("a free stream");
    }
    client
}

fn read(options: u8, pieces: &[&[u8]], with_cache: bool) -> Vec<Event> {
    let mut connection = connection(options);
    let (mut sections, mut output, mut written) = (Sections::new(), Vec::new(), 0);
    // For each stream: the length of the body so far, and the announced length.
    let mut bodies: BTreeMap<u32, (u64, Option<u64>)> = BTreeMap::new();
    let mut ended = None;
    split::events(pieces, |input| -> Step {
        if let Some(stream) = ended.take() {
            return Some((0, Some(Event::Head(format!("end of {stream}")))));
        }
        if !with_cache {
            sections = Sections::new();
        }
        let (consumed, found) = match connection.advance(input, &mut sections, &mut output) {
            Ok(found) => found,
            Err(fault) => {
                assert!(ends_with_go_away(&output, fault));
                assert_eq!(connection.advance(input, &mut sections, &mut output), Err(fault));
                return Some((0, Some(Event::Malformed(fault.to_string()))));
            }
        };
        written += consumed;
        // With a window of 5 bytes, each 2 bytes of data cause a WINDOW_UPDATE of 13 bytes.
        assert!(output.len() <= 7 * written + 100, "{} bytes for {written}", output.len());
        let event = match found {
            Found::NeedMore => return (consumed > 0).then_some((consumed, None)),
            Found::Body { stream, data, end } => {
                let body = bodies.get_mut(&stream.id).expect("the head comes first");
                body.0 += data.len() as u64;
                assert!(body.1.is_none_or(|length| body.0 <= length));
                if end {
                    assert!(body.1.is_none_or(|length| body.0 == length || options & 8 == 8 || body.0 == 0));
                    ended = Some(stream.id);
                }
                Event::Body(input[data].to_vec())
            }
            Found::Head { stream, end } => {
                check(sections.head.fields(), true);
                bodies.insert(stream.id, (0, sections.head.content_length()));
                Event::Head(format!("{stream:?} {end} {}", describe(sections.head.fields())))
            }
            Found::Interim { stream } => {
                assert!((100..200).contains(&sections.head.status()));
                Event::Head(format!("{stream:?} {}", describe(sections.head.fields())))
            }
            Found::Trailers { stream } => {
                check(sections.trailers.fields(), false);
                Event::Head(format!("{stream:?} {}", describe(sections.trailers.fields())))
            }
            Found::GoAway { last, code, debug } => {
                Event::Head(format!("{last} {code} {}", input[debug].escape_ascii()))
            }
            other => Event::Head(format!("{other:?}")),
        };
        Some((consumed, Some(event)))
    })
}

fn ends_with_go_away(output: &[u8], fault: Fault) -> bool {
    let Some(frame) = output.last_chunk::<17>() else { return false };
    frame.starts_with(&[0, 0, 8, 7, 0, 0, 0, 0, 0]) && frame.ends_with(&fault.code().0.to_be_bytes())
}

/// Checks names, values and the order of pseudo-headers.
fn check(fields: &FieldList, with_pseudo: bool) {
    let mut ended = !with_pseudo;
    for (name, value) in fields.iter() {
        let is_pseudo = name.starts_with(b":");
        assert!(!(is_pseudo && ended));
        ended |= !is_pseudo;
        assert!(!name.is_empty() && !name.iter().any(u8::is_ascii_uppercase));
        assert!(!value.iter().any(|byte| b"\0\r\n".contains(byte)));
        assert!(![&b"connection"[..], b"transfer-encoding", b"upgrade"].contains(&name));
    }
}

fn describe(fields: &FieldList) -> String {
    let lines =
        fields.iter().map(|(name, value)| format!("{}: {}", name.escape_ascii(), value.escape_ascii()));
    lines.collect::<Vec<_>>().join(", ")
}
