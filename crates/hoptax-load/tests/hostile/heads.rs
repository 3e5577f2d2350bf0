//! Heads that are malformed or contradictory, and unusual heads that are valid. The decoder's own tests have
//! more of them, at every split.

use super::Outcome::{self, Answered, Fails};
use super::{answers, meet};
use hoptax_format::record::Cause;

const MALFORMED: Outcome = Fails(Cause::MalformedResponse);

/// The connection remains open after each response. The engine must detect the error from the response alone.
#[test]
fn malformed_heads() {
    let table: [(&str, &[u8]); 17] = [
        ("another protocol", b"220 mail.example ESMTP\r\n"),
        ("HTTP/2 settings", b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64"),
        ("a TLS alert", b"\x15\x03\x03\0\x02\x02\x28"),
        ("a NUL", b"\0"),
        ("a NUL within the status line", b"HTTP/1.1 200 O\0K\r\ncontent-length: 0\r\n\r\n"),
        ("version 1.10", b"HTTP/1.10 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("no version", b"200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("another protocol's version", b"ICY 200 OK\r\n\r\n"),
        ("a request", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"),
        ("a blank before it", b" HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        ("letters as the status", b"HTTP/1.1 OK\r\ncontent-length: 0\r\n\r\n"),
        ("a negative status", b"HTTP/1.1 -20 OK\r\ncontent-length: 0\r\n\r\n"),
        ("a status glued to the reason", b"HTTP/1.1 200OK\r\ncontent-length: 0\r\n\r\n"),
        ("a NUL in a name", b"HTTP/1.1 200 OK\r\nx\0y: a\r\ncontent-length: 0\r\n\r\n"),
        ("a high byte in a name", b"HTTP/1.1 200 OK\r\n\xe4: a\r\ncontent-length: 0\r\n\r\n"),
        ("a hexadecimal length", b"HTTP/1.1 200 OK\r\ncontent-length: 0x2\r\n\r\nok"),
        ("an interim response that contradicts itself", b"HTTP/1.1 103 Hi\r\ncontent-length: x\r\n\r\n"),
    ];
    meet(&table.map(|(name, bytes)| answers(name, MALFORMED, bytes)));
}

#[test]
fn unusual_but_valid_heads() {
    let long = |length| format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\na: {}\r\n\r\n", "b".repeat(length));
    let interim = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(1000);
    let after_interim = interim + "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    meet(&[
        answers(
            "high bytes in reason and value",
            Answered(200),
            b"HTTP/1.1 200 \xe4\xf6\xfc\r\nx: \xff\r\ncontent-length: 0\r\n\r\n",
        ),
        answers(
            "blanks around a value",
            Answered(200),
            b"HTTP/1.1 200 OK\r\ncontent-length: \t 2 \r\n\r\nok",
        ),
        answers("an empty value", Answered(200), b"HTTP/1.1 200 OK\r\nx:\r\ncontent-length: 0\r\n\r\n"),
        answers("an unknown status", Answered(799), b"HTTP/1.1 799 Why\r\ncontent-length: 0\r\n\r\n"),
        answers("the largest status", Answered(999), b"HTTP/1.1 999 Most\r\ncontent-length: 0\r\n\r\n"),
        answers("a thousand interim responses", Answered(200), after_interim),
        answers("a head of nearly 64 KiB", Answered(200), long(65_000)),
        answers("a head of more than 64 KiB", MALFORMED, long(66_000)),
    ]);
}
