//! Every case, with a server in memory that keeps its rule, and with one that does not.

use super::paths::{EARLY, GOAWAY, HINTS, LATE, SOON, TRAILERS};
use super::*;
use hoptax_record::Digest;
use hoptax_servers::http2_session::Http2Session;
use hoptax_servers::request_error::{Awaited, RequestError};
use hoptax_servers::transport::Transport;
use hoptax_servers::upstream::TRAILER;
use hoptax_wire::http2::{Block, Code, Connection, FieldList, OutField, Sections, Step, response_fields};
use serde_json::json;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::rc::Rc;

/// What a server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    ForgetsBodies,
    LosesHeaders,
    LosesRequestTrailers,
    LosesResponseTrailers,
    GivesNoHints,
    NeverContinues,
    WaitsForTheEnd,
    IgnoresCancels,
    LeavesAfterCancels,
    CutsAtTheWindow,
    IgnoresNewWindows,
    AllowsTenStreams,
    IgnoresPings,
    LeavesAtGoaway,
    ResetsAtGoaway,
}

type Fields = Vec<(String, String)>;

#[derive(Default)]
struct Request {
    path: String,
    headers: Fields,
    trailers: Fields,
    body: Vec<u8>,
}

/// A server that answers as the upstream does.
struct Peer {
    wrong: Wrong,
    connection: Connection,
    sections: Sections,
    input: Vec<u8>,
    output: Vec<u8>,
    requests: BTreeMap<u32, Request>,
    /// The parts of bodies for which there was no window.
    unsent: BTreeMap<u32, Vec<u8>>,
    /// Requests that are answered when the client has nothing else to read, and requests that never are.
    soon: Vec<u32>,
    late: BTreeSet<u32>,
    cancels: usize,
    is_closed: bool,
    delays: Rc<Cell<Delays>>,
}

fn pairs(fields: &FieldList) -> Fields {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = fields.iter().filter(|(name, _)| !name.starts_with(b":"));
    all.map(|(name, value)| (text(name), text(value))).collect()
}

fn head(status: u16) -> Block {
    Block::plain(&response_fields(status, [], None).expect("valid"))
}

impl Peer {
    fn new(wrong: Wrong, delays: Rc<Cell<Delays>>) -> Self {
        let mut output = Vec::new();
        let streams = if wrong == Wrong::AllowsTenStreams { 10 } else { 200 };
        Self {
            wrong,
            connection: Connection::server(Config { streams, ..Config::default() }, &mut output),
            sections: Sections::new(),
            input: Vec::new(),
            output,
            requests: BTreeMap::new(),
            unsent: BTreeMap::new(),
            soon: Vec::new(),
            late: BTreeSet::new(),
            cancels: 0,
            is_closed: false,
            delays,
        }
    }

    fn read(&mut self) {
        while !self.is_closed {
            let step = self.connection.advance(&self.input, &mut self.sections, &mut self.output);
            let (consumed, step) = step.expect("the client keeps the rules");
            let is_last = step == Step::NeedMore;
            let data = match &step {
                Step::Body { data, .. } => self.input[data.clone()].to_vec(),
                _ => Vec::new(),
            };
            self.input.drain(..consumed);
            self.handle(step, &data);
            if is_last {
                return;
            }
        }
    }

    fn handle(&mut self, step: Step, data: &[u8]) {
        match step {
            Step::Head { stream, end } => {
                let path = self.sections.head.path().unwrap_or_default();
                let path = String::from_utf8_lossy(path).into_owned();
                let headers = pairs(self.sections.head.fields());
                self.requests.insert(stream.id, Request { path, headers, ..Request::default() });
                self.begun(stream.id);
                if end {
                    self.ended(stream.id);
                }
            }
            Step::Body { stream, end, .. } => {
                let request = self.requests.get_mut(&stream.id).expect("it has a head");
                request.body.extend_from_slice(data);
                if end {
                    self.ended(stream.id);
                }
            }
            Step::Trailers { stream } => {
                let request = self.requests.get_mut(&stream.id).expect("it has a head");
                if self.wrong != Wrong::LosesRequestTrailers {
                    request.trailers = pairs(self.sections.trailers.fields());
                }
                self.ended(stream.id);
            }
            Step::Writable { stream } if self.wrong != Wrong::IgnoresNewWindows => self.send_body(stream.id),
            Step::Reset { stream, .. } => self.cancelled(stream.id),
            Step::GoAway { .. } => self.is_closed = self.wrong == Wrong::LeavesAtGoaway,
            _ => {}
        }
    }

    fn begun(&mut self, stream: u32) {
        let request = &self.requests[&stream];
        let expects = request.headers.iter().any(|(name, _)| name == "expect");
        let is_early = request.path == EARLY && self.wrong != Wrong::WaitsForTheEnd;
        if expects && self.wrong != Wrong::NeverContinues {
            self.connection.send_head(stream, &head(100), &[], false, &mut self.output);
        }
        if is_early {
            self.respond(stream, b"early\n".to_vec());
        }
    }

    fn ended(&mut self, stream: u32) {
        let path = self.requests[&stream].path.clone();
        match path.as_str() {
            EARLY if self.wrong != Wrong::WaitsForTheEnd => {}
            SOON => self.soon.push(stream),
            LATE => {
                self.late.insert(stream);
                let now = self.delays.get();
                self.delays.set(Delays { delayed: now.delayed + 1, ..now });
            }
            TRAILERS => self.respond_with_trailers(stream),
            HINTS => {
                if self.wrong != Wrong::GivesNoHints {
                    self.connection.send_head(stream, &head(103), &[], false, &mut self.output);
                }
                self.respond(stream, b"after hints\n".to_vec());
            }
            GOAWAY => {
                if self.wrong == Wrong::ResetsAtGoaway {
                    for other in mem::take(&mut self.soon) {
                        self.connection.reset(other, Code::INTERNAL_ERROR, &mut self.output);
                    }
                }
                self.connection.go_away(Code::NO_ERROR, &mut self.output);
                self.respond(stream, b"the last response\n".to_vec());
            }
            path => {
                let body = match path.strip_prefix("/.hoptax/bytes/") {
                    Some(size) => vec![b'x'; size.parse().expect("a number")],
                    None => self.echo(stream),
                };
                self.respond(stream, body);
            }
        }
    }

    fn echo(&self, stream: u32) -> Vec<u8> {
        let Request { path, headers, trailers, body } = &self.requests[&stream];
        let headers = if self.wrong == Wrong::LosesHeaders { &headers[..headers.len() / 2] } else { headers };
        let body = if self.wrong == Wrong::ForgetsBodies { &body[..0] } else { body.as_slice() };
        let mut digest = Digest::default();
        digest.add(body);
        let echo = json!({
            "hoptax": "echo",
            "path": path,
            "headers": headers,
            "trailers": trailers,
            "body_bytes": body.len(),
            "body_digest": digest.text(),
        });
        echo.to_string().into_bytes()
    }

    fn respond(&mut self, stream: u32, body: Vec<u8>) {
        self.connection.send_head(stream, &head(200), &[], false, &mut self.output);
        self.unsent.insert(stream, body);
        self.send_body(stream);
    }

    fn respond_with_trailers(&mut self, stream: u32) {
        let end = self.wrong == Wrong::LosesResponseTrailers;
        let trailers = [OutField { name: TRAILER.0.into(), value: TRAILER.1.into() }];
        self.connection.send_head(stream, &head(200), &[], false, &mut self.output);
        self.connection.send_data(stream, b"trailers follow\n", end, &mut self.output);
        self.connection.send_head(stream, &Block::plain(&trailers), &[], true, &mut self.output);
    }

    fn send_body(&mut self, stream: u32) {
        let Some(body) = self.unsent.get_mut(&stream) else { return };
        let sent = self.connection.send_data(stream, body, true, &mut self.output);
        body.drain(..sent.unwrap_or(body.len()));
        if !body.is_empty() && self.wrong == Wrong::CutsAtTheWindow {
            body.clear();
            self.connection.send_data(stream, b"", true, &mut self.output);
        }
    }

    fn cancelled(&mut self, stream: u32) {
        self.cancels += 1;
        if self.late.remove(&stream) && self.wrong != Wrong::IgnoresCancels {
            let now = self.delays.get();
            self.delays.set(Delays { abandoned: now.abandoned + 1, ..now });
        }
        if self.cancels >= 30 && self.wrong == Wrong::LeavesAfterCancels {
            self.connection.go_away(Code::ENHANCE_YOUR_CALM, &mut self.output);
            self.is_closed = true;
        }
    }
}

/// `frames` without PING frames.
fn without_pings(mut frames: &[u8]) -> Vec<u8> {
    const PING: u8 = 6;
    let mut kept = Vec::new();
    while let [a, b, c, kind, ..] = frames {
        let (frame, rest) = frames.split_at(9 + u32::from_be_bytes([0, *a, *b, *c]) as usize);
        if *kind != PING {
            kept.extend_from_slice(frame);
        }
        frames = rest;
    }
    kept
}

impl Transport for Peer {
    fn send(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
        self.input.extend_from_slice(bytes);
        let start = self.output.len();
        self.read();
        if self.wrong == Wrong::IgnoresPings {
            let fresh = self.output.split_off(start);
            self.output.extend(without_pings(&fresh));
        }
        Ok(())
    }

    fn receive(&mut self, piece: &mut [u8], awaited: Awaited) -> Result<usize, RequestError> {
        if self.output.is_empty() && !self.is_closed {
            for stream in mem::take(&mut self.soon) {
                self.respond(stream, b"slow\n".to_vec());
            }
        }
        match self.output.len().min(piece.len()) {
            0 if self.is_closed => Ok(0),
            0 => Err(RequestError::Timeout { awaited, limit: Duration::ZERO }),
            count => {
                piece[..count].copy_from_slice(&self.output[..count]);
                self.output.drain(..count);
                Ok(count)
            }
        }
    }
}

fn outcome(case: &Http2Case, wrong: Wrong) -> Outcome {
    let delays = Rc::new(Cell::new(Delays::default()));
    let connect = |config: Config| -> anyhow::Result<Http2Session> {
        let peer = Box::new(Peer::new(wrong, Rc::clone(&delays)));
        Ok(Http2Session::new(config, false, SERVER_NAME, Duration::from_secs(1), peer))
    };
    let upstream = || -> anyhow::Result<Delays> { Ok(delays.get()) };
    (case.test)(&Side { connect: &connect, upstream: &upstream, patience: Duration::ZERO })
}

#[test]
fn each_case_finds_a_server_that_breaks_its_rule() {
    let table = [
        ("no-length-1k", Wrong::ForgetsBodies),
        ("no-length-1m", Wrong::ForgetsBodies),
        ("request-headers-18k", Wrong::LosesHeaders),
        ("request-trailers", Wrong::LosesRequestTrailers),
        ("response-trailers", Wrong::LosesResponseTrailers),
        ("early-hints", Wrong::GivesNoHints),
        ("expect-continue", Wrong::NeverContinues),
        ("early-response", Wrong::WaitsForTheEnd),
        ("cancel", Wrong::IgnoresCancels),
        ("cancels-30", Wrong::LeavesAfterCancels),
        ("window-1", Wrong::CutsAtTheWindow),
        ("window-grows", Wrong::IgnoresNewWindows),
        ("streams-100", Wrong::AllowsTenStreams),
        ("ping", Wrong::IgnoresPings),
        ("goaway-client", Wrong::LeavesAtGoaway),
        ("goaway-upstream", Wrong::ResetsAtGoaway),
    ];
    assert_eq!(HTTP2_CASES.len(), table.len());
    let mut told = String::new();
    for (case, (name, wrong)) in HTTP2_CASES.iter().zip(table) {
        assert_eq!(case.name, name);
        assert_eq!(outcome(case, Wrong::Nothing), Ok(()), "{name}");
        told += &format!("{name}: {}\n", outcome(case, wrong).expect_err(name).0);
    }
    insta::assert_snapshot!(told);
}

#[test]
fn the_headers_need_more_than_one_frame() {
    let field = |(name, value): (String, String)| OutField { name, value };
    let fields: Vec<OutField> = messages::fields().into_iter().map(field).collect();
    assert!(Block::plain(&fields).bytes().len() > 16_384);
}

#[test]
fn every_rule_names_its_source() {
    for case in HTTP2_CASES {
        assert!(case.rule.starts_with("RFC 9") && case.rule.contains(", section "), "{case:?}");
        assert!(!case.about.is_empty(), "{case:?}");
    }
}
