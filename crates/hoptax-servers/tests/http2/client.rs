//! A client of HTTP/2 on a real socket.

use hoptax_format::Address;
use hoptax_wire::http2::hpack::write_literal;
use hoptax_wire::http2::{
    Block, Code, Config, Connection, FieldList, OutField, RequestParts, Sections, Step, request_fields,
};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// No read takes longer.
const LIMIT: Duration = Duration::from_secs(60);

/// A request. `tag` identifies it.
pub(crate) struct Request<'a> {
    pub(crate) tag: u32,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: &'a [u8],
}

impl<'a> Request<'a> {
    pub(crate) fn get(tag: u32, path: &'a str) -> Self {
        Self { tag, method: "GET", path, headers: &[], body: b"" }
    }

    fn fields(&self) -> Vec<OutField> {
        let parts = RequestParts {
            method: self.method,
            scheme: "http",
            authority: "upstream.test",
            path: self.path,
            content_length: (!self.body.is_empty()).then_some(self.body.len() as u64),
        };
        request_fields(parts, self.headers.iter().copied()).expect("a valid request")
    }
}

/// What has arrived on a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) tag: u32,
    /// 0 if there was no head.
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    /// Number of interim heads.
    pub(crate) interim: u32,
    /// Why the server has reset the stream, and whether it has not processed the request.
    pub(crate) reset: Option<(Code, bool)>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

pub(crate) struct Client {
    pub(crate) connection: Connection,
    pub(crate) socket: TcpStream,
    pub(crate) output: Vec<u8>,
    sections: Sections,
    input: Vec<u8>,
    answers: BTreeMap<u32, Answer>,
    /// Bodies of requests that were not sent yet, by stream.
    unsent: BTreeMap<u32, Vec<u8>>,
    /// If true, a body is sent only after an interim head.
    pub(crate) waits: bool,
    /// The server's GOAWAY: the last stream, and the code.
    pub(crate) go_away: Option<(u32, Code)>,
}

impl Client {
    pub(crate) fn connect(to: &Address, config: Config) -> Self {
        let Address::Tcp(to) = to else { panic!("{to} is no port") };
        let socket = TcpStream::connect_timeout(to, LIMIT).expect("connects");
        socket.set_read_timeout(Some(LIMIT)).expect("a socket");
        socket.set_nodelay(true).expect("a socket");
        let mut output = Vec::new();
        Self {
            connection: Connection::client(config, &mut output),
            socket,
            output,
            sections: Sections::new(),
            input: Vec::new(),
            answers: BTreeMap::new(),
            unsent: BTreeMap::new(),
            waits: false,
            go_away: None,
        }
    }

    /// Begins a request. [`flush`](Self::flush) sends it. Returns the number of its stream.
    pub(crate) fn begin(&mut self, request: &Request<'_>) -> u32 {
        let block = Block::plain(&request.fields());
        let (is_head, end) = (request.method == "HEAD", request.body.is_empty());
        let stream = self.connection.request(request.tag, is_head, &block, &[], end, &mut self.output);
        let stream = stream.expect("there is room for a stream");
        self.answers.insert(stream, Answer { tag: request.tag, ..Answer::default() });
        if !end {
            self.unsent.insert(stream, request.body.to_vec());
            if !self.waits {
                self.send_body(stream);
            }
        }
        stream
    }

    /// Begins a request whose body is followed by a trailer. [`flush`](Self::flush) sends it.
    pub(crate) fn begin_with_trailer(&mut self, request: &Request<'_>, (name, value): (&str, &str)) {
        let block = Block::plain(&request.fields());
        let trailer = Block::plain(&[OutField { name: name.into(), value: value.into() }]);
        let Self { connection, output, .. } = self;
        let stream = connection.request(request.tag, false, &block, &[], false, output);
        let stream = stream.expect("there is room for a stream");
        let sent = connection.send_data(stream, request.body, false, output);
        assert_eq!(sent, Some(request.body.len()), "the windows are larger");
        assert!(connection.send_head(stream, &trailer, &[], true, output), "the stream is open");
        self.answers.insert(stream, Answer { tag: request.tag, ..Answer::default() });
    }

    /// Begins a request whose body the caller sends in parts. [`flush`](Self::flush) sends the head. Returns
    /// the number of its stream.
    pub(crate) fn open(&mut self, request: &Request<'_>) -> u32 {
        let block = Block::plain(&request.fields());
        let stream = self.connection.request(request.tag, false, &block, &[], false, &mut self.output);
        let stream = stream.expect("there is room for a stream");
        self.answers.insert(stream, Answer { tag: request.tag, ..Answer::default() });
        stream
    }

    /// Begins an extended CONNECT (RFC 8441), as [`open`](Self::open) begins other requests.
    pub(crate) fn open_protocol(&mut self, request: &Request<'_>, protocol: &str) -> u32 {
        let block = Block::plain(&request.fields());
        let mut pseudo = Vec::new();
        write_literal(&mut pseudo, ":protocol", protocol.as_bytes());
        let stream = self.connection.request(request.tag, false, &block, &pseudo, false, &mut self.output);
        let stream = stream.expect("there is room for a stream");
        self.answers.insert(stream, Answer { tag: request.tag, ..Answer::default() });
        stream
    }

    /// Sends a part of a body at once.
    pub(crate) fn send(&mut self, stream: u32, data: &[u8], end: bool) {
        let sent = self.connection.send_data(stream, data, end, &mut self.output);
        assert_eq!(sent, Some(data.len()), "the windows are larger");
        self.flush();
    }

    /// Receives until an answer that has not ended fulfils a condition.
    pub(crate) fn receive_until(&mut self, stream: u32, is_enough: impl Fn(&Answer) -> bool) -> &Answer {
        self.flush();
        while !is_enough(&self.answers[&stream]) {
            let found = self.connection.advance(&self.input, &mut self.sections, &mut self.output);
            let (consumed, step) = found.expect("the server keeps to the protocol");
            assert_eq!(self.step(&step), None, "an answer has ended");
            self.input.drain(..consumed);
            assert!(step != Step::NeedMore || self.receive(), "the connection has ended");
        }
        &self.answers[&stream]
    }

    fn send_body(&mut self, stream: u32) {
        let rest = self.unsent.get_mut(&stream).expect("a body that is not sent");
        if let Some(sent) = self.connection.send_data(stream, rest, true, &mut self.output) {
            rest.drain(..sent);
        }
    }

    pub(crate) fn flush(&mut self) {
        self.socket.write_all(&self.output).expect("sent");
        self.output.clear();
    }

    pub(crate) fn finish(&mut self) {
        self.flush();
        self.socket.shutdown(Shutdown::Write).expect("open");
    }

    /// The next answer that has ended. `None` at the end of the connection.
    pub(crate) fn next(&mut self) -> Option<Answer> {
        loop {
            let found = self.connection.advance(&self.input, &mut self.sections, &mut self.output);
            let (consumed, step) = found.expect("the server keeps to the protocol");
            let ended = self.step(&step);
            self.input.drain(..consumed);
            if let Some(stream) = ended {
                return self.answers.remove(&stream);
            }
            if step == Step::NeedMore && !self.receive() {
                return None;
            }
        }
    }

    /// Returns the stream that has ended.
    fn step(&mut self, step: &Step) -> Option<u32> {
        match step {
            Step::Interim { stream } => {
                self.answers.get_mut(&stream.id).expect("a known stream").interim += 1;
                if self.waits {
                    self.send_body(stream.id);
                }
            }
            Step::Head { stream, end } => {
                let answer = self.answers.get_mut(&stream.id).expect("a known stream");
                assert_eq!(answer.tag, stream.tag);
                answer.status = self.sections.head.status();
                answer.headers = texts(self.sections.head.fields());
                return end.then_some(stream.id);
            }
            Step::Trailers { stream } => {
                let answer = self.answers.get_mut(&stream.id).expect("a known stream");
                answer.trailers = texts(self.sections.trailers.fields());
                return Some(stream.id);
            }
            Step::Body { stream, data, end } => {
                let answer = self.answers.get_mut(&stream.id).expect("a known stream");
                answer.body.extend_from_slice(&self.input[data.clone()]);
                return end.then_some(stream.id);
            }
            Step::Reset { stream, code, unprocessed } => {
                // After its answer, the server can refuse the rest of the request.
                let answer = self.answers.get_mut(&stream.id)?;
                answer.reset = Some((*code, *unprocessed));
                return Some(stream.id);
            }
            Step::Writable { stream } => self.send_body(stream.id),
            Step::GoAway { last, code, .. } => self.go_away = Some((*last, *code)),
            Step::NeedMore | Step::Settings => {}
            other => panic!("{other:?}"),
        }
        None
    }

    fn receive(&mut self) -> bool {
        self.flush_if_open();
        let mut bytes = [0; 65_536];
        // A server that closes the connection can reset it.
        let count = self.socket.read(&mut bytes).unwrap_or(0);
        self.input.extend_from_slice(&bytes[..count]);
        count > 0
    }

    /// The server can close the connection while the last acknowledgements are sent.
    fn flush_if_open(&mut self) {
        let _ = self.socket.write_all(&self.output);
        self.output.clear();
    }

    /// The answers to all requests, in the order in which they end.
    pub(crate) fn exchange(&mut self, requests: &[Request<'_>]) -> Vec<Answer> {
        for request in requests {
            self.begin(request);
        }
        self.flush();
        requests.iter().map(|_| self.next().expect("an answer")).collect()
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.exchange(&[Request::get(0, path)]).remove(0)
    }
}

fn texts(fields: &FieldList) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    fields.iter().map(|(name, value)| (text(name), text(value))).collect()
}
