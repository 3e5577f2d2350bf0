//! Bodies in chunks: refuses invalid settings, and cuts a request into pieces if it pauses between its
//! chunks.

use super::error::{TargetError, TargetPart};
use super::length::{self, refuse_own_length};
use hoptax_format::spec::{Chunked, HttpVersion, TargetSpec};

/// The end of the head of a request whose body is in chunks.
pub(super) const HEAD_END: &[u8] = b"transfer-encoding: chunked\r\n\r\n";
/// Advice if the target itself has a `transfer-encoding` header.
pub(super) const INSTEAD: &str = "leave it out; `chunked` (option `--chunked`) sends the body in chunks";
/// The chunk without data that ends a body.
const LAST: &[u8] = b"0\r\n\r\n";
/// Length of the line breaks of a chunk.
const BREAKS: usize = 4;

/// Data in each chunk, bytes.
pub(super) fn size(chunked: Chunked) -> usize {
    usize::try_from(chunked.chunk_bytes).unwrap_or(usize::MAX).max(1)
}

/// Refuses settings of chunks that are impossible for this request.
pub(super) fn refuse_impossible(target: &TargetSpec, version: HttpVersion) -> Result<(), TargetError> {
    let Some(chunked) = target.chunked else { return Ok(()) };
    let fault = |message: &str, help: &str| Err(TargetError::new(target, TargetPart::Body, message, help));
    if version == HttpVersion::Http10 {
        return fault("HTTP/1.0 has no chunked bodies", "use HTTP/1.1, or leave out `chunked`");
    }
    if chunked.chunk_bytes == 0 {
        return fault("its chunks are empty", "use chunks of 1 byte or more");
    }
    let chunks = chunked.chunks(target.body.len() as u64);
    if chunks > Chunked::MOST_CHUNKS {
        let message = format!("it has {chunks} chunks");
        return fault(&message, &format!("use larger chunks; at most {} are allowed", Chunked::MOST_CHUNKS));
    }
    refuse_own_length(target, "a body in chunks has no length in the head")
}

/// Maximum number of bytes that chunks of `size` bytes add to a body.
pub(super) fn longest_framing(body: usize, size: usize) -> usize {
    body.div_ceil(size) * (hex_digits(size.min(body)) + BREAKS) + LAST.len()
}

fn hex_digits(number: usize) -> usize {
    (number.max(1).ilog2() / 4 + 1) as usize
}

/// How to cut a request into pieces if it pauses between its chunks. The first piece is the head with the
/// first chunk. Each further piece is a chunk. The last piece also ends the body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pieces {
    /// Length of a whole chunk with its framing, bytes.
    chunk: usize,
    pub(crate) pause_ns: u64,
}

impl Pieces {
    pub(super) fn new(chunked: Chunked) -> Option<Self> {
        let size = size(chunked);
        let chunk = size.saturating_add(hex_digits(size) + BREAKS);
        (chunked.pause_ns > 0).then_some(Self { chunk, pause_ns: chunked.pause_ns })
    }

    /// Length of the first piece of `request`.
    pub(crate) fn first(self, request: &[u8]) -> usize {
        let end = request.windows(length::HEAD_END.len()).position(|bytes| bytes == length::HEAD_END);
        let head = end.map_or(0, |end| end + length::HEAD_END.len());
        head + self.next(request.len() - head)
    }

    /// Length of the next piece if the request has `left` more bytes.
    pub(crate) fn next(self, left: usize) -> usize {
        if left <= self.chunk.saturating_add(LAST.len()) { left } else { self.chunk }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Mix, Protocol, Requests};
    use super::*;
    use std::collections::BTreeMap;

    fn post(text: &str, chunk_bytes: u64) -> TargetSpec {
        let headers = vec![("host".to_owned(), "x".to_owned())];
        let body_is_template = text.contains("{{");
        let chunked = Some(Chunked { chunk_bytes, pause_ns: 1 });
        TargetSpec { body_is_template, chunked, ..TargetSpec::only("POST", "/", headers, text.into()) }
    }

    /// The first request to this target, cut into its pieces.
    fn pieces(target: TargetSpec) -> Vec<String> {
        let (targets, files) = ([target], BTreeMap::new());
        let mix = Mix::new(&targets, &files, 3, Protocol::default()).expect("valid");
        let mut requests = Requests::new(&mix, (0, 1));
        let mut rest = requests.next(0, 1);
        let how = mix.target(0).pieces.expect("it pauses");
        let (mut pieces, mut length) = (Vec::new(), how.first(rest));
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(length);
            pieces.push(String::from_utf8(piece.to_vec()).expect("text"));
            (rest, length) = (after, how.next(after.len()));
        }
        pieces
    }

    #[test]
    fn requests_are_cut_between_chunks() {
        const HEAD: &str = "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        let long = "x".repeat(40);
        for (text, size, bodies) in [
            ("", 4, &["0\r\n\r\n"][..]),
            ("a", 4, &["1\r\na\r\n0\r\n\r\n"]),
            ("abcd", 4, &["4\r\nabcd\r\n0\r\n\r\n"]),
            ("abcde", 4, &["4\r\nabcd\r\n", "1\r\ne\r\n0\r\n\r\n"]),
            ("abcdefgh", 4, &["4\r\nabcd\r\n", "4\r\nefgh\r\n0\r\n\r\n"]),
            ("\r\n\r\n{{seq}}", 4, &["4\r\n\r\n\r\n\r\n", "1\r\n0\r\n0\r\n\r\n"]),
            (
                &long,
                20,
                &[&format!("14\r\n{}\r\n", &long[..20]), &format!("14\r\n{}\r\n0\r\n\r\n", &long[..20])],
            ),
            ("abc", u64::MAX, &["3\r\nabc\r\n0\r\n\r\n"]),
        ] {
            let mut expected: Vec<String> = bodies.iter().map(|body| (*body).to_owned()).collect();
            expected[0].insert_str(0, HEAD);
            assert_eq!(pieces(post(text, size)), expected, "{text:?}");
        }
    }

    #[test]
    fn the_length_of_the_framing_is_a_bound() {
        for (body, size) in
            [(0, 1), (1, 1), (100, 1), (100, 16), (100, 17), (255, 255), (256, 256), (9, 1 << 40)]
        {
            let mut encoded = Vec::new();
            hoptax_wire::http1::chunked(&mut encoded, &vec![b'x'; body], size);
            assert!(encoded.len() <= body + longest_framing(body, size), "{body} {size}");
        }
    }

    #[test]
    fn impossible_chunks_are_refused() {
        let of = |target: &TargetSpec, version| {
            refuse_impossible(target, version).expect_err("refused").to_string()
        };
        let many = TargetSpec { body: vec![b'x'; 1_000_001], ..post("", 1) };
        let mut own = post("a", 1);
        own.headers.push(("Content-Length".into(), "1".into()));
        let told = [
            of(&post("a", 1), HttpVersion::Http10),
            of(&post("a", 0), HttpVersion::Http11),
            of(&many, HttpVersion::Http11),
            of(&own, HttpVersion::Http11),
        ];
        insta::assert_snapshot!(told.join("\n"));
        own.headers[1] = ("Transfer-Encoding".into(), "chunked".into());
        let error = Mix::new(&[own], &BTreeMap::new(), 0, Protocol::default()).expect_err("refused");
        assert!(error.to_string().contains("`--chunked`"), "{error}");
    }
}
