use super::super::splits::{Event, for_every_split, responses};
use super::*;

fn head(status: u16, version: Version, framing: Framing, keep_alive: bool) -> Event {
    Event::Head(format!("{:?}", ResponseHead { status, version, framing, keep_alive }))
}

fn body(text: &str) -> Event {
    Event::Body(text.as_bytes().to_vec())
}

use Event::{End, Interim};
use Framing::{Chunked, Length, UntilClose};
use Version::{Http10, Http11};

/// Valid responses to a GET request, and the events that each of them must produce.
fn well_formed() -> Vec<(&'static str, Vec<Event>)> {
    vec![
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            vec![head(200, Http11, Length(5), true), body("hello"), End(true)],
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", vec![head(200, Http11, Length(0), true), End(true)]),
        (
            "HTTP/1.1 200\r\nCONTENT-LENGTH: 2, 2\r\ncontent-length: 2\r\nConnection: x, Close\r\n\r\nhi",
            vec![head(200, Http11, Length(2), false), body("hi"), End(false)],
        ),
        // Deviations that curl and common gateways accept.
        (
            "HTTP/1.1  200 OK\r\nx: a\r\n\tb\r\n  c\r\nContent-Length: 2\r\n\r\nok",
            vec![head(200, Http11, Length(2), true), body("ok"), End(true)],
        ),
        (
            "HTTP/1.1 200 OK\r\n\"x\": a\r\nx[y]/z: a\r\nConnection: close\r\nContent-Length: \
            2\r\n\r\nok",
            vec![head(200, Http11, Length(2), false), body("ok"), End(false)],
        ),
        (
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nTransfer-Encoding: chunked, Chunked\n\n\
             2\nok\n1;x=y\n!\n0\n\n",
            vec![head(200, Http11, Chunked, true), body("ok!"), End(true)],
        ),
        (
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            vec![head(200, Http10, Chunked, false), body("ok"), End(false)],
        ),
        (
            "HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\n1",
            vec![head(200, Http10, Length(1), false), body("1"), End(false)],
        ),
        (
            "HTTP/1.0 200 OK\r\ncontent-length: 1\r\nconnection: keep-alive\r\n\r\n1",
            vec![head(200, Http10, Length(1), true), body("1"), End(true)],
        ),
        (
            "HTTP/1.1 204 No Content\r\ncontent-length: 9\r\n\r\n",
            vec![head(204, Http11, Framing::None, true), End(true)],
        ),
        (
            "HTTP/1.1 304 Not Modified\r\ntransfer-encoding: chunked\r\n\r\n",
            vec![head(304, Http11, Framing::None, true), End(true)],
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 \
            OK\r\ncontent-length: 1\r\n\r\n1",
            vec![Interim, Interim, head(200, Http11, Length(1), true), body("1"), End(true)],
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n6;x=\"y z\"\r\n \
            world\r\n0\r\nx-sum: 1\r\ny: 2\r\n\r\n",
            vec![head(200, Http11, Chunked, true), body("hello world"), End(true)],
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            vec![head(200, Http11, Chunked, true), End(true)],
        ),
    ]
}

#[test]
fn reads_responses_on_every_split() {
    for (input, expected) in well_formed() {
        for_every_split(input.as_bytes(), |pieces| {
            assert_eq!(responses(pieces, &[false], false), expected, "{input:?}");
        });
    }
}

#[test]
fn following_bytes_are_the_next_response() {
    let next = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    for (input, mut expected) in well_formed() {
        expected.extend([head(200, Http11, Length(2), true), body("ok"), End(true)]);
        for_every_split(format!("{input}{next}").as_bytes(), |pieces| {
            assert_eq!(responses(pieces, &[false, false], false), expected, "{input:?}");
        });
    }
}

#[test]
fn refuses_unexpected_bytes_after_a_response() {
    for (input, mut expected) in well_formed() {
        expected.push(Event::Malformed(Malformed::UnexpectedBytes));
        for_every_split(format!("{input}X").as_bytes(), |pieces| {
            assert_eq!(responses(pieces, &[false], false), expected, "{input:?}");
        });
    }
}

#[test]
fn responses_to_head_have_no_body() {
    let input = "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n";
    for_every_split(input.as_bytes(), |pieces| {
        assert_eq!(responses(pieces, &[true], false), [head(200, Http11, Framing::None, true), End(true)]);
    });
}

#[test]
fn bodies_without_framing_last_until_the_end() {
    for_every_split(b"HTTP/1.1 200 OK\r\n\r\nall of it", |pieces| {
        let expected = [head(200, Http11, UntilClose, false), body("all of it"), Event::EndOfInput(Ok(true))];
        assert_eq!(responses(pieces, &[false], true), expected);
    });
}

#[test]
fn distinguishes_an_early_end_of_input_from_a_late_one() {
    let whole = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    for cut in 0..whole.len() {
        for_every_split(&whole.as_bytes()[..cut], |pieces| {
            let events = responses(pieces, &[false], true);
            assert_eq!(events.last(), Some(&Event::EndOfInput(Err(Malformed::CutShort))), "cut at {cut}");
        });
    }
    let events = responses(&[whole.as_bytes()], &[false], true);
    assert_eq!(events.last(), Some(&Event::EndOfInput(Ok(false))));
    let counted = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab";
    let events = responses(&[counted.as_bytes()], &[false], true);
    assert_eq!(events.last(), Some(&Event::EndOfInput(Err(Malformed::CutShort))));
}

#[test]
fn refuses_malformed_responses_on_every_split() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(super::super::MAX_RESPONSE_FIELDS + 1));
    let name = Malformed::Head("a header's name contains an invalid character");
    let table: &[(&str, Malformed)] = &[
        ("hello", Malformed::Head("the version is not HTTP/1.0 or HTTP/1.1")),
        ("<html>", Malformed::Head("the version is not HTTP/1.0 or HTTP/1.1")),
        ("HTTP/2.0 200 OK\r\n\r\n", Malformed::Head("the version is not HTTP/1.0 or HTTP/1.1")),
        ("http/1.1 200 OK\r\n\r\n", Malformed::Head("the version is not HTTP/1.0 or HTTP/1.1")),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Malformed::Head("the version is not HTTP/1.0 or HTTP/1.1")),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", Malformed::Head("an empty line precedes the status")),
        ("\n", Malformed::Head("an empty line precedes the status")),
        ("HTTP/1.1 2x0 OK\r\n\r\n", Malformed::Head("the status is not three digits and a printable reason")),
        ("HTTP/1.1 099 OK\r\n\r\n", Malformed::Status),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", Malformed::Upgrade),
        ("HTTP/1.1 200 OK\r\na b: c\r\n\r\n", name),
        (
            "HTTP/1.1 200 OK\r\na: b\0c\r\n\r\n",
            Malformed::Head("a header's value contains a control character"),
        ),
        (
            "HTTP/1.1 200 OK\r\na: b\rc\r\n\r\n",
            Malformed::Head("a header's value contains a control character"),
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", Malformed::ContentLength),
        ("HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\n", Malformed::ContentLength),
        ("HTTP/1.1 200 OK\r\ncontent-length: \r\n\r\n", Malformed::ContentLength),
        ("HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551616\r\n\r\n", Malformed::ContentLength),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
            Malformed::ContentLengthsDiffer,
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5, 6\r\n\r\n", Malformed::ContentLengthsDiffer),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
            Malformed::TwoFramings,
        ),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n", Malformed::TransferCoding),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\n\r\n", Malformed::TransferCoding),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding:\r\n chunked\r\n\r\n", Malformed::TransferCoding),
        ("HTTP/1.1 200 OK\r\ncontent-length:\r\n 2\r\n\r\n", Malformed::ContentLength),
        ("HTTP/1.1 200 OK\r\n\"a\": b\r\nc d: e\r\n\r\n", name),
        ("HTTP/1.1 200 OK\r\na: b\r\nc : d\r\n\r\n", name),
        ("HTTP/1.1 200 OK\r\n a: b\r\n\r\n", Malformed::Head("the first header line begins with a space")),
        ("HTTP/1.1 200 OK\r\na: b\r\n\rc: d\r\n\r\n", Malformed::Head("a line does not end with CRLF")),
        ("HTTP/1.1 200 OK\r\n: b\r\n\r\n", Malformed::Head("a header line has no name")),
        ("HTTP/1.1 200 OK\r\nab\r\n\r\n", Malformed::Head("a header line has no colon")),
        (&many, Malformed::TooManyFields(super::super::MAX_RESPONSE_FIELDS)),
    ];
    for (input, expected) in table {
        for_every_split(input.as_bytes(), |pieces| {
            let events = responses(pieces, &[false], false);
            assert_eq!(events, [Event::Malformed(*expected)], "{input:?}");
        });
    }
}

#[test]
fn refuses_broken_chunks_on_every_split() {
    for (chunks, expected) in [
        ("5\r\nhelloX", Malformed::ChunkEnd),
        ("5\r\nhello\r0\r\n\r\n", Malformed::ChunkEnd),
        ("5\rhello", Malformed::ChunkSize),
        ("g\r\n", Malformed::ChunkSize),
        ("11112222333344445\r\n", Malformed::ChunkSizeOverflow),
        ("0\r\nbad trailer\r\n\r\n", Malformed::Trailers),
    ] {
        let input = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}");
        for_every_split(input.as_bytes(), |pieces| {
            let events = responses(pieces, &[false], false);
            assert_eq!(events.last(), Some(&Event::Malformed(expected)), "{input:?}");
        });
    }
}

#[test]
fn accepts_many_fields() {
    let fields = "a: b\r\n".repeat(super::super::MAX_RESPONSE_FIELDS - 1);
    let input = format!("HTTP/1.1 200 OK\r\n{fields}content-length: 2\r\n\r\nok");
    for pieces in [vec![input.as_bytes()], input.as_bytes().chunks(700).collect()] {
        let expected = [head(200, Http11, Length(2), true), body("ok"), End(true)];
        assert_eq!(responses(&pieces, &[false], false), expected);
    }
    let mut count = 0;
    super::super::fields(input.as_bytes(), |_| count += 1).expect("well-formed");
    assert_eq!(count, super::super::MAX_RESPONSE_FIELDS);
}

#[test]
fn bounds_the_head() {
    let long = format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(2 * super::super::MAX_HEAD));
    for pieces in [vec![long.as_bytes()], long.as_bytes().chunks(10_000).collect()] {
        assert_eq!(responses(&pieces, &[false], false), [Event::Malformed(Malformed::HeadTooLong)]);
    }
}

#[test]
fn a_cache_does_not_change_the_results() {
    let mut cache = HeadCache::new();
    for _ in 0..2 {
        for (input, _) in well_formed() {
            for to_head in [false, true] {
                let (mut plain, mut cached) = (ResponseDecoder::new(), ResponseDecoder::new());
                plain.begin(to_head);
                cached.begin(to_head);
                for end in 0..=input.len() {
                    let input = &input.as_bytes()[..end];
                    let same = cached.clone().advance_with(&mut cache, input);
                    assert_eq!(plain.clone().advance(input), same);
                }
            }
        }
    }
}

#[test]
fn http_ends_with_the_head_that_switches_protocols() {
    let input = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\nframes";
    let mut decoder = ResponseDecoder::new();
    decoder.begin_upgrade();
    let Ok(Step::Interim { consumed }) = decoder.advance(input) else { panic!("status 100 is interim") };
    let rest = &input[consumed..];
    let Ok(Step::Head { consumed, head }) = decoder.advance(rest) else { panic!("status 101 is final") };
    assert_eq!(&rest[consumed..], b"frames");
    assert_eq!((head.status, head.keep_alive), (101, false));
    assert_eq!(decoder.end_of_input(), Ok(false), "the decoder expects nothing");
}

#[test]
fn a_server_can_refuse_to_switch_protocols() {
    let mut decoder = ResponseDecoder::new();
    decoder.begin_upgrade();
    let input = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno";
    let Ok(Step::Head { consumed, head }) = decoder.advance(input) else { panic!("a head") };
    assert_eq!((head.status, head.framing, head.keep_alive), (403, Length(2), true));
    assert!(matches!(decoder.advance(&input[consumed..]), Ok(Step::Body { .. })));
}
