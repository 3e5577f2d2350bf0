//! Heads that are malformed or contradictory, and unusual heads that are valid.

use super::Outcome::{self, Answered, Fails};
use super::{answers, meet};
use hoptax_format::record::Cause;

const MALFORMED: Outcome = Fails(Cause::MalformedResponse);

/// Sends each response on a connection that remains open. The engine must detect the error from the response
/// alone.
fn refused(table: &[(&'static str, &'static [u8])]) {
    let cases: Vec<_> = table.iter().map(|&(name, bytes)| answers(name, MALFORMED, bytes)).collect();
    meet(&cases);
}

#[test]
fn malformed_status_lines() {
    refused(&[
        ("HTTP/0.9", b"<html>hello</html>\r\n"),
        ("another protocol", b"220 mail.example ESMTP\r\n"),
        ("HTTP/2 settings", b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64"),
        ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("a TLS alert", b"\x15\x03\x03\0\x02\x02\x28"),
        ("a NUL", b"\0"),
        ("a NUL within the status line", b"HTTP/1.1 200 O\0K\r\ncontent-length: 0\r\n\r\n"),
        ("the version in lower case", b"http/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("version 2.0", b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("version 1.2", b"HTTP/1.2 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("version 1.10", b"HTTP/1.10 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("no version", b"200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("another protocol's version", b"ICY 200 OK\r\n\r\n"),
        ("a request", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"),
        ("an empty line before it", b"\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("a blank before it", b" HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    ]);
}

#[test]
fn malformed_statuses() {
    refused(&[
        ("below 100", b"HTTP/1.1 099 Low\r\ncontent-length: 0\r\n\r\n"),
        ("four digits", b"HTTP/1.1 2000 OK\r\ncontent-length: 0\r\n\r\n"),
        ("two digits", b"HTTP/1.1 20 OK\r\ncontent-length: 0\r\n\r\n"),
        ("letters", b"HTTP/1.1 OK\r\ncontent-length: 0\r\n\r\n"),
        ("negative", b"HTTP/1.1 -20 OK\r\ncontent-length: 0\r\n\r\n"),
        ("glued to the reason", b"HTTP/1.1 200OK\r\ncontent-length: 0\r\n\r\n"),
        (
            "switching protocols without a request",
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\n\r\n",
        ),
    ]);
}

#[test]
fn malformed_header_fields() {
    refused(&[
        ("a NUL in a value", b"HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 0\r\n\r\n"),
        ("a NUL in a name", b"HTTP/1.1 200 OK\r\nx\0y: a\r\ncontent-length: 0\r\n\r\n"),
        ("a high byte in a name", b"HTTP/1.1 200 OK\r\n\xe4: a\r\ncontent-length: 0\r\n\r\n"),
        ("a lone CR in a value", b"HTTP/1.1 200 OK\r\nx: a\rb\r\ncontent-length: 0\r\n\r\n"),
        ("no colon", b"HTTP/1.1 200 OK\r\nnonsense\r\ncontent-length: 0\r\n\r\n"),
        ("no name", b"HTTP/1.1 200 OK\r\n: a\r\ncontent-length: 0\r\n\r\n"),
        ("a blank before the colon", b"HTTP/1.1 200 OK\r\ncontent-length : 0\r\n\r\n"),
        ("a folded length", b"HTTP/1.1 200 OK\r\ncontent-length:\r\n 0\r\n\r\n"),
        ("a line that begins with spaces", b"HTTP/1.1 200 OK\r\n  x: a\r\ncontent-length: 0\r\n\r\n"),
    ]);
}

#[test]
fn contradictory_framing() {
    refused(&[
        ("two lengths", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok!"),
        ("two lengths in one field", b"HTTP/1.1 200 OK\r\ncontent-length: 2, 3\r\n\r\nok!"),
        (
            "a length and chunks",
            b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\ntransfer-encoding: \
                chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ),
        (
            "chunks and a length",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: \
                12\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ),
        ("another coding before the chunks", b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n"),
        ("another coding", b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n"),
        ("a negative length", b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n"),
        ("a signed length", b"HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok"),
        ("a hexadecimal length", b"HTTP/1.1 200 OK\r\ncontent-length: 0x2\r\n\r\nok"),
        ("an empty length", b"HTTP/1.1 200 OK\r\ncontent-length: \r\n\r\n"),
        ("a length of 2^64", b"HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551616\r\n\r\n"),
        ("an interim response that contradicts itself", b"HTTP/1.1 103 Hi\r\ncontent-length: x\r\n\r\n"),
    ]);
}

#[test]
fn unusual_but_valid_heads() {
    meet(&[
        answers(
            "high bytes in reason and value",
            Answered(200),
            b"HTTP/1.1 200 \xe4\xf6\xfc\r\nx: \xff\r\ncontent-length: 0\r\n\r\n",
        ),
        answers("no reason", Answered(200), b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n"),
        answers("lone LF", Answered(200), b"HTTP/1.1 200 OK\ncontent-length: 0\n\n"),
        answers(
            "equal lengths",
            Answered(200),
            b"HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\nContent-Length: 2\r\n\r\nok",
        ),
        answers(
            "blanks around a value",
            Answered(200),
            b"HTTP/1.1 200 OK\r\ncontent-length: \t 2 \r\n\r\nok",
        ),
        answers("an empty value", Answered(200), b"HTTP/1.1 200 OK\r\nx:\r\ncontent-length: 0\r\n\r\n"),
        answers("an unknown status", Answered(799), b"HTTP/1.1 799 Why\r\ncontent-length: 0\r\n\r\n"),
        answers("the largest status", Answered(999), b"HTTP/1.1 999 Most\r\ncontent-length: 0\r\n\r\n"),
        answers("an error", Answered(503), b"HTTP/1.1 503 No\r\ncontent-length: 2\r\n\r\nno"),
        answers(
            "an interim response",
            Answered(200),
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        ),
        answers("a thousand interim responses", Answered(200), {
            let interim = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(1000);
            interim + "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
        }),
        answers("as many fields as there may be", Answered(200), {
            format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{}\r\n", "a: b\r\n".repeat(1999))
        }),
        answers("one field more", MALFORMED, {
            format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{}\r\n", "a: b\r\n".repeat(2000))
        }),
        answers(
            "two blanks in the status line",
            Answered(200),
            b"HTTP/1.1  200 OK\r\ncontent-length: 0\r\n\r\n",
        ),
        answers(
            "a folded value",
            Answered(200),
            b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 0\r\n\r\n",
        ),
        answers("a quoted name", Answered(200), b"HTTP/1.1 200 OK\r\n\"x\": a\r\ncontent-length: 0\r\n\r\n"),
        answers(
            "chunks twice",
            Answered(200),
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        ),
        answers("a head of nearly 64 KiB", Answered(200), {
            format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\na: {}\r\n\r\n", "b".repeat(65_000))
        }),
        answers("a head of more than 64 KiB", MALFORMED, {
            format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\na: {}\r\n\r\n", "b".repeat(66_000))
        }),
    ]);
}
