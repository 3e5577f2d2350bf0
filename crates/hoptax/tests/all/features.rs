//! nginx, HAProxy, Caddy and Apache with each feature of their packs, and Envoy with most. Each test starts
//! the real gateway and proves with real requests that the feature is on.

use crate::echo::{GET, Request, ask, echo, server_config};
use crate::run::{run_to_success, trials};
use crate::support::client::Answer;
use crate::support::server::Server;
use crate::support::{PATIENCE, Scratch, wait_until};
use crate::world::{Running, driver_for, pack_gateway, packs, running_plan, started};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hoptax_format::spec::{ClientCertificate, TargetSpec, TlsSpec, TlsVersion};
use hoptax_lab::concurrent::concurrently;
use hoptax_lab::features::{CORS_ORIGIN, Change, Credentials, KEY_HEADER, REQUEST_ID_HEADER};
use hoptax_lab::features::{REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED, RESPONSE_SET};
use hoptax_lab::process::ProcessDriver;
use hoptax_lab::{Driver as _, verify};
use hoptax_plan::{
    Body, DEFAULT_RATE_LIMIT, Feature, Gateway, JwtAlgorithm, Profile, RoutePosition, Upstream,
};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A running gateway with features, in front of two upstreams that echo requests.
struct RunningGateway {
    what: String,
    service: Running,
    change: Change,
    access_log: PathBuf,
    // The driver and the directory own files that the gateway reads.
    _driver: ProcessDriver,
    _run: tempfile::TempDir,
    _upstreams: [Server; 2],
}

fn gateway(pack: &str, features: &[Feature]) -> Gateway {
    let mut features = features.to_vec();
    features.sort_unstable();
    pack_gateway("under-test", pack, 1, &features)
}

impl RunningGateway {
    fn start(pack: &str, profile: Profile, features: &[Feature]) -> Self {
        Self::start_before(pack, profile, features, None)
    }

    /// Like [`start`](Self::start). If `stranger` is given, TLS upstreams use its certificate.
    fn start_before(
        pack: &str,
        profile: Profile,
        features: &[Feature],
        stranger: Option<&Credentials>,
    ) -> Self {
        let what = format!("{pack} {profile:?} {features:?}");
        let mut plan = running_plan(vec![gateway(pack, features)]);
        plan.profile = profile;
        let run = tempfile::tempdir().expect("a directory");
        let driver = driver_for(&plan, run.path());
        let secure = features.contains(&Feature::UpstreamTls);
        let config = secure.then(|| server_config(stranger.unwrap_or(driver.credentials())));
        let upstreams = ["one", "two"].map(|name| echo(name, config.clone()));
        let addresses = upstreams.each_ref().map(|upstream| upstream.address);
        let mut driver = driver.with_tls_upstreams(addresses.to_vec());
        let service =
            started(driver.start_gateway(&plan.gateways[0], &addresses.map(hoptax_format::Address::from)));
        let change = service.0.facts().change.clone();
        let access_log = run.path().join("logs/under-test/access.log");
        Self { what, service, change, access_log, _driver: driver, _run: run, _upstreams: upstreams }
    }

    fn address(&self) -> SocketAddr {
        self.service.0.addresses()[0]
    }

    fn ask(&self, request: &Request<'_>) -> Answer {
        let answer = ask(self.address(), &self.change, self.change.tls.as_ref(), request);
        answer.unwrap_or_else(|error| panic!("{}: {error:#}", self.what))
    }

    /// Sends a request without TLS, or with TLS settings that differ from the required ones. `None` if there
    /// is no response.
    fn ask_over(&self, tls: Option<&TlsSpec>) -> Option<u16> {
        ask(self.address(), &self.change, tls, &GET).ok().map(|answer| answer.status)
    }

    /// Sends a request. The gateway must accept the request and forward it to an upstream.
    fn lets_in(&self, request: &Request<'_>) -> Answer {
        let answer = self.ask(request);
        assert_eq!(answer.status, 200, "{}: {answer:?}", self.what);
        answer
    }

    fn refuses(&self, status: u16, request: &Request<'_>) -> Answer {
        let answer = self.ask(request);
        assert_eq!(answer.status, status, "{}: {answer:?}", self.what);
        assert!(
            !answer.text().to_ascii_lowercase().contains("instance "),
            "{}: the upstream was asked: {answer:?}",
            self.what
        );
        answer
    }

    /// Asserts that the gateway refuses requests without the header `name`, and requests in which it has a
    /// wrong value.
    fn refuses_wrong_credentials(&self, name: &str, wrong: &[String]) {
        self.lets_in(&GET);
        self.refuses(401, &Request { without: Some(name), ..GET });
        for value in wrong {
            self.refuses(401, &Request { headers: &[(name, value)], ..GET });
        }
    }
}

fn prove(pack: &str, profile: Profile, feature: &str) {
    let start = |features: &[Feature]| RunningGateway::start(pack, profile, features);
    let plain = |name: &str| Feature::with_defaults(name).expect("a feature");
    let is_nginx = pack.starts_with("nginx");
    match feature {
        "key-auth" => start(&[plain(feature)]).refuses_wrong_credentials(KEY_HEADER, &["no-such-key".into()]),
        "basic-auth" => {
            let gateway_under_test = start(&[plain(feature)]);
            let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
            let wrong = [basic("consumer-00001:wrong"), basic("nobody:at-all"), "Basic !".into()];
            gateway_under_test.refuses_wrong_credentials("authorization", &wrong);
            let asked = gateway_under_test.refuses(401, &Request { without: Some("authorization"), ..GET });
            let challenge = asked.header("www-authenticate").unwrap_or_default();
            assert!(challenge.starts_with("Basic "), "{pack}: {asked:?}");
        }
        "jwt-hs256" | "jwt-rs256" => tokens(&start(&[plain(feature)]), plain(feature)),
        "rate-limit" => {
            let high = start(&[Feature::RateLimit { per_second: DEFAULT_RATE_LIMIT }]);
            (0..30).for_each(|_| drop(high.lets_in(&GET)));
            let biting = start(&[Feature::RateLimit { per_second: 1 }]);
            biting.lets_in(&GET);
            // Even on a slow machine, two of these requests are sent in the same second.
            let turned_away = (0..500).any(|_| biting.ask(&GET).status == 429);
            assert!(turned_away, "{pack}: the limit never applied");
        }
        "access-log" => {
            let gateway_under_test = start(&[plain(feature)]);
            for path in ["/logged/1", "/logged/2", "/logged/3"] {
                gateway_under_test.lets_in(&Request { path, ..GET });
            }
            // The gateway may write a log line after it has sent the response.
            wait_until(&format!("{pack} has logged three requests"), PATIENCE, || {
                let log = std::fs::read_to_string(&gateway_under_test.access_log).unwrap_or_default();
                let of_ours = |line: &&str| line.contains("/logged/") && line.contains("200");
                log.lines().filter(of_ours).count() == 3
            });
        }
        "tls" => {
            let gateway_under_test = start(&[plain(feature)]);
            let answer = gateway_under_test.lets_in(&GET);
            assert_eq!(
                answer.tls,
                Some((rustls::ProtocolVersion::TLSv1_3, rustls::CipherSuite::TLS13_AES_128_GCM_SHA256)),
                "{pack}"
            );
            assert_ne!(
                gateway_under_test.ask_over(None),
                Some(200),
                "{pack}: nothing is answered in the clear"
            );
            if is_nginx {
                nginx_chooses_tls(&gateway_under_test);
            }
        }
        "mtls" => {
            let gateway_under_test = start(&[Feature::Tls, Feature::Mtls]);
            gateway_under_test.lets_in(&GET);
            let spec = gateway_under_test.change.tls.clone().expect("over TLS");
            let without = TlsSpec { client_certificate: None, ..spec.clone() };
            // nginx accepts the connection, and refuses the request.
            let refused = is_nginx.then_some(400);
            assert_eq!(gateway_under_test.ask_over(Some(&without)), refused, "{pack}: no certificate");
            let other = Credentials::make([]).expect("made").client;
            let other = ClientCertificate { chain: other.certificate, key: other.key };
            let stranger = TlsSpec { client_certificate: Some(other), ..spec };
            assert_eq!(
                gateway_under_test.ask_over(Some(&stranger)),
                refused,
                "{pack}: another authority's certificate"
            );
        }
        "upstream-tls" => {
            // The upstreams accept TLS only, so an answer proves that the gateway uses TLS.
            start(&[plain(feature)]).lets_in(&GET);
            let stranger = Credentials::make([]).expect("made");
            let gateway_under_test =
                RunningGateway::start_before(pack, profile, &[plain(feature)], Some(&stranger));
            let answer = gateway_under_test.ask(&GET);
            assert!(answer.status >= 500, "{pack}: another authority's upstream: {answer:?}");
        }
        "proxy-protocol" => {
            let seen = start(&[plain(feature)]).lets_in(&GET).text().to_ascii_lowercase();
            assert!(seen.contains("\nx-forwarded-for: 127.0.0.1\r"), "{pack}: {seen}");
        }
        "header-rewrite" => {
            let answer = start(&[plain(feature)]).lets_in(&GET);
            let seen = answer.text().to_ascii_lowercase();
            assert!(seen.contains(&format!("\n{}: {}\r", REQUEST_SET.0, REQUEST_SET.1)), "{pack}: {seen}");
            assert!(!seen.contains(REQUEST_REMOVED.0), "{pack}: {seen}");
            assert_eq!(answer.header(RESPONSE_SET.0), Some(RESPONSE_SET.1), "{pack}: {answer:?}");
            assert_eq!(answer.header(RESPONSE_REMOVED), None, "{pack}: {answer:?}");
        }
        "path-rewrite" => {
            let mut gateway_under_test = start(&[plain(feature)]);
            let seen = gateway_under_test.lets_in(&GET).text().to_ascii_lowercase();
            assert!(seen.contains("\nget /some/path?query=1 http/1."), "{pack}: {seen}");
            if is_nginx {
                gateway_under_test.change.prefix.clear();
                gateway_under_test.refuses(404, &GET);
            }
        }
        "cors" => cors(&start(&[plain(feature)])),
        "gzip" => {
            let gateway_under_test = start(&[plain(feature)]);
            let packed = gateway_under_test.lets_in(&GET);
            assert_eq!(packed.header("content-encoding"), Some("gzip"), "{pack}: {packed:?}");
            assert!(unpacked(&packed.body).contains("GET /some/path?query=1 HTTP/1.1\r\n"), "{pack}");
            let as_it_was = gateway_under_test.lets_in(&Request { without: Some("accept-encoding"), ..GET });
            assert_eq!(as_it_was.header("content-encoding"), None, "{pack}: {as_it_was:?}");
        }
        "request-id" => {
            let gateway_under_test = start(&[plain(feature)]);
            let ids = [0, 1].map(|_| {
                let answer = gateway_under_test.lets_in(&GET);
                let id = answer.header(REQUEST_ID_HEADER).expect("in the response").to_ascii_lowercase();
                assert!(id.len() >= 16, "{pack}: {id}");
                let seen = answer.text().to_ascii_lowercase();
                assert!(seen.contains(&format!("\n{REQUEST_ID_HEADER}: {id}\r")), "{pack}: {id} in {seen}");
                id
            });
            assert_ne!(ids[0], ids[1], "{pack}");
        }
        "ip-allow" => {
            let gateway_under_test = start(&[plain(feature)]);
            gateway_under_test.lets_in(&GET);
            gateway_under_test.refuses(403, &Request { from: Ipv4Addr::new(127, 0, 0, 2), ..GET });
        }
        "routes" => {
            for ask in [RoutePosition::First, RoutePosition::Middle, RoutePosition::Last] {
                let mut gateway_under_test = start(&[Feature::Routes { count: 50, ask }]);
                gateway_under_test.lets_in(&GET);
                gateway_under_test.change.prefix = "/route-00051".into();
                gateway_under_test.refuses(404, &GET);
                gateway_under_test.change.prefix.clear();
                gateway_under_test.refuses(404, &GET);
            }
        }
        "consumers" => {
            let tokens = (Feature::Jwt(JwtAlgorithm::Hs256), "authorization");
            let keys = [(Feature::KeyAuth, KEY_HEADER), (Feature::BasicAuth, "authorization")];
            for (by, header) in keys.into_iter().chain((pack == "nginx-lua").then_some(tokens)) {
                let gateway_under_test = start(&[by, Feature::Consumers { count: 20 }]);
                for consumer in [0, 9, 19] {
                    gateway_under_test.lets_in(&Request { consumer, ..GET });
                }
                gateway_under_test.refuses_wrong_credentials(header, &["nobody's".into()]);
            }
        }
        "round-robin" => {
            let gateway_under_test = start(&[plain(feature)]);
            let ones = (0..8)
                .filter(|_| {
                    gateway_under_test.lets_in(&GET).text().to_ascii_lowercase().starts_with("instance one\n")
                })
                .count();
            // A single worker alternates exactly between the upstreams. The stock profile has several
            // workers, so the order varies there.
            let expected = if profile == Profile::Equalised { 4..=4 } else { 1..=7 };
            assert!(expected.contains(&ones), "{pack}: {ones} of 8");
        }
        other => panic!("{pack} offers `{other}`, and nothing here proves it"),
    }
}

/// The client offers other versions and cipher suites too, and then nothing but TLS 1.2.
fn nginx_chooses_tls(gateway_under_test: &RunningGateway) {
    let (what, change) = (&gateway_under_test.what, &gateway_under_test.change);
    let offered =
        |versions| TlsSpec { versions, cipher_suites: Vec::new(), ..change.tls.clone().expect("over TLS") };
    let both = offered(vec![TlsVersion::Tls12, TlsVersion::Tls13]);
    let answer = ask(gateway_under_test.address(), change, Some(&both), &GET);
    let wanted = (rustls::ProtocolVersion::TLSv1_3, rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
    assert_eq!(answer.expect("an answer").tls, Some(wanted), "{what}");
    assert_eq!(gateway_under_test.ask_over(Some(&offered(vec![TlsVersion::Tls12]))), None, "{what}");
}

fn tokens(gateway_under_test: &RunningGateway, feature: Feature) {
    let (_, value) =
        gateway_under_test.change.headers.iter().find(|(name, _)| name == "authorization").expect("a token");
    let (head, signature) = value.rsplit_once('.').expect("three parts");
    let claims = head.split('.').nth(1).expect("claims");
    let turned = if signature.starts_with('A') { "B" } else { "A" };
    // Wrong tokens: one with a changed signature, one with `alg: none`, and one of another run.
    let other = Credentials::make(&[feature]).expect("made").consumers[0].clone();
    let other = if other.token_rs256.is_empty() { other.token_hs256 } else { other.token_rs256 };
    let wrong = [
        format!("{head}.{turned}{}", &signature[1..]),
        format!("Bearer eyJhbGciOiJub25lIn0.{claims}."),
        format!("Bearer {other}"),
        "Bearer nonsense".to_owned(),
    ];
    gateway_under_test.refuses_wrong_credentials("authorization", &wrong);
}

fn cors(gateway_under_test: &RunningGateway) {
    let (what, allowed) = (&gateway_under_test.what, "access-control-allow-origin");
    let answer = gateway_under_test.lets_in(&GET);
    assert_eq!(answer.header(allowed), Some(CORS_ORIGIN), "{what}");
    if what.starts_with("nginx") {
        assert_eq!(answer.header("access-control-allow-methods"), None, "{what}: {answer:?}");
    }
    let foreign = Request { headers: &[("origin", "https://elsewhere.example")], ..GET };
    assert_eq!(gateway_under_test.lets_in(&foreign).header(allowed), None, "{what}");
    let asks = ("access-control-request-method", "POST");
    let preflight = Request { method: "OPTIONS", headers: &[asks], ..GET };
    let answer = gateway_under_test.refuses(if what.starts_with("envoy") { 200 } else { 204 }, &preflight);
    assert_eq!(answer.header(allowed), Some(CORS_ORIGIN), "{what}: {answer:?}");
    assert_eq!(answer.header("access-control-allow-methods"), Some("GET, POST"), "{what}: {answer:?}");
    assert_eq!(answer.header("access-control-allow-headers"), Some("x-requested-with"), "{what}: {answer:?}");
    assert_eq!(answer.header("access-control-max-age"), Some("600"), "{what}: {answer:?}");
    let foreign = [asks, ("origin", "https://elsewhere.example")];
    let answer = gateway_under_test.ask(&Request { method: "OPTIONS", headers: &foreign, ..GET });
    assert_eq!(answer.header(allowed), None, "{what}: {answer:?}");
}

fn unpacked(body: &[u8]) -> String {
    let mut gzip = Command::new("gzip");
    let mut child = gzip.arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("piped").write_all(body).expect("taken");
    let output = child.wait_with_output().expect("ours");
    assert!(output.status.success(), "no gzip");
    String::from_utf8(output.stdout).expect("text")
}

const DIFFER_BY_PROFILE: [&str; 5] = ["access-log", "path-rewrite", "round-robin", "routes", "upstream-tls"];

fn prove_all(pack: &str) {
    needs!(pack);
    let packs = packs();
    let offered = &packs.get(pack).expect("a pack").manifest().features;
    assert!(offered.len() >= 15, "{pack}: {offered:?}");
    // Tests in `token_review` and `features_envoy` prove token reviews.
    let proved: Vec<&str> =
        offered.iter().map(String::as_str).filter(|name| *name != "token-review").collect();
    concurrently(2, &proved, |feature| {
        prove(pack, Profile::Equalised, feature);
        if DIFFER_BY_PROFILE.contains(feature) {
            prove(pack, Profile::Stock, feature);
        }
    });
}

/// Enables all features that do not exclude each other at once, and proves them.
fn prove_together(pack: &str) {
    needs!(pack);
    let packs = packs();
    let offered = &packs.get(pack).expect("a pack").manifest().features;
    let mut features: Vec<Feature> = Vec::new();
    // The feature `consumers` is left out. With this feature, each header would have the credentials of a
    // different random consumer.
    for feature in offered.iter().filter(|name| *name != "consumers").map(|name| Feature::with_defaults(name))
    {
        let feature = feature.expect("a feature");
        if !features.iter().any(|earlier| earlier.excludes(feature)) {
            features.push(feature);
        }
    }
    let gateway_under_test = RunningGateway::start(pack, Profile::Equalised, &features);
    let has = |name: &str| features.iter().any(|feature| feature.name() == name);
    let answer = gateway_under_test.lets_in(&GET);
    assert_eq!(answer.header("content-encoding"), has("gzip").then_some("gzip"), "{pack}: {answer:?}");
    assert_eq!(answer.header(RESPONSE_SET.0), Some(RESPONSE_SET.1), "{pack}: {answer:?}");
    let seen = if has("gzip") { unpacked(&answer.body) } else { answer.text() };
    let (seen, route) = (seen.to_ascii_lowercase(), if has("routes") { "/route-00500" } else { "" });
    let line = format!("\nget {route}/some/path?query=1 http/1.1\r\n");
    assert!(seen.contains(&line), "{pack}: {seen}");
    assert!(seen.contains(&format!("\n{REQUEST_ID_HEADER}: ")), "{pack}: {seen}");
    for header in [KEY_HEADER, "authorization"] {
        gateway_under_test.refuses(401, &Request { without: Some(header), ..GET });
    }
    if has("ip-allow") {
        gateway_under_test.refuses(403, &Request { from: Ipv4Addr::new(127, 0, 0, 2), ..GET });
    }
    let asks = [("access-control-request-method", "POST")];
    gateway_under_test
        .refuses(204, &Request { method: "OPTIONS", headers: &asks, without: Some(KEY_HEADER), ..GET });
}

fn verify_bare(pack: &str) {
    needs!(pack);
    let targets = [
        TargetSpec::only("GET", "/some/path?query=1", vec![("host".into(), "echo.com".into())], vec![]),
        TargetSpec::only(
            "POST",
            "/a%2Fb/c;d=1?e=%20",
            vec![("host".into(), "echo.com".into())],
            vec![b'x'; 70_000],
        ),
    ];
    for profile in [Profile::Equalised, Profile::Stock] {
        let mut plan = running_plan(vec![gateway(pack, &[])]);
        plan.profile = profile;
        if let Upstream::BuiltIn(upstream) = &mut plan.upstream {
            upstream.body = Body::Size(100_000);
        }
        let run = tempfile::tempdir().expect("a directory");
        let mut driver = driver_for(&plan, run.path());
        let upstream = started(driver.start_upstream());
        let service = started(driver.start_gateway(&plan.gateways[0], &upstream.0.endpoints()));
        let (direct, via) = (upstream.0.addresses()[0], service.0.addresses()[0]);
        for target in &targets {
            let verified = verify::verify(
                direct,
                via,
                &target.clone().into(),
                &Change::default(),
                Duration::from_secs(20),
            );
            // Apache refuses an encoded slash in its shipped configuration.
            let refused = pack == "apache" && profile == Profile::Stock && target.path.contains("%2F");
            assert_eq!(verified.is_err(), refused, "{pack} {profile:?} {}: {verified:?}", target.path);
        }
    }
}

#[test]
fn nginx_has_every_feature_that_it_offers() {
    prove_all("nginx");
}

#[test]
fn nginx_lua_has_every_feature_that_it_offers() {
    prove_all("nginx-lua");
}

#[test]
fn haproxy_has_every_feature_that_it_offers() {
    prove_all("haproxy");
}

#[test]
fn caddy_has_every_feature_that_it_offers() {
    prove_all("caddy");
}

#[test]
fn apache_has_every_feature_that_it_offers() {
    prove_all("apache");
}

/// `features_envoy.rs` proves the other features of Envoy.
#[test]
fn envoy_has_the_features_of_the_others() {
    needs!("envoy");
    let features = "key-auth basic-auth jwt-hs256 jwt-rs256 rate-limit tls mtls upstream-tls header-rewrite \
         path-rewrite cors gzip request-id ip-allow";
    let features: Vec<&str> = features.split(' ').collect();
    concurrently(2, &features, |feature| prove("envoy", Profile::Equalised, feature));
    ["gzip", "request-id"].into_iter().for_each(|feature| prove("envoy", Profile::Stock, feature));
}

#[test]
fn all_features_work_at_once() {
    for pack in ["nginx", "nginx-lua", "haproxy", "caddy", "apache"] {
        prove_together(pack);
    }
}

#[test]
fn without_features_they_answer_like_direct() {
    for pack in ["haproxy", "caddy", "apache"] {
        verify_bare(pack);
    }
}

/// Every feature of the pack must be measured, and every request must be answered with 200.
#[test]
fn a_run_measures_nginx_bare_and_with_each_feature() {
    needs!("nginx");
    let scratch = Scratch::new();
    let plan = "gateways: [{ name: nginx, features: each }]
load: [{ loop: closed, connections: 4, requests: 100, duration: 60s }]
trials: 1
warmup: 0s
upstream: { instances: 2, body: 1KiB }
";
    let directory = run_to_success(&scratch, plan, &["--accept-void"]);
    let mut measured = BTreeSet::new();
    for trial in trials(&directory) {
        let (who, counts) = (trial["contender"].as_str().expect("a label"), &trial["load_record"]["counts"]);
        assert!(trial["failed"].is_null(), "{who}: {}", trial["failed"]);
        assert!(counts["completed"].as_u64() > Some(0), "{who}: {counts}");
        assert_eq!(counts["status"]["200"], counts["completed"], "{who}");
        measured.insert(who.to_owned());
    }
    let packs = packs();
    let features = &packs.get("nginx").expect("a pack").manifest().features;
    let labels = features.iter().map(|name| format!("nginx.{name}")).chain(["direct".into(), "nginx".into()]);
    let missing: Vec<String> = labels.filter(|label| !measured.contains(label)).collect();
    assert!(missing.is_empty(), "{missing:?} of {measured:?}");
}

#[test]
fn every_feature_of_nginx_records_its_settings() {
    let packs = packs();
    for pack in ["nginx", "nginx-lua"] {
        let manifest = packs.get(pack).expect("a pack").manifest();
        for name in &manifest.features {
            // The feature `consumers` only adds lines to the files of an authentication feature.
            let is_recorded = name == "consumers" || manifest.settings.features.contains_key(name);
            assert!(is_recorded, "{pack} records no setting for {name}");
        }
    }
}
