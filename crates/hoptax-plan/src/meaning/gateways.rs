//! Checks and converts gateways.

use super::reader::Reader;
use super::running::{self, Typed};
use super::{body, features, grpc, hop_delay, http, versions};
use crate::de::one_of;
use crate::error::Place;
use crate::raw::{Placed, RawGateway, Short};
use crate::units::nearest;
use crate::{
    Access, AccessLog, Feature, Gateway, GatewayKind, HopKind, PackDriver, PackInfo, Profile, ProxyForm,
    Resolve, Running, TlsAccess, Upstream, variant_name,
};
use hoptax_format::spec::HttpVersion;
use hoptax_record::{DIRECT, bounded};

/// The `name` that a plan uses for a gateway that already runs.
const EXTERNAL: &str = "external";

/// The `name`s of the built-in hops.
const HOPS: [&str; 3] = ["hop-l4", "hop-l7", "hop-h2"];

const MOST_WORKERS: u32 = 1024;

pub(super) fn read(
    reader: &mut Reader<'_>,
    typed: Vec<Placed<Short<RawGateway>>>,
    upstream: &Upstream,
    settings: (Profile, AccessLog),
    uses: http::Uses,
) -> Vec<Gateway> {
    let mut gateways: Vec<Gateway> = Vec::new();
    for Placed { place, value } in typed {
        let typed = match value {
            Short::Full(typed) => typed,
            Short::Word(name) => RawGateway { name: Placed { place, value: name }, ..RawGateway::default() },
        };
        // Each version has a label of its own, which is checked below.
        let several = versions::are_several(&typed);
        let label = label(reader, &typed, if several { &[] } else { &gateways });
        refuse_upstream_http(reader, &typed);
        let kind = kind(reader, &typed, upstream, uses.calls);
        let kind = hop_delay::read(reader, &typed, kind);
        refuse_unsupported(reader, &typed, &kind, settings);
        for gateway in versions::expand(reader, &typed, Gateway { label, kind }) {
            let alone = gateway.label.clone();
            let place = typed.name.place;
            let mut is_spoken = true;
            for one in with_features(reader, &typed, gateway, upstream) {
                let is_taken = gateways.iter().any(|earlier| earlier.label == one.label);
                if is_taken && (several || one.label != alone) {
                    let message = format!("two gateways have the label `{}`", one.label);
                    reader.fault(place, message, "give this gateway another `label`");
                }
                is_spoken = is_spoken
                    && http::check_gateway(reader, &typed, &one, uses)
                    && (!uses.calls || grpc::check_gateway(reader, &typed, &one));
                gateways.push(one);
            }
        }
    }
    gateways
}

/// The gateways of a matrix of features, or `gateway` alone.
fn with_features(
    reader: &mut Reader<'_>,
    typed: &RawGateway,
    gateway: Gateway,
    upstream: &Upstream,
) -> Vec<Gateway> {
    match typed.features.as_ref().and_then(features::matrix) {
        None => vec![gateway],
        Some(which) => features::expand(reader, typed, &gateway, which, upstream),
    }
}

fn label(reader: &mut Reader<'_>, typed: &RawGateway, earlier: &[Gateway]) -> String {
    if let Some(label) = &typed.label {
        reader.check_file_name(label, "label");
    }
    let label = typed.label.as_ref().unwrap_or(&typed.name);
    if label.value == DIRECT {
        reader.fault(
            label.place,
            "`direct` is the name of the baseline, which is always measured",
            if typed.label.is_some() { "choose another label" } else { "remove this entry" },
        );
    } else if earlier.iter().any(|gateway| gateway.label == label.value) {
        reader.fault(
            label.place,
            format!("two gateways have the label `{}`", label.value),
            format!(
                "give this gateway another label: {{ name: {}, label: {}-2 }}",
                typed.name.value, typed.name.value
            ),
        );
    }
    label.value.clone()
}

fn kind(reader: &mut Reader<'_>, typed: &RawGateway, upstream: &Upstream, calls: bool) -> GatewayKind {
    let name = &typed.name;
    if name.value == EXTERNAL {
        return external(reader, typed, upstream);
    }
    let key = typed.url.as_ref().map(|_| "url").or(typed.pid.as_ref().map(|_| "pid"));
    let key = key.or(typed.watch.as_ref().map(|_| "watch")).or(typed.resolve.as_ref().map(|_| "resolve"));
    let key = key.or(typed.proxy_protocol.as_ref().map(|_| "proxy_protocol"));
    let key = key.or(typed.token_file.as_ref().map(|_| "token_file"));
    let is_hop_l7 = name.value == "hop-l7";
    let key = key.or(typed.proxy.as_ref().filter(|_| !is_hop_l7).map(|_| "proxy"));
    let key = key.or(typed.proxy_credentials.as_ref().map(|_| "proxy_credentials"));
    if let Some(key) = key.or(access_keys(typed).first().map(|(_, key)| key)) {
        let message = match key {
            "proxy" => {
                format!("`proxy` is only for `external` and `hop-l7`, and `{}` is neither", name.value)
            }
            key => {
                format!("`{key}` is only for a gateway that already runs, but hoptax starts `{}`", name.value)
            }
        };
        let help = format!("remove `{key}`, or write name: external, label: {}", name.value);
        reader.fault(name.place, message, help);
    }
    if HOPS.contains(&name.value.as_str()) {
        if let Some(variant) = &typed.variant {
            reader.fault(variant.place, format!("`{}` has no variants", name.value), "remove `variant`");
        }
        refuse_keys_of_packs(reader, typed);
    }
    if matches!(upstream, Upstream::Running(running) if running.access.proxy_protocol.is_some()) {
        let message =
            format!("`{}` sends the upstream no PROXY protocol, which `upstream` requires", name.value);
        let help =
            "remove this gateway, or `proxy_protocol` if the upstream also accepts connections without it";
        reader.fault(name.place, message, help);
    }
    match name.value.as_str() {
        "hop-l4" => hop(reader, typed, HopKind::L4),
        "hop-l7" => hop_l7(reader, typed, upstream),
        "hop-h2" => hop_h2(reader, typed, upstream),
        _ => pack(reader, typed, upstream, calls),
    }
}

/// Refuses what no built-in hop has.
fn hop(reader: &mut Reader<'_>, typed: &RawGateway, kind: HopKind) -> GatewayKind {
    let name = &typed.name.value;
    if let Some(workers) = typed.workers.as_ref().filter(|workers| workers.value != 1) {
        reader.fault(workers.place, format!("`{name}` always has one worker"), "remove `workers`");
    }
    if let Some(place) = features::first_place(typed) {
        reader.fault(place, format!("`{name}` has no features"), "remove `features`");
    }
    GatewayKind::Hop(kind)
}

fn hop_l7(reader: &mut Reader<'_>, typed: &RawGateway, upstream: &Upstream) -> GatewayKind {
    let kind = hop(reader, typed, HopKind::L7);
    if let Some(Placed { place, value: proxy }) = typed.proxy {
        check_upstream_behind_proxy(reader, place, proxy, upstream);
        return GatewayKind::ForwardingHop { proxy, delay: None };
    }
    if speaks_tls(upstream) {
        let help = "remove this gateway, or use hop-l4 or `proxy: connect`, which forward TLS unchanged";
        reader.fault(typed.name.place, "`hop-l7` cannot speak TLS, which the upstream requires", help);
    }
    kind
}

fn hop_h2(reader: &mut Reader<'_>, typed: &RawGateway, upstream: &Upstream) -> GatewayKind {
    hop(reader, typed, HopKind::L7);
    if speaks_tls(upstream) {
        let help = "remove this gateway, or use hop-l4, which forwards TLS unchanged";
        reader.fault(typed.name.place, "`hop-h2` cannot speak TLS, which the upstream requires", help);
    }
    let version = typed.upstream_http.as_ref().and_then(|typed| {
        let version = reader.unit(typed, http::version)?;
        if version == HttpVersion::Http10 {
            reader.fault(typed.place, "`hop-h2` does not speak HTTP/1.0 to upstreams", "write 1.1 or 2");
        }
        Some(version)
    });
    GatewayKind::Http2Hop { upstream: version.unwrap_or(HttpVersion::Http2), delay: None }
}

/// Refuses the key `upstream_http` of gateways that are not started from a pack, except `hop-h2`.
fn refuse_upstream_http(reader: &mut Reader<'_>, typed: &RawGateway) {
    let name = typed.name.value.as_str();
    let has_none = name == EXTERNAL || HOPS.contains(&name) && name != "hop-h2";
    if let Some(version) = typed.upstream_http.as_ref().filter(|_| has_none) {
        let message = format!("`upstream_http` is only for packs and `hop-h2`, not for `{name}`");
        reader.fault(version.place, message, "remove `upstream_http`");
    }
}

/// Reads the key `upstream_http` of a gateway from a pack. True for HTTP/2; otherwise the pack's
/// configuration decides. gRPC calls need HTTP/2, so a plan with calls need not have the key.
fn upstream_http2(reader: &mut Reader<'_>, typed: &RawGateway, pack: Option<&PackInfo>, calls: bool) -> bool {
    let Some(pack) = pack else { return false };
    let Some(typed_version) = &typed.upstream_http else {
        return calls && pack.upstream_http2 && http::form(Some(pack), typed).is_none();
    };
    let Some(version) = reader.unit(typed_version, http::version) else { return false };
    let (name, place) = (&pack.name, typed_version.place);
    let is_http2 = version == HttpVersion::Http2;
    if typed.variant.as_ref().is_some_and(|variant| pack.proxy.contains_key(&variant.value)) {
        let message = format!("`{name}` cannot choose the HTTP version for upstreams as a forward proxy");
        reader.fault(place, message, "remove `upstream_http`, or `variant`");
        return false;
    }
    if pack.upstream_http2 {
        if version == HttpVersion::Http10 {
            let message = format!("`{name}` does not speak HTTP/1.0 to upstreams");
            reader.fault(place, message, "write 1.1 or 2");
        }
        return is_http2;
    }
    if is_http2 {
        let reason = pack.unsupported.get("upstream_http2");
        let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
        let able = reader.context.known.iter().filter(|pack| pack.upstream_http2);
        let able: Vec<&str> = able.map(|pack| pack.name.as_str()).chain(["hop-h2"]).collect();
        let help = format!("remove `upstream_http`; these can: {}", able.join(", "));
        reader.fault(place, format!("`{name}` cannot speak HTTP/2 to upstreams{reason}"), help);
    } else {
        let message = format!("the HTTP version for upstreams cannot be chosen for `{name}`");
        reader.fault(place, message, "remove `upstream_http`");
    }
    false
}

/// Refuses keys that are allowed only for a gateway that hoptax starts from a pack.
fn refuse_keys_of_packs(reader: &mut Reader<'_>, typed: &RawGateway) {
    let driver = typed.driver.as_ref().map(|driver| ("driver", driver.place));
    for (key, place) in driver.into_iter().chain(versions::keys(typed)) {
        let message = format!("`{key}` needs a pack, and `{}` is not a pack", typed.name.value);
        reader.fault(place, message, format!("remove `{key}`"));
    }
}

fn external(reader: &mut Reader<'_>, typed: &RawGateway, upstream: &Upstream) -> GatewayKind {
    refuse_keys_of_packs(reader, typed);
    if let Some(workers) = &typed.workers {
        reader.fault(
            workers.place,
            "hoptax does not start this gateway and cannot set its workers",
            "remove `workers`",
        );
    }
    if let Some(place) = features::first_place(typed) {
        reader.fault(
            place,
            "hoptax does not start this gateway and cannot enable features",
            "remove `features`",
        );
    }
    if let Some(variant) = &typed.variant {
        reader.fault(
            variant.place,
            "hoptax does not start this gateway and cannot choose a variant",
            "remove `variant`",
        );
    }
    let resolve = typed.resolve.as_ref().map_or_else(Resolve::default, |typed| typed.value);
    let pid = running::pid(reader, typed.pid.as_ref());
    if let (Some(watch), Some(_)) = (&typed.watch, pid) {
        reader.fault(watch.place, "`pid` and `watch` exclude each other", "remove one of the two");
    }
    let (prometheus, pods) = typed.watch.as_ref().map_or((None, None), |watch| running::watch(reader, watch));
    let (url, tls) = match &typed.url {
        Some(url) => running::access(reader, url, &access_keys(typed)),
        None => {
            reader.fault(
                typed.name.place,
                "an external gateway needs a `url`",
                "write { name: external, label: mine, url: \"http://127.0.0.1:9000\" }",
            );
            (String::new(), None)
        }
    };
    let mut existing = |file: &Option<Placed<String>>| {
        file.as_ref().map(|file| body::existing(reader, file.place, &file.value, bounded::TOKEN))
    };
    let (token_file, proxy_credentials) = (existing(&typed.token_file), existing(&typed.proxy_credentials));
    check_proxy(reader, typed, upstream);
    let proxy = typed.proxy.as_ref().map(|proxy| proxy.value);
    let proxy_protocol =
        typed.proxy_protocol.as_ref().and_then(|typed| running::proxy_protocol(reader, typed));
    let access = Access { tls, token_file, resolve, proxy_protocol, proxy, proxy_credentials };
    GatewayKind::External { url, pid, access, prometheus, pods }
}

/// Checks the keys `proxy` and `proxy_credentials`, and that a forward proxy can reach the upstream.
fn check_proxy(reader: &mut Reader<'_>, typed: &RawGateway, upstream: &Upstream) {
    let Some(Placed { place, value: form }) = typed.proxy else {
        if let Some(file) = &typed.proxy_credentials {
            let help = "add `proxy: forward` or `proxy: connect`, or remove it";
            reader.fault(file.place, "`proxy_credentials` needs `proxy`", help);
        }
        return;
    };
    check_upstream_behind_proxy(reader, place, form, upstream);
}

/// Refuses an upstream that a forward proxy cannot reach, or that requests of this form cannot use.
fn check_upstream_behind_proxy(reader: &mut Reader<'_>, place: Place, form: ProxyForm, upstream: &Upstream) {
    if upstream.is_on_unix_socket() {
        let message = "a forward proxy cannot reach an upstream on a Unix socket";
        reader.fault(place, message, "let the upstream listen on a port");
    }
    if matches!(upstream, Upstream::BuiltIn(built_in) if built_in.instances > 1) {
        let message = "a request to a forward proxy names one upstream, and this upstream has several \
            instances";
        reader.fault(place, message, "write upstream: { instances: 1 }");
    }
    if form == ProxyForm::Forward && speaks_tls(upstream) {
        let message = "a request with the whole URL cannot use TLS to the upstream";
        reader.fault(place, message, "use CONNECT: `proxy: connect`, or the variant `connect` of a pack");
    }
}

fn access_keys(typed: &RawGateway) -> Typed<'_> {
    Typed {
        server_name: typed.server_name.as_ref(),
        authority: typed.authority.as_ref(),
        insecure: typed.insecure.as_ref(),
        client_certificate: typed.client_certificate.as_ref(),
    }
}

fn pack(reader: &mut Reader<'_>, typed: &RawGateway, upstream: &Upstream, calls: bool) -> GatewayKind {
    let name = &typed.name;
    let known = reader.context.known.iter().find(|pack| pack.name == name.value).cloned();
    if known.is_none() && name.value != DIRECT {
        let help = unknown_help(&name.value, &reader.context.known);
        reader.fault(name.place, format!("unknown gateway `{}`", name.value), help);
    }
    let workers = reader.count(typed.workers.as_ref(), "workers", 1, MOST_WORKERS);
    let features = features::read(reader, typed, known.as_ref(), upstream);
    if let (Some(known), Upstream::Running(running)) = (&known, upstream) {
        check_upstream_access(reader, name, known, running);
    }
    if let (Some(known), Some(variant)) = (&known, &typed.variant)
        && let Some(form) = known.proxy.get(&variant.value)
    {
        check_upstream_behind_proxy(reader, variant.place, *form, upstream);
        if let Some(place) = features::first_place(typed) {
            let message = format!("`{}` has no features as a forward proxy", name.value);
            reader.fault(place, message, "remove `features`, or `variant`");
        }
    } else if let (Some(known), true) = (&known, upstream.is_on_unix_socket()) {
        check_unix_upstream(reader, name, known);
    } else if known.as_ref().is_some_and(|known| known.intercepts) {
        check_interception(reader, name, upstream);
    }
    GatewayKind::Pack {
        pack: pack_name(reader, typed, known.as_ref()),
        workers,
        instances: features::instances(&features),
        features,
        // `versions` sets the driver.
        driver: PackDriver::Process,
        upstream_http2: upstream_http2(reader, typed, known.as_ref(), calls),
    }
}

/// Refuses a gateway that cannot forward to a Unix socket.
fn check_unix_upstream(reader: &mut Reader<'_>, name: &Placed<String>, pack: &PackInfo) {
    if !pack.unix_upstream {
        let message = format!("the upstream is on a Unix socket, and `{}` cannot connect to one", name.value);
        let help = "remove this gateway, or let the upstream listen on a port";
        reader.fault(name.place, message, help);
    }
}

/// Refuses settings that the pack of this gateway lists as unsupported. The run would refuse them too, but
/// only after it has started.
fn refuse_unsupported(
    reader: &mut Reader<'_>,
    typed: &RawGateway,
    kind: &GatewayKind,
    (profile, access_log): (Profile, AccessLog),
) {
    let name = &typed.name;
    let GatewayKind::Pack { workers, .. } = kind else { return };
    let Some(pack) = reader.context.known.iter().find(|pack| pack.name == name.value) else { return };
    let several = (*workers != 1 && profile == Profile::Equalised).then(|| {
        let place = typed.workers.as_ref().map_or(name.place, |workers| workers.place);
        ("workers", place, format!("{workers} workers"), "remove `workers`")
    });
    let log = (access_log == AccessLog::File).then(|| {
        let help = "remove this gateway, or `access_log: file`";
        ("access_log", name.place, "`access_log: file`".to_owned(), help)
    });
    let faults = several.into_iter().chain(log).filter_map(|(what, place, shown, help)| {
        let reason = pack.unsupported.get(what)?;
        Some((place, format!("the gateway `{}` does not support {shown}: {reason}", name.value), help))
    });
    for (place, message, help) in faults.collect::<Vec<_>>() {
        reader.fault(place, message, help);
    }
}

fn pack_name(reader: &mut Reader<'_>, typed: &RawGateway, known: Option<&PackInfo>) -> String {
    let name = &typed.name.value;
    let (Some(variant), Some(known)) = (&typed.variant, known) else { return name.clone() };
    let variants = || known.variants.iter().map(String::as_str);
    if known.variants.is_empty() {
        reader.fault(variant.place, format!("the pack `{name}` has no variants"), "remove `variant`");
    } else if !variants().any(|one| one == variant.value) {
        let help = nearest(&variant.value, variants()).map_or_else(
            || format!("use {}", one_of(&variants().collect::<Vec<_>>())),
            |near| format!("did you mean `{near}`?"),
        );
        reader.fault(variant.place, format!("the pack `{name}` has no variant `{}`", variant.value), help);
    }
    variant_name(name, &variant.value)
}

fn speaks_tls(upstream: &Upstream) -> bool {
    matches!(upstream, Upstream::Running(running) if running.access.tls.is_some())
}

/// If the upstream requires TLS or client certificates, refuses a gateway that does not support them.
fn check_upstream_access(
    reader: &mut Reader<'_>,
    name: &Placed<String>,
    pack: &PackInfo,
    upstream: &Running,
) {
    let Some(tls) = &upstream.access.tls else { return };
    if let Some((message, help)) = unverifiable(&pack.name, tls) {
        reader.fault(name.place, message, help);
        return;
    }
    let upstream_tls = Feature::UpstreamTls.name();
    let certificate = tls.client_certificate.as_ref().map(|_| Feature::CLIENT_CERTIFICATE);
    let lacks = |what: &str| match pack.unsupported.get(what) {
        Some(reason) => Some(format!(": {reason}")),
        None => (what == upstream_tls && !pack.features.iter().any(|one| one == what)).then(String::new),
    };
    let wanted = [(upstream_tls, "speak TLS"), (Feature::CLIENT_CERTIFICATE, "send a client certificate")];
    for (what, does) in
        wanted.into_iter().filter(|(what, _)| *what == upstream_tls || Some(*what) == certificate)
    {
        if let Some(why) = lacks(what) {
            let message = format!(
                "the plan requires `{0}` to {does} to the upstream, but `{0}` cannot{why}",
                pack.name
            );
            reader.fault(name.place, message, "remove this gateway");
            return;
        }
    }
}

/// Why a gateway that hoptax starts cannot verify the upstream's certificate, and what to do.
fn unverifiable(pack: &str, tls: &TlsAccess) -> Option<(String, &'static str)> {
    if tls.authority.is_none() {
        return Some((
            format!(
                "`{pack}` cannot verify the upstream's certificate, because `upstream` has no `authority`"
            ),
            "add authority: ca.pem to `upstream`, a file with the certificates of the issuing authorities",
        ));
    }
    let is_address = tls.server_name.parse::<std::net::IpAddr>().is_ok();
    is_address.then(|| {
        (
            format!(
                "`{pack}` checks the upstream's certificate against a DNS name, not against {}",
                tls.server_name
            ),
            "add server_name: to `upstream`, with a DNS name from its certificate",
        )
    })
}

/// Refuses an upstream if a sidecar cannot intercept its traffic. The upstream must have only one instance,
/// and the run must start it in the sidecar's network namespace.
fn check_interception(reader: &mut Reader<'_>, name: &Placed<String>, upstream: &Upstream) {
    let (what, help) = match upstream {
        Upstream::Running(_) => ("an upstream that already runs", "remove `upstream.url`"),
        Upstream::BuiltIn(built_in) if built_in.instances > 1 => {
            ("several instances of the upstream", "write upstream: { instances: 1 }")
        }
        Upstream::BuiltIn(built_in) if built_in.port.is_some() => {
            ("an upstream with a fixed port", "remove `upstream.port`")
        }
        Upstream::BuiltIn(_) => return,
    };
    reader.fault(name.place, format!("`{}` cannot be used with {what}", name.value), help);
}

fn unknown_help(name: &str, known: &[PackInfo]) -> String {
    let names = || known.iter().map(|pack| pack.name.as_str()).chain(HOPS).chain([EXTERNAL]);
    nearest(name, names()).map_or_else(
        || {
            format!(
                "use one of: {}; `--packs DIR` adds your own packs",
                names().collect::<Vec<_>>().join(", ")
            )
        },
        |near| format!("did you mean `{near}`?"),
    )
}
