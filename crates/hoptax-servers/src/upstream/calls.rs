//! Answers to gRPC calls. Every method of every service gets one message with the body of the settings, or a
//! stream of messages if the settings say so. The health service reports that all services are healthy, so
//! that gateways with health checks forward calls.
//!
//! If the settings have an HTTP status outside 200 to 299, calls get the gRPC status that gRPC's document
//! maps it to.
//!
//! gRPC-Web calls get the same answers, with the trailers at the end of the body. Over HTTP/1.1, and if the
//! client sends a stream, the answer is one message.

use super::answer::{Answers, allowed_fields};
use super::conversation::{Abort, Conversation, Replies};
use super::reflection::{self, Reflection};
use super::stream::{EventStream, Next};
use anyhow::Context as _;
use hoptax_format::grpc::{self, Status};
use hoptax_format::messages::{Stamp, StreamKind, StreamSpec, with_room};
use hoptax_plan::{Body, BuiltInUpstream};
use hoptax_wire::grpc::{
    CONTENT_TYPE, MESSAGE, PREFIX, STATUS, WEB_CONTENT_TYPE, encode_message, write_trailers,
};
use hoptax_wire::http2::{Block, OutField, response_fields};
use std::collections::HashMap;
use std::sync::Arc;

/// Paths of health checks (`grpc.health.v1`).
const HEALTH: &[u8] = b"/grpc.health.v1.Health/Check";
const WATCH: &[u8] = b"/grpc.health.v1.Health/Watch";
const HEALTH_SERVICE: &str = "grpc.health.v1.Health";
/// The message `HealthCheckResponse { status: SERVING }`: field 1 with the value 1.
const SERVING: &[u8] = &[0x08, 0x01];

const FAILURE_TEXT: &str = "this call was chosen to fail";
const STATUS_TEXT: &str = "the upstream ends calls with this status";

/// A call that is being answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// A call of the health service or of reflection.
    Own,
    /// Place in [`Calls::made`].
    Usual(u32),
}

/// The messages of an answer with many messages. Other calls are answered with one message.
#[derive(Debug)]
pub(super) enum Flow {
    /// The server sends messages by a schedule.
    Paced(Paced),
    BothWays(Conversation),
    /// The server sends events by a schedule. The request is not a call.
    Events(EventStream),
}

/// Messages that are due by a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paced {
    pub(super) messages: u32,
    pub(super) every_ns: u64,
    /// When the first message is due. Set when the request has ended.
    pub(super) begun: u64,
    /// Number of the next message, from 0, and how many of its bytes were sent.
    pub(super) number: u32,
    pub(super) sent: usize,
}

impl Paced {
    fn new(spec: StreamSpec) -> Self {
        Self { messages: spec.messages, every_ns: spec.every_ns, begun: 0, number: 0, sent: 0 }
    }

    /// When the next message is due.
    pub(super) fn due(&self) -> u64 {
        self.begun.saturating_add(u64::from(self.number).saturating_mul(self.every_ns))
    }

    /// What the stream does at the time `now`.
    pub(super) fn next(&self, now: u64) -> Next {
        if self.number >= self.messages {
            return Next::End;
        }
        let due = self.due();
        // Without a pace, all messages are due.
        if due > now && self.every_ns > 0 { Next::Wait(due) } else { Next::Send }
    }

    /// Called when the next bytes of a message of this length were sent.
    pub(super) fn sent(&mut self, bytes: usize, length: usize) {
        self.sent += bytes;
        if self.sent == length {
            self.sent = 0;
            self.number += 1;
        }
    }
}

/// The answers of an instance. Each message is built at the first call that needs it.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    headers: Vec<(String, String)>,
    /// True if these are the answers to gRPC-Web calls.
    is_web: bool,
    head: Head,
    ending: Ending,
    failed: Head,
    /// For each [`Abort`]: the head of an answer without messages, and the end of an answer that had some.
    aborted: [(Head, Ending); Abort::ALL.len()],
    serving: Vec<u8>,
    reflection: Arc<Reflection>,
    /// True if the settings give only the size of the body.
    is_filler: bool,
    /// Status of calls whose path has no answer of its own.
    status: Option<Status>,
    /// The methods with streams, by path.
    streams: HashMap<Vec<u8>, StreamSpec>,
    /// The first element is the usual answer, and the others are those for particular paths.
    made: Vec<Option<Made>>,
    /// For each answer in `made`: the message of its paced streams, with its prefix and with room for a
    /// stamp.
    stamped: Vec<Option<Vec<u8>>>,
    /// The answers to gRPC-Web calls. Absent if these are such answers.
    web: Option<Box<Self>>,
    /// gRPC-Web over HTTP/1.1: the answer of the health service, the answer to calls that were chosen to
    /// fail, and then the answers in `made`.
    http1: Vec<Option<Answers>>,
}

/// The head of an answer, also encoded for HTTP/2.
#[derive(Debug, Clone)]
struct Head {
    fields: Vec<OutField>,
    block: Block,
}

impl Head {
    fn new(fields: Vec<OutField>) -> Self {
        Self { block: Block::plain(&fields), fields }
    }

    /// The headers for HTTP/1.1.
    fn headers(&self) -> Vec<(String, String)> {
        let headers = self.fields.iter().filter(|field| !field.name.starts_with(':'));
        headers.map(|field| (field.name.clone(), field.value.clone())).collect()
    }
}

/// The end of an answer with messages.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    pub(super) trailers: Block,
    /// gRPC-Web: the frame that has the trailers instead. Empty for gRPC.
    pub(super) frame: Vec<u8>,
}

impl Ending {
    fn new(is_web: bool, status: Status, text: &str) -> Self {
        let fields = trailers(status, text);
        let mut frame = Vec::new();
        if is_web {
            write_trailers(&mut frame, fields.iter().map(|field| (&*field.name, &*field.value)));
        }
        Self { trailers: Block::plain(&fields), frame }
    }
}

#[derive(Debug, Clone)]
enum Made {
    /// The message with its prefix, and the trailers of gRPC-Web.
    Message(Vec<u8>),
    /// The head of an answer without a message.
    Failure(Head),
}

/// The parts of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallAnswer<'a> {
    pub(super) head: &'a Block,
    pub(super) body: &'a [u8],
    /// Absent if the head, or the body of gRPC-Web, has the status.
    pub(super) trailers: Option<&'a Block>,
}

impl Calls {
    pub(super) fn new(settings: &BuiltInUpstream) -> anyhow::Result<Self> {
        let web = Self::with(settings, true)?;
        Ok(Self { web: Some(Box::new(web)), ..Self::with(settings, false)? })
    }

    fn with(settings: &BuiltInUpstream, is_web: bool) -> anyhow::Result<Self> {
        let headers = &settings.headers;
        let head = |status| fields(headers, is_web, status).map(Head::new);
        let abort = |abort: Abort| {
            let (status, text) = abort.status();
            anyhow::Ok((head(Some((status, text)))?, Ending::new(is_web, status, text)))
        };
        let [late, large, malformed] = Abort::ALL.map(abort);
        let ending = Ending::new(is_web, Status::Ok, "");
        Ok(Self {
            headers: headers.clone(),
            is_web,
            head: head(None)?,
            failed: head(Some((Status::Unavailable, FAILURE_TEXT)))?,
            aborted: [late?, large?, malformed?],
            serving: with_frame(grpc::body(SERVING)?, &ending),
            ending,
            reflection: Arc::new(Reflection::new(&services(settings))),
            is_filler: matches!(settings.body, Body::Size(_) | Body::Like { .. }),
            status: settings.grpc_status.filter(|status| *status != Status::Ok),
            streams: settings
                .streams
                .iter()
                .filter(|method| method.stream.carrier.is_grpc())
                .map(|method| (method.path.clone().into_bytes(), method.stream))
                .collect(),
            made: Vec::new(),
            stamped: Vec::new(),
            web: None,
            http1: Vec::new(),
        })
    }

    /// The answers to calls of gRPC-Web, or of gRPC.
    pub(super) fn of(&self, is_web: bool) -> &Self {
        self.web.as_deref().filter(|_| is_web).unwrap_or(self)
    }

    /// Like [`Calls::of`].
    pub(super) fn of_mut(&mut self, is_web: bool) -> &mut Self {
        if is_web && self.web.is_some() {
            return self.web.as_deref_mut().expect("it is there");
        }
        self
    }

    /// Prepares the answer to a call of `path`. `answers` is the answer to this path, or the usual answer.
    /// `place` is its index in the rules; `None` for the usual answer.
    pub(super) fn prepare(&mut self, path: &[u8], place: Option<u32>, answers: &Answers) -> Call {
        if is_own(path) {
            return Call::Own;
        }
        let at = place.map_or(0, |place| place as usize + 1);
        if self.made.len() <= at {
            self.made.resize(at + 1, None);
            self.stamped.resize(at + 1, None);
        }
        if self.made[at].is_none() {
            self.made[at] = Some(self.make(place, answers));
        }
        let spec = self.streams.get(path);
        if self.stamped[at].is_none() && spec.is_some_and(|spec| spec.kind == StreamKind::ServerStream) {
            let message = with_room(answers.body().to_vec(), self.is_filler || place.is_some());
            // Bodies have at most 1 GiB.
            self.stamped[at] = Some(grpc::body(&message).unwrap_or_default());
        }
        Call::Usual(at as u32)
    }

    fn make(&self, place: Option<u32>, answers: &Answers) -> Made {
        if let (Some(status), None) = (self.status, place)
            && let Ok(fields) = fields(&self.headers, self.is_web, Some((status, STATUS_TEXT)))
        {
            return Made::Failure(Head::new(fields));
        }
        let http = answers.status();
        let text = format!("the upstream's status is {http}");
        if !(200..300).contains(&http)
            && let Ok(fields) =
                fields(&self.headers, self.is_web, Some((Status::of_http(http), text.as_str())))
        {
            return Made::Failure(Head::new(fields));
        }
        // Bodies have at most 1 GiB.
        Made::Message(with_frame(grpc::body(answers.body()).unwrap_or_default(), &self.ending))
    }

    /// The answer to a call. `fails` is true if it was chosen to fail.
    pub(super) fn get(&self, call: Call, fails: bool) -> CallAnswer<'_> {
        let (head, body) = self.head_and_body(call, fails);
        // The body of gRPC-Web ends with the trailers.
        let trailers = (!body.is_empty() && !self.is_web).then_some(&self.ending.trailers);
        CallAnswer { head: &head.block, body, trailers }
    }

    fn head_and_body(&self, call: Call, fails: bool) -> (&Head, &[u8]) {
        match call {
            Call::Own => (&self.head, &self.serving),
            Call::Usual(_) if fails => (&self.failed, &[]),
            Call::Usual(place) => match self.made.get(place as usize) {
                Some(Some(Made::Message(message))) => (&self.head, message),
                Some(Some(Made::Failure(head))) => (head, &[]),
                _ => (&self.failed, &[]),
            },
        }
    }

    /// Prepares the answer to a gRPC-Web call over HTTP/1.1. Returns its place. `stamps` is true if it has
    /// space for a stamp.
    pub(super) fn prepare_http1(&mut self, call: Call, fails: bool, stamps: bool) -> Option<u32> {
        let at = match call {
            Call::Own => 0,
            Call::Usual(_) if fails => 1,
            Call::Usual(place) => place as usize + 2,
        };
        if self.http1.len() <= at {
            self.http1.resize(at + 1, None);
        }
        if self.http1[at].is_none() {
            let (head, body) = self.head_and_body(call, fails);
            let (headers, body) = (head.headers(), Arc::new(body.to_vec()));
            self.http1[at] = Answers::of_length(200, &headers, (&body, body.len()), stamps).ok();
        }
        self.http1[at].is_some().then_some(at as u32)
    }

    /// The answer at a place that [`Calls::prepare_http1`] has returned.
    pub(super) fn http1(&self, place: u32) -> Option<&Answers> {
        self.of(true).http1.get(place as usize)?.as_ref()
    }

    /// Like [`Calls::http1`].
    pub(super) fn http1_mut(&mut self, place: u32) -> Option<&mut Answers> {
        self.of_mut(true).http1.get_mut(place as usize)?.as_mut()
    }

    /// The kind of a call of `path`. `None` if each side sends one message.
    pub(super) fn stream_kind(&self, path: &[u8]) -> Option<StreamKind> {
        if self.is_web {
            return self.web_stream(path).map(|spec| spec.kind);
        }
        if path == WATCH || reflection::PATHS.contains(&path) {
            return Some(StreamKind::BothWays);
        }
        self.streams.get(path).map(|spec| spec.kind)
    }

    /// The messages of a call of `path` that does not fail. `None` if one message is the answer.
    pub(super) fn flow(&self, path: &[u8]) -> Option<Flow> {
        if self.is_web {
            return self.web_stream(path).map(|spec| Flow::Paced(Paced::new(spec)));
        }
        if path == WATCH {
            return Some(Flow::BothWays(Conversation::only(&self.serving)));
        }
        if reflection::PATHS.contains(&path) {
            let replies = Replies::Reflection(Arc::clone(&self.reflection));
            return Some(Flow::BothWays(Conversation::new(replies)));
        }
        let spec = *self.streams.get(path)?;
        match spec.kind {
            StreamKind::ServerStream => Some(Flow::Paced(Paced::new(spec))),
            StreamKind::ClientStream => None,
            StreamKind::BothWays => Some(Flow::BothWays(Conversation::new(Replies::Echo))),
        }
    }

    /// The stream of a method, if only the server sends one. gRPC-Web has no others.
    fn web_stream(&self, path: &[u8]) -> Option<StreamSpec> {
        self.streams.get(path).copied().filter(|spec| spec.kind == StreamKind::ServerStream)
    }

    /// The head and the end of an answer with messages.
    pub(super) fn head_and_ending(&self) -> (&Block, &Ending) {
        (&self.head.block, &self.ending)
    }

    /// After an abort: the head of an answer without messages, and the end of an answer that had some.
    pub(super) fn aborted(&self, abort: Abort) -> (&Block, &Ending) {
        let (head, ending) = &self.aborted[abort as usize];
        (&head.block, ending)
    }

    /// The next message of a paced stream, with its prefix.
    pub(super) fn paced(&mut self, call: Call, stamp: Stamp) -> &[u8] {
        let Call::Usual(place) = call else { return &[] };
        let Some(Some(message)) = self.stamped.get_mut(place as usize) else { return &[] };
        if let Some(room) = message.get_mut(PREFIX..).and_then(<[u8]>::first_chunk_mut) {
            stamp.write(room);
        }
        message
    }
}

/// True if hoptax itself provides the method.
fn is_own(path: &[u8]) -> bool {
    path.starts_with(b"/grpc.") && (path == HEALTH || path == WATCH || reflection::PATHS.contains(&path))
}

/// Names of the services that reflection lists.
fn services(settings: &BuiltInUpstream) -> Vec<String> {
    let mut services = vec![HEALTH_SERVICE.to_owned()];
    for method in settings.streams.iter().filter(|method| method.stream.carrier.is_grpc()) {
        if let Some((service, _)) = grpc::split(&method.path)
            && !services.iter().any(|known| known == service)
        {
            services.push(service.to_owned());
        }
    }
    services
}

/// The trailers with a status. An empty text is left out.
fn trailers(status: Status, text: &str) -> Vec<OutField> {
    let field = |name: &str, value: String| OutField { name: name.into(), value };
    let status = field(STATUS, status.number().to_string());
    let text = (!text.is_empty()).then(|| field(MESSAGE, encode_message(text)));
    std::iter::once(status).chain(text).collect()
}

/// A message, and the frame with the trailers if there is one.
fn with_frame(mut message: Vec<u8>, ending: &Ending) -> Vec<u8> {
    message.extend_from_slice(&ending.frame);
    message
}

/// The head of an answer. It has a status if no message follows.
fn fields(
    headers: &[(String, String)],
    is_web: bool,
    status: Option<(Status, &str)>,
) -> anyhow::Result<Vec<OutField>> {
    let of_status =
        status.map(|(status, text)| [(STATUS, status.number().to_string()), (MESSAGE, encode_message(text))]);
    let content_type = if is_web { WEB_CONTENT_TYPE } else { CONTENT_TYPE };
    let own = [("content-type", content_type), ("grpc-accept-encoding", "identity")];
    let is_own = |name: &str| own.iter().any(|(known, _)| name.eq_ignore_ascii_case(known));
    let others = allowed_fields(headers).filter(|(name, _)| !is_own(name));
    let of_status = of_status.iter().flatten().map(|(name, value)| (*name, value.as_str()));
    response_fields(200, own.into_iter().chain(others).chain(of_status), None)
        .context("the upstream's headers for gRPC")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_plan::PathStream;

    fn settings(status: u16, body: Body) -> BuiltInUpstream {
        BuiltInUpstream { status, ..BuiltInUpstream::with_body(body) }
    }

    fn answers(status: u16, body: Body) -> Answers {
        Answers::new(&settings(status, body), false).expect("good settings")
    }

    fn calls() -> Calls {
        Calls::new(&settings(200, Body::Size(1))).expect("good settings")
    }

    #[test]
    fn a_status_of_http_becomes_one_of_grpc() {
        let mut calls = calls();
        let call = calls.prepare(b"/a.B/C", None, &answers(404, Body::Size(1)));
        assert!(calls.get(call, false).trailers.is_none());
        let own = [("x-a".to_owned(), "b".to_owned()), ("Content-Type".to_owned(), "text/html".to_owned())];
        let fields = fields(&own, false, Some((Status::of_http(404), "no such 100 %"))).expect("valid");
        let fields: Vec<_> = fields.iter().map(|field| (field.name.as_str(), field.value.as_str())).collect();
        let expected = [
            (":status", "200"),
            ("content-type", "application/grpc"),
            ("grpc-accept-encoding", "identity"),
            ("x-a", "b"),
            ("grpc-status", "12"),
            ("grpc-message", "no such 100 %25"),
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn paced_messages_have_stamps() {
        let mut settings = settings(200, Body::Size(100));
        let stream = StreamSpec { same_clock: true, ..StreamSpec::grpc(StreamKind::ServerStream, 3, 10) };
        settings.streams.push(PathStream { path: "/a.B/C".into(), stream });
        for (body, is_filler, length) in
            [(Body::Size(100), true, 100_u8), (Body::Size(1), true, 19), (Body::Text("hi".into()), false, 21)]
        {
            settings.body = body;
            let mut calls = Calls::new(&settings).expect("good settings");
            assert_eq!(calls.is_filler, is_filler);
            let answers = Answers::new(&settings, false).expect("good settings");
            let call = calls.prepare(b"/a.B/C", None, &answers);
            let stamp = Stamp { number: 2, due: 12_345 };
            let message = calls.paced(call, stamp);
            assert_eq!(message[..PREFIX], [0, 0, 0, 0, length]);
            assert_eq!(Stamp::read(&message[PREFIX..]), Some(stamp));
            assert_eq!(message.len(), PREFIX + usize::from(length));
        }
    }

    #[test]
    fn messages_are_due_by_a_schedule() {
        let spec = StreamSpec { same_clock: true, ..StreamSpec::grpc(StreamKind::ServerStream, 2, 10) };
        let mut paced = Paced { begun: 100, ..Paced::new(spec) };
        assert_eq!((paced.next(99), paced.next(100)), (Next::Wait(100), Next::Send));
        paced.sent(3, 7);
        assert_eq!((paced.due(), paced.sent), (100, 3));
        paced.sent(4, 7);
        assert_eq!((paced.next(109), paced.sent), (Next::Wait(110), 0));
        paced.sent(7, 7);
        assert_eq!(paced.next(u64::MAX), Next::End);
        let at_once = Paced { begun: 100, ..Paced::new(StreamSpec { every_ns: 0, ..spec }) };
        assert_eq!(at_once.next(0), Next::Send);
    }

    #[test]
    fn reflection_lists_each_service_once() {
        let mut settings = settings(200, Body::Size(1));
        let stream = StreamSpec { same_clock: true, ..StreamSpec::grpc(StreamKind::BothWays, 3, 0) };
        for path in ["/a.B/C", "/a.B/D", "/e.F/G"] {
            settings.streams.push(PathStream { path: path.into(), stream });
        }
        assert_eq!(services(&settings), ["grpc.health.v1.Health", "a.B", "e.F"]);
    }

    #[test]
    fn every_abort_has_its_place() {
        for (place, abort) in Abort::ALL.into_iter().enumerate() {
            assert_eq!(abort as usize, place);
        }
        let trailers = trailers(Status::Internal, "50 %");
        let trailers: Vec<_> =
            trailers.iter().map(|field| (field.name.as_str(), field.value.as_str())).collect();
        assert_eq!(trailers, [("grpc-status", "13"), ("grpc-message", "50 %25")]);
    }
}
