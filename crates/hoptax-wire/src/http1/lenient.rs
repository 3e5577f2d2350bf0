//! Reads the header lines of responses that deviate from RFC 9112 but that curl and common gateways accept:
//! folded lines, names such as `"x"`, and more than [`MAX_FIELDS`](super::MAX_FIELDS) fields. httparse reads
//! all other heads.
//!
//! The first wrong byte determines the error. Later bytes never change the error.

use super::{MAX_RESPONSE_FIELDS, Malformed};
use std::borrow::Cow;

/// One header field of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'b> {
    /// Name as sent.
    pub name: &'b str,
    /// Value without surrounding spaces and tabs. If the line is folded, it contains the line ends.
    pub value: &'b [u8],
}

impl<'b> Field<'b> {
    /// The value, with spaces instead of the line ends of a folded line (RFC 9112 §5.2).
    pub fn unfolded(self) -> Cow<'b, [u8]> {
        if !self.value.contains(&b'\n') {
            return Cow::Borrowed(self.value);
        }
        let spaced = |&byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte };
        let value: Vec<u8> = self.value.iter().map(spaced).collect();
        Cow::Owned(value.trim_ascii().to_vec())
    }
}

/// The header lines at the front of `rest`.
#[derive(Debug, Clone)]
pub(super) struct Lines<'b> {
    rest: &'b [u8],
    count: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line<'b> {
    /// The head is incomplete.
    Partial,
    /// The value of a folded line contains its line ends.
    Field(Field<'b>),
    /// The empty line after the header lines.
    End,
}

impl<'b> Lines<'b> {
    pub(super) fn new(lines: &'b [u8]) -> Self {
        Self { rest: lines, count: 0 }
    }

    /// Bytes that follow the lines that were read.
    pub(super) fn rest(&self) -> &'b [u8] {
        self.rest
    }

    /// Reads the next line. After an error, [`Self::rest`] begins with the wrong line.
    pub(super) fn next(&mut self) -> Result<Line<'b>, Malformed> {
        if let Some(length) = line_end(self.rest)? {
            if length == 0 {
                return Ok(Line::Partial);
            }
            self.rest = &self.rest[length..];
            return Ok(Line::End);
        }
        let Some(colon) = name(self.rest)? else { return Ok(Line::Partial) };
        let Some((value, length)) = value(&self.rest[colon + 1..])? else { return Ok(Line::Partial) };
        self.count += 1;
        if self.count > MAX_RESPONSE_FIELDS {
            return Err(Malformed::TooManyFields(MAX_RESPONSE_FIELDS));
        }
        let name = std::str::from_utf8(&self.rest[..colon]).expect("visible ASCII");
        self.rest = &self.rest[colon + 1 + length..];
        Ok(Line::Field(Field { name, value }))
    }
}

/// Length of the line end at the front of `input`: 0 if it is incomplete, `None` if there is none.
fn line_end(input: &[u8]) -> Result<Option<usize>, Malformed> {
    match input {
        [] | [b'\r'] => Ok(Some(0)),
        [b'\n', ..] => Ok(Some(1)),
        [b'\r', b'\n', ..] => Ok(Some(2)),
        [b'\r', ..] => Err(Malformed::Head("a line does not end with CRLF")),
        _ => Ok(None),
    }
}

/// Position of the colon after the name, or `None` if the name is incomplete. A name has visible ASCII
/// characters.
fn name(line: &[u8]) -> Result<Option<usize>, Malformed> {
    let length = line.iter().take_while(|&&byte| byte.is_ascii_graphic() && byte != b':').count();
    let wrong = |message| Err(Malformed::Head(message));
    match (line.get(length), length) {
        (None, _) => Ok(None),
        (Some(b':'), 0) => wrong("a header line has no name"),
        (Some(b':'), _) => Ok(Some(length)),
        (Some(b' ' | b'\t'), 0) => wrong("the first header line begins with a space"),
        (Some(b'\r' | b'\n'), _) => wrong("a header line has no colon"),
        (Some(_), _) => wrong("a header's name contains an invalid character"),
    }
}

/// Returns the value without surrounding spaces and tabs, and its length with its line end. `None` if it is
/// incomplete.
fn value(input: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    let mut at = 0;
    loop {
        match &input[at..] {
            [] | [b'\r'] => return Ok(None),
            [b'\r', b'\n', ..] | [b'\n', ..] => {
                let next = at + if input[at] == b'\r' { 2 } else { 1 };
                match input.get(next) {
                    None => return Ok(None),
                    Some(b' ' | b'\t') => at = next,
                    Some(_) => return Ok(Some((trimmed(&input[..at]), next))),
                }
            }
            [byte, ..] if *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f) => at += 1,
            _ => return Err(Malformed::Head("a header's value contains a control character")),
        }
    }
}

fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}
