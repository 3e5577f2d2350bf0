//! The requests of the conformance test.

use crate::features::SERVER_NAME;
use hoptax_format::spec::HttpVersion;
use hoptax_servers::upstream::MARK;
use hoptax_wire::http1;

/// One request that a gateway must pass on.
#[derive(Debug, Clone, Copy)]
pub struct ConformanceCase {
    /// Name of the case, as packs list it under `differences`.
    pub name: &'static str,
    /// Short description of the case.
    pub about: &'static str,
    /// HTTP method.
    pub method: &'static str,
    /// Path of the request, without the prefix of the upstream's special requests ([`MARK`]).
    path: &'static str,
    body: Body,
    /// Length of the test header's value in bytes. Every request has this header.
    header: usize,
    /// Whether even direct's response is incomplete or missing in this case, because the upstream closes the
    /// connection.
    pub breaks: bool,
}

#[derive(Debug, Clone, Copy)]
enum Body {
    None,
    Counted(usize),
    Chunked(usize),
}

/// A request as sent.
pub(super) struct Sent {
    pub(super) bytes: Vec<u8>,
    /// Headers that the upstream must receive unchanged.
    pub(super) headers: Vec<(String, String)>,
}

/// Chunk size of chunked requests, bytes.
const CHUNK: usize = 5000;

const HEADER: &str = "x-hoptax-sent";

const fn get(name: &'static str, about: &'static str, path: &'static str) -> ConformanceCase {
    ConformanceCase { name, about, method: "GET", path, body: Body::None, header: 20, breaks: false }
}

const fn post(name: &'static str, about: &'static str, body: Body) -> ConformanceCase {
    ConformanceCase { method: "POST", body, ..get(name, about, "echo") }
}

/// All cases, in the order of the test.
pub const CASES: [ConformanceCase; 22] = [
    get("get", "a GET", "echo"),
    get("query", "a query with odd characters", "echo?a=1&a=2&b=%20%2F%3F+~!$'()*,;:@/?&c[]=%c3%a9&&d"),
    ConformanceCase { header: 30_000, ..get("request-header-30k", "a request header of 30 kB", "echo") },
    post("post-0", "a POST with an empty body", Body::Counted(0)),
    post("post-1k", "a POST with a body of 1 KiB", Body::Counted(1 << 10)),
    post("post-1m", "a POST with a body of 1 MiB", Body::Counted(1 << 20)),
    post("post-chunked-1k", "a POST in chunks, 1 KiB", Body::Chunked(1 << 10)),
    post("post-chunked-1m", "a POST in chunks, 1 MiB", Body::Chunked(1 << 20)),
    get("body-0", "an empty body", "bytes/0"),
    get("body-1k", "a body of 1 KiB", "bytes/1024"),
    get("body-1m", "a body of 1 MiB", "bytes/1048576"),
    get("chunked-1k", "a body in chunks, 1 KiB", "chunked/1024"),
    get("chunked-1m", "a body in chunks, 1 MiB", "chunked/1048576"),
    ConformanceCase { method: "HEAD", ..get("head", "a HEAD", "bytes/1024") },
    get("status-204", "a response without a body (204)", "status/204"),
    get("status-304", "a response of status 304", "status/304"),
    get("status-404", "a response of status 404 from the upstream", "status/404"),
    get("status-500", "a response of status 500 from the upstream", "status/500"),
    get("response-header-30k", "a response header of 30 kB", "header/30000"),
    get("slow", "an upstream that takes half a second", "slow/500ms"),
    ConformanceCase { breaks: true, ..get("close", "an upstream that closes without a response", "close") },
    ConformanceCase {
        breaks: true,
        ..get("close-midway", "an upstream that closes in the middle of its response", "close-midway")
    },
];

impl ConformanceCase {
    /// Why the case does not exist in this version of HTTP; `None` if it does.
    pub fn left_out(&self, http: HttpVersion) -> Option<&'static str> {
        let is_chunked = matches!(self.body, Body::Chunked(_));
        (is_chunked && http == HttpVersion::Http2).then_some("HTTP/2 has no chunks")
    }

    pub(super) fn sent(&self) -> Sent {
        let value: String = "0123456789abcdef".chars().cycle().take(self.header).collect();
        let mut head = format!(
            "{} {MARK}{} HTTP/1.1\r\nhost: {SERVER_NAME}\r\n{HEADER}: {value}\r\n",
            self.method, self.path
        );
        let (framing, body) = match self.body {
            Body::None => (String::new(), Vec::new()),
            Body::Counted(size) => (format!("content-length: {size}\r\n"), text(size)),
            Body::Chunked(size) => ("transfer-encoding: chunked\r\n".to_owned(), chunked(&text(size))),
        };
        head += &framing;
        head += "\r\n";
        let mut bytes = head.into_bytes();
        bytes.extend(body);
        Sent { bytes, headers: vec![(HEADER.to_owned(), value)] }
    }
}

/// A body of `size` bytes.
pub(super) fn text(size: usize) -> Vec<u8> {
    // The size of a block is usually a power of two. The pattern's length is not a power of two, so the body
    // changes if a block is shifted or repeated.
    b"every byte of this body has its place. ".iter().copied().cycle().take(size).collect()
}

fn chunked(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    http1::chunked(&mut bytes, body, CHUNK);
    bytes
}
