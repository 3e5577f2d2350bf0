//! One connection of the scripted upstream: it answers each method as the cases need. It has no I/O.

use super::state::{Fields, Shared};
use crate::conformance::cases::text;
use hoptax_format::grpc::Status;
use hoptax_wire::grpc::{CONTENT_TYPE, MESSAGE, PREFIX, STATUS};
use hoptax_wire::http2::{Block, Code, Config, Connection, Fault, FieldList, OutField, Sections, Step};
use std::collections::BTreeMap;

/// Start of the paths of all methods.
const SERVICE: &str = "/hoptax.Conformance/";

/// Metadata of answers before the first message, with several values of a name.
pub(super) const METADATA: [(&str, &str); 4] = [
    ("x-hoptax-head", "one"),
    ("x-hoptax-head", "two"),
    ("x-hoptax-head-bin", "AAEC/w=="),
    ("x-hoptax-head-bin", "//79"),
];

/// Metadata of answers in their trailers.
pub(super) const TRAILING: [(&str, &str); 3] =
    [("x-hoptax-end", "three"), ("x-hoptax-end-bin", "AAEC/w=="), ("x-hoptax-end-bin", "//79")];

/// The `grpc-message` of calls that fail.
pub(super) const FAILURE: &str = "100%25 %C3%A4%0A";

/// The messages of answers, without prefixes. Streams have both messages.
pub(super) const FIRST: &[u8] = b"the first message";
pub(super) const SECOND: &[u8] = b"the second message";

/// The message `HealthCheckResponse { status: SERVING }`: field 1 with the value 1.
const SERVING: &[u8] = &[0x08, 0x01];

/// A method of the upstream. Its answer follows the end of the request, unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    /// Returns each message as soon as it is whole. The trailers follow the end of the request.
    Echo,
    /// [`FIRST`], and then NOT_FOUND with [`FAILURE`] in trailers.
    Fail,
    /// The same status in the head, without a message.
    TrailersOnly,
    /// [`FIRST`], without a status.
    NoStatus,
    /// DEADLINE_EXCEEDED in trailers, without a message.
    Deadline,
    /// No answer.
    Hang,
    /// [`FIRST`] at once, and [`SECOND`] after [`Shared::release`].
    Hold,
    /// A message of this number of bytes.
    Many(usize),
    /// An answer that is not gRPC, with this HTTP status.
    Http(u16),
}

/// The methods without a number.
const NAMED: [Method; 7] = [
    Method::Echo,
    Method::Fail,
    Method::TrailersOnly,
    Method::NoStatus,
    Method::Deadline,
    Method::Hang,
    Method::Hold,
];

impl Method {
    pub(super) fn path(self) -> String {
        match self {
            Self::Many(size) => format!("{SERVICE}Many{size}"),
            Self::Http(status) => format!("{SERVICE}Http{status}"),
            named => format!("{SERVICE}{named:?}"),
        }
    }

    /// The method with this path. `None` for all others, such as health checks.
    fn of(path: &[u8]) -> Option<Self> {
        let name = std::str::from_utf8(path).ok()?.strip_prefix(SERVICE)?;
        if let Some(size) = name.strip_prefix("Many") {
            return size.parse().ok().map(Self::Many);
        }
        if let Some(status) = name.strip_prefix("Http") {
            return status.parse().ok().map(Self::Http);
        }
        NAMED.into_iter().find(|method| format!("{method:?}") == name)
    }
}

/// A message with its prefix.
pub(super) fn message(content: &[u8]) -> Vec<u8> {
    flagged(0, content)
}

/// A message with this flag in its prefix.
pub(super) fn flagged(flag: u8, content: &[u8]) -> Vec<u8> {
    let mut message = vec![flag];
    message.extend_from_slice(&(content.len() as u32).to_be_bytes());
    message.extend_from_slice(content);
    message
}

/// Removes the whole messages from the start of `input`.
fn whole_messages(input: &mut Vec<u8>) -> Vec<u8> {
    let mut end = 0;
    while let Some([_, length @ ..]) = input[end..].first_chunk::<PREFIX>() {
        let next = end + PREFIX + u32::from_be_bytes(*length) as usize;
        if next > input.len() {
            break;
        }
        end = next;
    }
    input.drain(..end).collect()
}

/// Names and values as text.
pub(super) fn fields(list: &FieldList) -> Fields {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    list.iter().map(|(name, value)| (text(name), text(value))).collect()
}

/// The block of these fields.
pub(super) fn block<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Block {
    let field = |(name, value): (&str, &str)| OutField { name: name.to_owned(), value: value.to_owned() };
    Block::plain(&fields.into_iter().map(field).collect::<Vec<OutField>>())
}

fn trailers(status: Status, about: &str) -> Block {
    let number = status.number().to_string();
    let about = (!about.is_empty()).then_some((MESSAGE, about));
    block([(STATUS, number.as_str())].into_iter().chain(about).chain(TRAILING))
}

/// How an answer ends.
enum End {
    /// More follows.
    Open,
    /// With the last byte of the body.
    Data,
    Trailers(Block),
}

struct Call {
    /// `None` for a method that no case uses.
    method: Option<Method>,
    content_type: String,
    /// The part of a request that is not a whole message yet.
    input: Vec<u8>,
    /// The part of the answer for which there was no window.
    unsent: Vec<u8>,
    end: End,
    /// Number of releases when the call began to wait for the next one. Absent if it does not wait.
    held: Option<u64>,
}

/// A connection.
pub(super) struct Script {
    shared: Shared,
    connection: Connection,
    sections: Sections,
    input: Vec<u8>,
    /// Bytes to send. The caller removes them.
    pub(super) output: Vec<u8>,
    calls: BTreeMap<u32, Call>,
    /// Number of GOAWAYs that were requested before now.
    goaways: u64,
}

impl Script {
    pub(super) fn new(shared: Shared) -> Self {
        let mut output = Vec::new();
        let goaways = shared.requested_goaways();
        Self {
            shared,
            connection: Connection::server(Config::default(), &mut output),
            sections: Sections::new(),
            input: Vec::new(),
            output,
            calls: BTreeMap::new(),
            goaways,
        }
    }

    /// Handles bytes that arrived.
    ///
    /// # Errors
    /// If the client violated the protocol.
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.input.extend_from_slice(bytes);
        loop {
            let step = self.connection.advance(&self.input, &mut self.sections, &mut self.output);
            let (consumed, step) = step?;
            let is_last = step == Step::NeedMore;
            let data = match &step {
                Step::Body { data, .. } => self.input[data.clone()].to_vec(),
                _ => Vec::new(),
            };
            self.input.drain(..consumed);
            self.handle(step, &data);
            if is_last {
                return Ok(());
            }
        }
    }

    /// Does what the cases have requested since the last call. GOAWAY comes before the ends of calls.
    pub(super) fn poll(&mut self) {
        let requested = self.shared.requested_goaways();
        if requested > self.goaways {
            self.goaways = requested;
            self.connection.go_away(Code::NO_ERROR, &mut self.output);
            self.shared.count(|counts| counts.goaways += 1);
        }
        let releases = self.shared.releases();
        let is_released = |call: &Call| call.held.is_some_and(|since| since < releases);
        let released = self.calls.iter().filter(|entry| is_released(entry.1)).map(|(stream, _)| *stream);
        for stream in released.collect::<Vec<u32>>() {
            self.finish(stream, &message(SECOND), End::Trailers(trailers(Status::Ok, "")));
        }
    }

    /// The connection was closed.
    pub(super) fn close(&mut self) {
        let lost = self.calls.values().filter(|call| call.method.is_some()).count() as u64;
        self.shared.count(|counts| counts.cancelled += lost);
        self.calls.clear();
    }

    fn handle(&mut self, step: Step, data: &[u8]) {
        match step {
            Step::Head { stream, end } => {
                self.begin(stream.id);
                if end {
                    self.answer(stream.id);
                }
            }
            Step::Body { stream, end, .. } => {
                if let Some(call) = self.calls.get_mut(&stream.id) {
                    call.input.extend_from_slice(data);
                    if call.method == Some(Method::Echo) {
                        let whole = whole_messages(&mut call.input);
                        call.unsent.extend(whole);
                    }
                }
                self.push(stream.id);
                if end {
                    self.answer(stream.id);
                }
            }
            Step::Trailers { stream } => self.answer(stream.id),
            Step::Writable { stream } => self.push(stream.id),
            Step::Reset { stream, .. } | Step::Failed { stream, .. } => self.end(stream.id),
            _ => {}
        }
    }

    /// Called when the client has reset a stream.
    fn end(&mut self, stream: u32) {
        if self.calls.remove(&stream).is_some_and(|call| call.method.is_some()) {
            self.shared.count(|counts| counts.cancelled += 1);
        }
    }

    fn begin(&mut self, stream: u32) {
        let head = &self.sections.head;
        let method = head.path().and_then(Method::of);
        let fields = fields(head.fields());
        let content_type = fields.iter().find(|(name, _)| name == "content-type");
        let content_type = content_type.map_or(CONTENT_TYPE, |(_, value)| value.as_str()).to_owned();
        let (input, unsent) = (Vec::new(), Vec::new());
        self.calls.insert(stream, Call { method, content_type, input, unsent, end: End::Open, held: None });
        if method.is_some() {
            self.shared.set_head(fields);
        }
        if method == Some(Method::Echo) {
            self.send_head(stream);
        }
    }

    /// The request has ended.
    fn answer(&mut self, stream: u32) {
        let Some(call) = self.calls.get_mut(&stream) else { return };
        let method = call.method;
        if method.is_some() {
            self.shared.count(|counts| counts.ended += 1);
        }
        let ok = End::Trailers(trailers(Status::Ok, ""));
        match method {
            Some(Method::Hang) => {}
            Some(Method::Echo) => self.finish(stream, &[], ok),
            Some(Method::TrailersOnly) => {
                let number = Status::NotFound.number().to_string();
                let own = [(":status", "200"), ("content-type", CONTENT_TYPE)];
                let only = block(own.into_iter().chain([(STATUS, number.as_str()), (MESSAGE, FAILURE)]));
                self.connection.send_head(stream, &only, &[], true, &mut self.output);
                self.answered(stream);
            }
            Some(Method::Http(status)) => {
                let status = status.to_string();
                let head = block([(":status", status.as_str()), ("content-type", "text/plain")]);
                self.connection.send_head(stream, &head, &[], false, &mut self.output);
                self.finish(stream, b"not gRPC\n", End::Data);
            }
            Some(Method::Fail) => {
                self.send_head(stream);
                self.finish(stream, &message(FIRST), End::Trailers(trailers(Status::NotFound, FAILURE)));
            }
            Some(Method::NoStatus) => {
                self.send_head(stream);
                self.finish(stream, &message(FIRST), End::Data);
            }
            Some(Method::Deadline) => {
                self.send_head(stream);
                let end = trailers(Status::DeadlineExceeded, "too late");
                self.finish(stream, &[], End::Trailers(end));
            }
            Some(Method::Hold) => {
                call.held = Some(self.shared.releases());
                call.unsent = message(FIRST);
                self.send_head(stream);
                self.push(stream);
            }
            Some(Method::Many(size)) => {
                self.send_head(stream);
                self.finish(stream, &message(&text(size)), ok);
            }
            None => {
                self.send_head(stream);
                self.finish(stream, &message(SERVING), ok);
            }
        }
    }

    fn send_head(&mut self, stream: u32) {
        let Some(call) = self.calls.get(&stream) else { return };
        let own = [(":status", "200"), ("content-type", call.content_type.as_str())];
        let head = block(own.into_iter().chain(METADATA));
        self.connection.send_head(stream, &head, &[], false, &mut self.output);
    }

    /// Sends the rest of an answer.
    fn finish(&mut self, stream: u32, body: &[u8], end: End) {
        if let Some(call) = self.calls.get_mut(&stream) {
            call.unsent.extend_from_slice(body);
            call.end = end;
            call.held = None;
        }
        self.push(stream);
    }

    /// Sends what the windows allow of an answer.
    fn push(&mut self, stream: u32) {
        let Some(call) = self.calls.get_mut(&stream) else { return };
        let ends_with_data = matches!(call.end, End::Data);
        if !call.unsent.is_empty() || ends_with_data {
            let sent = self.connection.send_data(stream, &call.unsent, ends_with_data, &mut self.output);
            call.unsent.drain(..sent.unwrap_or(call.unsent.len()));
            if !call.unsent.is_empty() {
                return;
            }
        }
        match &call.end {
            End::Open => return,
            End::Data => {}
            End::Trailers(block) => {
                self.connection.send_head(stream, block, &[], true, &mut self.output);
            }
        }
        self.answered(stream);
    }

    fn answered(&mut self, stream: u32) {
        if self.calls.remove(&stream).is_some_and(|call| call.method.is_some()) {
            self.shared.count(|counts| counts.answered += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_found_by_their_paths() {
        for method in NAMED.into_iter().chain([Method::Many(70_000), Method::Http(503)]) {
            assert_eq!(Method::of(method.path().as_bytes()), Some(method));
        }
        for other in ["/grpc.health.v1.Health/Check", "/hoptax.Conformance/Manyx", "/hoptax.Conformance/"] {
            assert_eq!(Method::of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn only_whole_messages_are_removed() {
        let all = [message(b"a"), flagged(1, b"bc"), message(b"")].concat();
        for length in 0..=all.len() {
            let mut input = all[..length].to_vec();
            let whole = whole_messages(&mut input);
            let expected = [0, 6, 13, 18].into_iter().rev().find(|end| *end <= length).expect("zero");
            assert_eq!(whole.len(), expected, "{length}");
            assert_eq!([whole, input].concat(), all[..length], "{length}");
        }
    }
}
