//! Targets, and headers of requests and responses.

use super::body::RequestBody;
use super::reader::Reader;
use super::templates::Template;
use super::{body, expect, features, grpc, llm, server_events, websocket};
use crate::error::Place;
use crate::raw::{Ordered, Placed, RawHeaderFile, RawTarget, Short, Sweep, Text};
use crate::{Gateway, GatewayKind, Target, Upstream};
use hoptax_format::field::is_token;
use hoptax_format::spec::MOST_TARGETS;
use hoptax_format::template::Place as Part;
use hoptax_record::bounded;
use std::time::Duration;

/// Common methods. If a plan contains `get`, the error suggests `GET`.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

const MOST_WEIGHT: u32 = 1_000_000;

pub(super) fn read(
    reader: &mut Reader<'_>,
    typed: Option<Sweep<RawTarget>>,
    upstream: &Upstream,
) -> Vec<Target> {
    match typed {
        None => vec![read_one(reader, RawTarget::default(), upstream)],
        Some(typed) => list(reader, typed, upstream),
    }
}

/// Refuses a rate limit if no gateway already runs. Gateways that hoptax starts have the feature `rate-limit`
/// instead.
pub(super) fn check_rate_limits(
    reader: &mut Reader<'_>,
    typed: Option<&Sweep<RawTarget>>,
    gateways: &[Gateway],
) {
    let expected = typed.iter().flat_map(|typed| &typed.0).filter_map(|target| target.value.expect.as_ref());
    let mut limits = expected.filter_map(|expect| expect.rate_limit.as_ref());
    if let Some(limit) = limits.next()
        && !gateways.iter().any(|gateway| matches!(gateway.kind, GatewayKind::External { .. }))
    {
        reader.fault(
            limit.place,
            "`rate_limit` describes an `external` gateway, and there is none",
            "remove it, or give a pack the feature: features: [{ rate-limit: 1000/s }]",
        );
    }
}

/// Checks and converts targets. If `upstream` is built in, also checks that the targets accept its status.
pub(super) fn list(
    reader: &mut Reader<'_>,
    Sweep(typed): Sweep<RawTarget>,
    upstream: &Upstream,
) -> Vec<Target> {
    if let Some(beyond) = typed.get(MOST_TARGETS) {
        reader.fault(
            beyond.place,
            format!("there are {} targets", typed.len()),
            format!(
                "use {MOST_TARGETS} or fewer; a template such as {{{{line paths.txt}}}} gives one target \
                many paths"
            ),
        );
    }
    let mut targets: Vec<Target> = Vec::new();
    for Placed { place, value } in typed.into_iter().take(MOST_TARGETS) {
        let named = value.name.as_ref().map(|name| name.place);
        let target = read_one(reader, value, upstream);
        if targets.iter().any(|earlier| earlier.name == target.name) {
            duplicate(reader, named, place, &target);
        }
        targets.push(target);
    }
    targets
}

fn duplicate(reader: &mut Reader<'_>, named: Option<Place>, place: Place, target: &Target) {
    let name = &target.name;
    match named {
        Some(place) => {
            reader.fault(
                place,
                format!("two targets are named `{name}`"),
                "give each target a different name",
            );
        }
        None => reader.fault(
            place,
            format!("two targets have the default name `{name}`"),
            "name them: { name: first, path: /, … }",
        ),
    }
}

fn read_one(reader: &mut Reader<'_>, mut typed: RawTarget, upstream: &Upstream) -> Target {
    let llm = typed.llm.take().map(|llm| llm::read(reader, llm, &mut typed, upstream));
    let call = typed.grpc.take().map(|call| grpc::read(reader, call, &mut typed));
    if let Some(socket) = typed.websocket.as_ref().filter(|_| call.is_some()) {
        reader.fault(socket.place, "a target has either `grpc` or `websocket`", "remove one of the two");
    }
    let socket = typed.websocket.take().filter(|_| call.is_none());
    let socket = socket.map(|socket| websocket::read(reader, socket, &mut typed, upstream));
    let (usual_method, usual_path) = match &llm {
        Some(llm) => ("POST", llm.request.api.path()),
        None => ("GET", "/"),
    };
    let method = typed.method.map_or(usual_method.to_owned(), |method| {
        check_method(reader, &method);
        method.value
    });
    let path = typed.path.map_or(usual_path.to_owned(), |path| {
        if check_path(reader, &path) {
            let Placed { place, value } = &path;
            reader.template(Template { place: *place, text: value, part: Part::Path, file: None });
        }
        path.value
    });
    let headers = typed.headers.map(|headers| from_files(reader, headers));
    let lengths = headers.as_ref().map(own_lengths).unwrap_or_default();
    let mut headers = headers.map(|headers| read_headers(reader, headers, true)).unwrap_or_default();
    if let Some(call) = &call {
        call.add_headers(&mut headers);
    }
    if let Some(llm) = &llm {
        llm.request.add_headers(&llm.key, &mut headers);
    }
    let other = call.as_ref().map(|_| "grpc").or(socket.as_ref().map(|_| "websocket"));
    let other = other.or(llm.as_ref().map(|_| "llm"));
    let request = server_events::Request { other, method: &method, headers: &headers };
    let events = server_events::expected(reader, typed.events, &request, upstream);
    if events.is_some() {
        server_events::add_header(&mut headers);
    }
    if let Some(socket) = &socket {
        socket.add_headers(&mut headers);
    }
    let (llm, tokens, prompt) = match llm {
        Some(llm) => (Some(llm.request), llm.stream, Some(llm.prompt)),
        None => (None, None, None),
    };
    let read = typed.body.map(|typed| body::of_request(reader, typed)).or(prompt);
    for typed in lengths {
        check_own_length(reader, &typed, read.as_ref());
    }
    let body_is_template = read.as_ref().is_some_and(|read| read.is_template);
    let chunked = read.as_ref().and_then(|read| read.chunked);
    let (grpc, name_of_call) = (call.is_some(), call.as_ref().map(|call| call.name.clone()));
    let name_of_socket = socket.as_ref().map(|_| format!("WebSocket {path}"));
    let of_socket = socket.as_ref().map(|socket| socket.stream);
    let stream = call.as_ref().and_then(|call| call.stream).or(of_socket).or(events).or(tokens);
    let gzip = call.as_ref().is_some_and(|call| call.gzip);
    let (message, encoded, descriptors) = match call {
        Some(call) => (Some(call.message), call.encoded, call.descriptors),
        None => (None, None, None),
    };
    let message = message.or(socket.map(|socket| socket.message));
    let body = message.or(read.map(|read| read.body));
    let varies = typed.expect.as_ref().is_some_and(|expect| expect.varies == Some(true)) || llm.is_some();
    let ignore_headers = expect::ignored_headers(reader, typed.expect.as_ref());
    let rate_limit = typed.expect.as_ref().and_then(|expect| expect.rate_limit.as_ref());
    let rate_limit = rate_limit.map(|limit| features::per_second(reader, limit));
    let of_call = grpc::expected(reader, typed.expect.as_ref(), grpc);
    let checks = typed.expect.map(|typed| expect::read(reader, typed, &method, upstream)).unwrap_or_default();
    let checks = of_call.into_iter().chain(checks).collect();
    let own_name = || name_of_call.or(name_of_socket).unwrap_or_else(|| format!("{method} {path}"));
    let is_named = typed.name.is_some();
    let name = typed.name.map_or_else(own_name, |name| checked_name(reader, name));
    let weight = reader.count(typed.weight.as_ref(), "weight", 1, MOST_WEIGHT);
    let mut target = Target {
        name,
        weight,
        method,
        path,
        headers,
        body,
        body_is_template,
        chunked,
        grpc,
        stream,
        llm,
        encoded,
        descriptors,
        gzip,
        checks,
        varies,
        ignore_headers,
        rate_limit,
    };
    if target.llm.is_some() && !is_named {
        target.name = target.shown();
    }
    target
}

/// Mean time that the pauses in the body of a request take. Pauses in bodies with templates do not count,
/// because the length of these bodies varies.
pub(super) fn mean_pauses(targets: &[Target]) -> Duration {
    let pauses = |target: &Target| {
        let chunked = target.chunked.filter(|chunked| chunked.pause_ns > 0 && !target.body_is_template);
        chunked
            .zip(target.body.as_ref().and_then(body::length))
            .map(|(chunked, length)| chunked.pauses_ns(length))
    };
    let weighted = |target: &Target| f64::from(target.weight) * pauses(target).unwrap_or(0) as f64;
    let weight: f64 = targets.iter().map(|target| f64::from(target.weight)).sum();
    Duration::from_nanos((targets.iter().map(weighted).sum::<f64>() / weight) as u64)
}

/// Values of the `content-length` headers of a target.
fn own_lengths(headers: &Ordered<Sweep<Text>>) -> Vec<Placed<Text>> {
    let of_length = headers.0.iter().filter(|(name, _)| name.value.eq_ignore_ascii_case("content-length"));
    of_length.flat_map(|(_, values)| values.0.iter().cloned()).collect()
}

/// Checks a `content-length` header, which must be the length of the body. `read` is absent if the request
/// has no body.
fn check_own_length(reader: &mut Reader<'_>, typed: &Placed<Text>, read: Option<&RequestBody>) {
    const HELP: &str = "remove this header: hoptax sets it from the body";
    let length = match read {
        None => Some(0),
        Some(read) if read.chunked.is_some() => {
            let message = "a chunked body has no `content-length`";
            return reader.fault(typed.place, message, "remove this header, or remove `chunked`");
        }
        Some(read) if read.is_template => {
            return reader.fault(typed.place, "the length of a body with templates varies", HELP);
        }
        Some(read) => body::length(&read.body),
    };
    let Some(length) = length else { return };
    if typed.value.0.parse() != Ok(length) {
        let message = format!("`content-length` is {}, but the body has {length} bytes", typed.value.0);
        reader.fault(typed.place, message, HELP);
    }
}

/// Checks a target's name, which appears in tables and messages.
fn checked_name(reader: &mut Reader<'_>, name: Placed<String>) -> String {
    let length = name.value.chars().count();
    if name.value.trim() != name.value
        || length == 0
        || length > 64
        || name.value.chars().any(char::is_control)
    {
        reader.fault(
            name.place,
            format!("`{}` is not a valid name for a target", name.value.escape_debug()),
            "use 1 to 64 characters, without spaces at the ends",
        );
    }
    name.value
}

fn check_method(reader: &mut Reader<'_>, method: &Placed<String>) {
    let upper = method.value.to_ascii_uppercase();
    if !is_token(&method.value) {
        reader.fault(
            method.place,
            format!("`{}` is not a method", method.value),
            "use a method such as GET or POST",
        );
    } else if upper == "CONNECT" {
        reader.fault(method.place, "CONNECT opens a tunnel and cannot be measured", "use another method");
    } else if METHODS.contains(&upper.as_str()) && upper != method.value {
        reader.fault(
            method.place,
            format!("methods are case-sensitive; `{}` is not a standard method", method.value),
            format!("write {upper}"),
        );
    }
}

/// Checks the path without its templates. If the path is wrong, reports an error and returns false.
fn check_path(reader: &mut Reader<'_>, path: &Placed<String>) -> bool {
    let text = &path.value;
    if !text.starts_with('/') {
        let help = match text.split_once("://").and_then(|(_, rest)| rest.split_once('/')) {
            Some((_, rest)) => format!("write only the path, /{rest}"),
            None => format!("write /{text}"),
        };
        reader.fault(path.place, format!("the path `{text}` does not start with `/`"), help);
    } else if let Some(c) = literal(text).find(|c| !c.is_ascii_graphic() || *c == '#') {
        let escaped: String = c.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
        reader.fault(
            path.place,
            format!("a path cannot contain {c:?}"),
            format!("percent-encode it: {escaped}"),
        );
    } else {
        return true;
    }
    false
}

/// Replaces header values that are in files by templates, so that no plan contains them.
fn from_files(
    reader: &mut Reader<'_>,
    typed: Ordered<Sweep<Short<RawHeaderFile, Text>>>,
) -> Ordered<Sweep<Text>> {
    let mut value = |typed: Placed<Short<RawHeaderFile, Text>>| {
        let text = match typed.value {
            Short::Word(text) => text,
            Short::Full(file) => from_file(reader, file),
        };
        Placed { place: typed.place, value: text }
    };
    let mut values = |typed: Sweep<_>| Sweep(typed.0.into_iter().map(&mut value).collect());
    Ordered(typed.0.into_iter().map(|(name, typed)| (name, values(typed))).collect())
}

/// The template for the only line of a file. Notes that this line is secret.
fn from_file(reader: &mut Reader<'_>, typed: RawHeaderFile) -> Text {
    let Placed { place, value: name } = typed.file;
    let faults_before = reader.faults.len();
    let path = body::existing(reader, place, &name, bounded::TOKEN);
    if name.contains(['{', '}']) || !name.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        let message = format!("`{name}` cannot be used for a header, because of its name");
        reader.fault(place, message, "use a name of printable ASCII without braces");
    }
    if reader.faults.len() > faults_before {
        return Text(String::new());
    }
    let lines = bounded::read_text(&path, bounded::TOKEN).map_or(0, |text| text.trim_end().lines().count());
    if lines != 1 {
        let message = format!("{} has {lines} lines of text instead of one", path.display());
        reader.fault(place, message, "write the header's value, and nothing else, on one line");
        return Text(String::new());
    }
    reader.secrets.push(path);
    let prefix = typed.prefix.map_or_else(String::new, |prefix| prefix.value.0);
    Text(format!("{prefix}{{{{line {name}}}}}"))
}

/// Checks headers. `templates` is true if header values are templates, as in requests.
pub(super) fn read_headers(
    reader: &mut Reader<'_>,
    typed: Ordered<Sweep<Text>>,
    templates: bool,
) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, values) in typed.0 {
        check_header_name(reader, &name);
        let lower = name.value.to_ascii_lowercase();
        // The length of a request is checked with its body.
        if lower == "content-length" && !templates || lower == "transfer-encoding" {
            let help = match lower == "transfer-encoding" && templates {
                true => "remove this header; to send chunks, write chunked: true in the body",
                false => "remove this header",
            };
            reader.fault(name.place, format!("hoptax sets `{}` from the body", name.value), help);
        }
        if headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(&name.value)) {
            reader.fault(
                name.place,
                format!("the header `{}` appears twice", name.value),
                format!("to send it several times, write {}: [first, second]", name.value),
            );
        }
        if let (true, "host", [_, second, ..]) = (templates, lower.as_str(), values.0.as_slice()) {
            reader.fault(second.place, "a request has only one `host`", "write one value");
        }
        for value in values.0 {
            if check_header_value(reader, &value) && templates {
                let Placed { place, value: Text(text) } = &value;
                reader.template(Template { place: *place, text, part: Part::Header, file: None });
            }
            headers.push((name.value.clone(), value.value.0));
        }
    }
    headers
}

pub(super) fn check_header_name(reader: &mut Reader<'_>, name: &Placed<String>) {
    if !is_token(&name.value) {
        reader.fault(
            name.place,
            format!("`{}` is not a header name", name.value),
            "use letters, digits and `-`, without spaces or colons",
        );
    }
}

/// Checks a header's value (RFC 9110 §5.5). Bytes above 127 are not accepted, because some gateways forward
/// such bytes and other gateways reject the request.
fn check_header_value(reader: &mut Reader<'_>, value: &Placed<Text>) -> bool {
    let text = &value.value.0;
    if let Some(c) = text.chars().find(|c| !c.is_ascii_graphic() && !matches!(c, ' ' | '\t')) {
        reader.fault(value.place, format!("a header value cannot contain {c:?}"), "use printable ASCII");
    } else if text.trim() != text {
        reader.fault(
            value.place,
            "a header value cannot start or end with a space",
            "remove the space inside the quotes; gateways remove it too",
        );
    } else {
        return true;
    }
    false
}

/// The characters of a text that are outside `{{…}}`. These braces can be nested.
fn literal(text: &str) -> std::vec::IntoIter<char> {
    let mut outside = Vec::new();
    let mut depth = 0u32;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("\\{{") {
            3
        } else if rest.starts_with("{{") {
            depth += 1;
            2
        } else if depth > 0 && rest.starts_with("}}") {
            depth -= 1;
            2
        } else {
            if depth == 0 {
                outside.push(first);
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    outside.into_iter()
}
