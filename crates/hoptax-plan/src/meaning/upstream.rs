//! Checks and converts the upstream.

use super::answers::{self, DEFAULT_BODY, status};
use super::reader::{Reader, UpstreamRead};
use super::target::read_headers;
use super::{body, grpc, llm, running, server_events};
use crate::raw::{ListenText, Placed, RawUpstream};
use crate::{Body, BuiltInUpstream, Delay, Listen, Upstream, units};
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of instances. Each instance has its own thread and port.
const MOST_INSTANCES: u32 = 256;

pub(super) fn read(reader: &mut Reader<'_>, typed: Option<Placed<RawUpstream>>) -> UpstreamRead {
    let typed = typed.map(|typed| typed.value).unwrap_or_default();
    match &typed.url {
        Some(url) => running(reader, url, &typed),
        None => built_in(reader, typed),
    }
}

fn running(reader: &mut Reader<'_>, url: &Placed<String>, typed: &RawUpstream) -> UpstreamRead {
    let others = [
        ("instances", typed.instances.is_some()),
        ("status", typed.status.is_some()),
        ("headers", typed.headers.is_some()),
        ("body", typed.body.is_some()),
        ("delay", typed.delay.is_some()),
        ("failures", typed.failures.is_some()),
        ("port", typed.port.is_some()),
        ("listen", typed.listen.is_some()),
        ("answers", typed.answers.is_some()),
        ("grpc_status", typed.grpc_status.is_some()),
        ("events", typed.events.is_some()),
        ("llm", typed.llm.is_some()),
    ];
    for (key, _) in others.iter().filter(|(_, given)| *given) {
        reader.fault(
            url.place,
            format!("`{key}` is only for the built-in upstream"),
            format!("remove `{key}`, or remove `url` to start the built-in upstream"),
        );
    }
    let value = Upstream::Running(running::upstream(reader, url, typed));
    UpstreamRead { value, url_place: Some(url.place), delay_place: None }
}

/// Refuses keys that are allowed only for an upstream that already runs.
fn refuse_without_url(reader: &mut Reader<'_>, typed: &RawUpstream) {
    let keys = [
        ("server_name", typed.server_name.as_ref().map(|typed| typed.place)),
        ("authority", typed.authority.as_ref().map(|typed| typed.place)),
        ("client_certificate", typed.client_certificate.as_ref().map(|typed| typed.place)),
        ("token_file", typed.token_file.as_ref().map(|typed| typed.place)),
        ("resolve", typed.resolve.as_ref().map(|typed| typed.place)),
        ("proxy_protocol", typed.proxy_protocol.as_ref().map(|typed| typed.place)),
        ("pid", typed.pid.as_ref().map(|typed| typed.place)),
        ("ledger", typed.ledger.as_ref().map(|typed| typed.place)),
    ];
    for (key, place) in keys.into_iter().filter_map(|(key, place)| Some((key, place?))) {
        let message = format!("`{key}` is only for an upstream that already runs, but there is no `url`");
        reader.fault(place, message, format!("remove `{key}`, or add the upstream's `url`"));
    }
}

fn built_in(reader: &mut Reader<'_>, typed: RawUpstream) -> UpstreamRead {
    refuse_without_url(reader, &typed);
    let instances = reader.count(typed.instances.as_ref(), "instances", 1, MOST_INSTANCES);
    let status = status(reader, typed.status.as_ref());
    let headers = typed.headers.map(|headers| read_headers(reader, headers, false)).unwrap_or_default();
    let bodiless = matches!(status, 204 | 304);
    let body = match typed.body {
        Some(body) => {
            let place = body.place;
            let body = body::of_response(reader, body);
            if bodiless && body != Body::Size(0) {
                reader.fault(
                    place,
                    format!("a response with status {status} has no body"),
                    "remove `body` or change `status`",
                );
            }
            body
        }
        None => Body::Size(if bodiless { 0 } else { DEFAULT_BODY }),
    };
    let delay_place = typed.delay.as_ref().map(|delay| delay.place);
    let delay = typed
        .delay
        .and_then(|delay| reader.unit(&delay, units::delay))
        .unwrap_or(Delay::Fixed(Duration::ZERO));
    let failures =
        typed.failures.and_then(|failures| reader.unit(&failures, units::share)).unwrap_or_default();
    let port = typed.port.and_then(|port| first_port(reader, &port, instances));
    let listen = typed.listen.as_ref().map_or(Listen::Ports, |typed| listen(reader, typed, port));
    let answers = typed.answers.map(|answers| answers::list(reader, answers)).unwrap_or_default();
    let grpc_status = typed.grpc_status.and_then(|name| grpc::status(reader, &name));
    let events = typed.events.map(|typed| {
        if bodiless {
            let message = format!("a response with status {status} has no body, and so no events");
            reader.fault(typed.place, message, "remove `events` or change `status`");
        }
        server_events::of_upstream(reader, typed)
    });
    let llm = typed.llm.map(|typed| llm::of_upstream(reader, typed));
    let built_in = BuiltInUpstream {
        instances,
        status,
        headers,
        body,
        delay,
        failures,
        port,
        listen,
        answers,
        // They follow from the plan's targets.
        streams: Vec::new(),
        events,
        llm,
        websocket_compression: false,
        grpc_status,
    };
    let value = Upstream::BuiltIn(built_in);
    UpstreamRead { value, url_place: None, delay_place }
}

fn listen(reader: &mut Reader<'_>, typed: &Placed<ListenText>, port: Option<u16>) -> Listen {
    const HELP: &str = "write `unix`, or `unix:/path/to/socket`";
    if port.is_some() {
        let message = "`port` and `listen: unix` exclude each other";
        reader.fault(typed.place, message, "remove one of the two");
    }
    let text = &typed.value.0;
    let path = match text.strip_prefix("unix") {
        Some("") => return Listen::Unix(None),
        Some(rest) => rest.strip_prefix(':').map(|path| path.strip_prefix("//").unwrap_or(path)),
        None => None,
    };
    let Some(path) = path.filter(|path| path.starts_with('/')) else {
        let what = format!("`{}` is not a place to listen", text.escape_debug());
        reader.fault(typed.place, what, HELP);
        return Listen::Ports;
    };
    reader.accept(typed.place, units::socket_path(path));
    Listen::Unix(Some(PathBuf::from(path)))
}

fn first_port(reader: &mut Reader<'_>, port: &Placed<u16>, instances: u32) -> Option<u16> {
    if port.value == 0 {
        reader.fault(port.place, "`port` is zero", "remove `port` to let the kernel choose");
    }
    let last = u64::from(port.value) + u64::from(instances) - 1;
    if last > u64::from(u16::MAX) {
        reader.fault(
            port.place,
            format!("{instances} instances from port {} need ports up to {last}", port.value),
            "choose a lower port; the highest is 65535",
        );
    }
    Some(port.value)
}
