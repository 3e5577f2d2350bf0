//! Tests that every installed pack forwards requests and responses unchanged, except for the differences that
//! it lists, over HTTP/1.1, HTTP/2 and gRPC. Also tests that gateways listen on loopback only.

use crate::support::refusals::refusals;
use crate::support::sockets::listening;
use crate::support::{PATIENCE, hoptax, succeed};
use crate::world::{driver_for, is_missing, running_plan, started};
use hoptax_format::Address;
use hoptax_format::spec::HttpVersion;
use hoptax_host::tree::descendants;
use hoptax_lab::Driver as _;
use hoptax_lab::concurrent::concurrently;
use hoptax_lab::conformance::{
    ANTHROPIC_CASES, EVENTS_CASES, GrpcUpstream, MessagesCase, MessagesUpstream, OPENAI_CASES, Seen,
    WEBSOCKET_CASES, mismatches, observe, observe_calls, observe_messages,
};
use hoptax_lab::legs::Legs;
use hoptax_lab::packs::binary;
use hoptax_plan::{ClientHttp2, Gateway, GatewayKind, HopKind};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;
use std::time::Duration;

/// Packs whose gateways the set-up installs. The test must always check these packs.
const INSTALLED: [&str; 3] = ["nginx", "haproxy", "envoy"];

/// Number of gateways that a test compares at the same time. The tests mostly wait.
const AT_ONCE: usize = 4;

/// HTTP/2 from clients, and HTTP/1.1 to the upstream.
const OVER_HTTP2: Legs = Legs { clients: HttpVersion::Http2, upstream: HttpVersion::Http11 };

/// The cases that differ.
fn differences(seen: &[Seen]) -> Vec<(&str, &str)> {
    seen.iter().filter_map(|seen| Some((seen.case, seen.difference.as_deref()?))).collect()
}

/// The differences, in the YAML format of a pack.
fn as_yaml(seen: &[Seen], legs: Legs) -> String {
    let mut http = String::new();
    for (key, version) in [("http", legs.clients), ("upstream_http", legs.upstream)] {
        if version == HttpVersion::Http2 {
            http += &format!("    {key}: 2\n");
        }
    }
    differences(seen)
        .into_iter()
        .map(|(case, what)| format!("  - case: {case}\n{http}    what: {what:?}\n    reason: …\n"))
        .collect()
}

#[test]
fn every_installed_gateway_differs_from_direct_as_its_pack_lists_and_listens_on_loopback_alone() {
    compare_all(Legs::with_http1_upstream(HttpVersion::Http11), |_| true);
}

#[test]
fn nginx_haproxy_and_envoy_differ_over_http2_as_their_packs_list() {
    compare_all(OVER_HTTP2, |pack| INSTALLED.contains(&pack));
}

/// Apache, Varnish and Traffic Server are left out: how they end streams depends on races, so other cases
/// differ now and then.
#[test]
fn further_gateways_differ_over_http2_as_their_packs_list() {
    compare_all(OVER_HTTP2, |pack| ["caddy", "nginx-lua", "nghttpx", "h2o"].contains(&pack));
}

#[test]
fn haproxy_and_envoy_differ_with_http2_to_the_upstream_as_their_packs_list() {
    concurrently(2, &[HttpVersion::Http11, HttpVersion::Http2], |clients| {
        let legs = Legs { clients: *clients, upstream: HttpVersion::Http2 };
        compare_all(legs, |pack| ["haproxy", "envoy"].contains(&pack));
    });
}

/// Compares every installed gateway that is chosen and speaks these versions of HTTP.
fn compare_all(legs: Legs, is_chosen: impl Fn(&str) -> bool) {
    let http = legs.clients;
    let upstream_http2 = legs.upstream == HttpVersion::Http2;
    let must_run = || INSTALLED.into_iter().filter(|pack| is_chosen(pack));
    let missing = must_run().filter(|pack| is_missing(pack)).count();
    let packs = crate::world::packs();
    let names: Vec<&str> = packs
        .iter()
        // Sidecars are left out, because a sidecar runs inside its namespace and listens on every interface
        // there.
        .filter(|pack| binary::find(pack).is_some() && pack.manifest().intercept.is_none())
        .filter(|pack| pack.manifest().llm.is_none())
        .filter(|pack| http != HttpVersion::Http2 || pack.manifest().http2 != ClientHttp2::No)
        .filter(|pack| !upstream_http2 || pack.manifest().upstream_http2)
        .map(hoptax_lab::packs::Pack::name)
        .filter(|name| is_chosen(name))
        .collect();
    assert!(names.len() + missing >= must_run().count(), "{names:?}");
    let wrong = concurrently(AT_ONCE, &names, |name| mismatches_of(name, legs)).concat();
    assert!(wrong.is_empty(), "{wrong}");
}

/// What contradicts the list of an installed pack, in words. The gateway has an upstream of its own.
fn mismatches_of(name: &str, legs: Legs) -> String {
    // Several gateways never answer some requests over HTTP/2, so each of these waits ends soon.
    let is_http2 = legs.clients == HttpVersion::Http2;
    let patience = if is_http2 { Duration::from_secs(3) } else { PATIENCE };
    let packs = crate::world::packs();
    let pack = packs.get(name).expect("installed");
    let kind = GatewayKind::Pack {
        pack: name.to_owned(),
        workers: 1,
        features: pack.required_features(),
        instances: None,
        driver: Default::default(),
        upstream_http2: legs.upstream == HttpVersion::Http2,
    };
    let mut plan = running_plan(vec![Gateway { label: name.to_owned(), kind }]);
    plan.load[0].http = legs.clients;
    let run = tempfile::tempdir().expect("a directory");
    let mut driver = driver_for(&plan, run.path());
    let upstream = started(driver.start_upstream());
    let service = started(driver.start_gateway(&plan.gateways[0], &upstream.0.endpoints()));
    let root = service.0.process().expect("watched").pid;
    let sockets = listening(descendants(root));
    assert!(sockets.contains(&service.0.addresses()[0].to_string()), "{name}: {sockets:?}");
    for socket in &sockets {
        assert!(socket.starts_with("127."), "{name} listens on {socket}");
    }
    let change = &service.0.facts().change;
    let seen = observe(upstream.0.addresses()[0], service.0.addresses()[0], change, legs, patience);
    let seen = seen.expect("direct answers");
    let mismatches = mismatches(&seen, &pack.manifest().differences, legs);
    if mismatches.is_empty() {
        return String::new();
    }
    let wrong: String = mismatches.iter().map(|mismatch| format!("{name}: {mismatch}\n")).collect();
    format!("{wrong}{name}, seen in all:\ndifferences:\n{}", as_yaml(&seen, legs))
}

/// The least that an HTTP/2 hop can do has no difference, except that it must answer something. On the way to
/// HTTP/1.1 it loses trailers.
#[test]
fn hop_h2_differs_only_in_trailers_on_the_way_to_http1() {
    let close = ("close", "status 502 where direct ends the connection early");
    let lost = [
        ("request-trailers", "the upstream did not see the trailer `x-hoptax-trailer`"),
        ("response-trailers", "the trailer `x-hoptax-trailer` is missing"),
    ];
    let upstreams = [(HttpVersion::Http2, &[][..]), (HttpVersion::Http11, &lost[..])];
    concurrently(2, &upstreams, |&(upstream_http, lost)| {
        let kind = GatewayKind::Http2Hop { upstream: upstream_http, delay: None };
        let mut plan = running_plan(vec![Gateway { label: "hop-h2".to_owned(), kind }]);
        plan.load[0].http = HttpVersion::Http2;
        let run = tempfile::tempdir().expect("a directory");
        let mut driver = driver_for(&plan, run.path());
        let upstream = started(driver.start_upstream());
        let hop = started(driver.start_gateway(&plan.gateways[0], &upstream.0.endpoints()));
        let (direct, change) = (upstream.0.addresses()[0], &hop.0.facts().change);
        let legs = Legs { clients: HttpVersion::Http2, upstream: upstream_http };
        let seen = observe(direct, hop.0.addresses()[0], change, legs, PATIENCE);
        let seen = seen.expect("direct keeps every rule");
        assert_eq!(seen.len(), 36);
        assert_eq!(differences(&seen), [&[close][..], lost].concat(), "{upstream_http:?}");
    });
}

#[test]
fn hops_pass_on_calls_as_they_are() {
    let http2 = GatewayKind::Http2Hop { upstream: HttpVersion::Http2, delay: None };
    let hops = [("hop-h2", http2), ("hop-l4", GatewayKind::Hop(HopKind::L4))];
    concurrently(2, &hops, |(label, kind)| {
        let mut plan = running_plan(vec![Gateway { label: (*label).to_owned(), kind: kind.clone() }]);
        plan.load[0].http = HttpVersion::Http2;
        let run = tempfile::tempdir().expect("a directory");
        let mut driver = driver_for(&plan, run.path());
        let upstream = GrpcUpstream::start().expect("it listens");
        let hop = started(driver.start_gateway(&plan.gateways[0], &[Address::from(upstream.address())]));
        let change = &hop.0.facts().change;
        let seen = observe_calls(&upstream, hop.0.addresses()[0], change, PATIENCE);
        let seen = seen.expect("the upstream keeps every rule");
        assert_eq!(seen.len(), 20);
        assert_eq!(differences(&seen), [], "{label}");
    });
}

#[test]
fn nginx_haproxy_and_envoy_pass_on_calls_as_their_packs_list() {
    let packs: Vec<&str> = INSTALLED.into_iter().filter(|pack| !is_missing(pack)).collect();
    if packs.is_empty() {
        return;
    }
    let reported = succeed(hoptax().args(["lint", "--grpc"]).args(&packs));
    assert_eq!(reported.matches(" over gRPC: 20 cases, ").count(), packs.len(), "{reported}");
}

#[test]
fn a_hop_passes_on_events_websockets_and_requests_to_language_models_as_they_are() {
    let kind = GatewayKind::Hop(HopKind::L4);
    let plan = running_plan(vec![Gateway { label: "hop-l4".to_owned(), kind }]);
    let run = tempfile::tempdir().expect("a directory");
    let mut driver = driver_for(&plan, run.path());
    let upstream = MessagesUpstream::start().expect("it listens");
    let hop = started(driver.start_gateway(&plan.gateways[0], &[Address::from(upstream.address())]));
    let (address, change) = (hop.0.addresses()[0], &hop.0.facts().change);
    let all: [&'static [MessagesCase]; 4] =
        [&EVENTS_CASES, &WEBSOCKET_CASES, &OPENAI_CASES, &ANTHROPIC_CASES];
    for cases in all {
        let seen = observe_messages(cases, &upstream, address, change, "m", Duration::from_millis(500));
        let seen = seen.expect("the upstream keeps every rule");
        assert_eq!(seen.len(), cases.len());
        assert_eq!(differences(&seen), []);
    }
}

#[test]
fn nginx_haproxy_and_envoy_pass_on_events_websockets_and_tokens_as_their_packs_list() {
    let packs: Vec<&str> = INSTALLED.into_iter().filter(|pack| !is_missing(pack)).collect();
    if packs.is_empty() {
        return;
    }
    let scopes = [
        ("--events", " with server-sent events: 11 cases, "),
        ("--websocket", " over WebSocket: 18 cases, "),
        ("--llm", " with OpenAI's chat completions: 31 cases, "),
        ("--llm=anthropic", " with Anthropic's messages: 3 cases, "),
    ];
    concurrently(2, &scopes, |&(option, count)| {
        let reported = succeed(hoptax().args(["lint", option]).args(&packs));
        assert_eq!(reported.matches(count).count(), packs.len(), "{reported}");
    });
}

#[test]
fn what_a_pack_does_not_support_is_refused() {
    let lines = [
        &["--grpc", "ocelot"][..],
        &["--websocket", "ocelot"],
        &["--events", "krakend"],
        &["--llm", "krakend"],
        &["--upstream-http", "2", "nginx"],
        &["--grpc", "--settings"],
        &["--websocket", "--events"],
        &["nginks"],
    ];
    insta::assert_snapshot!(refusals(&["lint"], &lines));
}

/// Simulates Ctrl-Z. The kernel interrupts system calls that wait, and these calls must then continue.
#[test]
fn a_stopped_process_continues_its_requests() {
    needs!("nginx");
    let mut command = hoptax();
    command.args(["lint", "--answers", "nginx"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("it starts");
    let pid = Pid::from_child(&process);
    while process.try_wait().expect("ours").is_none() {
        for signal in [Signal::STOP, Signal::CONT] {
            kill_process(pid, signal).expect("not waited for yet");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = process.wait_with_output().expect("ended");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
