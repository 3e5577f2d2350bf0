//! Targets that are WebSockets. A WebSocket is a GET with the headers of a handshake, and has messages.

use super::body;
use super::reader::{Reader, Timed};
use crate::error::Place;
use crate::raw::{
    Bytes, Placed, RawMessage, RawTarget, RawWebSocket, RawWebSocketCompression, RawWebSocketKind, Short,
};
use crate::{Body, BuiltInUpstream, PathStream, Target, Upstream, calls};
use hoptax_format::messages::{Carrier, StreamKind, StreamSpec, UNKNOWN};
use hoptax_format::websocket;
use std::time::Duration;

/// Length of the messages of a client if the plan does not say otherwise, bytes.
const USUAL_MESSAGE: u64 = 64;

/// A WebSocket, beyond the path and the headers of its target.
pub(super) struct Socket {
    /// The message of the client. Empty if only the server sends messages.
    pub(super) message: Body,
    pub(super) stream: StreamSpec,
    /// Whether the client offers to compress messages.
    compression: bool,
}

impl Socket {
    /// Adds the headers that the handshake needs.
    pub(super) fn add_headers(&self, headers: &mut Vec<(String, String)>) {
        websocket::add_headers(headers, self.compression);
    }
}

/// True if a target is a WebSocket.
pub(super) fn is_socket(target: &Target) -> bool {
    target.stream.is_some_and(|stream| stream.carrier == Carrier::WebSocket)
}

/// Reads the WebSocket of a target, and removes the keys that it cannot have.
pub(super) fn read(
    reader: &mut Reader<'_>,
    Placed { place, value: typed }: Placed<RawWebSocket>,
    target: &mut RawTarget,
    upstream: &Upstream,
) -> Socket {
    let RawWebSocket { kind, messages, every, message, compression } = typed;
    reader.sockets.push(place);
    refuse_http(reader, target);
    let (kind, fan_out) = match kind.map_or(RawWebSocketKind::Echo, |typed| typed.value) {
        RawWebSocketKind::Echo => (StreamKind::BothWays, false),
        RawWebSocketKind::Push => (StreamKind::ServerStream, false),
        RawWebSocketKind::FanOut => (StreamKind::ServerStream, true),
    };
    let is_push = kind == StreamKind::ServerStream;
    let is_known = !is_push || matches!(upstream, Upstream::BuiltIn(_));
    let usual = if is_known { calls::USUAL_MESSAGES } else { UNKNOWN };
    let messages_place = messages.as_ref().map(|typed| typed.place);
    let length_place = every.as_ref().map(|typed| typed.place).or(messages_place);
    let messages = messages.map_or(usual, |typed| reader.messages(&typed, "messages"));
    let every = reader.time(every, Duration::ZERO);
    let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
    let stream =
        StreamSpec { carrier: Carrier::WebSocket, fan_out, ..StreamSpec::grpc(kind, messages, every_ns) };
    if let Some(place) = messages_place.filter(|_| stream.is_endless() && every.is_zero())
        && is_push
        && is_known
    {
        let message = "endless messages without `every` would be sent without a pause";
        reader.fault(place, message, "add `every`, such as 1s");
    }
    if let Some(place) = length_place {
        let length = Duration::from_nanos(stream.length_ns());
        reader.streams.push(Timed { place, stream, length, silence: every, deadline: None });
    }
    let message = match message {
        None => Body::Size(if is_push { 0 } else { USUAL_MESSAGE }),
        Some(typed) => {
            if is_push {
                let message = "only with `kind: echo` does the client send messages";
                reader.fault(typed.place, message, "remove `message`, or write `kind: echo`");
            }
            read_message(reader, typed)
        }
    };
    let compression = compression.is_some_and(|typed| typed.value == RawWebSocketCompression::Deflate);
    Socket { message, stream, compression }
}

fn read_message(reader: &mut Reader<'_>, typed: Placed<Short<RawMessage, Bytes>>) -> Body {
    let place = typed.place;
    if let Short::Full(RawMessage { json: Some(json), .. }) = &typed.value {
        reader.fault(json.place, "`json` is only for gRPC calls", "write the message as `text`");
        return Body::Size(USUAL_MESSAGE);
    }
    let faults_before = reader.faults.len();
    let message = body::of_message(reader, typed);
    if reader.faults.len() == faults_before
        && let Some(length) = body::length(&message)
    {
        reader.accept(place, calls::check_websocket_message(length, matches!(message, Body::Size(_))));
    }
    message
}

/// Refuses what only other requests have.
fn refuse_http(reader: &mut Reader<'_>, target: &mut RawTarget) {
    let method = target.method.take().map(|typed| typed.place);
    let body = target.body.take().map(|typed| typed.place);
    let expect = target.expect.as_ref();
    let status = expect.and_then(|expect| expect.status.as_ref()).map(|status| status.0[0].place);
    let checked = expect.and_then(|expect| expect.body.as_ref()).map(|body| body.place);
    for (key, place, help) in [
        ("method", method, "remove it: the handshake is always a GET"),
        ("body", body, "write `message` in `websocket` instead"),
        ("expect.status", status, "remove it: the status is always 101, or 200 over HTTP/2"),
        ("expect.body", checked, "remove it: the answer to the handshake has no body"),
    ] {
        if let Some(place) = place {
            reader.fault(place, format!("a target with `websocket` has no `{key}`"), help);
        }
    }
    if let Some(expect) = &mut target.expect {
        (expect.status, expect.body) = (None, None);
    }
}

/// Sets the WebSockets that the built-in upstream pushes, and whether it compresses messages. It knows a
/// WebSocket only by its path.
pub(super) fn set_upstream(reader: &mut Reader<'_>, targets: &[Target], built_in: &mut BuiltInUpstream) {
    let places = reader.sockets.clone();
    let sockets: Vec<(&Target, Place)> =
        targets.iter().filter(|target| is_socket(target)).zip(places).collect();
    for (at, (target, place)) in sockets.iter().enumerate() {
        let Some(stream) = target.stream else { continue };
        built_in.websocket_compression |= websocket::offers_compression(&target.headers);
        let (own, is_push) = (path(target), stream.kind == StreamKind::ServerStream);
        if is_push && own.contains("{{") {
            let message = "the built-in upstream knows a WebSocket by its path, but this path varies";
            reader.fault(*place, message, "remove the template from `path`, or write `kind: echo`");
            continue;
        }
        let mut earlier = sockets[..at].iter().map(|(earlier, _)| *earlier);
        match earlier.find(|earlier| path(earlier) == own) {
            Some(earlier) if differ(earlier, target) => {
                let (first, second) = (&earlier.name, &target.name);
                let message = format!("`{first}` and `{second}` have one path with different messages");
                let help = "write the same `kind`, `messages` and `every`, or another `path`";
                reader.fault(*place, message, help);
            }
            None if is_push => built_in.streams.push(PathStream { path: own.to_owned(), stream }),
            Some(_) | None => {}
        }
    }
}

/// The path of a target without its query.
fn path(target: &Target) -> &str {
    target.path.split_once('?').map_or(&target.path, |(path, _)| path)
}

/// True if the upstream would have to answer two WebSockets in different ways. It echoes each of them alike.
fn differ(one: &Target, other: &Target) -> bool {
    let is_push = |target: &Target| target.stream.is_some_and(|it| it.kind == StreamKind::ServerStream);
    (is_push(one) || is_push(other)) && one.stream != other.stream
}
