//! Requests of HTTP/2: a header block that is encoded once, fields that differ from request to request, and a
//! body.

use super::body::body_program;
use super::error::{TOKEN, TargetError, TargetPart};
use super::length::{WITH_BODY, own_lengths, refuse_own_length};
use hoptax_format::field::is_token;
use hoptax_format::messages::Carrier;
use hoptax_format::spec::TargetSpec;
use hoptax_format::template::{Files, Place, Program, Usage, Values};
use hoptax_wire::http2::hpack::write_literal;
use hoptax_wire::http2::{Block, OutField};
use hoptax_wire::websocket::KEY;

const PATH: &str = ":path";
const AUTHORITY: &str = ":authority";
const LENGTH: &str = "content-length";
/// Maximum length of a length in decimal.
const LONGEST_LENGTH: usize = 20;
/// Maximum number of bytes that a field has beyond its name and its value: a byte for its kind, and two
/// lengths.
const FIELD_FRAMING: usize = 13;

/// Requests to a target.
#[derive(Debug)]
pub(super) struct Streamed {
    /// The fields that are the same in all requests, and their encoded block, which is empty until [`share`]
    /// has encoded it.
    fields: Vec<OutField>,
    block: Block,
    /// The other fields, pseudo-headers first.
    varying: Vec<(String, Program)>,
    body: Body,
    usage: Usage,
}

#[derive(Debug)]
enum Body {
    Fixed(Vec<u8>),
    Made(Program),
}

/// A request that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Parts<'b> {
    pub(crate) block: &'b Block,
    pub(crate) varying: &'b [u8],
    pub(crate) body: &'b [u8],
    /// True if the body is the same in every request to this target.
    pub(crate) body_is_fixed: bool,
}

impl Streamed {
    /// Prepares requests to `target`. `scheme` is `http` or `https`.
    ///
    /// # Errors
    /// If a part contains characters that are not allowed in it, or if HTTP/2 does not allow a header.
    pub(super) fn new(target: &TargetSpec, files: &Files<'_>, scheme: &str) -> Result<Self, TargetError> {
        let fault = |part, message: String, help: &str| Err(TargetError::new(target, part, message, help));
        if !is_token(&target.method) {
            return fault(TargetPart::Method, format!("{:?} is not a method", target.method), TOKEN);
        }
        if target.chunked.is_some() {
            let help = "leave out `chunked` (option `--chunked`), or use HTTP/1.1";
            return fault(TargetPart::Body, "HTTP/2 has no chunked bodies".into(), help);
        }
        if !target.path.starts_with(['/', '{']) {
            let message = "the path is a whole URL, which HTTP/2 does not allow".to_owned();
            return fault(TargetPart::Path, message, "begin with `/`");
        }
        let mut request = Self {
            fields: Vec::new(),
            block: Block::plain(&[]),
            varying: Vec::new(),
            body: Body::Fixed(Vec::new()),
            usage: Usage::default(),
        };
        let mut path = Program::default();
        path.push_template(&target.path, Place::Path, files)
            .map_err(|error| TargetError::template(target, TargetPart::Path, error))?;
        let is_socket = target.stream.is_some_and(|stream| stream.carrier == Carrier::WebSocket);
        let method: &str = if is_socket { "CONNECT" } else { &target.method };
        request.add(":method", method.as_bytes());
        if is_socket {
            request.add(":protocol", b"websocket");
        }
        request.add(":scheme", scheme.as_bytes());
        request.push(PATH, path);
        for (index, (name, value)) in target.headers.iter().enumerate() {
            let part = || TargetPart::Header(index, name.clone());
            if !is_token(name) {
                return fault(part(), format!("{name:?} is not a header name"), TOKEN);
            }
            let lower = name.to_ascii_lowercase();
            let name = match lower.as_str() {
                LENGTH => continue,
                // HTTP/2 has pseudo-headers instead (RFC 8441, section 5).
                "connection" | "upgrade" | KEY if is_socket => continue,
                "host" if request.has(AUTHORITY) => {
                    return fault(part(), "a request has only one host".into(), "keep one `host` header");
                }
                "host" => AUTHORITY,
                "connection" | "proxy-connection" | "keep-alive" | "transfer-encoding" | "upgrade" => {
                    return fault(part(), "HTTP/2 does not allow this header".into(), "leave it out");
                }
                "te" if value != "trailers" => {
                    return fault(part(), "HTTP/2 allows only the value `trailers`".into(), "leave it out");
                }
                other => other,
            };
            let mut program = Program::default();
            program
                .push_template(value, Place::Header, files)
                .map_err(|error| TargetError::template(target, part(), error))?;
            request.push(name, program);
        }
        if !request.has(AUTHORITY) {
            let help = "add the header `host` with the host's name";
            return fault(TargetPart::Name, "a request of HTTP/2 needs a host".into(), help);
        }
        request.add_body(target, files)?;
        request.sort();
        let body = match &request.body {
            Body::Fixed(_) => None,
            Body::Made(program) => Some(program),
        };
        request.usage = Usage::of(request.varying.iter().map(|(_, program)| program).chain(body), files);
        Ok(request)
    }

    fn add(&mut self, name: &str, value: &[u8]) {
        // Values come from strings, or from templates, which are strings too.
        let value = String::from_utf8_lossy(value).into_owned();
        self.fields.push(OutField { name: name.to_owned(), value });
    }

    fn push(&mut self, name: &str, value: Program) {
        match value.fixed() {
            Some(bytes) => self.add(name, bytes),
            None => self.varying.push((name.to_owned(), value)),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
            || self.varying.iter().any(|(other, _)| other == name)
    }

    fn add_body(&mut self, target: &TargetSpec, files: &Files<'_>) -> Result<(), TargetError> {
        let body = if target.body_is_template { body_program(target, files)? } else { Program::default() };
        let bytes = match body.fixed() {
            Some(bytes) if target.body_is_template => bytes,
            Some(_) => &target.body,
            None => {
                refuse_own_length(target, "the length of the body varies")?;
                self.body = Body::Made(body);
                return Ok(());
            }
        };
        // gRPC's clients do not state the length, because their messages do. Browsers state it.
        let unstated = target.grpc && (!target.grpc_web || target.stream.is_some());
        let mut stated = !unstated && (!bytes.is_empty() || WITH_BODY.contains(&target.method.as_str()));
        for (index, name, value) in own_lengths(target) {
            if value.parse() != Ok(bytes.len()) {
                let message = format!("it is {value}, but the body has {} bytes", bytes.len());
                let part = TargetPart::Header(index, name.to_owned());
                return Err(TargetError::new(target, part, message, "leave it out: hoptax adds it"));
            }
            stated = true;
        }
        let bytes = bytes.to_vec();
        if stated {
            self.add(LENGTH, bytes.len().to_string().as_bytes());
        }
        self.body = Body::Fixed(bytes);
        Ok(())
    }

    /// Pseudo-headers come first (RFC 9113, section 8.3).
    fn sort(&mut self) {
        self.fields.sort_by_key(|field| !field.name.starts_with(':'));
        self.varying.sort_by_key(|(name, _)| !name.starts_with(':'));
    }

    /// Writes the parts of the next request. `made` and `body` are buffers that this method may overwrite.
    #[inline]
    pub(super) fn write<'b>(
        &'b self,
        values: &mut Values<'_>,
        made: &'b mut Vec<u8>,
        body: &'b mut Vec<u8>,
    ) -> Parts<'b> {
        if let (Body::Fixed(bytes), []) = (&self.body, self.varying.as_slice()) {
            return Parts { block: &self.block, varying: &[], body: bytes, body_is_fixed: true };
        }
        made.clear();
        for (name, program) in &self.varying {
            body.clear();
            program.write(values, body);
            write_literal(made, name, body);
        }
        body.clear();
        let (body, body_is_fixed) = match &self.body {
            Body::Fixed(bytes) => (bytes.as_slice(), true),
            Body::Made(program) => {
                program.write(values, body);
                let mut length = [0; LONGEST_LENGTH];
                write_literal(made, LENGTH, decimal(&mut length, body.len()));
                (body.as_slice(), false)
            }
        };
        values.advance(&self.usage);
        Parts { block: &self.block, varying: made, body, body_is_fixed }
    }

    /// The body, if it is the same in every request.
    pub(super) fn fixed_body(&self) -> Option<&[u8]> {
        match &self.body {
            Body::Fixed(bytes) => Some(bytes),
            Body::Made(_) => None,
        }
    }

    /// The lengths that the two buffers of [`Streamed::write`] need.
    pub(super) fn longest(&self, files: &Files<'_>) -> (usize, usize) {
        let values = self.varying.iter().map(|(name, program)| (name.len(), program.longest(files)));
        let (made, value) = values.fold((0, 0), |(made, longest), (name, value)| {
            (made + name + value + FIELD_FRAMING, longest.max(value))
        });
        let body = match &self.body {
            Body::Fixed(_) => 0,
            Body::Made(program) => program.longest(files),
        };
        (made + LENGTH.len() + LONGEST_LENGTH + FIELD_FRAMING, value.max(body))
    }
}

/// Writes a number in decimal, without an allocation.
fn decimal(room: &mut [u8; LONGEST_LENGTH], mut number: usize) -> &[u8] {
    let mut at = room.len();
    loop {
        at -= 1;
        room[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &room[at..];
        }
    }
}

/// Encodes the blocks of all targets. Fields that several targets have use the server's dynamic table.
pub(super) fn share<'a>(targets: impl IntoIterator<Item = &'a mut Streamed>) {
    let mut targets: Vec<&mut Streamed> = targets.into_iter().collect();
    let messages: Vec<&[OutField]> = targets.iter().map(|target| target.fields.as_slice()).collect();
    let blocks = Block::shared(&messages);
    for (target, block) in targets.iter_mut().zip(blocks) {
        target.block = block;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::messages::{StreamKind, StreamSpec};
    use hoptax_wire::http2::{Config, Connection, Sections, Step};
    use std::collections::BTreeMap;

    fn spec(headers: &[(&str, &str)], body: &str) -> TargetSpec {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        TargetSpec::only("POST", "/a?n={{seq}}", headers, body.as_bytes().to_vec())
    }

    fn prepared(target: &TargetSpec) -> Result<Streamed, TargetError> {
        let mut request = Streamed::new(target, &Files::default(), "http")?;
        share([&mut request]);
        Ok(request)
    }

    /// The fields that a server sees of the first `count` requests.
    fn seen(request: &Streamed, count: usize) -> Vec<Vec<String>> {
        let files = Files::default();
        let mut values = Values::new(&files, (0, 1), 1, 100);
        let (mut out, mut made, mut body) = (Vec::new(), Vec::new(), Vec::new());
        let mut client = Connection::client(Config::default(), &mut out);
        for tag in 0..count {
            let parts = request.write(&mut values, &mut made, &mut body);
            let stream = client.request(tag as u32, false, parts.block, parts.varying, false, &mut out);
            client.send_data(stream.expect("there is room"), parts.body, true, &mut out);
        }
        let config = Config { connect_protocol: true, ..Config::default() };
        let (mut server, mut answers) = (Connection::server(config, &mut Vec::new()), Vec::new());
        let (mut sections, mut at, mut all) = (Sections::new(), 0, Vec::<Vec<String>>::new());
        loop {
            let (consumed, step) = server.advance(&out[at..], &mut sections, &mut answers).expect("valid");
            match step {
                Step::NeedMore => return all,
                Step::Head { .. } => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let fields = sections.head.fields().iter();
                    all.push(fields.map(|(name, value)| text(name) + "=" + &text(value)).collect());
                }
                Step::Body { data, .. } => {
                    let body = String::from_utf8_lossy(&out[at..][data]).into_owned();
                    all.last_mut().expect("a head came first").push(body);
                }
                _ => {}
            }
            at += consumed;
        }
    }

    #[test]
    fn a_server_sees_what_the_target_says() {
        let request = prepared(&spec(&[("Accept", "*/*"), ("HOST", "a.test"), ("x-n", "{{seq}}")], "hello"));
        let seen = seen(&request.expect("valid"), 3);
        for (number, fields) in seen.iter().enumerate() {
            let expected = [
                ":method=POST".to_owned(),
                ":scheme=http".to_owned(),
                ":authority=a.test".to_owned(),
                format!(":path=/a?n={number}"),
                format!("x-n={number}"),
                "accept=*/*".to_owned(),
                "content-length=5".to_owned(),
                "hello".to_owned(),
            ];
            assert_eq!(*fields, expected);
        }
        assert_eq!(seen.len(), 3);
    }

    #[test]
    fn a_body_with_templates_has_the_length_that_it_says() {
        let target = TargetSpec { body_is_template: true, ..spec(&[("host", "a")], "n{{seq}}{{seq}}") };
        let seen = seen(&prepared(&target).expect("valid"), 11);
        assert_eq!(seen[10][4..], ["content-length=5".to_owned(), "n1010".to_owned()]);
    }

    #[test]
    fn a_call_does_not_state_its_length() {
        let mut headers = vec![("host".to_owned(), "a".to_owned())];
        hoptax_format::grpc::add_headers(&mut headers, Some(3_000_000_000));
        let body = hoptax_format::grpc::body(b"hi").expect("short");
        let target = TargetSpec { grpc: true, ..TargetSpec::only("POST", "/a.B/C", headers, body) };
        let seen = seen(&prepared(&target).expect("valid"), 1);
        let fields = ["te=trailers", "content-type=application/grpc", "grpc-timeout=3S"];
        assert_eq!(seen[0][..4], [":method=POST", ":scheme=http", ":path=/a.B/C", ":authority=a"]);
        assert_eq!(seen[0][4..7], fields);
        assert_eq!(seen[0][7..], ["\0\0\0\0\x02hi"]);
        let mut web = TargetSpec { grpc_web: true, ..target };
        hoptax_format::grpc::web_headers(&mut web.headers);
        let seen = self::seen(&prepared(&web).expect("valid"), 1);
        let type_of_web = "content-type=application/grpc-web+proto";
        assert_eq!(seen[0][4..7], ["grpc-timeout=3S", type_of_web, "x-grpc-web=1"]);
        assert_eq!(seen[0][7..], ["content-length=7", "\0\0\0\0\x02hi"], "as browsers do");
    }

    #[test]
    fn the_handshake_of_a_websocket_is_an_extended_connect() {
        let mut headers = vec![("host".to_owned(), "a".to_owned())];
        hoptax_format::websocket::add_headers(&mut headers, false);
        let stream = StreamSpec::grpc(StreamKind::ServerStream, 1, 0);
        let stream = Some(StreamSpec { carrier: Carrier::WebSocket, ..stream });
        let target = TargetSpec { stream, ..TargetSpec::only("GET", "/chat", headers, Vec::new()) };
        let seen = seen(&prepared(&target).expect("valid"), 1);
        assert_eq!(seen[0][..2], [":method=CONNECT", ":protocol=websocket"]);
        assert_eq!(seen[0][2..5], [":scheme=http", ":path=/chat", ":authority=a"]);
        assert_eq!(seen[0][5..], ["sec-websocket-version=13", ""], "neither a key nor an upgrade");
    }

    #[test]
    fn what_http2_does_not_have_is_refused() {
        let told = [
            &[("host", "a"), ("Connection", "close")][..],
            &[("host", "a"), ("te", "gzip")],
            &[("host", "a"), ("host", "b")],
            &[],
            &[("host", "a"), ("content-length", "7")],
        ]
        .map(|headers| format!("{headers:?}\n    {}\n", prepared(&spec(headers, "x")).expect_err("refused")))
        .concat();
        insta::assert_snapshot!(told);
    }

    #[test]
    fn the_buffers_are_long_enough() {
        let target =
            TargetSpec { body_is_template: true, ..spec(&[("host", "a"), ("x", "{{uuid}}")], "{{seq}}") };
        let request = prepared(&target).expect("valid");
        let files: BTreeMap<String, String> = BTreeMap::new();
        let files = Files::new(&files, &Default::default());
        let (made, body) = request.longest(&files);
        let (mut first, mut second) = (Vec::with_capacity(made), Vec::with_capacity(body));
        let room = (first.capacity(), second.capacity());
        let mut values = Values::new(&files, (0, 1), 1, 100);
        for _ in 0..1000 {
            request.write(&mut values, &mut first, &mut second);
        }
        assert_eq!((first.capacity(), second.capacity()), room);
    }
}
