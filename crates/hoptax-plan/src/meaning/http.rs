//! HTTP versions and streams of load points.

use super::reader::Reader;
use super::{chunked, websocket};
use crate::raw::{Placed, RawGateway, RawLoad, StreamCount};
use crate::units::UnitError;
use crate::{ClientHttp2, Feature, Gateway, GatewayKind, PackInfo, ProxyForm, Target};
use hoptax_format::spec::{HttpVersion, MOST_IN_FLIGHT, MOST_STREAMS};

/// Headers that HTTP/2 does not allow (RFC 9113, section 8.2.2).
const OF_CONNECTIONS: [&str; 5] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// Reads an HTTP version.
pub(super) fn version(text: &str) -> Result<HttpVersion, UnitError> {
    match text.trim() {
        "1.0" => Ok(HttpVersion::Http10),
        "1.1" => Ok(HttpVersion::Http11),
        "2" | "2.0" => Ok(HttpVersion::Http2),
        _ => Err(UnitError::new(format!("HTTP version `{text}` is not supported"), "write 1.0, 1.1 or 2")),
    }
}

/// Reads a number of streams.
pub(super) fn streams(reader: &mut Reader<'_>, typed: &Placed<StreamCount>) -> u32 {
    let count = typed.value.0;
    if count == 0 {
        reader.fault(typed.place, "`streams` is zero", "write 1 or more");
    } else if count > MOST_STREAMS {
        let message = format!("`streams` is too large: {count}, but servers allow 100 to 1024 streams");
        reader.fault(typed.place, message, format!("write {MOST_STREAMS} or less"));
    }
    count
}

/// True if a load point can have this version and this number of streams. HTTP/1 carries one request at a
/// time on a connection. In a sweep over versions and streams, it therefore has only the load points with one
/// stream.
pub(super) fn fits(version: HttpVersion, streams: u32) -> bool {
    version == HttpVersion::Http2 || streams == 1
}

/// Checks that each version and each number of streams has a load point, that there are not too many requests
/// in flight, and that a connection may carry as many requests as it has streams.
pub(super) fn check_streams(
    reader: &mut Reader<'_>,
    versions: &[Placed<HttpVersion>],
    streams: &[Placed<u32>],
    connections: &[Placed<u32>],
    keepalive: &[Placed<Option<u32>>],
) {
    let many = streams.iter().find(|streams| streams.value > 1);
    let has_one = streams.iter().any(|streams| streams.value <= 1);
    let old = versions.iter().find(|version| version.value != HttpVersion::Http2);
    if let (Some(many), Some(old)) = (many, old) {
        if versions.iter().all(|version| version.value != HttpVersion::Http2) {
            reader.fault(
                many.place,
                format!(
                    "{} streams need HTTP/2, because HTTP/1 sends one request at a time on a connection",
                    many.value
                ),
                format!(
                    "add `http: 2`, or remove `streams` and use {} times as many connections",
                    many.value
                ),
            );
        } else if !has_one {
            reader.fault(
                old.place,
                format!(
                    "HTTP/1 sends one request at a time on a connection, but `streams` is {}",
                    many.value
                ),
                "add 1 to the list of `streams`, or write HTTP/1 as an entry of its own",
            );
        }
    }
    let most = |values: &[Placed<u32>]| values.iter().map(|value| value.value).max().unwrap_or(1);
    let (most_streams, most_connections) = (most(streams), most(connections));
    let in_flight = u64::from(most_streams) * u64::from(most_connections);
    if let Some(many) = many.filter(|_| in_flight > MOST_IN_FLIGHT) {
        reader.fault(
            many.place,
            format!(
                "{most_connections} connections × {most_streams} streams are {in_flight} requests in flight"
            ),
            format!("use fewer: at most {MOST_IN_FLIGHT} are allowed"),
        );
    }
    let limits = keepalive.iter().filter_map(|typed| Some((typed.place, typed.value?)));
    let least = limits.min_by_key(|(_, requests)| *requests);
    if let Some((place, requests)) = least.filter(|(_, requests)| *requests < most_streams)
        && versions.iter().any(|version| version.value == HttpVersion::Http2)
    {
        let counted = if requests == 1 { "1 request".to_owned() } else { format!("{requests} requests") };
        reader.fault(
            place,
            format!("`keepalive` allows {counted} on a connection, but `streams` is {most_streams}"),
            format!("write at least {most_streams}, or use fewer `streams`"),
        );
    }
}

/// Refuses HTTP/2 for targets that it cannot have, and HTTP/1.0 for bodies in chunks and for WebSockets.
pub(super) fn check_targets(reader: &mut Reader<'_>, versions: &[Placed<HttpVersion>], targets: &[Target]) {
    chunked::check_versions(reader, versions, targets);
    let socket = targets.iter().find(|target| websocket::is_socket(target));
    let oldest = versions.iter().find(|version| version.value == HttpVersion::Http10);
    if let (Some(version), Some(socket)) = (oldest, socket) {
        let message = format!("HTTP/1.0 has no WebSockets, but the target `{}` is one", socket.name);
        reader.fault(version.place, message, "use 1.1 or 2");
    }
    let Some(version) = versions.iter().find(|version| version.value == HttpVersion::Http2) else { return };
    // Over HTTP/2, handshakes of WebSockets are sent without the headers of connections (RFC 8441).
    for target in targets.iter().filter(|target| !websocket::is_socket(target)) {
        for (name, value) in &target.headers {
            let lower = name.to_ascii_lowercase();
            let is_refused = OF_CONNECTIONS.contains(&&*lower) || lower == "te" && value != "trailers";
            if is_refused {
                let message = format!(
                    "HTTP/2 does not allow the header `{name}`, but the target `{}` has it",
                    target.name
                );
                reader.fault(version.place, message, "remove the header from the target, or use 1.1");
            }
        }
    }
}

/// Which HTTP versions the load uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Uses {
    http1: bool,
    http2: bool,
    /// Whether some requests are gRPC calls.
    pub(super) calls: bool,
}

impl Uses {
    /// The versions of a load as it was typed. Wrong versions are reported later, with the load.
    pub(super) fn of(load: Option<&Placed<Vec<Placed<RawLoad>>>>, calls: bool) -> Self {
        // Without `load`, the plan measures usual loads, which use HTTP/1.1.
        let mut uses = Self { http1: load.is_none(), http2: false, calls };
        for entry in load.map(|load| &load.value).into_iter().flatten() {
            let typed = entry.value.http.as_ref().map_or(&[][..], |versions| &versions.0);
            let versions = typed.iter().filter_map(|typed| version(&typed.value.0).ok());
            let is_http2: Vec<bool> = versions.map(|version| version == HttpVersion::Http2).collect();
            uses.http2 |= is_http2.contains(&true);
            uses.http1 |= typed.is_empty() || is_http2.contains(&false);
        }
        uses
    }
}

/// The facts about a gateway's pack.
pub(super) fn known<'r>(reader: &'r Reader<'_>, typed: &RawGateway) -> Option<&'r PackInfo> {
    reader.context.known.iter().find(|pack| pack.name == typed.name.value)
}

/// How requests ask the gateway, if it is a forward proxy.
pub(super) fn form(known: Option<&PackInfo>, typed: &RawGateway) -> Option<ProxyForm> {
    let variant = typed.variant.as_ref().map(|variant| &variant.value);
    let of_pack = known.and_then(|known| known.proxy.get(variant?).copied());
    of_pack.or(typed.proxy.as_ref().map(|proxy| proxy.value))
}

/// Refuses a gateway that does not speak the load's HTTP versions with clients. Returns false then.
pub(super) fn check_gateway(
    reader: &mut Reader<'_>,
    typed: &RawGateway,
    gateway: &Gateway,
    uses: Uses,
) -> bool {
    let name = &typed.name.value;
    if matches!(gateway.kind, GatewayKind::Http2Hop { .. }) && uses.http1 {
        let message = "the load uses HTTP/1, but `hop-h2` accepts only HTTP/2";
        reader.fault(typed.name.place, message, "add `http: 2` to the load, or use hop-l4 or hop-l7");
        return false;
    }
    if !uses.http2 {
        return true;
    }
    let known = known(reader, typed);
    let form = form(known, typed);
    let has_tls = matches!(&gateway.kind, GatewayKind::Pack { features, .. }
        if features.iter().any(|one| matches!(one, Feature::Tls | Feature::Mtls)));
    let (message, help) = match (form, known.map(|known| known.http2)) {
        (Some(ProxyForm::Forward), _) => (
            "requests with the whole URL need HTTP/1, but the load uses HTTP/2".to_owned(),
            "use CONNECT (`proxy: connect`, or the variant `connect`), or `http: 1.1`",
        ),
        // The gateway forwards the bytes of tunnels unchanged.
        (Some(ProxyForm::Connect), _) | (None, Some(ClientHttp2::Shared)) => return true,
        (None, Some(ClientHttp2::Exclusive)) if uses.http1 && !has_tls => (
            format!("without TLS, `{name}` has either HTTP/1 or HTTP/2 on its port, but the load uses both"),
            "add the feature `tls`, or write one plan for each version",
        ),
        (None, Some(ClientHttp2::Exclusive)) => return true,
        (None, Some(ClientHttp2::No)) => (
            format!("the load uses HTTP/2, but the pack `{name}` offers clients only HTTP/1"),
            "remove this gateway, or use `http: 1.1`",
        ),
        (None, None) if name == "hop-l7" => (
            "the load uses HTTP/2, but `hop-l7` speaks only HTTP/1".to_owned(),
            "use hop-h2 or hop-l4, or `http: 1.1`",
        ),
        // hop-l4 forwards bytes. A gateway that already runs is checked when the run begins.
        (None, None) => return true,
    };
    reader.fault(typed.name.place, message, help);
    false
}
