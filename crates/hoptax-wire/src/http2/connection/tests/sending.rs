//! What is sent: settings, blocks, resets.

use super::*;

#[test]
fn a_client_begins_with_preface_and_settings() {
    let mut output = Vec::new();
    let config = Config { window: 1000, header_table: 0, connection_window: 65_535, ..Config::default() };
    Connection::client(config, &mut output);
    let expected = [&PREFACE[..], &settings(&[(1, 0), (2, 0), (4, 1000), (6, 65_536)])].concat();
    assert_eq!(output, expected);
    output.clear();
    let config = Config { streams: 7, connect_protocol: true, window: 65_535, ..Config::default() };
    Connection::server(config, &mut output);
    let expected = [settings(&[(3, 7), (6, 65_536), (8, 1)]), window_update(0, (1 << 24) - 65_535)].concat();
    assert_eq!(output, expected);
}

#[test]
fn the_limit_of_streams_is_kept() {
    let mut output = Vec::new();
    let mut client = Connection::client(Config { streams: 200, ..Config::default() }, &mut output);
    assert_eq!(client.capacity(), 100, "before the settings are known");
    feed(&mut client, &[&settings(&[])]);
    assert_eq!(client.capacity(), 200);
    feed(&mut client, &[&settings(&[(3, 2)])]);
    assert_eq!(client.capacity(), 2);
    for expected in [Some(1), Some(3), None] {
        assert_eq!(client.request(5, false, &get(), &[], true, &mut output), expected);
    }
    feed(&mut client, &[&headers(3, &OK, true)]);
    assert_eq!(client.request(5, false, &get(), &[], true, &mut output), Some(5));
    feed(&mut client, &[&settings(&[(3, 0)])]);
    assert_eq!((client.capacity(), client.open_streams()), (0, 2));
    client.next_stream = 0x7fff_ffff;
    feed(&mut client, &[&settings(&[(3, 10)])]);
    assert_eq!(client.request(5, false, &get(), &[], true, &mut output), Some(0x7fff_ffff));
    assert!(client.is_closing() && client.capacity() == 0);
}

#[test]
fn blocks_use_the_table_of_the_peer() {
    let fields = request_fields(
        RequestParts {
            method: "GET",
            scheme: "http",
            authority: "a.example",
            path: "/x",
            content_length: None,
        },
        [("accept", "*/*")],
    )
    .expect("valid");
    let shared = Block::shared(&[&fields]).pop().expect("a block");
    let other = Block::shared(&[&fields[..3]]).pop().expect("a block");
    let indexed = shared.indexed.clone().expect("indexed");
    let payload = |client: &mut Connection, block: &Block| {
        let mut output = Vec::new();
        client.request(0, false, block, &[], true, &mut output).expect("a stream");
        frames(&output).pop().expect("a frame").2
    };
    let mut client = client(0);
    assert_eq!(payload(&mut client, &shared), indexed.first.bytes);
    assert_eq!(payload(&mut client, &shared), indexed.later.bytes);
    assert_eq!(payload(&mut client, &other), other.bytes(), "another set");
    // The table becomes smaller. The next block announces this, and no longer refers to the dynamic table.
    feed(&mut client, &[&settings(&[(1, 50)])]);
    let plain = shared.bytes();
    assert_eq!(payload(&mut client, &shared), [&[0x3f, 19][..], plain].concat());
    assert_eq!(payload(&mut client, &shared), plain);
    // A table that was too small from the beginning is never used.
    let mut client = super::client(0);
    feed(&mut client, &[&settings(&[(1, 0)])]);
    assert_eq!(payload(&mut client, &shared), [&[0x20][..], plain].concat());
    feed(&mut client, &[&settings(&[(1, 4096)])]);
    assert_eq!(payload(&mut client, &shared), plain);
}

#[test]
fn varying_fields_are_between_pseudo_headers_and_others() {
    let fields: Vec<OutField> = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), ("x", "y")]
        .map(|(name, value)| OutField { name: name.into(), value: value.into() })
        .into();
    let mut varying = Vec::new();
    hpack::write_literal(&mut varying, ":path", b"/7");
    hpack::write_literal(&mut varying, "n", b"7");
    let (mut client, mut server, mut output) = (client(0), server(Config::default()), Vec::new());
    for block in [Block::plain(&fields), Block::shared(&[&fields]).remove(0)] {
        client.request(0, false, &block, &varying, true, &mut output).expect("a stream");
    }
    let expected = |id| Head(id, "GET /7 n=7 x=y".into(), true);
    assert_events(&server, &output, &[expected(1), expected(3)]);
    feed(&mut server, &[&output]);
    assert_eq!(server.open_streams(), 2);
}

#[test]
fn a_stream_ends_once() {
    let (mut server, mut output) = (server(Config::default()), Vec::new());
    let ok = Block::plain(&response_fields(200, [], None).expect("valid"));
    let trailers = Block::plain(&[OutField { name: "grpc-status".into(), value: "0".into() }]);
    feed(&mut server, &[&headers(1, &GET, true), &headers(3, &GET, false)]);
    server.set_tag(3, 33);
    assert!(server.send_head(1, &ok, &[], false, &mut output));
    assert_eq!(server.send_data(1, b"x", false, &mut output), Some(1));
    assert!(server.send_head(1, &trailers, &[], true, &mut output));
    assert!(!server.send_head(1, &trailers, &[], true, &mut output));
    assert_eq!(server.send_data(1, b"x", false, &mut output), None);
    assert!(!server.reset(1, Code::CANCEL, &mut output));
    // The response can end before the request.
    assert!(server.send_head(3, &ok, &[], true, &mut output));
    assert_eq!(server.open_streams(), 1);
    let (mut sections, input) = (Sections::new(), data(3, b"late", true));
    let step = server.advance(&input, &mut sections, &mut output);
    let stream = StreamRef { id: 3, tag: 33 };
    assert_eq!(step, Ok((13, Step::Body { stream, data: 9..13, end: true })));
    assert_eq!(server.open_streams(), 0);
}

#[test]
fn after_go_away_a_server_ignores_new_streams() {
    let (mut server, mut output) = (server(Config::default()), Vec::new());
    feed(&mut server, &[&headers(1, &GET, false)]);
    server.go_away(Code::NO_ERROR, &mut output);
    assert_eq!(frames(&output), [(kind::GOAWAY, 0, vec![0, 0, 0, 1, 0, 0, 0, 0])]);
    let input = [
        headers(3, &GET, false),
        data(3, b"ignored", true),
        window_update(3, 5),
        reset(3, Code::CANCEL),
        data(1, b"x", true),
    ]
    .concat();
    assert_events(&server, &input, &[Body(1, "x".into(), true)]);
    // A block on an ignored stream still changes the table.
    let indexed = frame(kind::HEADERS, 5, 5, b"\x82\x86\x84\x41\x01a");
    let input = [indexed, headers(1, &[("a", "b")], true)].concat();
    assert_events(&server, &input, &[Trailers(1, "a=b".into())]);
}

#[test]
fn frames_after_our_reset_are_ignored() {
    let mut client = client(2);
    let mut output = Vec::new();
    assert!(client.reset(1, Code::CANCEL, &mut output));
    assert_eq!(output, reset(1, Code::CANCEL));
    let input = [
        headers(1, &OK, false),
        data(1, b"late", false),
        window_update(1, 1),
        reset(1, Code::NO_ERROR),
        headers(3, &OK, true),
    ]
    .concat();
    assert_events(&client, &input, &[Head(3, "200".into(), true)]);
}

#[test]
fn resets_say_whether_the_request_was_processed() {
    let input = [reset(1, Code::REFUSED_STREAM), reset(3, Code::INTERNAL_ERROR)].concat();
    let expected = [Reset(1, Code::REFUSED_STREAM, true), Reset(3, Code::INTERNAL_ERROR, false)];
    assert_events(&client(2), &input, &expected);
}
