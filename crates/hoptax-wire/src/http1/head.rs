//! Parses heads. Reads the fields that determine the end of the body and whether the connection stays open.
//! Also caches the last head.

use super::lenient::{Field, Line, Lines};
use super::{Framing, MAX_FIELDS, MAX_HEAD, Malformed, Version};
use std::mem::MaybeUninit;

/// Memory for the fields of one head. It is on the stack and is not initialized before use.
pub(super) type FieldRoom<'b> = [MaybeUninit<httparse::Header<'b>>; MAX_FIELDS];

pub(super) fn field_room<'b>() -> FieldRoom<'b> {
    [const { MaybeUninit::uninit() }; MAX_FIELDS]
}

/// How strictly fields and chunks are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    /// As RFC 9112 requires. Used for requests.
    Strict,
    /// As curl and common gateways read responses.
    Lenient,
}

/// Values of the fields that a decoder needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FramingFields {
    pub(super) content_length: Option<u64>,
    pub(super) chunked: bool,
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    pub(super) upgrade: bool,
    pub(super) expect_continue: bool,
    pub(super) hosts: u8,
}

impl FramingFields {
    /// Reads the fields that affect framing and connection. Most other fields are skipped quickly, because
    /// the length of the name is compared first.
    pub(super) fn read(headers: &[httparse::Header<'_>], rules: Rules) -> Result<Self, Malformed> {
        let mut framing_fields = FramingFields::default();
        for header in headers {
            framing_fields.add(header.name, header.value, rules)?;
        }
        Ok(framing_fields)
    }

    #[inline]
    pub(super) fn add(&mut self, name: &str, value: &[u8], rules: Rules) -> Result<(), Malformed> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        match name.len() {
            4 if is("host") => self.hosts = self.hosts.saturating_add(1),
            6 if is("expect") => self.expect_continue |= value.eq_ignore_ascii_case(b"100-continue"),
            10 if is("connection") => {
                self.close |= has_token(value, "close");
                self.keep_alive |= has_token(value, "keep-alive");
                self.upgrade |= has_token(value, "upgrade");
            }
            14 if is("content-length") => self.read_length(value)?,
            17 if is("transfer-encoding") => self.read_coding(value, rules)?,
            _ => {}
        }
        Ok(())
    }

    /// Reads a transfer coding. In some responses, a server and a proxy have both written `chunked`, although
    /// the body is chunked only once.
    fn read_coding(&mut self, value: &[u8], rules: Rules) -> Result<(), Malformed> {
        let is_chunked = |coding: &[u8]| coding.trim_ascii().eq_ignore_ascii_case(b"chunked");
        let accepted = match rules {
            Rules::Strict => !self.chunked && value.eq_ignore_ascii_case(b"chunked"),
            Rules::Lenient => !value.contains(&b'\n') && value.split(|&byte| byte == b',').all(is_chunked),
        };
        self.chunked = true;
        if accepted { Ok(()) } else { Err(Malformed::TransferCoding) }
    }

    /// Parses a content length. A list of equal lengths counts as one length, as RFC 9112 §6.3 allows. Any
    /// other value is refused. A length in a folded line is refused too, because some parsers would find no
    /// length there.
    fn read_length(&mut self, value: &[u8]) -> Result<(), Malformed> {
        if value.contains(&b'\n') {
            return Err(Malformed::ContentLength);
        }
        for part in value.split(|&byte| byte == b',') {
            let length = decimal(part.trim_ascii()).ok_or(Malformed::ContentLength)?;
            if self.content_length.is_some_and(|earlier| earlier != length) {
                return Err(Malformed::ContentLengthsDiffer);
            }
            self.content_length = Some(length);
        }
        Ok(())
    }

    /// Returns the framing that the fields define, or `None` if they do not define one.
    pub(super) fn framing(&self, version: Version, rules: Rules) -> Result<Option<Framing>, Malformed> {
        match (self.chunked, self.content_length) {
            (true, Some(_)) => Err(Malformed::TwoFramings),
            (true, None) if version == Version::Http10 && rules == Rules::Strict => {
                Err(Malformed::TransferCoding)
            }
            (true, None) => Ok(Some(Framing::Chunked)),
            (false, length) => Ok(length.map(Framing::Length)),
        }
    }

    /// True if the connection can carry another message (RFC 9112 §9.3).
    pub(super) fn persists(&self, version: Version) -> bool {
        match version {
            Version::Http11 => !self.close,
            Version::Http10 => self.keep_alive && !self.close,
        }
    }
}

pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// True if a comma-separated list, such as the value of `connection`, contains this token. The comparison
/// ignores case.
pub fn has_token(value: &[u8], token: &str) -> bool {
    value.split(|&byte| byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// Returns the first [`MAX_HEAD`] bytes of `input`, so that later bytes never affect how a head is read.
pub(super) fn within_bounds(input: &[u8]) -> &[u8] {
    &input[..input.len().min(MAX_HEAD)]
}

/// Converts httparse's result to the length of the head. `parsed_bytes` is the number of bytes that httparse
/// has read (see [`within_bounds`]). Returns `None` if the head is incomplete.
pub(super) fn bounded(
    parsed: httparse::Result<usize>,
    parsed_bytes: usize,
) -> Result<Option<usize>, Malformed> {
    match parsed {
        Ok(httparse::Status::Complete(length)) => Ok(Some(length)),
        Ok(httparse::Status::Partial) if parsed_bytes < MAX_HEAD => Ok(None),
        Ok(httparse::Status::Partial) => Err(Malformed::HeadTooLong),
        Err(httparse::Error::TooManyHeaders) => Err(Malformed::TooManyFields(MAX_FIELDS)),
        Err(error) => Err(Malformed::Head(describe(error))),
    }
}

fn describe(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::HeaderName => "a header's name contains an invalid character",
        httparse::Error::HeaderValue => "a header's value contains a control character",
        httparse::Error::NewLine => "a line does not end with CRLF",
        httparse::Error::Status => "the status is not three digits and a printable reason",
        httparse::Error::Token => "the request line is not a method, a target and a version",
        httparse::Error::TooManyHeaders => "too many header fields",
        httparse::Error::Version => "the version is not HTTP/1.0 or HTTP/1.1",
    }
}

pub(super) fn version(minor: Option<u8>) -> Version {
    if minor == Some(0) { Version::Http10 } else { Version::Http11 }
}

/// Caches the last complete head and its parsed form. A peer usually sends the same head again, and comparing
/// two heads is ten times cheaper than parsing one. All connections of a worker share one cache. The cache
/// never changes the results of a decoder.
#[derive(Debug, Clone)]
pub struct HeadCache<T> {
    bytes: Vec<u8>,
    parsed: Option<T>,
}

/// Maximum length of a cached head, in bytes. Longer heads are rare and expensive to copy.
const REMEMBERED: usize = 2048;

impl<T> Default for HeadCache<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> HeadCache<T> {
    /// Creates an empty cache.
    pub fn new() -> Self {
        Self { bytes: Vec::new(), parsed: None }
    }

    /// Returns the cached head if `input` begins with it. The bytes after the head do not matter, because the
    /// meaning of a head depends only on its own bytes.
    fn find(&self, input: &[u8]) -> Option<(usize, &T)> {
        let parsed = self.parsed.as_ref()?;
        input.starts_with(&self.bytes).then_some((self.bytes.len(), parsed))
    }

    fn remember(&mut self, head: &[u8], parsed: T) {
        if head.len() <= REMEMBERED {
            self.bytes.clear();
            self.bytes.extend_from_slice(head);
            self.parsed = Some(parsed);
        }
    }
}

/// Returns the head at the start of `input` and its length. The head comes from `cache`, or is parsed with
/// `parse`. Returns `None` if the head is incomplete.
pub(super) fn find_or_parse<T: Clone>(
    cache: Option<&mut HeadCache<T>>,
    input: &[u8],
    parse: impl FnOnce(&[u8]) -> Result<Option<(usize, T)>, Malformed>,
) -> Result<Option<(usize, T)>, Malformed> {
    let Some(cache) = cache else { return parse(input) };
    if let Some((length, parsed)) = cache.find(input) {
        return Ok(Some((length, parsed.clone())));
    }
    let found = parse(input)?;
    if let Some((length, parsed)) = &found {
        cache.remember(&input[..*length], parsed.clone());
    }
    Ok(found)
}

/// Calls `each` with every header field of a complete head, in order. Use this function to forward or compare
/// heads: the decoders read only the fields that affect framing.
///
/// # Errors
/// If `head` is not a complete head.
pub fn fields<'b>(head: &'b [u8], mut each: impl FnMut(Field<'b>)) -> Result<(), Malformed> {
    let mut room = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let lines = &head[start_line_length(head).ok_or(Malformed::CutShort)?..];
    match httparse::parse_headers(lines, &mut room) {
        Ok(httparse::Status::Complete((_, fields))) => {
            fields.iter().for_each(|field| each(Field { name: field.name, value: field.value }));
            Ok(())
        }
        Ok(httparse::Status::Partial) => Err(Malformed::CutShort),
        Err(_) => lenient_fields(lines, each),
    }
}

fn lenient_fields<'b>(lines: &'b [u8], mut each: impl FnMut(Field<'b>)) -> Result<(), Malformed> {
    let mut lines = Lines::new(lines);
    loop {
        match lines.next()? {
            Line::Field(field) => each(field),
            Line::End => return Ok(()),
            Line::Partial => return Err(Malformed::CutShort),
        }
    }
}

/// Returns the length of the start line, including its line end and any empty lines before it. Returns `None`
/// if the line is incomplete.
pub fn start_line_length(head: &[u8]) -> Option<usize> {
    let start = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let end = head[start..].iter().position(|&byte| byte == b'\n')?;
    Some(start + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_plain_decimals_only() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"007"), Some(7));
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        for wrong in [&b""[..], b"18446744073709551616", b"+5", b"-1", b"1 2", b"0x1", b"1e3"] {
            assert_eq!(decimal(wrong), None, "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn finds_tokens_in_lists() {
        assert!(has_token(b"Keep-Alive", "keep-alive"));
        assert!(has_token(b"te ,\tCLOSE", "close"));
        assert!(!has_token(b"closed", "close"));
        assert!(!has_token(b"", "close"));
    }

    #[test]
    fn caches_only_the_last_head() {
        let mut cache = HeadCache::new();
        assert_eq!(cache.find(b"A\r\n\r\n"), None);
        cache.remember(b"A\r\n\r\n", 1);
        assert_eq!(cache.find(b"A\r\n\r\nbody"), Some((5, &1)));
        assert_eq!(cache.find(b"A\r\n\r"), None);
        cache.remember(b"B\r\n\r\n", 2);
        assert_eq!(cache.find(b"A\r\n\r\n"), None);
        cache.remember(&[b'C'; REMEMBERED + 1], 3);
        assert_eq!(cache.find(b"B\r\n\r\n"), Some((5, &2)));
    }

    #[test]
    fn lists_fields_of_both_kinds_of_head() {
        for head in
            [&b"\r\nGET / HTTP/1.1\r\nHost: a\r\nX:  b \r\n\r\n"[..], b"HTTP/1.1 200 OK\nHost:a\nX:b\n\n"]
        {
            let mut seen = Vec::new();
            fields(head, |field| seen.push((field.name, field.value))).expect("well-formed");
            assert_eq!(seen, [("Host", &b"a"[..]), ("X", b"b")]);
        }
        assert_eq!(fields(b"GET / HTTP/1.1\r\nHost: a\r\n", |_| ()), Err(Malformed::CutShort));
        let mut seen = Vec::new();
        fields(b"HTTP/1.1 200 OK\r\n\"x\":\r\n a\r\n\tb \r\ny: c\r\n\r\n", |field| {
            seen.push((field.name, field.unfolded().into_owned()));
        })
        .expect("well-formed");
        assert_eq!(seen, [("\"x\"", b"a  \tb".to_vec()), ("y", b"c".to_vec())]);
    }
}
