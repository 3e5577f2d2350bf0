//! Proofs that a feature is on, with one function for each feature.

use super::world::{Extra, Request};
use crate::support::client::Answer;
use hoptax_lab::features::{
    CORS_ORIGIN, KEY_HEADER, REQUEST_ID_HEADER, REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED, RESPONSE_SET,
};
use hoptax_plan::Feature;
use std::net::Ipv4Addr;

/// Number of requests that is large enough to exceed a limit of one per second even on a slow machine.
const MANY: usize = 500;

/// Panics if the feature is off.
pub(super) fn prove(gateway: &Extra, feature: Feature) {
    match feature {
        Feature::KeyAuth => key_auth(gateway),
        Feature::BasicAuth => basic_auth(gateway),
        Feature::Jwt(_) => jwt(gateway),
        Feature::RateLimit { .. } if feature.is_reachable_limit() => limit_bites(gateway),
        Feature::RateLimit { .. } => limit_never_bites(gateway),
        Feature::AccessLog => access_log(gateway),
        Feature::Tls => tls(gateway),
        Feature::Mtls => mtls(gateway),
        Feature::HeaderRewrite => header_rewrite(gateway),
        Feature::PathRewrite => path_rewrite(gateway),
        Feature::Cors => cors(gateway),
        Feature::Gzip => gzip(gateway),
        Feature::RequestId => request_id(gateway),
        Feature::IpAllow => ip_allow(gateway),
        Feature::Routes { count, .. } => routes(gateway, count),
        Feature::Consumers { count } => consumers(gateway, count),
        Feature::RoundRobin { .. } => round_robin(gateway),
        Feature::ProxyProtocol(_) => proxy_protocol(gateway),
        Feature::UpstreamTls | Feature::TokenReview { .. } | Feature::GrpcWeb | Feature::GrpcJson => {
            unreachable!("not asked for here")
        }
    }
}

/// Status of a request in which the header `name` has `value`. If `value` is `None`, the header is missing.
fn status_with(gateway: &Extra, name: &str, value: Option<&str>) -> u16 {
    let with = value.iter().map(|value| (name.to_owned(), (*value).to_owned())).collect();
    let request = Request { path: "/x", without: name, with, ..Request::default() };
    gateway.send(&request).expect("answered").status
}

fn readable(gateway: &Extra, path: &str) -> Answer {
    gateway.send(&Request { path, without: "accept-encoding", ..Request::default() }).expect("answered")
}

fn own_header(gateway: &Extra, name: &str) -> String {
    let header = gateway.change.headers.iter().find(|(own, _)| own == name);
    header.expect("the feature wants it").1.clone()
}

/// The client connects from 127.0.0.1, and its header says so.
fn proxy_protocol(gateway: &Extra) {
    let answer = gateway.ask("/x");
    assert!(answer.text().contains("\nx-forwarded-for: 127.0.0.1\n"), "{answer:?}");
}

fn key_auth(gateway: &Extra) {
    assert_eq!(gateway.ask("/x").status, 200);
    for wrong in [None, Some("wrong"), Some("")] {
        assert_eq!(status_with(gateway, KEY_HEADER, wrong), 401, "{wrong:?}");
    }
}

fn basic_auth(gateway: &Extra) {
    assert_eq!(gateway.ask("/x").status, 200);
    // `consumer-00001:wrong`, no credentials, malformed credentials, and another scheme.
    for wrong in [Some("Basic Y29uc3VtZXItMDAwMDE6d3Jvbmc="), None, Some("Basic !"), Some("Bearer x")] {
        assert_eq!(status_with(gateway, "authorization", wrong), 401, "{wrong:?}");
    }
}

fn jwt(gateway: &Extra) {
    assert_eq!(gateway.ask("/x").status, 200);
    let good = own_header(gateway, "authorization");
    let (text, signature) = good.rsplit_once('.').expect("three parts");
    let other = if signature.starts_with('A') { "B" } else { "A" };
    let forged = format!("{text}.{other}{}", &signature[1..]);
    // An unsigned token: `{"alg":"none"}`.
    let claims = text.rsplit_once('.').expect("three parts").1;
    let unsigned = format!("Bearer eyJhbGciOiJub25lIn0.{claims}.");
    for wrong in [None, Some("Bearer x.y.z"), Some(forged.as_str()), Some(unsigned.as_str())] {
        assert_eq!(status_with(gateway, "authorization", wrong), 401, "{wrong:?}");
    }
}

fn limit_never_bites(gateway: &Extra) {
    for _ in 0..20 {
        assert_eq!(gateway.ask("/x").status, 200);
    }
}

fn limit_bites(gateway: &Extra) {
    let statuses: Vec<_> = (0..MANY)
        .map(|_| gateway.ask("/x").status)
        // Collects the statuses up to and including the first 429.
        .scan(false, |over, status| (!std::mem::replace(over, status == 429)).then_some(status))
        .collect();
    assert_eq!(statuses.first(), Some(&200), "{statuses:?}");
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
}

fn access_log(gateway: &Extra) {
    gateway.logged("/written/down");
}

fn tls(gateway: &Extra) {
    assert_eq!(gateway.ask("/x").status, 200, "TLS 1.3 with the one cipher suite that is offered");
    let plain = gateway.send_over(&Request { path: "/x", ..Request::default() }, None);
    // The result is an error, no response, or a refusal: usually a 400 that says that the port needs TLS, but
    // Traefik finds no route.
    assert!(plain.as_ref().map_or(true, |answer| [400, 404].contains(&answer.status)), "{plain:?}");
}

fn mtls(gateway: &Extra) {
    assert_eq!(gateway.ask("/x").status, 200);
    let mut nobody = gateway.change.tls.clone().expect("TLS");
    assert!(nobody.client_certificate.take().is_some());
    let refused = gateway.send_over(&Request { path: "/x", ..Request::default() }, Some(&nobody));
    assert!(refused.is_err(), "without a certificate: {refused:?}");
}

fn header_rewrite(gateway: &Extra) {
    let answer = readable(gateway, "/x");
    let asked = answer.text();
    assert!(asked.contains(&format!("\n{}: {}\n", REQUEST_SET.0, REQUEST_SET.1)), "{asked}");
    assert!(!asked.contains(REQUEST_REMOVED.0), "{asked}");
    assert_eq!(answer.header(RESPONSE_SET.0), Some(RESPONSE_SET.1), "{answer:?}");
    assert_eq!(answer.header(RESPONSE_REMOVED), None, "{answer:?}");
}

fn path_rewrite(gateway: &Extra) {
    let answer = readable(gateway, "/some/path?query=1");
    assert!(answer.text().starts_with("GET /some/path?query=1 HTTP/1.1\n"), "{}", answer.text());
    let answer = gateway.send(&Request { path: "/elsewhere", without_prefix: true, ..Request::default() });
    assert_eq!(answer.expect("answered").status, 404);
}

fn cors(gateway: &Extra) {
    let allowed = |answer: &Answer| answer.header("access-control-allow-origin").map(str::to_owned);
    assert_eq!(allowed(&gateway.ask("/x")).as_deref(), Some(CORS_ORIGIN));
    let asks = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    // A browser sends no credentials with a preflight.
    let preflight = Request {
        method: Some("OPTIONS"),
        path: "/x",
        without: KEY_HEADER,
        with: vec![asks("access-control-request-method", "POST")],
        ..Request::default()
    };
    let answer = gateway.send(&preflight).expect("answered");
    assert!(matches!(answer.status, 200 | 204), "{answer:?}");
    assert_eq!(allowed(&answer).as_deref(), Some(CORS_ORIGIN), "{answer:?}");
    let methods = answer.header("access-control-allow-methods").unwrap_or_default();
    assert!(methods.contains("POST"), "{answer:?}");
    assert!(!answer.text().starts_with("OPTIONS"), "the upstream is not asked: {answer:?}");
    let other = Request {
        path: "/x",
        without: "origin",
        with: vec![asks("origin", "https://evil.example")],
        ..Request::default()
    };
    let answer = gateway.send(&other).expect("answered");
    assert_ne!(allowed(&answer).as_deref(), Some("https://evil.example"), "{answer:?}");
    assert_ne!(allowed(&answer).as_deref(), Some("*"), "{answer:?}");
}

fn gzip(gateway: &Extra) {
    let answer = gateway.ask("/x");
    assert_eq!(answer.header("content-encoding"), Some("gzip"), "{answer:?}");
    // RFC 1952: two magic bytes, then 8 for deflate.
    assert_eq!(answer.body.get(..3), Some(&[0x1f, 0x8b, 8][..]));
    let plain = gateway.send(&Request { path: "/x", without: "accept-encoding", ..Request::default() });
    let plain = plain.expect("answered");
    assert_eq!(plain.header("content-encoding"), None, "{plain:?}");
    assert!(plain.body.len() > answer.body.len(), "{} of {}", answer.body.len(), plain.body.len());
}

fn request_id(gateway: &Extra) {
    let ids = [readable(gateway, "/x"), readable(gateway, "/x")].map(|answer| {
        let id = answer.header(REQUEST_ID_HEADER).expect("in the response").to_owned();
        let reported = format!("\n{REQUEST_ID_HEADER}: {id}\n");
        assert!(answer.text().contains(&reported), "the upstream receives the same: {}", answer.text());
        id
    });
    assert!(!ids[0].is_empty());
    assert_ne!(ids[0], ids[1]);
}

fn ip_allow(gateway: &Extra) {
    let from = |last| Some(Ipv4Addr::new(127, 0, 0, last));
    for (address, status) in [(from(1), 200), (from(2), 403)] {
        let answer = gateway.send(&Request { path: "/x", from: address, ..Request::default() });
        assert_eq!(answer.expect("answered").status, status, "{address:?}");
    }
}

fn routes(gateway: &Extra, count: u32) {
    for index in [0, count / 2, count - 1] {
        let path = format!("{}/x", hoptax_lab::features::route_prefix(index));
        let answer = gateway.send(&Request { path: &path, without_prefix: true, ..Request::default() });
        assert_eq!(answer.expect("answered").status, 200, "{path}");
    }
    let path = format!("{}/x", hoptax_lab::features::route_prefix(count));
    let answer = gateway.send(&Request { path: &path, without_prefix: true, ..Request::default() });
    assert_eq!(answer.expect("answered").status, 404, "{path}");
}

fn consumers(gateway: &Extra, count: u32) {
    let keys = gateway.lines();
    assert_eq!(keys.len(), count as usize);
    for key in keys {
        assert_eq!(status_with(gateway, KEY_HEADER, Some(&key)), 200);
    }
}

fn round_robin(gateway: &Extra) {
    let instances: Vec<_> =
        (0..6).map(|_| gateway.ask("/x").header("x-instance").expect("present").to_owned()).collect();
    assert_eq!(instances.iter().filter(|one| *one == "0").count(), 3, "in turn: {instances:?}");
}
