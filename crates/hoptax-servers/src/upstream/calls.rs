//! Answers to gRPC calls: any method of any service gets one message with the body of the settings, or a
//! stream of messages if the settings say so. The health service says that all services are healthy, so that
//! gateways with health checks forward calls.
//!
//! An HTTP status outside 200 to 299 becomes the status that gRPC's document maps it to.

use super::answer::{Answers, allowed_fields};
use super::conversation::{Abort, Conversation, Replies};
use super::reflection::{self, Reflection};
use anyhow::Context as _;
use hoptax_format::grpc::{self, Status};
use hoptax_format::messages::{Stamp, StreamKind, StreamSpec, with_room};
use hoptax_plan::{Body, BuiltInUpstream};
use hoptax_wire::grpc::{CONTENT_TYPE, MESSAGE, PREFIX, STATUS, encode_message};
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

/// The messages of a call that is not unary. Without it, one message is the answer.
#[derive(Debug)]
pub(super) enum Flow {
    /// The server sends messages by a schedule.
    Paced(Paced),
    BothWays(Conversation),
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

    /// When the next message is due. `None` if there is none.
    pub(super) fn due(&self) -> Option<u64> {
        let after = u64::from(self.number).saturating_mul(self.every_ns);
        (self.number < self.messages).then(|| self.begun.saturating_add(after))
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

/// The answers of an instance. The messages are made with the first call.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    headers: Vec<(String, String)>,
    head: Block,
    trailers: Block,
    failed: Block,
    /// The head of an answer without a message, and the trailers of one that had messages, by [`Abort`].
    aborted: [(Block, Block); Abort::ALL.len()],
    serving: Vec<u8>,
    reflection: Arc<Reflection>,
    /// True if the body of the settings has only a size.
    is_filler: bool,
    /// Status of calls whose path has no answer of its own.
    status: Option<Status>,
    /// The methods with streams, by path.
    streams: HashMap<Vec<u8>, StreamSpec>,
    /// The first element is the usual answer, and the others are those for particular paths.
    made: Vec<Option<Made>>,
    /// Messages with their prefixes and with room for a stamp, for the paced streams of the same answers.
    stamped: Vec<Option<Vec<u8>>>,
}

#[derive(Debug, Clone)]
enum Made {
    /// The message with its prefix.
    Message(Vec<u8>),
    /// The head of an answer without a message.
    Failure(Block),
}

/// The parts of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallAnswer<'a> {
    pub(super) head: &'a Block,
    pub(super) body: &'a [u8],
    /// Absent if the head has the status.
    pub(super) trailers: Option<&'a Block>,
}

impl Calls {
    pub(super) fn new(settings: &BuiltInUpstream) -> anyhow::Result<Self> {
        let headers = &settings.headers;
        let abort = |abort: Abort| {
            let (status, text) = abort.status();
            let head = fields(headers, Some((status, text)))?;
            anyhow::Ok((Block::plain(&head), Block::plain(&trailers(status, text))))
        };
        let [late, large, malformed] = Abort::ALL.map(abort);
        Ok(Self {
            headers: headers.clone(),
            head: Block::plain(&fields(headers, None)?),
            trailers: Block::plain(&trailers(Status::Ok, "")),
            failed: Block::plain(&fields(headers, Some((Status::Unavailable, FAILURE_TEXT)))?),
            aborted: [late?, large?, malformed?],
            serving: grpc::body(SERVING)?,
            reflection: Arc::new(Reflection::new(&services(settings))),
            is_filler: matches!(settings.body, Body::Size(_) | Body::Like { .. }),
            status: settings.grpc_status.filter(|status| *status != Status::Ok),
            streams: settings
                .streams
                .iter()
                .map(|method| (method.path.clone().into_bytes(), method.stream))
                .collect(),
            made: Vec::new(),
            stamped: Vec::new(),
        })
    }

    /// Prepares the answer to a call of `path`. `place` is the place of the answer to this path among the
    /// rules, and `answers` is that answer, or the usual one.
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
            && let Ok(fields) = fields(&self.headers, Some((status, STATUS_TEXT)))
        {
            return Made::Failure(Block::plain(&fields));
        }
        let http = answers.status();
        let text = format!("the upstream's status is {http}");
        if !(200..300).contains(&http)
            && let Ok(fields) = fields(&self.headers, Some((Status::of_http(http), text.as_str())))
        {
            return Made::Failure(Block::plain(&fields));
        }
        // Bodies have at most 1 GiB.
        Made::Message(grpc::body(answers.body()).unwrap_or_default())
    }

    /// The answer to a call. `fails` is true if it was chosen to fail.
    pub(super) fn get(&self, call: Call, fails: bool) -> CallAnswer<'_> {
        let without_message = |head| CallAnswer { head, body: &[], trailers: None };
        let with = |body| CallAnswer { head: &self.head, body, trailers: Some(&self.trailers) };
        match call {
            Call::Own => with(&self.serving),
            Call::Usual(_) if fails => without_message(&self.failed),
            Call::Usual(place) => match self.made.get(place as usize) {
                Some(Some(Made::Message(message))) => with(message),
                Some(Some(Made::Failure(head))) => without_message(head),
                _ => without_message(&self.failed),
            },
        }
    }

    /// The kind of a call of `path`. `None` if each side sends one message.
    pub(super) fn stream_kind(&self, path: &[u8]) -> Option<StreamKind> {
        if path == WATCH || reflection::PATHS.contains(&path) {
            return Some(StreamKind::BothWays);
        }
        self.streams.get(path).map(|spec| spec.kind)
    }

    /// The messages of a call of `path` that does not fail. `None` if one message is the answer.
    pub(super) fn flow(&self, path: &[u8]) -> Option<Flow> {
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

    /// The head and the trailers of an answer with messages.
    pub(super) fn head_and_trailers(&self) -> (&Block, &Block) {
        (&self.head, &self.trailers)
    }

    /// The head of an answer that has no message because of `abort`, and the trailers if it had some.
    pub(super) fn aborted(&self, abort: Abort) -> &(Block, Block) {
        &self.aborted[abort as usize]
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

/// The services that reflection lists.
fn services(settings: &BuiltInUpstream) -> Vec<String> {
    let mut services = vec![HEALTH_SERVICE.to_owned()];
    for method in &settings.streams {
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

/// The head of an answer. It has a status if no message follows.
fn fields(headers: &[(String, String)], status: Option<(Status, &str)>) -> anyhow::Result<Vec<OutField>> {
    let of_status =
        status.map(|(status, text)| [(STATUS, status.number().to_string()), (MESSAGE, encode_message(text))]);
    let own = [("content-type", CONTENT_TYPE), ("grpc-accept-encoding", "identity")];
    let is_own = |name: &str| own.iter().any(|(known, _)| name.eq_ignore_ascii_case(known));
    let others = allowed_fields(headers).filter(|(name, _)| !is_own(name));
    let of_status = of_status.iter().flatten().map(|(name, value)| (*name, value.as_str()));
    response_fields(200, own.into_iter().chain(others).chain(of_status), None)
        .context("the upstream's headers for gRPC")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_plan::{Delay, Listen, PathStream};
    use std::time::Duration;

    fn settings(status: u16, body: Body) -> BuiltInUpstream {
        BuiltInUpstream {
            instances: 1,
            status,
            headers: Vec::new(),
            body,
            delay: Delay::Fixed(Duration::ZERO),
            failures: 0.0,
            port: None,
            listen: Listen::Ports,
            answers: Vec::new(),
            streams: Vec::new(),
            grpc_status: None,
        }
    }

    fn answers(status: u16, body: Body) -> Answers {
        Answers::new(&settings(status, body), false).expect("good settings")
    }

    fn calls() -> Calls {
        Calls::new(&settings(200, Body::Size(1))).expect("good settings")
    }

    #[test]
    fn calls_get_the_body_as_a_message() {
        let mut calls = calls();
        let large = calls.prepare(b"/a.B/C", None, &answers(200, Body::Size(100_000)));
        let of_path = calls.prepare(b"/a.B/D", Some(3), &answers(200, Body::Text("hi".into())));
        assert_eq!(calls.get(large, false).body.len(), 100_005);
        assert_eq!(calls.get(of_path, false).body, b"\0\0\0\0\x02hi");
        assert!(calls.get(of_path, false).trailers.is_some());
        let failed = calls.get(of_path, true);
        assert!(failed.body.is_empty() && failed.trailers.is_none());
    }

    #[test]
    fn health_checks_succeed_with_any_settings() {
        let mut calls = calls();
        let health = calls.prepare(HEALTH, None, &answers(503, Body::Size(1)));
        for fails in [false, true] {
            assert_eq!(calls.get(health, fails).body, b"\0\0\0\0\x02\x08\x01");
        }
    }

    #[test]
    fn a_status_of_http_becomes_one_of_grpc() {
        let mut calls = calls();
        let call = calls.prepare(b"/a.B/C", None, &answers(404, Body::Size(1)));
        assert!(calls.get(call, false).trailers.is_none());
        let own = [("x-a".to_owned(), "b".to_owned()), ("Content-Type".to_owned(), "text/html".to_owned())];
        let fields = fields(&own, Some((Status::of_http(404), "no such 100 %"))).expect("valid");
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
        let stream =
            StreamSpec { kind: StreamKind::ServerStream, messages: 3, every_ns: 10, same_clock: true };
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
        let spec = StreamSpec { kind: StreamKind::ServerStream, messages: 2, every_ns: 10, same_clock: true };
        let mut paced = Paced { begun: 100, ..Paced::new(spec) };
        assert_eq!(paced.due(), Some(100));
        paced.sent(3, 7);
        assert_eq!((paced.due(), paced.sent), (Some(100), 3));
        paced.sent(4, 7);
        assert_eq!((paced.due(), paced.sent), (Some(110), 0));
        paced.sent(7, 7);
        assert_eq!(paced.due(), None);
    }

    #[test]
    fn a_status_of_the_settings_is_that_of_usual_calls() {
        let mut settings = settings(200, Body::Size(1));
        settings.grpc_status = Some(Status::NotFound);
        let mut calls = Calls::new(&settings).expect("good settings");
        let of = |calls: &mut Calls, path: &[u8], place| {
            let call = calls.prepare(path, place, &answers(200, Body::Size(1)));
            calls.get(call, false).trailers.is_some()
        };
        assert!(!of(&mut calls, b"/a.B/C", None));
        assert!(of(&mut calls, b"/a.B/D", Some(0)), "this path has its own answer");
        assert!(of(&mut calls, HEALTH, None));
    }

    #[test]
    fn reflection_lists_each_service_once() {
        let mut settings = settings(200, Body::Size(1));
        let stream = StreamSpec { kind: StreamKind::BothWays, messages: 3, every_ns: 0, same_clock: true };
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
