//! An exchange: a place for one request and its response. A connection carries as many requests at the same
//! time as it has exchanges: one with HTTP/1.

use crate::recorder::{Call, Response, Times};
use crate::stamped::Stamped;
use crate::target::Target;
use hoptax_format::grpc::Status;
use hoptax_wire::grpc::{self, Fault, Messages, Step, WebTrailers};
use hoptax_wire::http1::fields;
use hoptax_wire::http2::FieldList;

/// Number of an exchange in its worker, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExchangeId(pub(crate) u32);

impl ExchangeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug)]
pub(crate) struct Exchange {
    /// The request that was sent, or that will be sent once there is a connection.
    pub(crate) request: Option<Times>,
    /// True from the moment when the request is passed to the kernel until it has its outcome.
    pub(crate) in_flight: bool,
    /// True while the exchange is in the worker's list of free exchanges.
    pub(crate) is_free: bool,
    pub(crate) answer: Answer,
    pub(crate) stream: StreamOf,
}

/// The HTTP/2 stream of an exchange. Unused with HTTP/1.
#[derive(Debug, Default)]
pub(crate) struct StreamOf {
    /// Number of the stream, or 0 if there is none.
    pub(crate) id: u32,
    /// The value of [`Connection::second`](crate::connection::Connection::second) of the connection that
    /// carries the stream.
    pub(crate) second: bool,
    /// True if the request was already sent again.
    pub(crate) sent_again: bool,
    /// Time since which the request waits for a stream.
    pub(crate) waits_since: Option<u64>,
    /// The part of the request's body that waits for a flow-control window.
    pub(crate) rest: Option<Box<Rest>>,
}

/// The rest of a request's body, which waits for a flow-control window.
#[derive(Debug)]
pub(crate) struct Rest {
    /// Number of bytes of the body that were sent.
    pub(crate) sent: usize,
    /// The body, if it has templates. Otherwise the target has it.
    pub(crate) own: Option<Vec<u8>>,
    /// Time since which the rest waits.
    pub(crate) since: u64,
}

impl StreamOf {
    /// Called when the request has its outcome.
    pub(crate) fn clear(&mut self) {
        *self = Self { second: self.second, ..Self::default() };
    }
}

/// What was read of a response so far.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The status of a gRPC call in its trailers or its head, once it is known.
    call: Option<Status>,
    /// The messages in the response to a gRPC call.
    messages: Messages,
    /// The end of the response to a gRPC-Web call.
    web: WebTrailers,
    pub(crate) bytes: u64,
    pub(crate) body: u64,
    /// Counters for the checks of the target. Empty if the checks need no counters.
    pub(crate) progress: Box<[u32]>,
    pub(crate) stamped: Stamped,
}

impl Exchange {
    /// `room_for_checks` is the maximum number of counters that the checks of a target need.
    pub(crate) fn new(room_for_checks: usize) -> Self {
        let answer = Answer { progress: vec![0; room_for_checks].into(), ..Answer::default() };
        Self { request: None, in_flight: false, is_free: false, answer, stream: StreamOf::default() }
    }

    /// Prepares for the response to a request that was just sent to `target`.
    pub(crate) fn sent(&mut self, target: &Target) {
        self.in_flight = true;
        target.checks.begin(&mut self.answer.progress);
        (self.answer.status, self.answer.bytes, self.answer.body) = (0, 0, 0);
        (self.answer.call, self.answer.messages) = (None, Messages::default());
        self.answer.web = WebTrailers::default();
    }
}

impl Answer {
    /// Decodes the next event of the body of the response to a gRPC call of `target`.
    #[inline]
    pub(crate) fn advance(&mut self, target: &Target, data: &[u8]) -> Result<(usize, Step), Fault> {
        if target.is_web {
            return self.web.advance(&mut self.messages, data, u32::MAX);
        }
        self.messages.advance(data, u32::MAX)
    }

    /// Reads a part of the body of the response to a gRPC call of `target`.
    pub(crate) fn read_messages(&mut self, target: &Target, data: &[u8]) {
        // A fault needs no handling: the response then lacks its one whole message. Bodies that are not gRPC
        // cause faults too.
        let _ = match target.is_web {
            true => self.web.skim(&mut self.messages, data, u32::MAX),
            false => self.messages.skim(data, u32::MAX),
        };
    }

    /// Reads the status of a gRPC call from the trailers, or from a head without a body.
    pub(crate) fn read_call_status(&mut self, fields: &FieldList) {
        self.call = fields.get(grpc::STATUS).map(Status::read);
    }

    /// Reads the status of a gRPC-Web call from the head of a response over HTTP/1.
    pub(crate) fn read_web_status(&mut self, head: &[u8]) {
        // This cannot fail, because the decoder has already accepted this head. If it did fail, the status
        // would count as absent.
        let _ = fields(head, |field| {
            if field.name.eq_ignore_ascii_case(grpc::STATUS) && self.call.is_none() {
                self.call = Some(Status::read(field.value));
            }
        });
    }

    pub(crate) fn response(&self, target: &Target) -> Response {
        let Self { status, bytes, body, .. } = *self;
        if !target.is_call {
            let failed = target.checks.verdict(status, body, &self.progress);
            return Response { status, bytes, body, failed, call: None };
        }
        let call = self.call(target);
        let failed = target.checks.verdict_of_call((status, call.status), body, &self.progress);
        Response { status, bytes, body, failed, call: Some(call) }
    }

    /// The outcome of a gRPC call of `target`.
    pub(crate) fn call(&self, target: &Target) -> Call {
        let is_right = self.messages.is_between() && (target.receives_stream() || self.messages.whole() == 1);
        let found = match target.is_web {
            // A head has the status only if there is no body.
            true => self.web.status().or(self.call.filter(|_| self.body == 0)),
            false => self.call,
        };
        let status = match found {
            // As in gRPC's clients, a success without exactly one message is an error, unless the server
            // sends a stream.
            Some(Status::Ok) if !is_right => Status::Internal,
            Some(status) => status,
            None => Status::of_http(self.status),
        };
        Call { status, trailers_lost: found.is_none() && self.status == 200 }
    }
}
