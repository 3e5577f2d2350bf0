//! Every case, through a proxy in memory that keeps its rule, and through one that does not.

use super::script::{Script, block, fields};
use super::state::{Fields, Shared};
use super::*;
use hoptax_servers::http2_session::Http2Session;
use hoptax_servers::request_error::{Awaited, RequestError};
use hoptax_servers::transport::Transport;
use hoptax_wire::http2::{Code, Connection, Sections, Step};
use std::collections::BTreeMap;
use std::mem;

/// What a proxy does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    LosesTrailers,
    LosesStatusInHeads,
    InventsOk,
    HidesHttpErrors,
    DecodesTexts,
    RenamesDeadlines,
    LosesBinaryMetadata,
    LosesTrailingMetadata,
    LengthensTimeouts,
    ShortensContentTypes,
    ClearsFlags,
    BuffersRequests,
    BuffersResponses,
    HidesEndsOfRequests,
    RefusesLargeMessages,
    DropsBlockedData,
    DropsTrailersBehindData,
    HidesCancels,
    RefusesPings,
    ResetsAtGoaway,
}

/// How a direction of a call ends.
#[derive(Debug)]
enum End {
    Open,
    Data,
    Trailers(Fields),
}

#[derive(Debug)]
struct Direction {
    unsent: Vec<u8>,
    end: End,
    /// Number of bytes that arrived.
    total: usize,
}

/// What arrives on a connection.
enum Event {
    Head(u32, Fields, bool),
    Data(u32, Vec<u8>, bool),
    Trailers(u32, Fields),
    Reset(u32, Code),
    Writable(u32),
    GoAway,
}

/// One connection of the proxy.
struct Leg {
    connection: Connection,
    sections: Sections,
    input: Vec<u8>,
    output: Vec<u8>,
    /// What is sent on this connection, by stream.
    sending: BTreeMap<u32, Direction>,
}

impl Leg {
    fn new(connection: Connection, output: Vec<u8>) -> Self {
        let (sections, input, sending) = (Sections::new(), Vec::new(), BTreeMap::new());
        Self { connection, sections, input, output, sending }
    }

    fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let step = self.connection.advance(&self.input, &mut self.sections, &mut self.output);
            let (consumed, step) = step.expect("both sides keep the rules");
            match &step {
                Step::Head { stream, end } => {
                    events.push(Event::Head(stream.id, fields(self.sections.head.fields()), *end));
                }
                Step::Body { stream, data, end } => {
                    events.push(Event::Data(stream.id, self.input[data.clone()].to_vec(), *end));
                }
                Step::Trailers { stream } => {
                    events.push(Event::Trailers(stream.id, fields(self.sections.trailers.fields())));
                }
                Step::Reset { stream, code, .. } => events.push(Event::Reset(stream.id, *code)),
                Step::Writable { stream } => events.push(Event::Writable(stream.id)),
                Step::GoAway { .. } => events.push(Event::GoAway),
                _ => {}
            }
            self.input.drain(..consumed);
            if step == Step::NeedMore {
                return events;
            }
        }
    }

    /// Sends what the windows allow of a direction.
    fn push(&mut self, stream: u32, wrong: Wrong) {
        let Some(direction) = self.sending.get_mut(&stream) else { return };
        let end = matches!(direction.end, End::Data);
        if !direction.unsent.is_empty() || end {
            let sent = self.connection.send_data(stream, &direction.unsent, end, &mut self.output);
            direction.unsent.drain(..sent.unwrap_or(direction.unsent.len()));
            if wrong == Wrong::DropsBlockedData {
                direction.unsent.clear();
            }
            if !direction.unsent.is_empty() {
                let has_trailers = matches!(direction.end, End::Trailers(_));
                if has_trailers && wrong == Wrong::DropsTrailersBehindData {
                    direction.end = End::Data;
                }
                return;
            }
        }
        match &direction.end {
            End::Open => return,
            End::Data => {}
            End::Trailers(trailers) => {
                let block = block(pairs(trailers));
                self.connection.send_head(stream, &block, &[], true, &mut self.output);
            }
        }
        self.sending.remove(&stream);
    }
}

fn pairs(fields: &Fields) -> impl Iterator<Item = (&str, &str)> {
    fields.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

/// A proxy with its upstream. Streams have the same number on both connections, because the proxy forwards
/// all of them in order.
struct Proxy {
    wrong: Wrong,
    client: Leg,
    upstream: Leg,
    script: Script,
    pings: usize,
}

impl Proxy {
    fn new(wrong: Wrong, shared: Shared) -> Self {
        let (mut to_client, mut to_upstream) = (Vec::new(), Vec::new());
        let client = Connection::server(Config::default(), &mut to_client);
        let upstream = Connection::client(Config::default(), &mut to_upstream);
        Self {
            wrong,
            client: Leg::new(client, to_client),
            upstream: Leg::new(upstream, to_upstream),
            script: Script::new(shared),
            pings: 0,
        }
    }

    /// Moves everything that can move.
    fn advance(&mut self) {
        loop {
            let requests = self.client.events();
            let is_idle = requests.is_empty();
            requests.into_iter().for_each(|event| self.request(event));
            self.script.receive(&mem::take(&mut self.upstream.output)).expect("the proxy keeps the rules");
            self.script.poll();
            self.upstream.input.append(&mut self.script.output);
            let responses = self.upstream.events();
            if is_idle && responses.is_empty() && self.upstream.output.is_empty() {
                return;
            }
            responses.into_iter().for_each(|event| self.response(event));
        }
    }

    fn request(&mut self, event: Event) {
        match event {
            Event::Head(stream, mut head, end) => {
                self.change_request(&mut head);
                let sent = self.upstream.connection.request(
                    0,
                    false,
                    &block(pairs(&head)),
                    &[],
                    end,
                    &mut self.upstream.output,
                );
                assert_eq!(sent, Some(stream));
                let direction = Direction { unsent: Vec::new(), end: End::Open, total: 0 };
                self.upstream.sending.insert(stream, direction);
            }
            Event::Data(stream, mut data, end) => self.request_data(stream, &mut data, end),
            Event::Reset(stream, code) if self.wrong != Wrong::HidesCancels => {
                self.upstream.connection.reset(stream, code, &mut self.upstream.output);
            }
            Event::Writable(stream) => self.client.push(stream, self.wrong),
            _ => {}
        }
    }

    fn change_request(&self, head: &mut Fields) {
        if self.wrong == Wrong::LosesBinaryMetadata {
            head.retain(|(name, _)| !name.ends_with("-bin"));
        }
        for (name, value) in head {
            match name.as_str() {
                "grpc-timeout" if self.wrong == Wrong::LengthensTimeouts => *value = "1H".to_owned(),
                "content-type" if self.wrong == Wrong::ShortensContentTypes => {
                    *value = "application/grpc".to_owned();
                }
                _ => {}
            }
        }
    }

    fn request_data(&mut self, stream: u32, data: &mut [u8], end: bool) {
        let Some(direction) = self.upstream.sending.get_mut(&stream) else { return };
        if self.wrong == Wrong::ClearsFlags
            && direction.total == 0
            && let Some(flag) = data.first_mut()
        {
            *flag = 0;
        }
        direction.total += data.len();
        direction.unsent.extend_from_slice(data);
        if self.wrong == Wrong::RefusesLargeMessages && direction.total > 1 << 20 {
            self.client.connection.reset(stream, Code::INTERNAL_ERROR, &mut self.client.output);
            return;
        }
        if end && self.wrong != Wrong::HidesEndsOfRequests {
            direction.end = End::Data;
        }
        if end || self.wrong != Wrong::BuffersRequests {
            self.upstream.push(stream, Wrong::Nothing);
        }
    }

    fn response(&mut self, event: Event) {
        match event {
            Event::Head(stream, mut head, end) => {
                match self.wrong {
                    Wrong::LosesStatusInHeads => head.retain(|(name, _)| !name.starts_with("grpc-")),
                    Wrong::HidesHttpErrors => head[0].1 = "200".to_owned(),
                    _ => {}
                }
                let client = &mut self.client;
                let head = block(pairs(&head));
                client.connection.send_head(stream, &head, &[], end, &mut client.output);
                let direction = Direction { unsent: Vec::new(), end: End::Open, total: 0 };
                client.sending.insert(stream, direction);
            }
            Event::Data(stream, data, end) => {
                let own = vec![("grpc-status".to_owned(), "0".to_owned())];
                let end = match self.wrong {
                    _ if !end => End::Open,
                    Wrong::InventsOk => End::Trailers(own),
                    _ => End::Data,
                };
                self.respond(stream, &data, end);
            }
            Event::Trailers(stream, mut trailers) => {
                self.change_trailers(&mut trailers);
                let is_lost = self.wrong == Wrong::LosesTrailers;
                self.respond(stream, &[], if is_lost { End::Data } else { End::Trailers(trailers) });
            }
            Event::Reset(stream, code) => {
                self.client.connection.reset(stream, code, &mut self.client.output);
            }
            Event::Writable(stream) => self.upstream.push(stream, Wrong::Nothing),
            Event::GoAway => {
                if self.wrong == Wrong::ResetsAtGoaway {
                    for stream in self.client.sending.keys() {
                        let code = Code::INTERNAL_ERROR;
                        self.client.connection.reset(*stream, code, &mut self.client.output);
                    }
                }
                self.client.connection.go_away(Code::NO_ERROR, &mut self.client.output);
            }
        }
    }

    fn change_trailers(&self, trailers: &mut Fields) {
        if self.wrong == Wrong::LosesTrailingMetadata {
            trailers.retain(|(name, _)| !name.starts_with("x-hoptax"));
        }
        for (name, value) in trailers {
            match name.as_str() {
                "grpc-message" if self.wrong == Wrong::DecodesTexts => *value = value.replace("%25", "%"),
                "grpc-status" if self.wrong == Wrong::RenamesDeadlines => *value = "14".to_owned(),
                _ => {}
            }
        }
    }

    fn respond(&mut self, stream: u32, data: &[u8], end: End) {
        let Some(direction) = self.client.sending.get_mut(&stream) else { return };
        direction.unsent.extend_from_slice(data);
        direction.end = end;
        if self.wrong != Wrong::BuffersResponses || !matches!(direction.end, End::Open) {
            self.client.push(stream, self.wrong);
        }
    }
}

impl Transport for Proxy {
    fn send(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
        /// The type of PING frames.
        const PING: u8 = 6;
        if bytes.get(3) == Some(&PING) {
            self.pings += 1;
            if self.wrong == Wrong::RefusesPings && self.pings == 3 {
                self.client.connection.go_away(Code::ENHANCE_YOUR_CALM, &mut self.client.output);
            }
        }
        self.client.input.extend_from_slice(bytes);
        self.advance();
        Ok(())
    }

    fn receive(&mut self, piece: &mut [u8], awaited: Awaited) -> Result<usize, RequestError> {
        self.advance();
        match self.client.output.len().min(piece.len()) {
            0 => Err(RequestError::Timeout { awaited, limit: Duration::ZERO }),
            count => {
                piece[..count].copy_from_slice(&self.client.output[..count]);
                self.client.output.drain(..count);
                Ok(count)
            }
        }
    }
}

fn outcome(case: &GrpcCase, wrong: Wrong) -> Outcome {
    let shared = Shared::default();
    let connect = |config: Config| -> anyhow::Result<Http2Session> {
        let proxy = Box::new(Proxy::new(wrong, shared.clone()));
        Ok(Http2Session::new(config, false, SERVER_NAME, Duration::from_secs(1), proxy))
    };
    (case.test)(&Side { connect: &connect, upstream: &shared, patience: Duration::ZERO })
}

#[test]
fn each_case_finds_a_proxy_that_breaks_its_rule() {
    let table = [
        ("grpc-status", Wrong::LosesTrailers),
        ("grpc-trailers-only", Wrong::LosesStatusInHeads),
        ("grpc-no-status", Wrong::InventsOk),
        ("grpc-http-errors", Wrong::HidesHttpErrors),
        ("grpc-message", Wrong::DecodesTexts),
        ("grpc-deadline", Wrong::RenamesDeadlines),
        ("grpc-request-metadata", Wrong::LosesBinaryMetadata),
        ("grpc-response-metadata", Wrong::LosesTrailingMetadata),
        ("grpc-timeout", Wrong::LengthensTimeouts),
        ("grpc-content-type", Wrong::ShortensContentTypes),
        ("grpc-encoding", Wrong::ClearsFlags),
        ("grpc-both-ways", Wrong::BuffersRequests),
        ("grpc-server-stream", Wrong::BuffersResponses),
        ("grpc-half-close", Wrong::HidesEndsOfRequests),
        ("grpc-4m", Wrong::RefusesLargeMessages),
        ("grpc-slow-reader", Wrong::DropsBlockedData),
        ("grpc-trailers-behind-data", Wrong::DropsTrailersBehindData),
        ("grpc-cancel", Wrong::HidesCancels),
        ("grpc-pings", Wrong::RefusesPings),
        ("grpc-goaway", Wrong::ResetsAtGoaway),
    ];
    assert_eq!(GRPC_CASES.len(), table.len());
    let mut told = String::new();
    for (case, (name, wrong)) in GRPC_CASES.iter().zip(table) {
        assert_eq!(case.name, name);
        assert_eq!(outcome(case, Wrong::Nothing), Ok(()), "{name}");
        told += &format!("{name}: {}\n", outcome(case, wrong).expect_err(name).0);
    }
    insta::assert_snapshot!(told);
}

#[test]
fn every_rule_names_its_source() {
    for case in GRPC_CASES {
        assert!(case.rule.starts_with("RFC 9113, section ") || case.rule.starts_with("doc/"), "{case:?}");
        assert!(case.name.starts_with("grpc-") && !case.about.is_empty(), "{case:?}");
    }
}
