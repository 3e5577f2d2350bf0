//! Proves every feature of the pack `envoy` with the real Envoy.

use crate::echo::server_config;
use crate::findings::two_ports;
use crate::support::client::{Answer, exchange};
use crate::support::server::{self, Response, Server};
use crate::support::{PATIENCE, Scratch, hoptax};
use crate::world::{Running, driver_for, pack_gateway, running_plan, started};
use hoptax_format::spec::TlsSpec;
use hoptax_lab::Driver as _;
use hoptax_lab::features::{self, Change, Credentials, FeatureVariables};
use hoptax_lab::packs::binary;
use hoptax_lab::process::ProcessDriver;
use hoptax_lab::render::{UpstreamAddress, Variables, render};
use hoptax_plan::{Feature, Profile};
use hoptax_servers::readiness;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

/// Echoes the request's head. Reviews tokens like an API server; only the token in `good` is valid.
fn echo(name: &'static str, tls: Option<Arc<rustls::ServerConfig>>, good: &Arc<Mutex<String>>) -> Server {
    let good = Arc::clone(good);
    Server::over(tls, move |request| {
        let body = if is_review(request) {
            let asked: serde_json::Value = serde_json::from_str(&request.body).expect("a review is JSON");
            assert_eq!(asked["kind"], "TokenReview");
            let known = asked["spec"]["token"] == **good.lock().expect("not poisoned");
            format!(r#"{{"kind":"TokenReview","status":{{"authenticated": {known}}}}}"#)
        } else {
            // The text is long enough to be worth compressing.
            format!("{name}\n{}{}", request.head, "padding ".repeat(100))
        };
        Response::text(body).with(features::RESPONSE_REMOVED, "secret")
    })
}

fn is_review(request: &server::Request) -> bool {
    request.method == "POST" && request.path.starts_with(features::TOKEN_REVIEW_PATH)
}

/// A real Envoy with features, in front of echoing upstreams.
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
    fn start(profile: Profile, features: &[&str]) -> Self {
        let mut features: Vec<Feature> =
            features.iter().map(|feature| feature.parse().expect("a feature")).collect();
        features.sort_unstable();
        let good = Arc::default();
        let upstreams = vec![echo("one", None, &good), echo("two", None, &good)];
        let addresses: Vec<_> = upstreams.iter().map(|echo| echo.address.into()).collect();
        let mut plan = running_plan(vec![pack_gateway("featured", "envoy", 1, &features)]);
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
        let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let text = format!("GET {path} HTTP/1.1\r\nhost: echo.com\r\nconnection: close\r\n{lines}\r\n");
        exchange(None, self.address(), self.change.tls.as_ref(), &text).expect("an answer")
    }

    /// Sends a request in the same way as a run does.
    fn asked(&self) -> Answer {
        let headers: Vec<_> =
            self.change.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.bare(&format!("{}/some/path?q=1", self.change.prefix), &headers)
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
        let world = World::start(profile, features);
        assert_eq!(world.asked().status, 200, "{features:?} {profile:?}: a run's request succeeds");
        look(&world);
    }
}

#[test]
fn envoy_accepts_only_known_keys() {
    with(&["key-auth"], |envoy| {
        assert_eq!(envoy.bare("/", &[]).status, 401);
        assert_eq!(envoy.bare("/", &[("x-api-key", "wrong")]).status, 401);
    });
}

#[test]
fn envoy_accepts_only_correct_passwords() {
    with(&["basic-auth"], |envoy| {
        assert_eq!(envoy.bare("/", &[]).status, 401);
        let wrong = "Basic Y29uc3VtZXItMDAwMDE6d3Jvbmc=";
        assert_eq!(envoy.bare("/", &[("authorization", wrong)]).status, 401);
    });
}

#[test]
fn envoy_accepts_only_valid_tokens() {
    for algorithm in ["jwt-hs256", "jwt-rs256"] {
        with(&[algorithm], |envoy| {
            assert_eq!(envoy.bare("/", &[]).status, 401, "{algorithm}");
            let token = &envoy.change.headers[0].1;
            assert!(
                envoy.asked().text().to_ascii_lowercase().contains("authorization: bearer"),
                "{algorithm}: it is passed on"
            );
            // A token with the signature of the valid token, but with other claims.
            let (head, rest) = token.split_once('.').expect("three parts");
            let forged = format!("{head}.e30.{}", rest.split_once('.').expect("three parts").1);
            assert_eq!(envoy.bare("/", &[("authorization", &forged)]).status, 401, "{algorithm}");
        });
    }
}

#[test]
fn envoy_reviews_each_token_at_the_upstream() {
    needs!("envoy");
    let envoy = World::start(Profile::Equalised, &["token-review"]);
    assert_eq!(envoy.asked().status, 401, "not a good one yet");
    let token = envoy.change.headers[0].1.strip_prefix("Bearer ").expect("a bearer token").to_owned();
    token.clone_into(&mut envoy.good.lock().expect("not poisoned"));
    let reviews = || {
        let requests = envoy.upstreams.iter().flat_map(Server::requests);
        requests.filter(is_review).count()
    };
    let before = reviews();
    for _ in 0..3 {
        assert_eq!(envoy.asked().status, 200);
    }
    assert_eq!(reviews() - before, 3, "none is remembered");
    assert_eq!(envoy.bare("/", &[]).status, 401);
    assert_eq!(envoy.bare("/", &[("authorization", "Bearer \"},{\"")]).status, 401);
    assert_eq!(reviews() - before, 3, "no review without a token");
}

#[test]
fn remembered_reviews_are_refused_before_anything_starts() {
    let scratch = Scratch::new();
    let plan = "gateways:\n  - { name: envoy, features: [{ token-review: 600s }] }\n\
                load: [{ loop: closed, connections: 1 }]\n";
    let output = hoptax().arg("check").arg(scratch.file("plan.yaml", plan)).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for words in ["plan.yaml:2:", "the pack `envoy` cannot cache token reviews", "write token-review: 0s"] {
        assert!(said.contains(words), "`{words}` in: {said}");
    }
}

#[test]
fn envoy_refuses_requests_beyond_the_limit() {
    with(&["rate-limit"], |envoy| {
        assert!((0..50).all(|_| envoy.asked().status == 200), "the usual limit never applies");
    });
    needs!("envoy");
    let envoy = World::start(Profile::Equalised, &["rate-limit=1/s"]);
    // Even on a slow machine, at least one of 20 consecutive requests exceeds the limit.
    let statuses: BTreeSet<u16> = (0..20).map(|_| envoy.asked().status).collect();
    assert_eq!(statuses, [200, 429].into());
}

#[test]
fn envoy_terminates_tls_1_3() {
    with(&["tls"], |envoy| {
        let text = "GET / HTTP/1.1\r\nhost: echo.com\r\nconnection: close\r\n\r\n";
        assert!(exchange(None, envoy.address(), None, text).is_err(), "nothing plain");
    });
}

#[test]
fn envoy_requires_a_client_certificate() {
    with(&["tls", "mtls"], |envoy| {
        let text = "GET / HTTP/1.1\r\nhost: echo.com\r\nconnection: close\r\n\r\n";
        let with = envoy.change.tls.clone().expect("TLS");
        assert!(with.client_certificate.is_some());
        let without = TlsSpec { client_certificate: None, ..with };
        assert!(exchange(None, envoy.address(), Some(&without), text).is_err());
    });
}

#[test]
fn envoy_sets_and_removes_headers_both_ways() {
    with(&["header-rewrite"], |envoy| {
        let answer = envoy.asked();
        let (set, value) = features::REQUEST_SET;
        assert!(
            answer.text().to_ascii_lowercase().contains(&format!("{set}: {value}")),
            "{}",
            answer.text().to_ascii_lowercase()
        );
        assert!(
            !answer.text().to_ascii_lowercase().contains(features::REQUEST_REMOVED.0),
            "{}",
            answer.text().to_ascii_lowercase()
        );
        assert_eq!(answer.header(features::RESPONSE_SET.0), Some(features::RESPONSE_SET.1));
        assert_eq!(answer.header(features::RESPONSE_REMOVED), None);
    });
    in_both_profiles(&[], |envoy| {
        assert_eq!(envoy.asked().header(features::RESPONSE_REMOVED), Some("secret"), "bare changes none");
    });
}

#[test]
fn envoy_removes_the_prefix() {
    with(&["path-rewrite"], |envoy| {
        assert!(
            envoy.asked().text().to_ascii_lowercase().contains("get /some/path?q=1 http/1.1"),
            "{}",
            envoy.asked().text().to_ascii_lowercase()
        );
    });
}

#[test]
fn envoy_allows_one_origin_and_answers_its_preflights() {
    with(&["cors"], |envoy| {
        assert_eq!(envoy.asked().header("access-control-allow-origin"), Some(features::CORS_ORIGIN));
        let other = envoy.bare("/", &[("origin", "https://other.example")]);
        assert_eq!(other.header("access-control-allow-origin"), None);
        let preflight = format!(
            "OPTIONS / HTTP/1.1\r\nhost: echo.com\r\nconnection: close\r\norigin: {}\r\n\
             access-control-request-method: POST\r\n\r\n",
            features::CORS_ORIGIN
        );
        let answer = exchange(None, envoy.address(), None, &preflight).expect("an answer");
        assert_eq!((answer.status, answer.header("access-control-max-age")), (200, Some("600")));
        assert!(answer.body.is_empty(), "the upstream was not asked");
    });
}

#[test]
fn envoy_compresses_on_request() {
    in_both_profiles(&["gzip"], |envoy| {
        let answer = envoy.asked();
        assert_eq!(answer.header("content-encoding"), Some("gzip"));
        assert_eq!(envoy.bare("/", &[]).header("content-encoding"), None);
        let chunks = answer.body.windows(2).position(|bytes| bytes == [0x1f, 0x8b]);
        assert!(chunks.is_some_and(|at| at < 12), "gzip's magic after the first chunk's size");
    });
}

#[test]
fn envoy_gives_each_request_an_identifier() {
    in_both_profiles(&["request-id"], |envoy| {
        let ids: BTreeSet<_> = (0..3)
            .map(|_| {
                let answer = envoy.asked();
                let id = answer.header(features::REQUEST_ID_HEADER).expect("in the response").to_owned();
                assert!(
                    answer.text().to_ascii_lowercase().contains(&id),
                    "and to the upstream: {}",
                    answer.text().to_ascii_lowercase()
                );
                id
            })
            .collect();
        assert_eq!(ids.len(), 3, "each its own");
    });
}

#[test]
fn envoy_accepts_only_one_address() {
    with(&["ip-allow"], |envoy| {
        let text = "GET / HTTP/1.1\r\nhost: echo.com\r\nconnection: close\r\n\r\n";
        let from = |last| exchange(Some(Ipv4Addr::new(127, 0, 0, last)), envoy.address(), None, text);
        assert_eq!(from(1).expect("an answer").status, 200);
        assert_eq!(from(2).expect("an answer").status, 403);
    });
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
        let envoy = World::start(Profile::Equalised, &[authentication, "consumers=1000"]);
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
    let mut envoy = World::start(Profile::Equalised, &["access-log", "round-robin"]);
    let names: Vec<_> = (0..4).map(|_| envoy.asked().text().to_ascii_lowercase()[..3].to_owned()).collect();
    assert_eq!(names.iter().filter(|name| *name == "one").count(), 2, "{names:?}");
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
    let envoy = World::start(Profile::Equalised, &[]);
    let old = exchange(None, envoy.address(), None, "GET / HTTP/1.0\r\n\r\n").expect("an answer");
    assert_eq!(old.status, 200, "{}", old.head);
    let stock = World::start(Profile::Stock, &[]);
    let old = exchange(None, stock.address(), None, "GET / HTTP/1.0\r\n\r\n").expect("an answer");
    assert_eq!(old.status, 426, "as shipped: {}", old.head);
}

/// Envoy as rendered from the pack. Its upstream is a TLS server of this test.
#[test]
fn envoy_verifies_its_tls_upstream() {
    needs!("envoy");
    let features = [Feature::UpstreamTls];
    let (made, other) =
        (Credentials::make(&features).expect("made"), Credentials::make(&features).expect("made"));
    for (shown, expected) in [(&made, 200), (&other, 503)] {
        let upstream = echo("tls", Some(server_config(shown)), &Arc::default());
        let directory = tempfile::tempdir().expect("a directory");
        let packs = crate::world::packs();
        let pack = packs.get("envoy").expect("a pack");
        let [port, admin_port] = two_ports().map(|address| address.port());
        let dir = directory.path().to_string_lossy().into_owned();
        let variables = Variables {
            binary: binary::find(pack).expect("installed").to_string_lossy().into_owned(),
            port,
            admin_port,
            upstreams: vec![UpstreamAddress {
                host: "127.0.0.1".into(),
                port: upstream.address.port(),
                socket: None,
            }],
            features: FeatureVariables::new(&features, &made, &dir),
            asked: features.to_vec(),
            log_dir: dir.clone(),
            dir,
            ..Variables::sample(Profile::Equalised, None)
        };
        let rendered = render(pack, &variables).expect("nothing wrong");
        rendered.write(directory.path()).expect("written");
        features::write_files(&features, &made, directory.path()).expect("written");
        let mut envoy = std::process::Command::new(&rendered.start[0])
            .args(&rendered.start[1..])
            .spawn()
            .expect("starts");
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let probe = readiness::Probe {
            address: local(admin_port),
            path: "/ready".into(),
            status: 200,
            accepting: local(port),
            timeout: PATIENCE,
            http2: false,
            over_tls: None,
        };
        let ready = readiness::wait(&probe, || envoy.try_wait().is_ok_and(|ended| ended.is_some()));
        let text = "GET / HTTP/1.1\r\nhost: echo.com\r\nconnection: close\r\n\r\n";
        let answer = exchange(None, local(port), None, text);
        envoy.kill().and_then(|()| envoy.wait()).expect("stopped");
        assert_eq!(ready, Ok(()));
        assert_eq!(answer.expect("an answer").status, expected);
    }
}
