//! Servers that send bodies which contradict their heads. The decoder's own tests have more of them, at every
//! split.

use super::Outcome::{self, Answered, Fails};
use super::{Case, answers, answers_once, case, meet};
use hoptax_format::record::Cause;

const MALFORMED: Outcome = Fails(Cause::MalformedResponse);

#[test]
fn wrong_lengths() {
    meet(&[
        answers("too short", MALFORMED, b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nok"),
        answers(
            "2 GiB that never come",
            Fails(Cause::ReadTimeout),
            b"HTTP/1.1 200 OK\r\ncontent-length: 2147483648\r\n\r\n",
        ),
        answers_once(
            "2^64 - 1 bytes that never come",
            Fails(Cause::ClosedInResponse),
            b"HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551615\r\n\r\nx",
        ),
        case("2 GiB that break off", Fails(Cause::ClosedInResponse), |peer| {
            if peer.request() && peer.write("HTTP/1.1 200 OK\r\ncontent-length: 2147483648\r\n\r\n") {
                let mib = vec![b'x'; 1 << 20];
                (0..8).all(|_| peer.write(&mib));
            }
        }),
    ]);
}

#[test]
fn unexpected_bodies() {
    meet(&[
        answers("HEAD with a body", MALFORMED, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .requesting("HEAD", 0),
        answers(
            "an interim response with a body",
            MALFORMED,
            b"HTTP/1.1 103 Hi\r\ncontent-length: 2\r\n\r\nok",
        ),
        answers(
            "HEAD that announces chunks",
            Answered(200),
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .requesting("HEAD", 0),
    ]);
}

fn chunked(name: &'static str, outcome: Outcome, chunks: impl AsRef<[u8]>) -> Case {
    answers(
        name,
        outcome,
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", chunks.as_ref()].concat(),
    )
}

#[test]
fn odd_chunks() {
    meet(&[
        chunked("a size too large", MALFORMED, "5\r\nok\r\n0\r\n\r\n"),
        chunked("a lone LF in an extension", MALFORMED, "2;a\nb\r\nok\r\n0\r\n\r\n"),
        chunked("blanks after the size", Answered(200), "2 \t\r\nok\r\n0 \r\n\r\n"),
        chunked("a thousand chunks of one byte", Answered(200), "1\r\nx\r\n".repeat(1000) + "0\r\n\r\n"),
    ]);
}
