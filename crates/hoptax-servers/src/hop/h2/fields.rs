//! Rewrites heads. Fields for HTTP/2 are written as literals, which are valid on every connection.

use hoptax_plan::HopDeadline;
use hoptax_wire::grpc;
use hoptax_wire::http1::{Framing, Malformed, ResponseHead, fields, has_token};
use hoptax_wire::http2::hpack::write_literal;
use hoptax_wire::http2::{FieldList, Section};
use std::borrow::Cow;

/// How a body is sent to an upstream over HTTP/1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Coding {
    #[default]
    Raw,
    Chunks,
}

/// The last head of HTTP/2, and the output for it. Usually the same head arrives again.
#[derive(Default)]
pub(super) struct LastFields {
    fields: FieldList,
    key: (usize, bool),
    written: Vec<u8>,
    coding: Coding,
}

impl LastFields {
    /// Appends what `write` writes for a head. `key` has everything else that `write` depends on.
    pub(super) fn or_write(
        &mut self,
        head: &FieldList,
        key: (usize, bool),
        to: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> Coding,
    ) -> Coding {
        if self.written.is_empty() || self.key != key || self.fields != *head {
            self.fields.clone_from(head);
            self.key = key;
            self.written.clear();
            self.coding = write(&mut self.written);
        }
        to.extend_from_slice(&self.written);
        self.coding
    }
}

/// The last head of HTTP/1, and the output for it.
#[derive(Default)]
pub(super) struct LastHead {
    raw: Vec<u8>,
    written: Vec<u8>,
}

impl LastHead {
    /// Appends the fields of a response's head for HTTP/2.
    pub(super) fn or_write(
        &mut self,
        raw: &[u8],
        head: &ResponseHead,
        to: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        if self.raw != raw || self.written.is_empty() {
            self.raw.clear();
            self.written.clear();
            from_http1(raw, head, &mut self.written)?;
            self.raw.extend_from_slice(raw);
        }
        to.extend_from_slice(&self.written);
        Ok(())
    }
}

/// Appends fields unchanged.
pub(super) fn literals(fields: &FieldList, to: &mut Vec<u8>) {
    for (name, value) in fields.iter() {
        literal(to, name, value);
    }
}

/// Appends the fields of a request. Its deadline is dropped or replaced, if the plan says so.
pub(super) fn request_literals(fields: &FieldList, planted: Option<HopDeadline>, to: &mut Vec<u8>) {
    for (name, value) in fields.iter() {
        match planted.filter(|_| name == grpc::TIMEOUT.as_bytes()) {
            None => literal(to, name, value),
            Some(HopDeadline::Drop) => {}
            Some(HopDeadline::Replace(time)) => {
                literal(to, name, grpc::timeout(time.as_nanos() as u64).as_bytes());
            }
        }
    }
}

fn literal(to: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    // The decoder accepts only names of ASCII.
    if let Ok(name) = str::from_utf8(name) {
        write_literal(to, name, value);
    }
}

/// Appends the fields of a response that the hop itself sends.
pub(super) fn own_head(status: u16, length: usize, to: &mut Vec<u8>) {
    for (name, value) in [
        (":status", status.to_string()),
        ("content-type", "text/plain".to_owned()),
        ("content-length", length.to_string()),
    ] {
        write_literal(to, name, value.as_bytes());
    }
}

/// True if a request can be written for HTTP/1: no part of its request line has a blank.
pub(super) fn fits_http1(head: &Section) -> bool {
    let is_word = |part: &[u8]| !part.is_empty() && part.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    is_word(head.method()) && head.path().is_some_and(is_word)
}

/// Appends the head of a request for HTTP/1. `host` is used if the request has no authority. `end` is true if
/// no body follows.
pub(super) fn to_http1(head: &Section, host: &str, end: bool, to: &mut Vec<u8>) -> Coding {
    let list = head.fields();
    let authority = head.authority().or(list.get("host")).unwrap_or(host.as_bytes());
    let path = head.path().unwrap_or_default();
    put(to, &[head.method(), b" ", path, b" HTTP/1.1\r\nhost: ", authority, b"\r\n"]);
    for (name, value) in list.iter() {
        if !name.starts_with(b":") && !matches!(name, b"host" | b"te" | b"cookie") {
            put(to, &[name, b": ", value, b"\r\n"]);
        }
    }
    // HTTP/2 can divide cookies into several fields (RFC 9113, section 8.2.3).
    let cookies: Vec<&[u8]> =
        list.iter().filter(|(name, _)| *name == b"cookie").map(|(_, value)| value).collect();
    if !cookies.is_empty() {
        put(to, &[b"cookie: ", &cookies.join(&b"; "[..]), b"\r\n"]);
    }
    let coding = if end || head.content_length().is_some() { Coding::Raw } else { Coding::Chunks };
    if coding == Coding::Chunks {
        to.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    to.extend_from_slice(b"\r\n");
    coding
}

fn put(to: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| to.extend_from_slice(part));
}

/// Appends the fields of a head of HTTP/1, without those that belong to a connection.
fn from_http1(raw: &[u8], head: &ResponseHead, to: &mut Vec<u8>) -> Result<(), Malformed> {
    write_literal(to, ":status", head.status.to_string().as_bytes());
    let mut named = Vec::new();
    fields(raw, |field| {
        if field.name.eq_ignore_ascii_case("connection") {
            named.push(field.value);
        }
    })?;
    let has_length = head.status != 204 && matches!(head.framing, Framing::Length(_) | Framing::None);
    fields(raw, |field| {
        let name = field.name.to_ascii_lowercase();
        let is_left_out = match name.as_str() {
            "connection" | "keep-alive" | "te" | "trailer" | "transfer-encoding" | "upgrade" => true,
            "content-length" => !has_length,
            name => name.starts_with("proxy-") || named.iter().any(|list| has_token(list, name)),
        };
        if !is_left_out {
            let value: Cow<'_, [u8]> = field.unfolded();
            write_literal(to, &name, &value);
        }
    })
}

/// Appends the fields of an interim head of HTTP/1.
pub(super) fn interim_from_http1(raw: &[u8], to: &mut Vec<u8>) -> Result<(), Malformed> {
    // The decoder has accepted the status line.
    let status = raw.split(|byte| *byte == b' ').find(|part| part.len() == 3).unwrap_or(b"100");
    write_literal(to, ":status", status);
    fields(raw, |field| {
        let name = field.name.to_ascii_lowercase();
        if !matches!(name.as_str(), "connection" | "keep-alive" | "transfer-encoding" | "upgrade") {
            write_literal(to, &name, &field.unfolded());
        }
    })
}
