//! Features of the pack `envoy` with the real Envoy, and token reviews of nginx. `features.rs` proves those
//! that gateways have alike.

use crate::support::client::{Answer, exchange};
use crate::support::refusals::refused_plans;
use crate::support::server::{self, Response, Server};
use crate::world::{Running, driver_for, is_missing, pack_gateway, running_plan, started};
use hoptax_lab::Driver as _;
use hoptax_lab::features::{self, Change};
use hoptax_lab::process::ProcessDriver;
use hoptax_plan::{Feature, Profile};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// Echoes the request's head. Reviews tokens like an API server; only the token in `good` is valid. The
/// review of the token `refused` gets status 403.
fn echo(name: &'static str, good: &Arc<Mutex<String>>) -> Server {
    let good = Arc::clone(good);
    Server::start(move |request| {
        let good = good.lock().expect("not poisoned");
        if is_review(request) && request.body.is_empty() {
            // nginx sends no body with a review, and sees only the status of the answer.
            let shown = request.header("authorization").and_then(|shown| shown.strip_prefix("Bearer "));
            let status = if shown == Some(good.as_str()) { 200 } else { 401 };
            return Response::new(status, "").with(CACHING.0, CACHING.1);
        }
        let body = if is_review(request) {
            let asked: serde_json::Value = serde_json::from_str(&request.body).expect("a review is JSON");
            assert_eq!(asked["kind"], "TokenReview");
            let (token, known) = (&asked["spec"]["token"], asked["spec"]["token"] == **good);
            if token == "refused" {
                return Response::new(403, "").with(CACHING.0, CACHING.1);
            }
            format!(r#"{{"kind":"TokenReview","status":{{"authenticated": {known}}}}}"#)
        } else {
            // The text is long enough to be worth compressing.
            format!("{name}\n{}{}", request.head, "padding ".repeat(100))
        };
        Response::text(body).with(features::RESPONSE_REMOVED, "secret")
    })
}

/// A header that a Kubernetes API server sends with reviews.
const CACHING: (&str, &str) = ("cache-control", "no-cache, private");

fn is_review(request: &server::Request) -> bool {
    request.path.starts_with(features::TOKEN_REVIEW_PATH)
}

/// A real gateway with features, in front of echoing upstreams.
struct World {
    service: Running,
    upstreams: Vec<Server>,
    /// The only token that the upstreams accept.
    good: Arc<Mutex<String>>,
    change: Change,
    run: tempfile::TempDir,
    // Dropping the driver deletes the private directory.
    _driver: ProcessDriver,
}

impl World {
    fn start(pack: &str, profile: Profile, features: &[&str]) -> Self {
        let mut features: Vec<Feature> =
            features.iter().map(|feature| feature.parse().expect("a feature")).collect();
        features.sort_unstable();
        let good = Arc::default();
        let upstreams = vec![echo("one", &good), echo("two", &good)];
        let addresses: Vec<_> = upstreams.iter().map(|echo| echo.address.into()).collect();
        let mut plan = running_plan(vec![pack_gateway("featured", pack, 1, &features)]);
        plan.profile = profile;
        let run = tempfile::tempdir().expect("a directory");
        let mut driver = driver_for(&plan, run.path());
        let service = started(driver.start_gateway(&plan.gateways[0], &addresses));
        let change = service.0.facts().change.clone();
        Self { service, upstreams, good, change, run, _driver: driver }
    }

    fn address(&self) -> SocketAddr {
        self.service.0.addresses()[0]
    }

    fn bare(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send("GET", path, headers, "")
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let lines = format!("host: echo.com\r\nconnection: close\r\n{lines}\r\n{body}");
        let text = format!("{method} {path} HTTP/1.1\r\n{lines}");
        exchange(None, self.address(), self.change.tls.as_ref(), &text).expect("an answer")
    }

    /// Sends a request in the same way as a run does.
    fn asked(&self) -> Answer {
        let headers: Vec<_> =
            self.change.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.bare(&format!("{}/some/path?q=1", self.change.prefix), &headers)
    }

    /// Lets the upstreams accept the token of [`asked`](Self::asked). Returns its header.
    fn trust(&self) -> String {
        let mut headers = self.change.headers.iter();
        let (_, header) = headers.find(|(name, _)| name == "authorization").expect("a token");
        let token = header.strip_prefix("Bearer ").expect("a bearer token");
        token.clone_into(&mut self.good.lock().expect("not poisoned"));
        header.clone()
    }

    /// The reviews that the upstreams received, and their other requests.
    fn seen(&self) -> (Vec<server::Request>, Vec<server::Request>) {
        self.upstreams.iter().flat_map(Server::requests).partition(is_review)
    }
}

/// Calls `look` with an Envoy that has these features. The profiles configure them alike, and
/// [`envoys_features_combine`] has most of them in both.
fn with(features: &[&str], look: impl Fn(&World)) {
    in_profiles(&[Profile::Equalised], features, look);
}

/// Calls `look` with an Envoy that has these features, once in each profile.
fn in_both_profiles(features: &[&str], look: impl Fn(&World)) {
    in_profiles(&[Profile::Stock, Profile::Equalised], features, look);
}

fn in_profiles(profiles: &[Profile], features: &[&str], look: impl Fn(&World)) {
    needs!("envoy");
    for &profile in profiles {
        let world = World::start("envoy", profile, features);
        assert_eq!(world.asked().status, 200, "{features:?} {profile:?}: a run's request succeeds");
        look(&world);
    }
}

#[test]
fn envoy_reviews_each_token_at_the_upstream() {
    needs!("envoy");
    let envoy = World::start("envoy", Profile::Equalised, &["token-review"]);
    assert_eq!(envoy.asked().status, 401, "not a good one yet");
    envoy.trust();
    let reviews = || envoy.seen().0.len();
    let before = reviews();
    for _ in 0..3 {
        assert_eq!(envoy.asked().status, 200);
    }
    assert_eq!(reviews() - before, 3, "none is remembered");
    assert_eq!(envoy.bare("/", &[]).status, 401);
    assert_eq!(envoy.bare("/", &[("authorization", "Bearer \"},{\"")]).status, 401);
    assert_eq!(reviews() - before, 3, "no review without a token");
}

/// Plain nginx reads only the status of a review's answer. The Lua code reads the whole answer.
#[test]
fn nginx_reviews_tokens_at_the_upstream_once_or_each_time() {
    let packs = ["nginx", "nginx-lua"].into_iter().filter(|pack| !is_missing(pack));
    for (pack, cache) in packs.flat_map(|pack| ["0s", "600s"].map(|cache| (pack, cache))) {
        let review = format!("token-review={cache}");
        let nginx =
            World::start(pack, Profile::Equalised, &[review.as_str(), "key-auth", "path-rewrite", "cors"]);
        let authorization = nginx.trust();
        for _ in 0..5 {
            assert_eq!(nginx.asked().status, 200, "{pack} {cache}");
        }
        let (reviews, others) = nginx.seen();
        assert_eq!((reviews.len(), others.len()), (if cache == "0s" { 5 } else { 1 }, 5), "{pack} {cache}");
        let review = &reviews[0];
        let is_lua = pack == "nginx-lua";
        assert_eq!(review.header("authorization"), (!is_lua).then_some(authorization.as_str()), "{review:?}");
        if is_lua {
            let kind = (review.method.as_str(), review.header("content-type"));
            assert_eq!(kind, ("POST", Some("application/json")));
        }
        let without = nginx.change.headers.iter().filter(|(name, _)| name != "authorization");
        let without: Vec<_> = without.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let path = format!("{}/items", nginx.change.prefix);
        assert_eq!(nginx.bare(&path, &without).status, 401, "{pack} {cache}");
        for wrong in ["Bearer", "Bearer refused", "Bearer unknown"] {
            let headers = [&without[..], &[("authorization", wrong)]].concat();
            assert_eq!(nginx.bare(&path, &headers).status, 401, "{pack} {cache}: {wrong}");
        }
        let headers =
            [&without[..], &[("authorization", authorization.as_str()), ("content-length", "4")]].concat();
        assert_eq!(nginx.send("POST", &path, &headers, "sent").status, 200, "{pack} {cache}");
        let posted = nginx.seen().1.into_iter().find(|request| request.method == "POST");
        assert_eq!(posted.expect("passed on after its review").body, "sent", "{pack} {cache}");
    }
}

#[test]
fn remembered_reviews_are_refused_before_anything_starts() {
    insta::assert_snapshot!(refused_plans(&[
        "gateways:\n  - { name: envoy, features: [{ token-review: 600s }] }\n"
    ]));
}

#[test]
fn envoy_has_many_routes_with_and_without_prefix_removal() {
    with(&["routes=1000:last"], |envoy| {
        assert_eq!(envoy.bare("/", &[]).status, 404);
        assert_eq!(envoy.bare("/route-01001/", &[]).status, 404);
        for there in ["/route-00001/", "/route-00500/x"] {
            assert_eq!(envoy.bare(there, &[]).status, 200);
        }
    });
    with(&["path-rewrite", "routes=1000:middle"], |envoy| {
        assert!(
            envoy.asked().text().to_ascii_lowercase().contains("get /route-00500/some/path"),
            "{}",
            envoy.asked().text().to_ascii_lowercase()
        );
    });
}

#[test]
fn envoy_accepts_many_consumers() {
    for (authentication, header) in [("key-auth", "x-api-key"), ("basic-auth", "authorization")] {
        needs!("envoy");
        let envoy = World::start("envoy", Profile::Equalised, &[authentication, "consumers=1000"]);
        let lines = envoy.change.files.values().next().expect("a file of credentials");
        let all: Vec<&str> = lines.lines().collect();
        assert_eq!(all.len(), 1000);
        for credential in [all[0], all[499], all[999]] {
            assert_eq!(envoy.bare("/", &[(header, credential)]).status, 200, "{authentication}");
        }
        assert_eq!(envoy.bare("/", &[(header, "unknown")]).status, 401, "{authentication}");
    }
}

#[test]
fn envoy_takes_turns_and_writes_a_log() {
    needs!("envoy");
    let mut envoy = World::start("envoy", Profile::Equalised, &["access-log", "jwt-hs256", "round-robin"]);
    let texts: Vec<_> = (0..4).map(|_| envoy.asked().text().to_ascii_lowercase()).collect();
    assert!(texts.iter().all(|text| text.contains("authorization: bearer")), "it is passed on: {texts:?}");
    let names: Vec<_> = texts.iter().map(|text| &text[..3]).collect();
    assert_eq!(names.iter().filter(|name| **name == "one").count(), 2, "{names:?}");
    envoy.service.0.stop();
    let log = std::fs::read_to_string(envoy.run.path().join("logs/featured/access.log")).expect("a log");
    assert_eq!(log.lines().filter(|line| line.contains("GET /some/path?q=1")).count(), 4, "{log}");
}

#[test]
fn envoys_features_combine() {
    let all =
        ["key-auth", "rate-limit", "tls", "mtls", "header-rewrite", "path-rewrite", "cors", "request-id"];
    in_both_profiles(&all, |envoy| assert_eq!(envoy.bare("/public/", &[]).status, 401));
    let others = ["jwt-rs256", "gzip", "ip-allow", "routes=10:last", "consumers=1", "access-log"];
    in_both_profiles(&others, |envoy| assert_eq!(envoy.bare("/route-00010/", &[]).status, 401));
}

#[test]
fn equalised_envoy_answers_http_1_0() {
    needs!("envoy");
    let envoy = World::start("envoy", Profile::Equalised, &[]);
    let old = exchange(None, envoy.address(), None, "GET / HTTP/1.0\r\n\r\n").expect("an answer");
    assert_eq!(old.status, 200, "{}", old.head);
    assert_eq!(envoy.asked().header(features::RESPONSE_REMOVED), Some("secret"), "bare changes none");
    let stock = World::start("envoy", Profile::Stock, &[]);
    let old = exchange(None, stock.address(), None, "GET / HTTP/1.0\r\n\r\n").expect("an answer");
    assert_eq!(old.status, 426, "as shipped: {}", old.head);
    assert_eq!(stock.asked().header(features::RESPONSE_REMOVED), Some("secret"), "bare changes none");
}
