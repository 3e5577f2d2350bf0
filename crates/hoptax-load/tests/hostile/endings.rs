//! Servers that close or reset their connections, or become silent, at each point of a response.

use super::Outcome::{Answered, Fails, FailsBy};
use super::{Case, answers, answers_once, case, meet};
use hoptax_format::record::Cause;
use hoptax_format::spec::Chunked;
use std::time::Duration;

/// Beginnings of a response. Each is named after the point at which the connection ends.
const PARTS: [(&str, &[u8]); 11] = [
    ("before the response", b""),
    ("within the version", b"HTT"),
    ("within the status line", b"HTTP/1.1 200 O"),
    ("within the header fields", b"HTTP/1.1 200 OK\r\ncontent-le"),
    ("before the end of the head", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r"),
    ("after the head", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"),
    ("within the body", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"),
    ("within a chunk's size", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1"),
    ("within a chunk", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhalf"),
    ("before the last chunk", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n"),
    ("within the trailers", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: y\r\n"),
];

fn at_each_part(end: fn(&mut super::Peer), before: Cause, within: Cause) -> Vec<Case> {
    PARTS
        .into_iter()
        .map(|(name, bytes)| {
            let cause = if bytes.is_empty() { before } else { within };
            case(name, Fails(cause), move |peer| {
                if peer.request() {
                    peer.write(bytes);
                    end(peer);
                }
            })
        })
        .collect()
}

#[test]
fn closes() {
    meet(&at_each_part(|_| {}, Cause::ClosedBeforeResponse, Cause::ClosedInResponse));
}

#[test]
fn resets() {
    meet(&at_each_part(super::Peer::reset, Cause::ResetBeforeResponse, Cause::ResetInResponse));
}

#[test]
fn ends_its_side_alone() {
    let end = |peer: &mut super::Peer| {
        peer.half_close();
        peer.until_gone();
    };
    meet(&at_each_part(end, Cause::ClosedBeforeResponse, Cause::ClosedInResponse));
}

#[test]
fn falls_silent() {
    meet(&at_each_part(super::Peer::until_gone, Cause::ResponseTimeout, Cause::ReadTimeout));
}

#[test]
fn interim_responses_alone() {
    const INTERIM: &[u8] = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";
    meet(&[
        answers_once("closes after an interim response", Fails(Cause::ClosedInResponse), INTERIM),
        answers("nothing but an interim response", Fails(Cause::ReadTimeout), INTERIM),
        case("resets after an interim response", Fails(Cause::ResetInResponse), |peer| {
            if peer.request() {
                peer.write(INTERIM);
                peer.reset();
            }
        }),
    ]);
}

#[test]
fn bodies_without_length() {
    const BODY: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nas long as it lasts";
    meet(&[
        answers_once("ends in order", Answered(200), BODY),
        answers("never ends", Fails(Cause::ReadTimeout), BODY),
        case("breaks", Fails(Cause::ResetInResponse), |peer| {
            if peer.request() {
                peer.write(BODY);
                peer.reset();
            }
        }),
    ]);
}

#[test]
fn closes_every_connection_after_its_response() {
    meet(&[
        answers(
            "says so and does not",
            Answered(200),
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        ),
        case("says so and continues to send", Answered(200), |peer| {
            if peer.request() {
                peer.write("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok");
                // Wait before sending more bytes. If they arrived together with the response, they would be
                // part of the response and make it malformed.
                std::thread::sleep(Duration::from_secs(1));
                peer.flood("more");
            }
        }),
        case("resets after it", Answered(200), |peer| {
            if peer.request() {
                peer.write("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok");
                peer.reset();
            }
        }),
    ]);
}

#[test]
fn slow_to_the_last_byte() {
    const WHOLE: &str =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\na: b\r\n\r\n";
    meet(&[
        case("one byte a second", Fails(Cause::ReadTimeout), |peer| {
            if peer.request() {
                peer.trickle(WHOLE, Duration::from_secs(1));
            }
        }),
        case("one byte at a time", Answered(200), |peer| {
            while peer.request() && peer.trickle(WHOLE, Duration::ZERO) {}
        }),
    ]);
}

#[test]
fn resets_accepted_connections() {
    // Connections that fail before traffic are retried. The cause then depends on two races: whether a
    // connection is open when traffic begins, and whether the worker notices its end before it sends the
    // request.
    const BEFORE: &[Cause] = &[Cause::ConnectReset, Cause::ResetBeforeResponse, Cause::ClosedBeforeResponse];
    for (name, end) in
        [("closes at once", (|_| {}) as fn(&mut super::Peer)), ("resets at once", super::Peer::reset)]
    {
        let case = case(name, FailsBy(BEFORE), end);
        for shape in super::shapes() {
            let server = super::Server::start(&case.behaviour);
            match super::load(case.spec(server.address, shape)) {
                Ok(record) => case.check(&record),
                Err(error) => {
                    assert!(matches!(error, super::LoadError::NoConnection { .. }), "{error}");
                }
            }
        }
    }
}

#[test]
fn stops_reading_a_large_request() {
    const LARGE: usize = 8 << 20;
    let mut cases = vec![
        case("reads the head alone", Fails(Cause::ResponseTimeout), |peer| {
            if peer.request_head() {
                peer.ignore();
            }
        }),
        case("reads nothing", Fails(Cause::ResponseTimeout), super::Peer::ignore),
        case("closes instead of reading the body", Fails(Cause::ResetBeforeResponse), |peer| {
            peer.request_head();
        }),
        answers("reads all of it", Answered(200), b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    ];
    for case in &mut cases {
        (case.method, case.body) = ("POST", LARGE);
    }
    meet(&cases);
}

#[test]
fn answers_before_it_has_read_the_body() {
    const REFUSAL: &str = "HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let refuses = |name, then: fn(&mut super::Peer)| {
        move || {
            case(name, Answered(413), move |peer| {
                if peer.request_head() {
                    peer.write(REFUSAL);
                    then(peer);
                }
            })
        }
    };
    let servers = [
        refuses("reads on", super::Peer::until_gone),
        refuses("reads nothing more", super::Peer::ignore),
        refuses("closes", |_| {}),
    ];
    for server in servers {
        for body in [100_000, 8 << 20] {
            let at_once = Chunked { chunk_bytes: 16 << 10, pause_ns: 0 };
            let in_pieces = Chunked { chunk_bytes: 16 << 10, pause_ns: 1_000_000 };
            let case = |chunked| Case { chunked, ..server().requesting("POST", body) };
            meet(&[case(None), case(Some(at_once)), case(Some(in_pieces))]);
        }
    }
}
