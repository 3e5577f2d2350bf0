//! Requests and responses.

use super::*;

fn head(stream: u32, text: &str, end: bool) -> Event {
    Head(stream, text.into(), end)
}

#[test]
fn responses_on_several_streams() {
    let padded = frame(kind::DATA, flag::PADDED, 1, b"\x03llo\0\0\0");
    let prioritized = [&[0x80, 0, 0, 1, 7][..], &block(&[(":status", "404"), ("a", "b")])].concat();
    let padded_head = [&[2][..], &prioritized, &[0, 0]].concat();
    let flags = flag::END_HEADERS | flag::PADDED | flag::PRIORITY | flag::END_STREAM;
    let input = [
        headers(3, &[(":status", "103"), ("link", "x")], false),
        headers(1, &[(":status", "200"), ("content-length", "5")], false),
        data(1, b"he", false),
        headers(3, &OK, false),
        frame(0xee, 0xff, 3, b"unknown"),
        padded,
        frame(kind::PRIORITY, 0, 9, &[0; 5]),
        data(3, b"", false),
        data(1, b"", true),
        frame(kind::HEADERS, flags, 5, &padded_head),
        data(3, b"x", false),
        headers(3, &[("grpc-status", "0")], true),
    ]
    .concat();
    let expected = [
        Interim(3, 103),
        head(1, "200 content-length=5", false),
        Body(1, "he".into(), false),
        head(3, "200", false),
        Body(1, "llo".into(), true),
        head(5, "404 a=b", true),
        Body(3, "x".into(), false),
        Trailers(3, "grpc-status=0".into()),
    ];
    let client = client(3);
    assert_events(&client, &input, &expected);
    let mut client = client;
    feed(&mut client, &[&input]);
    assert_eq!((client.open_streams(), client.capacity()), (0, 100));
}

#[test]
fn requests_on_several_streams() {
    let post = [&GET[1..], &[("content-length", "3"), ("te", "trailers")]].concat();
    let post = [&[(":method", "POST")][..], &post].concat();
    let input = [
        &PREFACE[..],
        &settings(&[(3, 100), (4, 1000)]),
        &frame(kind::SETTINGS, flag::ACK, 0, &[]),
        &headers(1, &GET, true),
        &headers(7, &post, false),
        &headers(9, &[(":method", "CONNECT"), (":authority", "a:1")], false),
        &data(7, b"abc", false),
        &headers(7, &[("sum", "1")], true),
    ]
    .concat();
    let expected = [
        Event::Settings,
        head(1, "GET /", true),
        head(7, "POST / content-length=3 te=trailers", false),
        head(9, "0", false),
        Body(7, "abc".into(), false),
        Trailers(7, "sum=1".into()),
    ];
    assert_events(&Connection::server(Config::default(), &mut Vec::new()), &input, &expected);
}

#[test]
fn blocks_can_have_continuations() {
    let long = "x".repeat(40);
    let whole = block(&[(":status", "200"), ("a", &long), ("b", &long)]);
    for size in [1, 7, 20] {
        let mut input = Vec::new();
        let parts: Vec<&[u8]> = whole.chunks(size).collect();
        for (place, part) in parts.iter().enumerate() {
            let end = if place + 1 == parts.len() { flag::END_HEADERS } else { 0 };
            let first = place == 0;
            let kind = if first { kind::HEADERS } else { kind::CONTINUATION };
            input.extend(frame(kind, end | (u8::from(first) * flag::END_STREAM), 1, part));
        }
        assert_events(&client(1), &input, &[head(1, &format!("200 a={long} b={long}"), true)]);
    }
}

#[test]
fn bodies_that_must_be_empty() {
    let mut client = client(2);
    client.request(9, true, &get(), &[], true, &mut Vec::new()).expect("a free stream");
    let length = ("content-length", "5");
    for (stream, status) in [(1, "204"), (3, "304"), (5, "200")] {
        let fields = [(":status", status), length];
        let text = format!("{status} content-length=5");
        assert_events(&client, &headers(stream, &fields, true), &[head(stream, &text, true)]);
        let input = [headers(stream, &fields, false), data(stream, b"", true)].concat();
        let expected = [head(stream, &text, false), Body(stream, String::new(), true)];
        assert_events(&client, &input, &expected);
        let input = [headers(stream, &fields, false), data(stream, b"abcde", true)].concat();
        let expected = [head(stream, &text, false), Failed(stream, Fault::BodyTooLong)];
        assert_events(&client, &input, &expected);
    }
}

#[test]
fn valid_requests_are_accepted_and_others_are_not() {
    let config = Config { connect_protocol: true, ..Config::default() };
    let base = |method| [(":method", method), (":scheme", "http"), (":authority", "a")];
    let with = |method, more: &[(&'static str, &'static str)]| [&base(method)[..], more].concat();
    let connect = [(":method", "CONNECT"), (":authority", "a:1")];
    for (fields, fault) in [
        (with("OPTIONS", &[(":path", "*")]), None),
        (with("GET", &[(":path", "*")]), Some(Fault::RequestFields)),
        (with("GET", &[(":path", "")]), Some(Fault::RequestFields)),
        (with("GET", &[(":path", "x")]), Some(Fault::RequestFields)),
        (with("", &[(":path", "/")]), Some(Fault::RequestFields)),
        (base("GET").to_vec(), Some(Fault::RequestFields)),
        (with("CONNECT", &[(":path", "/"), (":protocol", "websocket")]), None),
        (with("GET", &[(":path", "/"), (":protocol", "websocket")]), Some(Fault::ConnectFields)),
        (with("CONNECT", &[(":path", "/")]), Some(Fault::ConnectFields)),
        ([&connect[..], &[(":protocol", "websocket")]].concat(), Some(Fault::RequestFields)),
        (connect.to_vec(), None),
        (with("GET", &[(":path", "/"), ("te", "gzip")]), Some(Fault::ConnectionField)),
        (with("GET", &[(":path", "/"), ("a", " b")]), Some(Fault::FieldValue)),
        (with("GET", &[(":path", "/"), ("a", "b"), ("a", "")]), None),
        (with("GET", &[(":path", "/"), (":path", "/")]), Some(Fault::PseudoField)),
        (with("GET", &[(":path", "/"), (":status", "200")]), Some(Fault::PseudoField)),
        (with("GET", &[("a", "b"), (":path", "/")]), Some(Fault::PseudoField)),
        (with("GET", &[(":path", "/"), ("content-length", "1"), ("content-length", "1")]), None),
        (with("GET", &[(":path", "/"), ("content-length", "1, 1")]), Some(Fault::ContentLength)),
    ] {
        let events = feed(&mut server(config), &[&headers(1, &fields, false)]).0;
        let expected = matches!((&events[..], fault), ([Head(..)], None) | ([Failed(..)], Some(_)));
        assert!(expected && fault.is_none_or(|fault| events == [Failed(1, fault)]), "{fields:?}: {events:?}");
    }
}

#[test]
fn responses_can_have_spaces_around_values() {
    let expected = [head(1, "200 a= b", true)];
    assert_events(&client(1), &headers(1, &[(":status", "200"), ("a", " b")], true), &expected);
}

#[test]
fn a_cache_does_not_change_the_results() {
    // A server that first indexes two fields, then refers to them, then evicts them and refers to static
    // fields only.
    let blocks: [&[u8]; 7] = [
        b"\x88\x40\x01a\x01b\x40\x01c\x01d",
        b"\x88\xbe\xbf",
        b"\x88\xbe\xbf",
        b"\x88\x40\x01e\x01f",
        b"\x88\xbe\xbf",
        b"\x88",
        b"\x88",
    ];
    let texts = ["a=b c=d", "c=d a=b", "c=d a=b", "e=f", "e=f c=d", "", ""];
    let input: Vec<Vec<u8>> = blocks.iter().map(|block| frame(kind::HEADERS, 5, 1, block)).collect();
    let (mut one, mut other) = (client(7), client(7));
    let (mut sections, mut output) = (Sections::new(), Vec::new());
    for (place, text) in texts.iter().enumerate() {
        for client in [&mut one, &mut other] {
            let mut input = input[place].clone();
            input[8] = 2 * place as u8 + 1;
            let (_, step) = client.advance(&input, &mut sections, &mut output).expect("valid");
            assert!(matches!(step, Step::Head { end: true, .. }), "{step:?}");
            assert_eq!(fields(sections.head.fields()), *text);
        }
    }
    // This client has a different table, so the same block decodes to other fields.
    let mut third = client(1);
    let input = frame(kind::HEADERS, 5, 1, b"\x88\xbe\xbf");
    assert_eq!(third.advance(&input, &mut sections, &mut output), Err(Fault::Index));
}

#[test]
fn pings_settings_and_the_end() {
    let mut client = client(3);
    client.ping(*b"01234567", &mut Vec::new());
    let go_away = |last: u32, code: Code, text: &[u8]| {
        let payload = [&last.to_be_bytes()[..], &code.0.to_be_bytes(), text].concat();
        frame(kind::GOAWAY, 0, 0, &payload)
    };
    let input = [
        frame(kind::PING, 0, 0, b"abcdefgh"),
        frame(kind::PING, flag::ACK, 0, b"01234567"),
        frame(kind::PING, flag::ACK, 0, b"unwanted"),
        settings(&[(3, 5)]),
        go_away(0x7fff_ffff, Code::NO_ERROR, b""),
        go_away(1, Code::ENHANCE_YOUR_CALM, b"slow"),
        headers(1, &OK, true),
        go_away(3, Code::NO_ERROR, b""),
    ]
    .concat();
    let expected = [
        Event::Pong(*b"01234567"),
        Event::Settings,
        GoAway(0x7fff_ffff, Code::NO_ERROR, String::new()),
        GoAway(1, Code::ENHANCE_YOUR_CALM, "slow".into()),
        Reset(3, Code::ENHANCE_YOUR_CALM, true),
        Reset(5, Code::ENHANCE_YOUR_CALM, true),
        head(1, "200", true),
        GoAway(1, Code::NO_ERROR, String::new()),
    ];
    assert_events(&client, &input, &expected);
    let (_, output) = feed(&mut client, &[&input]);
    let answers = [(kind::PING, 0, b"abcdefgh".to_vec()), (kind::SETTINGS, 0, Vec::new())];
    assert_eq!(frames(&output), answers);
    assert!(client.is_closing() && client.capacity() == 0);
    assert_eq!(client.request(0, false, &get(), &[], true, &mut Vec::new()), None);
}
