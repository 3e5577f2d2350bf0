//! Targets that are gRPC calls. A call becomes a POST of its message.

use super::reader::Reader;
use super::{body, http, streams};
use crate::error::Place;
use crate::raw::{
    Bytes, JsonText, Placed, RawCompression, RawExpect, RawGateway, RawGrpc, RawMessage, RawTarget, Short,
    Sweep, Text,
};
use crate::{Body, EncodedMessage, Gateway, GatewayKind, LoadPoint, Method, Proto, ProxyForm, calls};
use hoptax_format::grpc::{self, Status};
use hoptax_format::messages::StreamSpec;
use hoptax_format::spec::{Check, HttpVersion};
use hoptax_record::bounded;
use std::time::Duration;

/// A call, beyond the method and the path of its request.
pub(super) struct Call {
    /// Name of the target, if the plan gives none.
    pub(super) name: String,
    pub(super) message: Body,
    /// The message, if `message` is JSON.
    pub(super) encoded: Option<EncodedMessage>,
    /// Descriptors of the `.proto` files, if a gateway needs them.
    pub(super) descriptors: Option<EncodedMessage>,
    /// Who sends how many messages. Absent if the call is unary.
    pub(super) stream: Option<StreamSpec>,
    /// Whether the message is compressed.
    pub(super) gzip: bool,
    /// Time limit of the call, nanoseconds.
    deadline_ns: Option<u64>,
}

impl Call {
    /// Adds the headers that the call needs.
    pub(super) fn add_headers(&self, headers: &mut Vec<(String, String)>) {
        grpc::add_headers(headers, self.deadline_ns);
        if self.gzip {
            grpc::add_gzip(headers);
        }
    }
}

/// Reads a call, and sets the method and the path of its target.
pub(super) fn read(reader: &mut Reader<'_>, call: Placed<RawGrpc>, target: &mut RawTarget) -> Call {
    let Placed { place, value: call } = call;
    let RawGrpc { service, method, kind, messages, every, message, proto, compression, deadline } = call;
    reader.calls.push(place);
    refuse_http(reader, target);
    if !grpc::is_service(&service.value) {
        let message = format!("`{}` is not the name of a service", service.value);
        reader.fault(service.place, message, "write the full name, such as echo.Echo");
    }
    if !grpc::is_method(&method.value) {
        let message = format!("`{}` is not the name of a method", method.value);
        reader.fault(method.place, message, "write the name alone, such as Say");
    }
    let deadline_ns = deadline.and_then(|typed| {
        let deadline = reader.time_above_zero(&typed, "deadline", "write a longer time, or remove it")?;
        u64::try_from(deadline.as_nanos()).ok()
    });
    let name = format!("{}/{}", service.value, method.value);
    target.method = Some(Placed { place, value: grpc::METHOD.to_owned() });
    // A path with a wrong name would be reported again.
    let is_right = grpc::split(&name).is_some();
    let path = if is_right { grpc::path(&service.value, &method.value) } else { "/".to_owned() };
    target.path = Some(Placed { place, value: path });
    let has_proto = proto.is_some();
    let declared = proto.filter(|_| is_right).and_then(|proto| declared(reader, &proto, &service, &method));
    // If the file cannot be read, only `kind` says whether the call has streams.
    let is_known = !has_proto || declared.is_some() || kind.is_some();
    let limit = deadline_ns.filter(|deadline| *deadline > 0 && !may_be_late(target.expect.as_ref()));
    let deadline = limit.map(Duration::from_nanos);
    let typed = streams::Typed { call: name.clone(), kind, messages, every, deadline };
    let stream = if is_known { streams::read(reader, typed, declared.as_ref()) } else { None };
    let gzip = compression.as_ref().is_some_and(|typed| typed.value == RawCompression::Gzip);
    if let (Some(typed), true, true) = (&compression, gzip, stream.is_some()) {
        let message = "compression would hide the number and the time in each message of a stream";
        reader.fault(typed.place, message, "remove `compression`, or write `kind: unary`");
    }
    let (message, encoded) = match message {
        None => (Body::Size(0), None),
        Some(typed) => {
            let (place, faults_before) = (typed.place, reader.faults.len());
            let read = read_message(reader, typed, declared.as_ref(), has_proto);
            if stream.is_some() && reader.faults.len() == faults_before {
                check_length(reader, place, &read);
            }
            read
        }
    };
    let described = declared.filter(|_| reader.needs_descriptors);
    let descriptors = described.map(|method| EncodedMessage(method.descriptors()));
    Call { name, message, encoded, descriptors, stream, gzip, deadline_ns }
}

/// Whether a call may end at its deadline.
fn may_be_late(expect: Option<&RawExpect>) -> bool {
    let names = expect.and_then(|expect| expect.grpc.as_ref());
    let mut named = names.into_iter().flat_map(|names| &names.0);
    named.any(|name| Status::from_name(&name.value.0) == Some(Status::DeadlineExceeded))
}

/// Checks the length of a message of a stream.
fn check_length(reader: &mut Reader<'_>, place: Place, (body, encoded): &(Body, Option<EncodedMessage>)) {
    let of_encoded = encoded.as_ref().map(|EncodedMessage(message)| message.len() as u64);
    let length = of_encoded.or_else(|| body::length(body)).unwrap_or(0);
    reader.accept(place, calls::check_message(length, matches!(body, Body::Size(_))));
}

/// Looks up the method of a call in its `.proto` file. If it is not there, reports an error.
fn declared(
    reader: &mut Reader<'_>,
    proto: &Placed<String>,
    service: &Placed<String>,
    method: &Placed<String>,
) -> Option<Method> {
    let faults_before = reader.faults.len();
    let path = body::existing(reader, proto.place, &proto.value, bounded::PLAN);
    if reader.faults.len() > faults_before {
        return None;
    }
    let compiled = match reader.protos.get(&path) {
        Some(known) => Ok(known.clone()),
        None => Proto::compile(&path),
    };
    let compiled = reader.accept(proto.place, compiled)?;
    reader.protos.insert(path, compiled.clone());
    let found = reader.accept(service.place, compiled.service(&service.value))?;
    reader.accept(method.place, found.method(&method.value))
}

/// Reads the message of a call. If it is JSON, returns the encoded message too.
fn read_message(
    reader: &mut Reader<'_>,
    Placed { place, value }: Placed<Short<RawMessage, Bytes>>,
    method: Option<&Method>,
    has_proto: bool,
) -> (Body, Option<EncodedMessage>) {
    match value {
        Short::Full(RawMessage { size: None, text: None, file: None, json: Some(json) }) => {
            let encoded = encode(reader, &json, method, has_proto);
            (Body::Text(json.value.0), encoded)
        }
        value => (body::of_message(reader, Placed { place, value }), None),
    }
}

/// Encodes a message. `method` is absent if it is not known. If the call has a `.proto` file, that error has
/// already been reported.
fn encode(
    reader: &mut Reader<'_>,
    json: &Placed<JsonText>,
    method: Option<&Method>,
    has_proto: bool,
) -> Option<EncodedMessage> {
    if !has_proto {
        let help = "add `proto: FILE` with the method, or write the encoded message as `file`";
        reader.fault(json.place, "`json` needs a `.proto` file", help);
    }
    if json.value.0.contains("{{") {
        let message = "a message cannot contain templates, because they would change the lengths in it";
        reader.fault(json.place, message, "write fixed values; `headers` can contain templates");
        return None;
    }
    reader.accept(json.place, method?.encode(&json.value.0)).map(EncodedMessage)
}

/// Refuses what only other requests have.
fn refuse_http(reader: &mut Reader<'_>, target: &RawTarget) {
    let method = target.method.as_ref().map(|typed| typed.place);
    let path = target.path.as_ref().map(|typed| typed.place);
    let body = target.body.as_ref().map(|typed| typed.place);
    for (key, place, help) in [
        ("method", method, "remove it: a call is always a POST"),
        ("path", path, "remove it: `service` and `method` are the path"),
        ("body", body, "write `message` in `grpc` instead"),
    ] {
        if let Some(place) = place {
            reader.fault(place, format!("a target with `grpc` has no `{key}`"), help);
        }
    }
}

/// Reads the statuses that a call may end with. Absent if the plan names none.
pub(super) fn expected(reader: &mut Reader<'_>, typed: Option<&RawExpect>, is_call: bool) -> Option<Check> {
    let typed = typed?.grpc.as_ref()?;
    let names = typed.0.as_slice();
    if let (false, Some(first)) = (is_call, names.first()) {
        let message = "`expect.grpc` needs a target with `grpc`";
        reader.fault(first.place, message, "write `status`, or add `grpc` to the target");
        return None;
    }
    let mut statuses = Vec::new();
    for name in names {
        statuses.extend(status(reader, name));
    }
    Some(Check::Grpc(statuses))
}

/// Reads the name of a status.
pub(super) fn status(reader: &mut Reader<'_>, name: &Placed<Text>) -> Option<Status> {
    let status = Status::from_name(&name.value.0);
    if status.is_none() {
        let known: Vec<String> = Status::ALL.iter().map(|status| in_plans(*status)).collect();
        let message = format!("`{}` is not a gRPC status", name.value.0);
        reader.fault(name.place, message, format!("use one of {}", known.join(", ")));
    }
    status
}

/// The name of a status in plans, such as `deadline-exceeded`.
fn in_plans(status: Status) -> String {
    status.name().to_ascii_lowercase().replace('_', "-")
}

/// True if a target is a call.
pub(super) fn are_typed(targets: Option<&Sweep<RawTarget>>) -> bool {
    targets.is_some_and(|targets| targets.0.iter().any(|target| target.value.grpc.is_some()))
}

/// Refuses loads over HTTP/1.
pub(super) fn check_load(reader: &mut Reader<'_>, load: &[LoadPoint]) {
    if let Some(&place) = reader.calls.first()
        && load.iter().any(|point| point.http != HttpVersion::Http2)
    {
        let message = "gRPC needs HTTP/2, but the load uses HTTP/1";
        reader.fault(place, message, "write `http: 2` in each entry of `load`");
    }
}

/// Refuses a gateway that does not pass calls to the upstream. Returns false then.
pub(super) fn check_gateway(reader: &mut Reader<'_>, typed: &RawGateway, gateway: &Gateway) -> bool {
    let refusal = match &gateway.kind {
        GatewayKind::Http2Hop { upstream, .. } => (*upstream != HttpVersion::Http2).then(over_http1),
        GatewayKind::Pack { upstream_http2, .. } => refusal_of_pack(reader, typed, *upstream_http2),
        // hop-l7 is refused because of the client leg. A gateway that already runs is not known.
        _ => None,
    };
    let Some((message, help)) = refusal else { return true };
    reader.fault(typed.name.place, message, help);
    false
}

/// The error for a gateway with `upstream_http: 1.1`, and what to do.
fn over_http1() -> (String, &'static str) {
    let message = "gRPC needs HTTP/2 on the upstream leg too, but `upstream_http` is 1.1";
    (message.to_owned(), "remove `upstream_http`")
}

/// Why a pack does not pass calls to the upstream, and what to do. Absent if it passes calls, or the bytes of
/// a tunnel.
fn refusal_of_pack(
    reader: &Reader<'_>,
    typed: &RawGateway,
    upstream_http2: bool,
) -> Option<(String, &'static str)> {
    let known = http::known(reader, typed)?;
    if http::form(Some(known), typed) == Some(ProxyForm::Connect) {
        return None;
    }
    let name = &known.name;
    if let Some(reason) = known.unsupported.get("grpc") {
        return Some((format!("`{name}` does not pass gRPC calls: {reason}"), "remove this gateway"));
    }
    match (known.upstream_http2, upstream_http2) {
        (true, true) => None,
        (true, false) => Some(over_http1()),
        (false, _) if known.grpc => None,
        (false, _) => {
            let reason = known.unsupported.get("upstream_http2");
            let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
            let message = format!(
                "gRPC needs HTTP/2 on the upstream leg too, but `{name}` speaks HTTP/1 with the \
                 upstream{reason}"
            );
            Some((message, "remove this gateway, or use hop-h2 or hop-l4"))
        }
    }
}
