//! Targets, checks of responses, and timeouts.

use super::Body;
use super::llm::LlmRequest;
use crate::units::{show_duration, show_size};
use flate2::Compression;
use flate2::write::GzEncoder;
use hoptax_format::grpc;
use hoptax_format::messages::{self, Carrier, StreamKind, StreamSpec};
use hoptax_format::spec::{Check, Chunked, base64_bytes};
use serde::{Deserialize, Deserializer, Serialize};
use std::io::Write as _;
use std::time::Duration;

/// The traffic that `hoptax import` made the targets from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Imported {
    /// Name of the file.
    pub from: String,
    /// Number of requests that the file has.
    pub requests: u64,
    /// Share of these requests that have a target of their own kind, 0 to 1.
    pub represented: f64,
}

/// A target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Unique name among the targets.
    #[serde(default)]
    pub name: String,
    /// Weight, at least 1. The target's share of requests is its weight ÷ the sum of weights.
    #[serde(default = "one")]
    pub weight: u32,
    /// Method.
    pub method: String,
    /// Path and query, as a template.
    pub path: String,
    /// Headers in order; their values are templates.
    pub headers: Vec<(String, String)>,
    /// Request body; absent if there is none.
    pub body: Option<Body>,
    /// Whether templates in the body are expanded.
    #[serde(default)]
    pub body_is_template: bool,
    /// How the body is sent in chunks. Absent if it has a `content-length`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunked: Option<Chunked>,
    /// Whether requests are gRPC calls. The body is then the message, without its prefix.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub grpc: bool,
    /// The messages of a gRPC call, of a response with server-sent events, or of a WebSocket. Absent for
    /// other requests, and for calls with one message in each direction. The body of a WebSocket is the
    /// client's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamSpec>,
    /// The request to a language model. The body is then the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm: Option<LlmRequest>,
    /// The message of a gRPC call whose body is JSON. Absent if the body is the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoded: Option<EncodedMessage>,
    /// Descriptors of the call's `.proto` files (`google.protobuf.FileDescriptorSet`). Absent unless a
    /// gateway of the plan needs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors: Option<EncodedMessage>,
    /// Whether the message of a gRPC call is compressed with gzip. Not with `stream`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gzip: bool,
    /// Checks of the response.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// Whether the response body differs from one response to the next.
    #[serde(default)]
    pub varies: bool,
    /// Names of response headers that are not compared with direct's headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_headers: Vec<String>,
    /// Rate limit of gateways that already run, requests per second. Absent if they have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<u32>,
}

/// A message of protobuf that was encoded when the plan was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EncodedMessage(#[serde(with = "base64_bytes")] pub Vec<u8>);

impl Target {
    /// A plain GET.
    pub fn get(path: &str) -> Self {
        Self {
            name: format!("GET {path}"),
            weight: 1,
            method: "GET".to_owned(),
            path: path.to_owned(),
            ..Self::default()
        }
    }

    /// Whether its streams of tokens have limits that make a request good.
    pub fn has_goodput(&self) -> bool {
        self.stream.and_then(|stream| stream.tokens).is_some_and(|tokens| tokens.goodput.is_some())
    }

    /// The body of a request whose `body` has this content. The message of a gRPC call gets its prefix here.
    /// Messages of streams and of WebSockets get room for a stamp here, and their prefix when they are sent.
    /// A prompt is put into JSON. It is a template only if it is a text in the plan.
    pub fn body_of(&self, content: Vec<u8>) -> Vec<u8> {
        if let Some(llm) = &self.llm {
            let prompt = String::from_utf8_lossy(&content);
            let body = match self.body {
                Some(Body::Text(_)) => llm.body_of_template(&prompt),
                _ => llm.body(&prompt),
            };
            return body.into_bytes();
        }
        let is_filler = matches!(self.body, Some(Body::Size(_)) | None);
        let content = match &self.encoded {
            Some(EncodedMessage(message)) => message.clone(),
            None => content,
        };
        match (self.grpc, self.stream) {
            (false, Some(StreamSpec { carrier: Carrier::WebSocket, .. })) => {
                messages::with_room(content, is_filler)
            }
            (false, _) => content,
            // Bodies have at most 1 GiB, so they have a prefix.
            (true, None) if self.gzip => grpc::compressed_body(&gzip(&content)).unwrap_or(content),
            (true, None) => grpc::body(&content).unwrap_or(content),
            (true, Some(_)) => messages::with_room(content, is_filler),
        }
    }

    /// Describes targets: `GET /` for a single target, or a mix such as `90 % GET /, 10 % login (POST
    /// /login)`. Of many targets, only the most frequent are listed.
    pub fn describe_all(targets: &[Self]) -> String {
        if let [only] = targets {
            return only.shown();
        }
        let each = targets.iter().map(|target| {
            let share = target.share_of(targets) * 100.0;
            let digits = if share < 1.0 { 100.0 } else { 10.0 };
            let what = target.shown();
            let named = if what == target.name { what } else { format!("{} ({what})", target.name) };
            format!("{} % {named}", (share * digits).round() / digits)
        });
        let mut listed: Vec<String> = each.collect();
        if targets.len() > MOST_LISTED + 1 {
            let mut order: Vec<usize> = (0..targets.len()).collect();
            order.sort_by_key(|index| std::cmp::Reverse(targets[*index].weight));
            let (first, others) = order.split_at(MOST_LISTED);
            let share: f64 = others.iter().map(|index| targets[*index].share_of(targets)).sum();
            let rest = format!("{} others {} %", others.len(), (share * 1000.0).round() / 10.0);
            listed = first.iter().map(|index| listed[*index].clone()).chain([rest]).collect();
        }
        listed.join(", ")
    }

    /// Method and path; or service and method of a gRPC call; or API, model and prompt. Then the messages, if
    /// there are several.
    pub fn shown(&self) -> String {
        let Self { method, path, .. } = self;
        let plain = match (&self.llm, self.grpc) {
            (Some(llm), _) => format!("{} {}, {}", llm.api.name(), llm.model, self.shown_prompt()),
            (None, true) => format!("gRPC {}", path.trim_start_matches('/')),
            (None, false) => format!("{method} {path}"),
        };
        let Some(stream) = self.stream else {
            return if self.llm.is_some() { format!("{plain}, not streamed") } else { plain };
        };
        let (exchange, word) = match stream.carrier {
            Carrier::Grpc => (format!("{plain}, {}", stream.kind.name()), "message"),
            Carrier::Events => (plain, if stream.tokens.is_some() { "token" } else { "event" }),
            Carrier::WebSocket => (format!("WebSocket {path}, {}", socket_kind(stream)), "message"),
        };
        let counted = match stream.messages {
            messages::UNKNOWN if stream.carrier == Carrier::WebSocket => return exchange,
            messages::UNKNOWN => format!("{exchange}, {word}s"),
            messages::ENDLESS => format!("{exchange}, endless {word}s"),
            1 => format!("{exchange}, 1 {word}"),
            count => format!("{exchange}, {count} {word}s"),
        };
        let every = Duration::from_nanos(stream.every_ns);
        if every.is_zero() { counted } else { format!("{counted} every {}", show_duration(every)) }
    }

    /// The size of the prompt, or the name of its file.
    fn shown_prompt(&self) -> String {
        match &self.body {
            Some(Body::Size(size) | Body::Like { size, .. }) => show_size(*size),
            Some(Body::Text(text)) => show_size(text.len() as u64),
            Some(Body::File(path)) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            None => show_size(0),
        }
    }

    /// This target's share of the requests to `targets`.
    pub fn share_of(&self, targets: &[Self]) -> f64 {
        f64::from(self.weight) / targets.iter().map(|target| f64::from(target.weight)).sum::<f64>()
    }

    /// Whether a check accepts this status. False if the target has no check of the status.
    pub fn expects_status(&self, status: u16) -> bool {
        self.checks.iter().any(|check| match check {
            Check::Status(ranges) => ranges.iter().any(|(least, most)| (*least..=*most).contains(&status)),
            _ => false,
        })
    }
}

/// Who sends the messages of a WebSocket, as plans name it.
fn socket_kind(stream: StreamSpec) -> &'static str {
    match (stream.kind, stream.fan_out) {
        (StreamKind::ServerStream, true) => "fan-out",
        (StreamKind::ServerStream, false) => "push",
        (StreamKind::BothWays | StreamKind::ClientStream, _) => "echo",
    }
}

/// Compresses a message of a gRPC call.
pub fn gzip(message: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(message).and_then(|()| encoder.finish());
    written.expect("memory accepts all bytes")
}

/// Number of targets of a mix that are listed in a description.
const MOST_LISTED: usize = 5;

fn one() -> u32 {
    1
}

/// Reads the list of targets. In a run of version 1, reads the single target.
pub(super) fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Target>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        More(Vec<Target>),
        One(Box<Target>),
    }
    let mut targets = match Either::deserialize(deserializer)? {
        Either::More(targets) => targets,
        Either::One(target) => vec![*target],
    };
    for target in targets.iter_mut().filter(|target| target.name.is_empty()) {
        target.name = format!("{} {}", target.method, target.path);
    }
    Ok(targets)
}

/// Timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timeouts {
    /// Time limit for each connect. The TLS handshake that follows has a separate limit of the same length.
    pub connect: Duration,
    /// Time limit from sending a request to the first byte of the response.
    pub first_byte: Duration,
    /// Time limit from sending a request to the end of the response.
    pub total: Duration,
}

impl Timeouts {
    /// Sets all three timeouts to the same limit.
    pub fn all(timeout: Duration) -> Self {
        Self { connect: timeout, first_byte: timeout, total: timeout }
    }
}

impl<'de> Deserialize<'de> for Timeouts {
    /// Reads three timeouts. In a run of version 1, reads the single timeout.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Each { connect: Duration, first_byte: Duration, total: Duration },
            All(Duration),
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::Each { connect, first_byte, total } => Self { connect, first_byte, total },
            Either::All(timeout) => Self::all(timeout),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_format::llm::Api;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Held {
        #[serde(alias = "target", deserialize_with = "one_or_more")]
        targets: Vec<Target>,
        timeout: Timeouts,
    }

    fn target(name: &str) -> Target {
        Target {
            name: name.into(),
            method: "PUT".into(),
            headers: vec![("host".into(), "x".into())],
            body: Some(Body::Size(5)),
            ..Target::get("/a")
        }
    }

    #[test]
    fn a_run_of_version_1_still_reads() {
        let old = r#"{"target":{"method":"PUT","path":"/a","headers":[["host","x"]],"body":{"size":5}},
            "timeout":{"secs":3,"nanos":0}}"#;
        let held: Held = serde_json::from_str(old).expect("an older form");
        assert_eq!(held.targets, [target("PUT /a")]);
        assert_eq!(held.timeout, Timeouts::all(Duration::from_secs(3)));
    }

    #[test]
    fn a_written_plan_reads_back() {
        let ignore_headers = vec!["age".into()];
        let checks = vec![Check::BodyContains("x".into())];
        let chunked = Some(Chunked { chunk_bytes: 2, pause_ns: 3 });
        let checked = Target { checks, weight: 7, ignore_headers, chunked, ..target("a") };
        let held = Held {
            targets: vec![checked, target("b")],
            timeout: Timeouts { connect: Duration::from_millis(5), ..Timeouts::all(Duration::from_secs(1)) },
        };
        let json = serde_json::to_string(&held).expect("plain data");
        assert_eq!(serde_json::from_str::<Held>(&json).expect("its own form"), held);
    }

    #[test]
    fn the_body_of_a_call_is_its_encoded_message() {
        let encoded = Some(EncodedMessage(vec![8, 255]));
        let body = Some(Body::Text("{\"a\": 255}".into()));
        let call = Target { grpc: true, encoded, body, ..target("a") };
        assert_eq!(call.body_of(b"{\"a\": 255}".to_vec()), [0, 0, 0, 0, 2, 8, 255]);
        let json = serde_json::to_value(&call).expect("plain data");
        assert_eq!(json["encoded"], "CP8=");
        assert_eq!(serde_json::from_value::<Target>(json).expect("its own form"), call);
        let stream = StreamSpec::grpc(StreamKind::BothWays, 2, 0);
        let streamed = Target { stream: Some(stream), ..call };
        let body = streamed.body_of(Vec::new());
        assert_eq!((body.len(), &body[body.len() - 2..]), (messages::Stamp::LENGTH + 2, &[8, 255][..]));
    }

    #[test]
    fn a_compressed_message_has_its_flag() {
        let call = Target { grpc: true, gzip: true, ..target("a") };
        let body = call.body_of(vec![b'x'; 10_000]);
        let (prefix, message) = body.split_at(5);
        assert_eq!((prefix[0], &prefix[1..]), (1, &(message.len() as u32).to_be_bytes()[..]));
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(message), &mut text).expect("gzip");
        assert!(text == [b'x'; 10_000] && message.len() < 1000, "{} bytes", message.len());
    }

    #[test]
    fn a_mix_is_described_with_its_shares() {
        let login = Target { name: "login".into(), method: "POST".into(), ..Target::get("/login") };
        let mix = [Target { weight: 2, ..Target::get("/") }, login];
        let call = Target { grpc: true, method: "POST".into(), ..Target::get("/echo.Echo/Say") };
        let of = |kind, messages, every_ns| {
            let stream = StreamSpec::grpc(kind, messages, every_ns);
            Target::describe_all(&[Target { stream: Some(stream), ..call.clone() }])
        };
        let one = |weight| Target { weight, ..Target::get(&format!("/{weight}")) };
        let many: Vec<Target> = (1..=8).map(one).collect();
        let shown = [
            Target::describe_all(&mix),
            Target::describe_all(&mix[1..]),
            Target::describe_all(std::slice::from_ref(&call)),
            of(StreamKind::BothWays, 20, 10_000_000),
            of(StreamKind::ServerStream, 1, 0),
            Target::describe_all(&many),
        ];
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn events_and_websockets_are_described() {
        let shown = |carrier, kind, messages, fan_out| {
            let stream = StreamSpec { carrier, fan_out, ..StreamSpec::grpc(kind, messages, 100_000_000) };
            Target::describe_all(&[Target { stream: Some(stream), ..Target::get("/x") }])
        };
        let (events, server) = (Carrier::Events, StreamKind::ServerStream);
        let socket = Carrier::WebSocket;
        let any = StreamSpec { carrier: events, ..StreamSpec::grpc(server, messages::UNKNOWN, 0) };
        let all = [
            shown(events, server, 20, false),
            shown(events, server, messages::ENDLESS, false),
            shown(socket, StreamKind::BothWays, 10, false),
            shown(socket, server, messages::ENDLESS, true),
            shown(socket, server, messages::UNKNOWN, false),
            Target::describe_all(&[Target { stream: Some(any), ..Target::get("/x") }]),
        ];
        insta::assert_snapshot!(all.join("\n"));
    }

    #[test]
    fn requests_to_models_are_described_and_have_json() {
        let request = LlmRequest::usual(Api::OpenAi);
        let stream = request.tokens(20, Duration::from_millis(10), None);
        let body = Some(Body::Text("a {{seq}}".into()));
        let target = Target { llm: Some(request.clone()), stream, body, ..Target::get("/x") };
        let json = |target: &Target, content: &[u8]| {
            let json = serde_json::from_slice::<serde_json::Value>(&target.body_of(content.to_vec()));
            json.expect("JSON")["messages"][0]["content"].as_str().expect("a text").to_owned()
        };
        assert_eq!(json(&target, b"a {{seq}}"), "a {{seq}}");
        let any = request.tokens(messages::UNKNOWN, Duration::ZERO, None);
        let file = Target { stream: any, body: Some(Body::File("a/b.txt".into())), ..target.clone() };
        let whole = LlmRequest { stream: false, ..request };
        let body = Some(Body::Like { kind: crate::plan::BodyKind::Text, size: 2048 });
        let whole = Target { llm: Some(whole), stream: None, body, ..target.clone() };
        insta::assert_snapshot!([&target, &file, &whole].map(Target::shown).join("\n"));
        assert_eq!(json(&whole, b"\"\n"), "\"\n");
    }

    #[test]
    fn the_message_of_a_websocket_has_room_for_its_stamp() {
        let stream = |carrier| StreamSpec { carrier, ..StreamSpec::grpc(StreamKind::BothWays, 2, 0) };
        let body = |carrier, body, content: &[u8]| {
            let target = Target { stream: Some(stream(carrier)), body, ..Target::get("/x") };
            target.body_of(content.to_vec()).len()
        };
        assert_eq!(body(Carrier::WebSocket, Some(Body::Size(64)), &[0; 64]), 64);
        let text = Some(Body::Text("hi".into()));
        assert_eq!(body(Carrier::WebSocket, text.clone(), b"hi"), messages::Stamp::LENGTH + 2);
        assert_eq!(body(Carrier::Events, text, b"hi"), 2);
    }

    #[test]
    fn a_status_is_expected_only_by_a_check() {
        let target = Target { checks: vec![Check::Status(vec![(200, 204), (404, 404)])], ..Target::get("/") };
        assert!(target.expects_status(404) && target.expects_status(201) && !target.expects_status(302));
        assert!(!Target::get("/").expects_status(200));
    }
}
