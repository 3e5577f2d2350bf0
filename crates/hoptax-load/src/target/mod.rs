//! Targets: the requests of a load, prepared for sending.
//!
//! A target without templates is encoded once, and every connection sends the same bytes. A target with
//! templates is encoded again for each request, in buffers that belong to the worker.

mod body;
mod chunks;
mod encoding;
mod error;
mod first;
mod handshake;
mod http2;
mod length;
mod mix;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use chunks::Pieces;
pub(crate) use encoding::Protocol;
pub use error::{TargetError, TargetPart};
pub use first::first_request;
pub(crate) use handshake::{Answered, Handshake};
pub use mix::check;
pub(crate) use mix::{Mix, Requests};
pub(crate) use stream::Stream;

use crate::checks::{self, Checks};
use body::body_program;
use encoding::Encoding;
use error::TOKEN;
use hoptax_format::field::is_token;
use hoptax_format::grpc;
use hoptax_format::messages::{Carrier, StreamKind};
use hoptax_format::spec::{HttpVersion, TargetSpec, is_idempotent};
use hoptax_format::template::{Files, Place, Program, Usage, Values, push_decimal};
use hoptax_wire::http1::chunked;
use http2::Streamed;
use length::{HEAD_END, WITH_BODY, own_lengths, refuse_own_length};
use std::borrow::Cow;

/// Last bytes of the head before the value of `content-length`, for bodies whose length varies.
const LENGTH: &[u8] = b"content-length: ";

/// A request that is ready to be sent, and the checks of its response.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// Index of the target in the mix, from 0.
    pub(crate) index: u32,
    encoded: Encoded,
    /// Encoding of the last request on a connection. Absent if it is the same as `encoded`.
    last: Option<Encoded>,
    /// True if the method is HEAD. Responses then have no body, even if their headers announce a body.
    pub(crate) is_head: bool,
    /// True if requests are gRPC calls.
    pub(crate) is_call: bool,
    /// True if the calls use gRPC-Web.
    pub(crate) is_web: bool,
    /// The messages of an exchange with streams. Absent if each side sends one message.
    pub(crate) stream: Option<Stream>,
    /// The handshake of a WebSocket. Absent for other targets.
    pub(crate) handshake: Option<Handshake>,
    pub(crate) is_idempotent: bool,
    /// How the request is cut into pieces. Absent if the whole request is sent at once.
    pub(crate) pieces: Option<Pieces>,
    pub(crate) checks: Checks,
}

#[derive(Debug)]
struct Encoded {
    request: Request,
    closes: bool,
}

#[derive(Debug)]
enum Request {
    Fixed(Vec<u8>),
    Made(Box<Made>),
    /// For HTTP/2.
    Streamed(Box<Streamed>),
}

#[derive(Debug)]
struct Made {
    /// The whole request, if the body has no templates. Otherwise everything before the value of
    /// `content-length`, or before the first chunk.
    front: Program,
    body: Option<Program>,
    /// Data in each chunk of `body`, bytes. Absent if `body` is not sent in chunks.
    chunk: Option<usize>,
    usage: Usage,
}

impl Target {
    /// Prepares `target`. `files` must contain all files that its templates name.
    ///
    /// # Errors
    /// If a part contains characters that are not allowed in it, or if no response could pass the checks.
    fn new(
        index: u32,
        target: &TargetSpec,
        files: &Files<'_>,
        protocol: Protocol,
    ) -> Result<Self, TargetError> {
        let stream = target.stream.map(|spec| Stream::new(target, spec)).transpose()?;
        let body = match &stream {
            // After the handshake, the worker writes the messages.
            Some(stream) if stream.spec.carrier == Carrier::WebSocket => Some(Vec::new()),
            // With HTTP/2, the worker writes the messages of calls.
            Some(stream) if target.grpc_web => {
                Some(grpc::body(&stream.message).expect("the length was checked"))
            }
            _ => None,
        };
        let whole = match body {
            Some(body) => Cow::Owned(TargetSpec { body, ..target.clone() }),
            None => Cow::Borrowed(target),
        };
        let is_http2 = protocol.version == HttpVersion::Http2;
        let handshake = stream.as_ref().filter(|stream| stream.spec.carrier == Carrier::WebSocket);
        let handshake = handshake.map(|_| Handshake::new(target, protocol.version)).transpose()?;
        let success = handshake.is_some().then_some(if is_http2 { 200 } else { 101 });
        let encoded = |closing| Encoded::new(&whole, files, Encoding { version: protocol.version, closing });
        let is_head = target.method == "HEAD";
        let (encoded, last) = match protocol.version {
            // No request of HTTP/2 says that it is the last one on its connection.
            HttpVersion::Http2 => {
                let streamed = Streamed::new(&whole, files, protocol.scheme())?;
                (Encoded { request: Request::Streamed(Box::new(streamed)), closes: false }, None)
            }
            _ => (
                encoded(protocol.per_connection == Some(1))?,
                protocol.per_connection.filter(|most| *most > 1).map(|_| encoded(true)).transpose()?,
            ),
        };
        Ok(Self {
            name: target.name.clone(),
            index,
            encoded,
            last,
            is_head,
            is_call: target.grpc,
            is_web: target.grpc_web,
            stream,
            handshake,
            is_idempotent: is_idempotent(&target.method),
            pieces: target.chunked.and_then(Pieces::new),
            checks: checks(target, is_head, success)?,
        })
    }

    #[cfg(test)]
    pub(crate) fn of_get() -> Self {
        let target = TargetSpec::only("GET", "/", Vec::new(), Vec::new());
        Self::new(0, &target, &Files::default(), Protocol::default()).expect("fit to be sent")
    }

    /// True if the server answers with a stream of messages.
    #[inline]
    pub(crate) fn receives_stream(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.spec.kind != StreamKind::ClientStream)
    }

    /// What carries the messages of the target's streams. `None` if it has no streams.
    #[inline]
    pub(crate) fn carrier(&self) -> Option<Carrier> {
        self.stream.as_ref().map(|stream| stream.spec.carrier)
    }

    /// HTTP/2: true if the worker writes the messages of the client. Other requests contain their body.
    #[inline]
    pub(crate) fn has_talk(&self) -> bool {
        matches!(self.carrier(), Some(Carrier::Grpc | Carrier::WebSocket))
    }

    /// True if the client ends the streams of this target when the measured time ends.
    pub(crate) fn is_endless(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.spec.is_endless())
    }

    #[inline]
    fn encoded(&self, last: bool) -> &Encoded {
        match &self.last {
            Some(encoded) if last => encoded,
            _ => &self.encoded,
        }
    }

    /// Returns the length of the longest request, and of the longest body that has templates.
    fn longest(&self, files: &Files<'_>) -> (usize, usize) {
        let each = [Some(&self.encoded), self.last.as_ref()].into_iter().flatten();
        each.fold((0, 0), |longest, encoded| {
            let (made, body) = match &encoded.request {
                Request::Fixed(_) => (0, 0),
                Request::Made(request) => request.longest(files),
                Request::Streamed(request) => request.longest(files),
            };
            (longest.0.max(made), longest.1.max(body))
        })
    }
}

impl Encoded {
    fn new(target: &TargetSpec, files: &Files<'_>, encoding: Encoding) -> Result<Self, TargetError> {
        Ok(Self { request: Request::new(target, files, encoding)?, closes: encoding.closes(target) })
    }

    /// Returns the bytes of the next request. `made` and `body` are buffers that this method may overwrite.
    #[inline]
    fn write<'b>(&'b self, values: &mut Values<'_>, made: &'b mut Vec<u8>, body: &mut Vec<u8>) -> &'b [u8] {
        match &self.request {
            Request::Fixed(bytes) => bytes,
            Request::Made(request) => {
                request.write(values, made, body);
                made
            }
            Request::Streamed(_) => unreachable!("HTTP/2 has no request of one piece"),
        }
    }
}

impl Request {
    fn new(target: &TargetSpec, files: &Files<'_>, encoding: Encoding) -> Result<Self, TargetError> {
        chunks::refuse_impossible(target, encoding.version)?;
        let mut front = head(target, files, encoding)?;
        let mut body = None;
        if target.body_is_template {
            let program = body_program(target, files)?;
            match program.fixed() {
                Some(bytes) => push_body(target, &mut front, bytes)?,
                None => {
                    refuse_own_length(target, "the length of the body varies")?;
                    front.push_bytes(if target.chunked.is_some() { chunks::HEAD_END } else { LENGTH });
                    body = Some(program);
                }
            }
        } else {
            push_body(target, &mut front, &target.body)?;
        }
        Ok(match (front.fixed(), &body) {
            (Some(bytes), None) => Self::Fixed(bytes.to_vec()),
            _ => {
                let usage = Usage::of([&front].into_iter().chain(&body), files);
                Self::Made(Box::new(Made { front, body, chunk: target.chunked.map(chunks::size), usage }))
            }
        })
    }
}

impl Made {
    fn write(&self, values: &mut Values<'_>, made: &mut Vec<u8>, body: &mut Vec<u8>) {
        made.clear();
        self.front.write(values, made);
        if let Some(program) = &self.body {
            body.clear();
            program.write(values, body);
            match self.chunk {
                None => {
                    push_decimal(made, body.len() as u64);
                    made.extend_from_slice(HEAD_END);
                    made.extend_from_slice(body);
                }
                Some(size) => chunked(made, body, size),
            }
        }
        values.advance(&self.usage);
    }

    fn longest(&self, files: &Files<'_>) -> (usize, usize) {
        const LONGEST_LENGTH: usize = 20;
        let body = self.body.as_ref().map_or(0, |body| body.longest(files));
        let framing = match self.chunk {
            None => LONGEST_LENGTH + HEAD_END.len(),
            Some(size) => chunks::longest_framing(body, size),
        };
        (self.front.longest(files) + framing + body, body)
    }
}

/// Encodes the request line and the headers, but not `content-length` and not the empty line after the
/// headers.
fn head(target: &TargetSpec, files: &Files<'_>, encoding: Encoding) -> Result<Program, TargetError> {
    let fault = |part, message: String, help| Err(TargetError::new(target, part, message, help));
    if !is_token(&target.method) {
        return fault(TargetPart::Method, format!("{:?} is not a method", target.method), TOKEN);
    }
    let mut head = Program::default();
    head.push_bytes(target.method.as_bytes());
    head.push_bytes(b" ");
    head.push_template(&target.path, Place::Path, files)
        .map_err(|error| TargetError::template(target, TargetPart::Path, error))?;
    head.push_bytes(format!(" {}\r\n", encoding.version().as_str()).as_bytes());
    for (index, (name, value)) in target.headers.iter().enumerate() {
        let part = || TargetPart::Header(index, name.clone());
        let is = |other| name.eq_ignore_ascii_case(other);
        if !is_token(name) {
            return fault(part(), format!("{name:?} is not a header name"), TOKEN);
        }
        if is("content-length") {
            // hoptax adds this header after the other headers.
            continue;
        }
        if is("transfer-encoding") {
            return fault(part(), "hoptax adds this header itself".into(), chunks::INSTEAD);
        }
        if is("host") && target.headers[..index].iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            return fault(part(), "a request has only one host".into(), "keep one `host` header");
        }
        head.push_bytes(name.as_bytes());
        head.push_bytes(b": ");
        head.push_template(value, Place::Header, files)
            .map_err(|error| TargetError::template(target, part(), error))?;
        if is("connection") && value.contains("{{") {
            let message = "the value of `connection` cannot contain a template";
            return fault(part(), message.into(), "write the value itself");
        }
        head.push_bytes(b"\r\n");
    }
    if let Some(value) = encoding.added_to(target) {
        head.push_bytes(format!("connection: {value}\r\n").as_bytes());
    }
    Ok(head)
}

/// Completes the head and appends `body`. The body must not have templates.
///
/// # Errors
/// If the target has a `content-length` header of its own with another length.
fn push_body(target: &TargetSpec, front: &mut Program, body: &[u8]) -> Result<(), TargetError> {
    if let Some(how) = target.chunked {
        front.push_bytes(chunks::HEAD_END);
        let mut encoded = Vec::new();
        chunked(&mut encoded, body, chunks::size(how));
        front.push_bytes(&encoded);
        return Ok(());
    }
    let mut stated = !body.is_empty() || WITH_BODY.contains(&target.method.as_str());
    for (index, name, value) in own_lengths(target) {
        if value.parse() != Ok(body.len()) {
            let message = format!("it is {value}, but the body has {} bytes", body.len());
            let part = TargetPart::Header(index, name.to_owned());
            return Err(TargetError::new(target, part, message, "leave it out: hoptax adds it"));
        }
        stated = true;
    }
    if stated {
        front.push_bytes(format!("content-length: {}\r\n", body.len()).as_bytes());
    }
    front.push_bytes(b"\r\n");
    front.push_bytes(body);
    Ok(())
}

/// Compiles the checks of a target. `success` is the status of a WebSocket's handshake that succeeds.
fn checks(target: &TargetSpec, is_head: bool, success: Option<u16>) -> Result<Checks, TargetError> {
    for (index, check) in target.checks.iter().enumerate() {
        let part = TargetPart::Check(index);
        if let Err(error) = hoptax_format::checks::check(check) {
            return Err(TargetError::new(target, part, error.message, error.help));
        }
        if is_head && !checks::passes_without_body(check) {
            let message = "no response can pass it: responses to HEAD have no body";
            return Err(TargetError::new(target, part, message, "leave it out, or use GET"));
        }
    }
    Ok(match success {
        Some(status) => Checks::of_handshakes(&target.checks, status),
        None if target.grpc => Checks::of_calls(&target.checks),
        None => Checks::new(&target.checks),
    })
}
