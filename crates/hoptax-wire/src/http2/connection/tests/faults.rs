//! An input for each fault.

use super::*;

/// Who receives the input.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Receiver {
    /// A client that has just connected.
    NewClient,
    NewServer,
    /// A client with two requests in flight, on streams 1 and 3.
    Client,
    Server,
}

use Receiver::{Client, NewClient, NewServer, Server};

/// Inputs that end the connection with a fault. [`stream_faults`] has the faults that end only a stream.
fn connection_faults() -> Vec<(Fault, Receiver, Vec<u8>)> {
    let request = |block: &[u8]| frame(kind::HEADERS, 5, 1, block);
    let block_of =
        |size: usize| [&[0x88, 0, 1, b'a', 0x7f, 0x80, 0x80, 0x04][..], &vec![b'x'; size]].concat();
    let window = |initial: u32| settings(&[(4, initial)]);
    let mut too_long = frame(kind::HEADERS, 0, 1, &block_of(frame::MAX_PAYLOAD - 8));
    for _ in 0..4 {
        too_long.extend(frame(kind::CONTINUATION, 0, 1, &[b'x'; frame::MAX_PAYLOAD]));
    }
    let much: Vec<u8> = (0..5).flat_map(|_| data(1, &[0; 16_000], false)).collect();
    let small = [headers(1, &GET, false), headers(3, &GET, false)].concat();
    let acknowledged = frame(kind::SETTINGS, flag::ACK, 0, &[]);
    vec![
        (Fault::Http1Answer, NewClient, b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        (Fault::Preface, NewServer, b"GET / HTTP/1.1\r\n".to_vec()),
        (Fault::FirstFrame, NewClient, frame(kind::PING, 0, 0, &[0; 8])),
        (Fault::FirstFrame, NewClient, acknowledged.clone()),
        (Fault::FirstFrame, NewServer, [&PREFACE[..], &headers(1, &GET, true)].concat()),
        (Fault::FrameTooLong, Client, vec![0, 0x40, 1, 0, 0, 0, 0, 0, 1]),
        (Fault::BlockInterrupted, Client, [frame(kind::HEADERS, 0, 1, b""), data(1, b"", false)].concat()),
        (
            Fault::BlockInterrupted,
            Client,
            [frame(kind::HEADERS, 0, 1, b""), frame(kind::CONTINUATION, 0, 3, b"")].concat(),
        ),
        (Fault::BlockInterrupted, Client, [frame(kind::HEADERS, 0, 1, b""), frame(0xee, 0, 1, b"")].concat()),
        (Fault::StrayContinuation, Client, frame(kind::CONTINUATION, 4, 1, b"")),
        (Fault::StreamZero, Client, headers(0, &OK, true)),
        (Fault::StreamZero, Client, data(0, b"", true)),
        (Fault::StreamZero, Client, reset(0, Code::CANCEL)),
        (Fault::StreamZero, Client, frame(kind::PRIORITY, 0, 0, &[0; 5])),
        (Fault::NotStreamZero, Client, frame(kind::SETTINGS, 0, 1, b"")),
        (Fault::NotStreamZero, Client, frame(kind::PING, 0, 1, &[0; 8])),
        (Fault::NotStreamZero, Client, frame(kind::GOAWAY, 0, 1, &[0; 8])),
        (Fault::WrongStream, Client, headers(2, &OK, true)),
        (Fault::WrongStream, Server, headers(2, &GET, true)),
        (Fault::WrongStream, Server, [headers(5, &GET, true), headers(3, &GET, true)].concat()),
        (Fault::IdleStream, Client, headers(5, &OK, true)),
        (Fault::IdleStream, Client, data(5, b"", true)),
        (Fault::IdleStream, Server, data(1, b"", true)),
        (Fault::IdleStream, Server, reset(1, Code::CANCEL)),
        (Fault::IdleStream, Server, window_update(1, 1)),
        (Fault::ClosedStream, Client, [headers(1, &OK, true), headers(1, &OK, true)].concat()),
        (Fault::ClosedStream, Client, [headers(1, &OK, true), data(1, b"", true)].concat()),
        (
            Fault::ClosedStream,
            Server,
            [headers(1, &GET, false), reset(1, Code::CANCEL), data(1, b"", true)].concat(),
        ),
        (Fault::Padding, Client, frame(kind::DATA, flag::PADDED, 1, &[1])),
        (Fault::Padding, Client, frame(kind::HEADERS, flag::PADDED | 4, 1, &[2, 0x88])),
        (Fault::DataLength, Client, frame(kind::DATA, flag::PADDED, 1, &[])),
        (Fault::HeadersLength, Client, frame(kind::HEADERS, flag::PADDED | 4, 1, &[])),
        (Fault::HeadersLength, Client, frame(kind::HEADERS, flag::PRIORITY | 4, 1, &[0; 4])),
        (Fault::PriorityLength, Client, frame(kind::PRIORITY, 0, 1, &[0; 4])),
        (Fault::ResetLength, Client, frame(kind::RST_STREAM, 0, 1, &[0; 5])),
        (Fault::SettingsLength, Client, frame(kind::SETTINGS, 0, 0, &[0; 5])),
        (Fault::SettingsLength, Client, frame(kind::SETTINGS, flag::ACK, 0, &[0; 6])),
        (Fault::SettingsPush, Client, settings(&[(2, 1)])),
        (Fault::SettingsWindow, Client, window(0x8000_0000)),
        (Fault::SettingsFrameSize, Client, settings(&[(5, 16_383)])),
        (Fault::SettingsConnect, Client, settings(&[(8, 2)])),
        (Fault::Push, Client, frame(kind::PUSH_PROMISE, 4, 1, &[0, 0, 0, 2, 0x82])),
        (Fault::Push, Server, frame(kind::PUSH_PROMISE, 4, 1, &[0, 0, 0, 2, 0x82])),
        (Fault::PingLength, Client, frame(kind::PING, 0, 0, &[0; 7])),
        (Fault::GoAwayLength, Client, frame(kind::GOAWAY, 0, 0, &[0; 7])),
        (Fault::WindowUpdateLength, Client, frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3])),
        (Fault::ConnectionWindowZero, Client, window_update(0, 0)),
        (Fault::ConnectionWindowOverflow, Client, window_update(0, 0x7fff_ffff)),
        (Fault::SettingsWindowOverflow, Client, [window_update(1, 0x7fff_0000), window(65_536)].concat()),
        (Fault::ConnectionWindowExceeded, Server, [headers(1, &GET, false), much].concat()),
        (Fault::BlockTooLong, Client, too_long),
        (Fault::IntegerTruncated, Server, request(&[0xff])),
        (Fault::IntegerOverflow, Server, request(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff])),
        (Fault::StringTruncated, Server, request(&[0x40, 1])),
        (Fault::HuffmanPadding, Server, request(&[0x40, 0x81, 0])),
        (Fault::HuffmanEndOfString, Server, request(&[0x40, 0x84, 0xff, 0xff, 0xff, 0xff])),
        (Fault::Index, Server, request(&[0xbe])),
        (Fault::TableSize, Server, request(&[0x3f, 0xe2, 0x1f])),
        (Fault::TableSizeLate, Server, request(&[0x82, 0x20])),
        (Fault::TableSizeMissing, Server, [acknowledged, small].concat()),
    ]
}

/// Inputs on which stream 1 fails.
fn stream_faults() -> Vec<(Fault, Receiver, Vec<u8>)> {
    let with = |name, value| headers(1, &[&GET[..], &[(name, value)]].concat(), false);
    let answer = |name, value| headers(1, &[(":status", "200"), (name, value)], false);
    let long = "x".repeat(9000);
    let fields: Vec<_> = (0..8).map(|_| ("a", long.as_str())).collect();
    let long = Block::plain(&[OutField { name: ":status".into(), value: "200".into() }]).bytes().to_vec();
    let fields = [long, block(&fields)].concat();
    let mut long = frame(kind::HEADERS, 0, 1, b"");
    fields.chunks(16_000).for_each(|part| long.extend(frame(kind::CONTINUATION, 0, 1, part)));
    long.extend(frame(kind::CONTINUATION, flag::END_HEADERS, 1, b""));
    vec![
        (Fault::StreamWindowZero, Client, window_update(1, 0)),
        (Fault::StreamWindowOverflow, Client, window_update(1, 0x7fff_ffff)),
        (Fault::EndedStream, Server, [headers(1, &GET, true), data(1, b"x", false)].concat()),
        (Fault::EndedStream, Server, [headers(1, &GET, true), headers(1, &[("a", "b")], true)].concat()),
        (Fault::DataBeforeHead, Client, data(1, b"x", false)),
        (
            Fault::TrailersWithoutEnd,
            Client,
            [headers(1, &OK, false), headers(1, &[("a", "b")], false)].concat(),
        ),
        (Fault::InterimWithEnd, Client, headers(1, &[(":status", "100")], true)),
        (Fault::SectionTooLong, Client, long),
        (Fault::BodyTooLong, Client, [answer("content-length", "2"), data(1, b"xyz", false)].concat()),
        (Fault::BodyTooShort, Client, [answer("content-length", "2"), data(1, b"x", true)].concat()),
        (
            Fault::BodyTooShort,
            Client,
            [answer("content-length", "2"), headers(1, &[("a", "b")], true)].concat(),
        ),
        (Fault::BodyTooShort, Client, headers(1, &[(":status", "200"), ("content-length", "2")], true)),
        (Fault::BodyTooShort, Server, headers(1, &[&GET[..], &[("content-length", "2")]].concat(), true)),
        (Fault::ContentLength, Client, answer("content-length", "+2")),
        (
            Fault::ContentLength,
            Client,
            headers(1, &[(":status", "200"), ("content-length", "2"), ("content-length", "3")], false),
        ),
        (Fault::FieldName, Client, answer("Server", "x")),
        (Fault::FieldName, Client, answer("a b", "x")),
        (Fault::FieldName, Client, answer("", "x")),
        (Fault::FieldName, Client, answer("a:", "x")),
        (Fault::FieldValue, Client, answer("a", "x\ny")),
        (Fault::FieldValue, Client, answer("a", "x\0")),
        (Fault::FieldValue, Server, with("a", "x ")),
        (Fault::ConnectionField, Client, answer("connection", "close")),
        (Fault::ConnectionField, Client, answer("transfer-encoding", "chunked")),
        (Fault::PseudoField, Client, answer(":path", "/")),
        (Fault::PseudoField, Client, answer(":status", "200")),
        (Fault::PseudoField, Client, [headers(1, &OK, false), headers(1, &OK, true)].concat()),
        (Fault::PseudoField, Server, with(":protocol", "websocket")),
        (Fault::RequestFields, Server, headers(1, &GET[..3], true)),
        (Fault::ConnectFields, Server, headers(1, &[(":method", "CONNECT")], false)),
        (Fault::Status, Client, headers(1, &[("a", "b")], true)),
        (Fault::Status, Client, headers(1, &[(":status", "20")], true)),
        (Fault::Status, Client, headers(1, &[(":status", "099")], true)),
        (Fault::SwitchingProtocols, Client, headers(1, &[(":status", "101")], false)),
    ]
}

/// Windows of 65,535 bytes and an empty dynamic table.
fn config() -> Config {
    Config { connection_window: 65_535, header_table: 0, ..Config::default() }
}

fn receiver(receiver: Receiver) -> Connection {
    match receiver {
        NewClient => Connection::client(Config::default(), &mut Vec::new()),
        NewServer => Connection::server(Config::default(), &mut Vec::new()),
        Client => client(2),
        Server => server(Config { release: Release::ByCaller, ..config() }),
    }
}

/// Miri is too slow for inputs of many kilobytes.
fn is_fast(input: &[u8]) -> bool {
    !cfg!(miri) || input.len() < 1000
}

#[test]
fn faults_that_end_the_connection() {
    for (fault, role, input) in connection_faults().into_iter().filter(|case| is_fast(&case.2)) {
        let pieces: &[&[&[u8]]] = &[&[&input], &input.chunks(1).collect::<Vec<_>>()];
        for pieces in pieces {
            let mut connection = receiver(role);
            let (events, output) = feed(&mut connection, pieces);
            assert_eq!(events.last(), Some(&Event::Fault(fault)), "{fault}");
            let (kind, _, payload) = frames(&output).pop().expect("GOAWAY");
            assert_eq!((kind, &payload[4..]), (kind::GOAWAY, &fault.code().0.to_be_bytes()[..]));
            // Further calls return the same fault.
            assert_eq!(feed(&mut connection, &[b""]).0, [Event::Fault(fault)]);
            assert!(connection.is_closing() && !connection.send_head(1, &get(), &[], true, &mut Vec::new()));
        }
        if input.len() < 1000 {
            let events = feed(&mut receiver(role), &[&input]).0;
            assert_events(&receiver(role), &input, &events);
        }
    }
}

#[test]
fn faults_that_end_a_stream() {
    for (fault, role, input) in stream_faults().into_iter().filter(|case| is_fast(&case.2)) {
        // Later frames on the stream are ignored, and other streams continue.
        let mut input = [input, data(1, b"late", true)].concat();
        input.extend(headers(3, if role == Client { &OK } else { &GET }, true));
        let (events, output) = feed(&mut receiver(role), &[&input]);
        let failed = events.iter().position(|event| *event == Failed(1, fault));
        assert!(failed.is_some(), "{fault}: {events:?}");
        assert!(matches!(&events[failed.unwrap_or(0) + 1..], [Head(3, ..)]), "{fault}: {events:?}");
        let reset = (kind::RST_STREAM, 1, fault.code().0.to_be_bytes().to_vec());
        assert!(frames(&output).contains(&reset), "{fault}");
        if input.len() < 1000 {
            assert_events(&receiver(role), &input, &events);
        }
    }
}

#[test]
fn a_window_of_a_stream_can_be_exceeded() {
    let config = Config { window: 3, release: Release::ByCaller, ..Config::default() };
    let server = server(config);
    let input = [frame(kind::SETTINGS, flag::ACK, 0, &[]), headers(1, &GET, false)].concat();
    let head = Head(1, "GET /".into(), false);
    let more = [&input[..], &data(1, b"abc", false)].concat();
    assert_events(&server, &more, &[head.clone(), Body(1, "abc".into(), false)]);
    let more = [&input[..], &data(1, b"abcd", false)].concat();
    assert_events(&server, &more, &[head.clone(), Failed(1, Fault::StreamWindowExceeded)]);
    // Padding counts too.
    let more = [&input[..], &frame(kind::DATA, flag::PADDED, 1, b"\x01ab\0")].concat();
    assert_events(&server, &more, &[head, Failed(1, Fault::StreamWindowExceeded)]);
}

#[test]
fn each_fault_has_a_test() {
    let tables = connection_faults().into_iter().chain(stream_faults()).map(|case| case.0);
    let tested: Vec<Fault> = tables.chain(floods::FLOODS).chain([Fault::StreamWindowExceeded]).collect();
    for fault in Fault::ALL {
        assert!(tested.contains(fault), "{fault:?}");
    }
}
