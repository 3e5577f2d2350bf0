//! The HTTP/2 side of the small client. It sends requests that are written for HTTP/1.1, one after the other.

use crate::answer::Answer;
use crate::request_error::{Awaited, RequestError};
use crate::transport::Transport;
use hoptax_wire::grpc;
use hoptax_wire::http1::{self, RequestDecoder, RequestStep};
use hoptax_wire::http2::{Block, Config, Connection, RequestParts, Section, Sections, Step, request_fields};

/// An HTTP/2 connection of a client.
pub(crate) struct Http2 {
    connection: Connection,
    sections: Sections,
    /// Received bytes that are not decoded yet.
    input: Vec<u8>,
    output: Vec<u8>,
    scheme: &'static str,
    /// Whether bytes have been received.
    is_heard: bool,
}

/// A request of HTTP/1.1, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    has_length: bool,
    body: Vec<u8>,
}

impl Http2 {
    /// A connection whose preface is not sent yet.
    pub(crate) fn new(is_tls: bool) -> Self {
        let mut output = Vec::new();
        let connection = Connection::client(Config::default(), &mut output);
        let scheme = if is_tls { "https" } else { "http" };
        Self { connection, sections: Sections::new(), input: Vec::new(), output, scheme, is_heard: false }
    }

    /// True if the server accepts another request.
    pub(crate) fn can_be_reused(&self) -> bool {
        !self.connection.is_closing()
    }

    /// Sends `request`, which is written for HTTP/1.1, and reads its response, with at most `most` bytes of
    /// the body. If `most` is 0, stops after the head.
    pub(crate) fn exchange(
        &mut self,
        request: &[u8],
        most: usize,
        transport: &mut impl Transport,
    ) -> Result<Answer, RequestError> {
        let request = Request::parse(request)?;
        let is_head = request.method == "HEAD";
        let block = request.block(self.scheme)?;
        let end = request.body.is_empty();
        let stream = self.connection.request(0, is_head, &block, &[], end, &mut self.output);
        // The server has sent GOAWAY.
        let stream = stream.ok_or(RequestError::Ended { begun: false, reset: false })?;
        let mut unsent = request.body.as_slice();
        let mut answer = Answer::default();
        let mut begun = false;
        loop {
            if !unsent.is_empty() {
                let sent = self.connection.send_data(stream, unsent, true, &mut self.output);
                unsent = &unsent[sent.unwrap_or(unsent.len())..];
            }
            if !self.output.is_empty() {
                let sent = transport.send(&self.output);
                self.output.clear();
                // A server that refuses a request may answer and close before it has read everything.
                if let Err(error) = sent
                    && !begun
                    && self.input.is_empty()
                    && !matches!(error, RequestError::Ended { .. })
                {
                    return Err(error);
                }
            }
            let step = self.connection.advance(&self.input, &mut self.sections, &mut self.output);
            let (consumed, step) = step.map_err(|fault| RequestError::Http2(fault.to_string()))?;
            match step {
                Step::NeedMore => {
                    self.input.drain(..consumed);
                    let mut piece = [0; 16 * 1024];
                    let awaited = if begun { Awaited::Rest } else { Awaited::Response };
                    let received = transport.receive(&mut piece, awaited);
                    if !self.is_heard && matches!(received, Ok(0) | Err(RequestError::Ended { .. })) {
                        let text = "the server closed the connection before it sent its settings";
                        return Err(RequestError::Http2(text.to_owned()));
                    }
                    let count = received?;
                    self.is_heard = true;
                    if count == 0 {
                        return Err(RequestError::Ended { begun, reset: false });
                    }
                    self.input.extend_from_slice(&piece[..count]);
                    continue;
                }
                // A connection carries one request at a time. Other streams belong to earlier requests.
                Step::Head { stream: of, end } if of.id == stream => {
                    begun = true;
                    read_head(&self.sections.head, &mut answer);
                    if end || most == 0 {
                        self.input.drain(..consumed);
                        return Ok(answer);
                    }
                }
                Step::Body { stream: of, data, end } if of.id == stream => {
                    answer.body.extend_from_slice(&self.input[data]);
                    if end || answer.body.len() >= most {
                        answer.body.truncate(most);
                        self.input.drain(..consumed);
                        return Ok(answer);
                    }
                }
                Step::Trailers { stream: of } if of.id == stream => {
                    read_call_status(&self.sections.trailers, &mut answer);
                    self.input.drain(..consumed);
                    return Ok(answer);
                }
                Step::Reset { stream: of, code, .. } if of.id == stream => {
                    return Err(RequestError::Http2(format!("the server ended the stream: {code}")));
                }
                Step::Failed { stream: of, fault } if of.id == stream => {
                    return Err(RequestError::Http2(fault.to_string()));
                }
                _ => {}
            }
            self.input.drain(..consumed);
        }
    }
}

/// Copies the head of a response.
pub(crate) fn read_head(head: &Section, answer: &mut Answer) {
    answer.status = head.status();
    add_fields(head.fields().iter().filter(|(name, _)| !name.starts_with(b":")), answer);
}

/// Adds the status of a gRPC call to the headers. A call without a message has it there already. Other
/// trailers are left out, because gateways may drop them.
fn read_call_status(trailers: &Section, answer: &mut Answer) {
    let is_status = |name: &[u8]| name == grpc::STATUS.as_bytes() || name == grpc::MESSAGE.as_bytes();
    add_fields(trailers.fields().iter().filter(|(name, _)| is_status(name)), answer);
}

fn add_fields<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>, answer: &mut Answer) {
    for (name, value) in fields {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let value = String::from_utf8_lossy(value);
        let known = answer.headers.entry(name).or_default();
        *known = if known.is_empty() { value.into_owned() } else { format!("{known}, {value}") };
    }
}

impl Request {
    fn parse(bytes: &[u8]) -> Result<Self, RequestError> {
        let wrong = |what: String| RequestError::Http2(format!("the request cannot be sent: {what}"));
        let mut decoder = RequestDecoder::new();
        let mut request = Self::default();
        let mut rest = bytes;
        loop {
            let step = decoder.advance(rest).map_err(|malformed| wrong(malformed.to_string()))?;
            match step {
                RequestStep::NeedMore => return Err(wrong("it is incomplete".to_owned())),
                RequestStep::Head { consumed, head } => {
                    let text =
                        |range: std::ops::Range<usize>| String::from_utf8_lossy(&rest[range]).into_owned();
                    (request.method, request.path) = (text(head.method), text(head.target));
                    http1::fields(&rest[..consumed], |field| {
                        let value = String::from_utf8_lossy(field.value).into_owned();
                        request.has_length |= field.name.eq_ignore_ascii_case("content-length");
                        request.headers.push((field.name.to_owned(), value));
                    })
                    .map_err(|malformed| wrong(malformed.to_string()))?;
                    rest = &rest[consumed..];
                }
                RequestStep::Body { consumed, data } => {
                    request.body.extend_from_slice(&rest[data]);
                    rest = &rest[consumed..];
                }
                RequestStep::End { .. } => return Ok(request),
            }
        }
    }

    /// The header block, without the headers that exist only in HTTP/1.
    fn block(&self, scheme: &str) -> Result<Block, RequestError> {
        const ONLY_HTTP1: [&str; 6] = [
            "connection",
            "content-length",
            "keep-alive",
            "proxy-connection",
            "transfer-encoding",
            "upgrade",
        ];
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let headers =
            headers.filter(|(name, _)| !ONLY_HTTP1.iter().any(|only| name.eq_ignore_ascii_case(only)));
        let parts = RequestParts {
            method: &self.method,
            scheme,
            authority: "",
            path: &self.path,
            content_length: (self.has_length || !self.body.is_empty()).then_some(self.body.len() as u64),
        };
        let fields = request_fields(parts, headers).map_err(|bad| RequestError::Http2(bad.to_string()))?;
        Ok(Block::plain(&fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_wire::http2::{OutField, response_fields};

    /// A server in memory. It answers each request with its own method, path, headers and body, and sends at
    /// most `piece` bytes at a time.
    struct Echo {
        connection: Connection,
        sections: Sections,
        input: Vec<u8>,
        output: Vec<u8>,
        piece: usize,
        head: String,
        body: Vec<u8>,
    }

    impl Echo {
        fn new(piece: usize) -> Self {
            let mut output = Vec::new();
            let config = Config { window: 1000, ..Config::default() };
            Self {
                connection: Connection::server(config, &mut output),
                sections: Sections::new(),
                input: Vec::new(),
                output,
                piece,
                head: String::new(),
                body: Vec::new(),
            }
        }

        fn answer(&mut self, stream: u32) {
            let length = Some(self.body.len() as u64);
            let head = std::mem::take(&mut self.head);
            if head.contains("content-type=application/grpc") {
                self.body.clear();
                return self.answer_call(stream);
            }
            let headers = [("echo", head.as_str()), ("set-cookie", "a"), ("set-cookie", "b")];
            let block = Block::plain(&response_fields(200, headers, length).expect("valid"));
            self.connection.send_head(stream, &block, &[], self.body.is_empty(), &mut self.output);
            if !self.body.is_empty() {
                let body = std::mem::take(&mut self.body);
                let sent = self.connection.send_data(stream, &body, true, &mut self.output);
                assert_eq!(sent, Some(body.len()), "it fits into the client's window");
            }
        }
    }

    impl Echo {
        fn answer_call(&mut self, stream: u32) {
            let head = Block::plain(&response_fields(200, [], None).expect("valid"));
            let fields = [("grpc-status", "5"), ("grpc-message", "none"), ("x-sum", "1")];
            let fields = fields.map(|(name, value)| OutField { name: name.into(), value: value.into() });
            self.connection.send_head(stream, &head, &[], false, &mut self.output);
            self.connection.send_head(stream, &Block::plain(&fields), &[], true, &mut self.output);
        }
    }

    impl Transport for Echo {
        fn send(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
            self.input.extend_from_slice(bytes);
            loop {
                let step = self.connection.advance(&self.input, &mut self.sections, &mut self.output);
                let (consumed, step) = step.expect("the client is right");
                let ended = match &step {
                    Step::Head { stream, end } => {
                        let fields = self.sections.head.fields().iter();
                        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                        let shown = fields.map(|(name, value)| format!("{}={}", text(name), text(value)));
                        self.head = shown.collect::<Vec<_>>().join(" ");
                        end.then_some(stream.id)
                    }
                    Step::Body { stream, data, end } => {
                        self.body.extend_from_slice(&self.input[data.clone()]);
                        end.then_some(stream.id)
                    }
                    _ => None,
                };
                self.input.drain(..consumed);
                if let Some(stream) = ended {
                    self.answer(stream);
                }
                if step == Step::NeedMore {
                    return Ok(());
                }
            }
        }

        fn receive(&mut self, piece: &mut [u8], _: Awaited) -> Result<usize, RequestError> {
            let count = self.piece.min(self.output.len()).min(piece.len());
            piece[..count].copy_from_slice(&self.output[..count]);
            self.output.drain(..count);
            Ok(count)
        }
    }

    #[test]
    fn requests_for_http1_are_sent_over_http2() {
        for piece in [1, 7, 16_384] {
            let mut server = Echo::new(piece);
            let mut client = Http2::new(false);
            let get = b"GET /a?b HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nX-One: 1\r\n\r\n";
            let answer = client.exchange(get, usize::MAX, &mut server).expect("answered");
            assert_eq!(answer.status, 200);
            assert_eq!(
                answer.headers["echo"],
                ":method=GET :scheme=http :authority=a.test :path=/a?b x-one=1"
            );
            assert_eq!((answer.headers["set-cookie"].as_str(), answer.body.len()), ("a, b", 0));
            assert!(client.can_be_reused());

            // The body is longer than the server's window.
            let body = "x".repeat(5000);
            let put = format!("PUT / HTTP/1.1\r\nhost: a.test\r\ncontent-length: 5000\r\n\r\n{body}");
            let answer = client.exchange(put.as_bytes(), usize::MAX, &mut server).expect("answered");
            assert!(answer.headers["echo"].ends_with("content-length=5000"), "{:?}", answer.headers);
            assert_eq!(answer.body, body.as_bytes());
            let answer = client.exchange(put.as_bytes(), 10, &mut server).expect("answered");
            assert_eq!(answer.body, b"xxxxxxxxxx");
        }
    }

    #[test]
    fn the_status_of_a_call_is_among_the_headers() {
        let call = b"POST /a.B/C HTTP/1.1\r\nhost: a.test\r\ncontent-type: application/grpc\r\n\
                     content-length: 5\r\n\r\n\0\0\0\0\0";
        let mut server = Echo::new(7);
        let answer = Http2::new(false).exchange(call, usize::MAX, &mut server).expect("answered");
        let headers = answer.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        assert_eq!(headers.collect::<Vec<_>>(), [("grpc-message", "none"), ("grpc-status", "5")]);
    }

    struct Fixed(Vec<u8>);

    impl Transport for Fixed {
        fn send(&mut self, _: &[u8]) -> Result<(), RequestError> {
            Ok(())
        }

        fn receive(&mut self, piece: &mut [u8], _: Awaited) -> Result<usize, RequestError> {
            let count = self.0.len().min(piece.len());
            piece[..count].copy_from_slice(&self.0[..count]);
            self.0.drain(..count);
            Ok(count)
        }
    }

    fn error(answer: &[u8], request: &[u8]) -> String {
        let answered = Http2::new(true).exchange(request, usize::MAX, &mut Fixed(answer.to_vec()));
        answered.expect_err("no answer").to_string()
    }

    #[test]
    fn a_server_without_http2_is_named() {
        const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        let http1 = error(b"HTTP/1.1 400 Bad Request\r\n\r\n", GET);
        let told = [http1, error(b"", GET), error(b"", b"GET / HTTP/1.0\r\n\r\n")];
        insta::assert_snapshot!(told.join("\n"));
    }
}
