//! Servers that never stop sending. The engine must stop reading at its limits or at the timeout. The module
//! `memory` checks how much memory the engine uses meanwhile.

use super::Outcome::{self, Fails};
use super::{Case, case, meet};
use hoptax_format::record::Cause;

const MALFORMED: Outcome = Fails(Cause::MalformedResponse);
const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

fn flood(name: &'static str, outcome: Outcome, begin: &'static str, rest: &'static str) -> Case {
    case(name, outcome, move |peer| {
        if peer.request() && peer.write(begin) {
            peer.flood(rest);
        }
    })
}

pub(crate) fn floods() -> Vec<Case> {
    let timeout = Fails(Cause::ReadTimeout);
    vec![
        flood("empty lines", MALFORMED, "", "\r\n"),
        flood("a reason", MALFORMED, "HTTP/1.1 200 ", "a"),
        flood("header fields", MALFORMED, "HTTP/1.1 200 OK\r\n", "a: b\r\n"),
        flood("a header's name", MALFORMED, "HTTP/1.1 200 OK\r\n", "a"),
        flood("a header's value", MALFORMED, "HTTP/1.1 200 OK\r\na: ", "b"),
        flood("interim responses", timeout, "", "HTTP/1.1 103 Early Hints\r\n\r\n"),
        flood("a body until the end", timeout, "HTTP/1.1 200 OK\r\n\r\n", "x"),
        flood("2 GiB and more", timeout, "HTTP/1.1 200 OK\r\ncontent-length: 9007199254740992\r\n\r\n", "x"),
        flood("chunks", timeout, CHUNKED, "1\r\nx\r\n"),
        flood(
            "one chunk",
            timeout,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
            "x",
        ),
        flood("a chunk's size", MALFORMED, CHUNKED, "0"),
        flood(
            "a chunk's extension",
            MALFORMED,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;",
            "x",
        ),
        flood(
            "trailers",
            MALFORMED,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
            "a: b\r\n",
        ),
        flood("a trailer", MALFORMED, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: ", "b"),
        flood("responses", MALFORMED, "", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"),
    ]
}

#[test]
fn never_stop() {
    meet(&floods());
}
