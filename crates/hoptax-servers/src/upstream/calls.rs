//! Answers to gRPC calls: any method of any service gets one message with the body of the settings. The
//! health service says that all services are healthy, so that gateways with health checks forward calls.
//!
//! An HTTP status outside 200 to 299 becomes the status that gRPC's document maps it to.

use super::answer::{Answers, allowed_fields};
use anyhow::Context as _;
use hoptax_format::grpc::{self, Status};
use hoptax_wire::grpc::{CONTENT_TYPE, MESSAGE, STATUS, encode_message};
use hoptax_wire::http2::{Block, OutField, response_fields};

/// Path of health checks (`grpc.health.v1`).
const HEALTH: &[u8] = b"/grpc.health.v1.Health/Check";
/// The message `HealthCheckResponse { status: SERVING }`: field 1 with the value 1.
const SERVING: &[u8] = &[0x08, 0x01];

const FAILURE_TEXT: &str = "this call was chosen to fail";

/// A call that is being answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Health,
    /// Place in [`Calls::made`].
    Usual(u32),
}

/// The answers of an instance. The messages are made with the first call.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    headers: Vec<(String, String)>,
    head: Block,
    trailers: Block,
    failed: Block,
    serving: Vec<u8>,
    /// The first element is the usual answer, and the others are those for particular paths.
    made: Vec<Option<Made>>,
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
    /// `headers` are those of all answers of the upstream.
    pub(super) fn new(headers: &[(String, String)]) -> anyhow::Result<Self> {
        let trailers = [OutField { name: STATUS.into(), value: Status::Ok.number().to_string() }];
        Ok(Self {
            headers: headers.to_vec(),
            head: Block::plain(&fields(headers, None)?),
            trailers: Block::plain(&trailers),
            failed: Block::plain(&fields(headers, Some((Status::Unavailable, FAILURE_TEXT)))?),
            serving: grpc::body(SERVING)?,
            made: Vec::new(),
        })
    }

    /// Prepares the answer to a call of `path`. `place` is the place of the answer to this path among the
    /// rules, and `answers` is that answer, or the usual one.
    pub(super) fn prepare(&mut self, path: &[u8], place: Option<u32>, answers: &Answers) -> Call {
        if path == HEALTH {
            return Call::Health;
        }
        let at = place.map_or(0, |place| place as usize + 1);
        if self.made.len() <= at {
            self.made.resize(at + 1, None);
        }
        if self.made[at].is_none() {
            self.made[at] = Some(self.make(answers));
        }
        Call::Usual(at as u32)
    }

    fn make(&self, answers: &Answers) -> Made {
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
            Call::Health => with(&self.serving),
            Call::Usual(_) if fails => without_message(&self.failed),
            Call::Usual(place) => match self.made.get(place as usize) {
                Some(Some(Made::Message(message))) => with(message),
                Some(Some(Made::Failure(head))) => without_message(head),
                _ => without_message(&self.failed),
            },
        }
    }
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
    use hoptax_plan::{Body, BuiltInUpstream, Delay, Listen};
    use std::time::Duration;

    fn answers(status: u16, body: Body) -> Answers {
        let settings = BuiltInUpstream {
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
        };
        Answers::new(&settings, false).expect("good settings")
    }

    #[test]
    fn calls_get_the_body_as_a_message() {
        let mut calls = Calls::new(&[]).expect("no headers");
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
        let mut calls = Calls::new(&[]).expect("no headers");
        let health = calls.prepare(HEALTH, None, &answers(503, Body::Size(1)));
        for fails in [false, true] {
            assert_eq!(calls.get(health, fails).body, b"\0\0\0\0\x02\x08\x01");
        }
    }

    #[test]
    fn a_status_of_http_becomes_one_of_grpc() {
        let mut calls = Calls::new(&[]).expect("no headers");
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
}
