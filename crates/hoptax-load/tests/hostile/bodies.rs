//! Servers that send bodies which contradict their heads.

use super::Outcome::{self, Answered, Fails};
use super::{Case, answers, answers_once, case, meet};
use hoptax_format::record::Cause;

const MALFORMED: Outcome = Fails(Cause::MalformedResponse);

#[test]
fn wrong_lengths() {
    meet(&[
        answers_once(
            "too long, and closes",
            Fails(Cause::ClosedInResponse),
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
        ),
        answers(
            "too long, and waits",
            Fails(Cause::ReadTimeout),
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
        ),
        answers("too short", MALFORMED, b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nok"),
        answers("none, but a body", MALFORMED, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nok"),
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
        answers("204 with a body", MALFORMED, b"HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\nok"),
        answers("304 with a body", MALFORMED, b"HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\n\r\nok"),
        answers("HEAD with a body", MALFORMED, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .requesting("HEAD", 0),
        answers(
            "an interim response with a body",
            MALFORMED,
            b"HTTP/1.1 103 Hi\r\ncontent-length: 2\r\n\r\nok",
        ),
        answers(
            "204 that announces one",
            Answered(204),
            b"HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\n",
        ),
        answers(
            "304 that announces one",
            Answered(304),
            b"HTTP/1.1 304 Not Modified\r\ncontent-length: 2\r\n\r\n",
        ),
        answers("HEAD that announces one", Answered(200), b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n")
            .requesting("HEAD", 0),
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
fn malformed_chunks() {
    meet(&[
        chunked("a negative size", MALFORMED, "-2\r\nok\r\n0\r\n\r\n"),
        chunked("a signed size", MALFORMED, "+2\r\nok\r\n0\r\n\r\n"),
        chunked("a prefixed size", MALFORMED, "0x2\r\nok\r\n0\r\n\r\n"),
        chunked("no hexadecimal size", MALFORMED, "xyz\r\nok\r\n0\r\n\r\n"),
        chunked("no size", MALFORMED, "\r\nok\r\n0\r\n\r\n"),
        chunked("a size of 2^64", MALFORMED, "10000000000000000\r\nok\r\n0\r\n\r\n"),
        chunked("a lone CR after the size", MALFORMED, "2\rok\r\n0\r\n\r\n"),
        chunked("a blank before the size", MALFORMED, " 2\r\nok\r\n0\r\n\r\n"),
        chunked("two sizes", MALFORMED, "2 2\r\nok\r\n0\r\n\r\n"),
        chunked("no CRLF after the data", MALFORMED, "2\r\nok0\r\n\r\n"),
        chunked("a lone CR after the data", MALFORMED, "2\r\nok\r0\r\n\r\n"),
        chunked("a size too small", MALFORMED, "1\r\nok\r\n0\r\n\r\n"),
        chunked("a size too large", MALFORMED, "5\r\nok\r\n0\r\n\r\n"),
        chunked("a NUL in an extension", MALFORMED, "2;a\0b\r\nok\r\n0\r\n\r\n"),
        chunked("a lone LF in an extension", MALFORMED, "2;a\nb\r\nok\r\n0\r\n\r\n"),
        chunked("malformed trailers", MALFORMED, "2\r\nok\r\n0\r\nnonsense\r\n\r\n"),
        chunked("a body after the last chunk", MALFORMED, "2\r\nok\r\n0\r\n\r\nmore"),
        chunked("no last chunk", Fails(Cause::ReadTimeout), "2\r\nok\r\n"),
        chunked("no end of the trailers", Fails(Cause::ReadTimeout), "2\r\nok\r\n0\r\na: b\r\n"),
    ]);
}

#[test]
fn unusual_but_valid_chunks() {
    meet(&[
        chunked("extensions", Answered(200), "2;a;b=c;d=\"e f\"\r\nok\r\n0;last\r\n\r\n"),
        chunked("trailers", Answered(200), "2\r\nok\r\n0\r\nx-sum: 1\r\nx-other: 2\r\n\r\n"),
        chunked("leading zeros", Answered(200), "0002\r\nok\r\n0000\r\n\r\n"),
        chunked("blanks after the size", Answered(200), "2 \t\r\nok\r\n0 \r\n\r\n"),
        chunked("upper and lower case", Answered(200), "a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n"),
        chunked("lone LFs", Answered(200), "2\nok\n2;x=y\nok\r\n0\n\n"),
        chunked("no data", Answered(200), "0\r\n\r\n"),
        chunked("a thousand chunks of one byte", Answered(200), "1\r\nx\r\n".repeat(1000) + "0\r\n\r\n"),
    ]);
}
