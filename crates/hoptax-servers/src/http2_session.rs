//! An HTTP/2 connection whose caller chooses the frames, for tests of single rules of HTTP/2. Several
//! requests can be in flight.

use crate::answer::Answer;
use crate::http2_client::read_head;
use crate::request_error::{Awaited, RequestError};
use crate::transport::Transport;
use hoptax_wire::http2::{
    Block, Code, Config, Connection, OutField, RequestParts, Sections, Step, request_fields,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// The head of a request.
#[derive(Debug, Clone, Copy)]
pub struct StreamRequest<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// Names in lower case, and values.
    pub headers: &'a [(&'a str, &'a str)],
    /// The header `content-length`, if there is one.
    pub content_length: Option<u64>,
    /// Whether the request ends with its head.
    pub end: bool,
}

/// What has arrived on a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamAnswer {
    /// The statuses of interim responses, in order.
    pub interim: Vec<u16>,
    /// The response. Its status is 0 before its head has arrived.
    pub answer: Answer,
    /// The trailers.
    pub trailers: Vec<(String, String)>,
    /// True if the whole response has arrived.
    pub is_whole: bool,
    /// The reason, if the server has reset the stream.
    pub reset: Option<Code>,
}

/// How a request ends.
#[derive(Debug)]
enum Rest {
    /// The caller sends more.
    More,
    /// Its end follows the body.
    End,
    /// Its trailers follow the body.
    Trailers(Block),
    /// All is sent.
    Nothing,
}

struct Stream {
    answer: StreamAnswer,
    /// The part of the body for which there was no window.
    unsent: Vec<u8>,
    rest: Rest,
}

/// An open connection.
pub struct Http2Session {
    transport: Box<dyn Transport>,
    /// Time limit for all waits.
    timeout: Duration,
    connection: Connection,
    sections: Sections,
    /// Received bytes that are not decoded yet.
    input: Vec<u8>,
    output: Vec<u8>,
    scheme: &'static str,
    authority: String,
    streams: BTreeMap<u32, Stream>,
    pongs: Vec<[u8; 8]>,
    goaway: Option<Code>,
}

impl Http2Session {
    /// A connection over `transport`. Each wait of the caller takes at most `timeout`. All requests have this
    /// `authority`.
    pub fn new(
        config: Config,
        is_tls: bool,
        authority: &str,
        timeout: Duration,
        transport: Box<dyn Transport>,
    ) -> Self {
        let mut output = Vec::new();
        Self {
            transport,
            timeout,
            connection: Connection::client(config, &mut output),
            sections: Sections::new(),
            input: Vec::new(),
            output,
            scheme: if is_tls { "https" } else { "http" },
            authority: authority.to_owned(),
            streams: BTreeMap::new(),
            pongs: Vec::new(),
            goaway: None,
        }
    }

    /// Begins a request. Returns the number of its stream. As with all other methods, the bytes are sent when
    /// the caller waits.
    ///
    /// # Errors
    /// If the head is not valid, or the server accepts no further request now.
    pub fn request(&mut self, request: StreamRequest<'_>) -> Result<u32, RequestError> {
        let StreamRequest { method, path, headers, content_length, end } = request;
        let parts = RequestParts { method, scheme: self.scheme, authority: "", path, content_length };
        let host = [("host", self.authority.as_str())];
        let fields = request_fields(parts, host.into_iter().chain(headers.iter().copied()));
        let block = Block::plain(&fields.map_err(|bad| RequestError::Http2(bad.to_string()))?);
        let is_head = method == "HEAD";
        let stream = self.connection.request(0, is_head, &block, &[], end, &mut self.output);
        let stream = stream
            .ok_or_else(|| RequestError::Http2("the server accepts no further request now".to_owned()))?;
        let rest = if end { Rest::Nothing } else { Rest::More };
        let answer = StreamAnswer::default();
        self.streams.insert(stream, Stream { answer, unsent: Vec::new(), rest });
        Ok(stream)
    }

    /// Sends a part of the body of a request, as far as the windows allow, and the rest later. `end` is true
    /// if this is the end of the request.
    pub fn send_body(&mut self, stream: u32, body: &[u8], end: bool) {
        if let Some(open) = self.streams.get_mut(&stream) {
            open.unsent.extend_from_slice(body);
            if end {
                open.rest = Rest::End;
            }
        }
        self.push(stream);
    }

    /// Ends a request with trailers. Their names are in lower case.
    pub fn send_trailers(&mut self, stream: u32, trailers: &[(&str, &str)]) {
        let field = |(name, value): &(&str, &str)| OutField { name: (*name).into(), value: (*value).into() };
        let fields: Vec<OutField> = trailers.iter().map(field).collect();
        if let Some(open) = self.streams.get_mut(&stream) {
            open.rest = Rest::Trailers(Block::plain(&fields));
        }
        self.push(stream);
    }

    /// Cancels a request.
    pub fn cancel(&mut self, stream: u32) {
        self.connection.reset(stream, Code::CANCEL, &mut self.output);
    }

    /// Sends PING.
    pub fn ping(&mut self, payload: [u8; 8]) {
        self.connection.ping(payload, &mut self.output);
    }

    /// Sends GOAWAY without an error. Requests in flight continue.
    pub fn go_away(&mut self) {
        self.connection.go_away(Code::NO_ERROR, &mut self.output);
    }

    /// Announces a larger window for each stream, in bytes.
    pub fn grow_window(&mut self, window: u32) {
        self.connection.grow_window(window, &mut self.output);
    }

    /// Allows the server to send this number of bytes more on a stream and on the connection, if
    /// [`Config::release`] is [`Release::ByCaller`](hoptax_wire::http2::Release::ByCaller).
    pub fn release(&mut self, stream: u32, bytes: u32) {
        self.connection.release(stream, bytes, &mut self.output);
    }

    /// Number of requests that the server accepts now.
    pub fn capacity(&self) -> u32 {
        self.connection.capacity()
    }

    /// True if the server's settings have arrived.
    pub fn has_settings(&self) -> bool {
        self.connection.peer_settings_known()
    }

    /// The payloads of the answers to PING, in order.
    pub fn pongs(&self) -> &[[u8; 8]] {
        &self.pongs
    }

    /// The code of the server's GOAWAY, if it has sent one.
    pub fn goaway(&self) -> Option<Code> {
        self.goaway
    }

    /// True if nothing more arrives on a stream.
    pub fn is_over(&self, stream: u32) -> bool {
        self.streams.get(&stream).is_none_or(|open| open.answer.is_whole || open.answer.reset.is_some())
    }

    /// Number of bytes of a response's body that have arrived.
    pub fn received(&self, stream: u32) -> usize {
        self.streams.get(&stream).map_or(0, |open| open.answer.answer.body.len())
    }

    /// What has arrived on a stream so far.
    pub fn answer(&self, stream: u32) -> StreamAnswer {
        self.streams.get(&stream).map(|open| open.answer.clone()).unwrap_or_default()
    }

    /// Waits until nothing more arrives on a stream, and returns what has arrived.
    ///
    /// # Errors
    /// If the server closes the connection, violates the protocol, or does not answer in time.
    pub fn wait(&mut self, stream: u32) -> Result<StreamAnswer, RequestError> {
        self.until(|session| session.is_over(stream))?;
        Ok(self.answer(stream))
    }

    /// Sends and receives until `is_met` returns true.
    ///
    /// # Errors
    /// If the server closes the connection or violates the protocol, or if this takes too long.
    pub fn until(&mut self, is_met: impl Fn(&Self) -> bool) -> Result<(), RequestError> {
        self.flush()?;
        while !is_met(self) {
            let mut piece = [0; 16 * 1024];
            let count = self.transport.receive(&mut piece, Awaited::Response)?;
            if count == 0 {
                return Err(RequestError::Ended { begun: false, reset: false });
            }
            self.input.extend_from_slice(&piece[..count]);
            self.read()?;
            self.flush()?;
        }
        Ok(())
    }

    /// Like [`Self::until`], but returns false after this time.
    ///
    /// # Errors
    /// If the server closes the connection or violates the protocol.
    pub fn until_within(
        &mut self,
        limit: Duration,
        is_met: impl Fn(&Self) -> bool,
    ) -> Result<bool, RequestError> {
        self.transport.set_limit(limit);
        let outcome = self.until(is_met);
        self.transport.set_limit(self.timeout);
        match outcome {
            Ok(()) => Ok(true),
            Err(RequestError::Timeout { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends what is ready.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn flush(&mut self) -> Result<(), RequestError> {
        if self.output.is_empty() {
            return Ok(());
        }
        let sent = self.transport.send(&self.output);
        self.output.clear();
        match sent {
            // The server may have closed the connection after its last frames, which are still to be read.
            Err(RequestError::Ended { .. }) => Ok(()),
            sent => sent,
        }
    }

    /// Handles what has arrived.
    fn read(&mut self) -> Result<(), RequestError> {
        loop {
            let step = self.connection.advance(&self.input, &mut self.sections, &mut self.output);
            let (consumed, step) = step.map_err(|fault| RequestError::Http2(fault.to_string()))?;
            let is_last = step == Step::NeedMore;
            self.handle(step)?;
            self.input.drain(..consumed);
            if is_last {
                return Ok(());
            }
        }
    }

    fn handle(&mut self, step: Step) -> Result<(), RequestError> {
        match step {
            Step::Pong(payload) => self.pongs.push(payload),
            Step::GoAway { code, .. } => self.goaway = Some(code),
            Step::Writable { stream } => self.push(stream.id),
            Step::Failed { fault, .. } => return Err(RequestError::Http2(fault.to_string())),
            Step::Interim { stream } => {
                let status = self.sections.head.status();
                if let Some(open) = self.streams.get_mut(&stream.id) {
                    open.answer.interim.push(status);
                }
            }
            Step::Head { stream, end } => {
                if let Some(open) = self.streams.get_mut(&stream.id) {
                    read_head(&self.sections.head, &mut open.answer.answer);
                    open.answer.is_whole = end;
                }
            }
            Step::Body { stream, data, end } => {
                if let Some(open) = self.streams.get_mut(&stream.id) {
                    open.answer.answer.body.extend_from_slice(&self.input[data]);
                    open.answer.is_whole = end;
                }
            }
            Step::Trailers { stream } => {
                if let Some(open) = self.streams.get_mut(&stream.id) {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let fields = self.sections.trailers.fields().iter();
                    open.answer.trailers = fields.map(|(name, value)| (text(name), text(value))).collect();
                    open.answer.is_whole = true;
                }
            }
            Step::Reset { stream, code, .. } => {
                if let Some(open) = self.streams.get_mut(&stream.id) {
                    open.answer.reset = Some(code);
                }
            }
            Step::NeedMore | Step::Settings => {}
        }
        Ok(())
    }

    /// Sends what the windows allow of a request.
    fn push(&mut self, stream: u32) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        let end = matches!(open.rest, Rest::End);
        if !open.unsent.is_empty() || end {
            let sent = self.connection.send_data(stream, &open.unsent, end, &mut self.output);
            // If the server has closed the stream, nothing more can be sent.
            open.unsent.drain(..sent.unwrap_or(open.unsent.len()));
            if !open.unsent.is_empty() {
                return;
            }
            if end || sent.is_none() {
                open.rest = Rest::Nothing;
            }
        }
        if let Rest::Trailers(block) = &open.rest {
            self.connection.send_head(stream, block, &[], true, &mut self.output);
            open.rest = Rest::Nothing;
        }
    }
}
