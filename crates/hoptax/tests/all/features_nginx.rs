//! Every feature of the packs `nginx` and `nginx-lua`, proved with the real gateway. It must accept correct
//! requests and refuse others.

mod matrix;
mod parties;

use crate::support::{PATIENCE, wait_until};
use crate::world::is_missing;
use hoptax_format::spec::TlsVersion;
use hoptax_lab::features::KEY_HEADER;
use hoptax_plan::{Feature, JwtAlgorithm, Profile, RoutePosition};
use parties::{Origin, Started, driver, start, started};
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

const PROFILES: [Profile; 2] = [Profile::Stock, Profile::Equalised];

/// Starts the packs that offer all of `features`, in both profiles, with one upstream. Calls `prove` after
/// each start.
fn with_each(features: &[Feature], prove: impl Fn(&Started, &Origin)) {
    let packs = crate::world::packs();
    let offers = |pack: &str| {
        let offered = &packs.get(pack).expect("a pack").manifest().features;
        features.iter().all(|feature| offered.iter().any(|name| name == feature.name()))
    };
    let offering: Vec<_> = ["nginx", "nginx-lua"].into_iter().filter(|pack| offers(pack)).collect();
    assert!(!offering.is_empty(), "no pack offers {features:?}");
    for pack in offering {
        if is_missing(pack) {
            continue;
        }
        for profile in PROFILES {
            let origin = Origin::start("one");
            let mut started = start(pack, profile, features, &[&origin]);
            prove(&started, &origin);
            assert_eq!(started.service.0.check(), Ok(()), "{}", started.what);
        }
    }
}

#[test]
fn bare_routes_change_nothing() {
    with_each(&[], |started, origin| {
        let reply = started.ask("/some/path?query=1").send();
        assert_eq!((reply.status, reply.header("x-hoptax-internal")), (200, Some("for nobody else")));
        let (seen, _) = origin.seen();
        assert_eq!((seen.len(), seen[0].path.as_str()), (1, "/some/path?query=1"), "{}", started.what);
    });
}

#[test]
fn keys_are_required() {
    with_each(&[Feature::KeyAuth], |started, origin| {
        let asked = started.ask("/");
        assert_eq!(asked.send().status, 200, "{}", started.what);
        assert_eq!(asked.clone().without(KEY_HEADER).send().status, 401, "{}", started.what);
        assert_eq!(asked.clone().with(KEY_HEADER, "nobody's").send().status, 401, "{}", started.what);
        assert_eq!(origin.seen().0.len(), 1, "{}: nothing else went upstream", started.what);
        let (key, kept) = (asked.header(KEY_HEADER), started.rendered("nginx.conf"));
        assert!(!kept.contains(key), "{}: the key is in what is kept", started.what);
    });
}

#[test]
fn passwords_are_required() {
    with_each(&[Feature::BasicAuth], |started, origin| {
        let asked = started.ask("/");
        assert_eq!(asked.send().status, 200, "{}", started.what);
        let refused = asked.clone().without("authorization").send();
        assert_eq!(refused.status, 401, "{}", started.what);
        assert!(
            refused.header("www-authenticate").is_some_and(|how| how.starts_with("Basic")),
            "{refused:?}"
        );
        // The name is correct, but the password is wrong.
        let wrong = "Basic Y29uc3VtZXItMDAwMDE6d3Jvbmc=";
        assert_eq!(asked.clone().with("authorization", wrong).send().status, 401, "{}", started.what);
        assert_eq!(origin.seen().0.len(), 1, "{}", started.what);
    });
}

#[test]
fn tokens_are_verified() {
    for algorithm in [JwtAlgorithm::Hs256, JwtAlgorithm::Rs256] {
        with_each(&[Feature::Jwt(algorithm)], |started, origin| {
            let asked = started.ask("/");
            assert_eq!(asked.send().status, 200, "{}", started.what);
            assert_eq!(asked.clone().without("authorization").send().status, 401, "{}", started.what);
            let token = asked.header("authorization").to_owned();
            let (text, signature) = token.rsplit_once('.').expect("a signature");
            let (head, _) = text.rsplit_once('.').expect("claims");
            // {"iss":"hoptax","sub":"consumer-00001","exp":4102444801}
            let claims = "eyJpc3MiOiJob3B0YXgiLCJzdWIiOiJjb25zdW1lci0wMDAwMSIsImV4cCI6NDEwMjQ0NDgwMX0";
            // {"alg":"none"}
            let none = format!("Bearer eyJhbGciOiJub25lIn0.{claims}.{signature}");
            let others = format!("{head}.{claims}.{signature}");
            let first = if signature.starts_with('A') { "B" } else { "A" };
            let forged = format!("{text}.{first}{}", &signature[1..]);
            for wrong in
                [others.as_str(), forged.as_str(), none.as_str(), "Bearer a.b.c", "Bearer", "Bearer ..", text]
            {
                let reply = asked.clone().with("authorization", wrong).send();
                assert_eq!(reply.status, 401, "{}: {wrong}", started.what);
            }
            assert_eq!(origin.seen().0.len(), 1, "{}", started.what);
        });
    }
}

#[test]
fn a_high_limit_never_applies_and_a_low_one_does() {
    let high = Feature::with_defaults("rate-limit").expect("named");
    with_each(&[high], |started, _| {
        assert!(started.ask("/").statuses_of(500).iter().all(|status| *status == 200), "{}", started.what);
    });
    with_each(&[Feature::RateLimit { per_second: 5 }], |started, origin| {
        // At least one of these requests must exceed the limit, unless all of them together take 100 s.
        let statuses = started.ask("/").statuses_of(500);
        let count = |status| statuses.iter().filter(|one| **one == status).count();
        assert_eq!(statuses[0], 200, "{}", started.what);
        assert!(count(429) > 0, "{}: {statuses:?}", started.what);
        assert_eq!(count(200) + count(429), 500, "{}: {statuses:?}", started.what);
        assert_eq!(origin.seen().0.len(), count(200), "{}", started.what);
    });
    with_each(&[Feature::RateLimit { per_second: 1 }], |started, _| {
        assert_eq!(started.ask("/").send().status, 200, "{}", started.what);
    });
}

#[test]
fn an_access_log_has_a_line_for_each_request() {
    with_each(&[Feature::AccessLog], |started, _| {
        for _ in 0..3 {
            assert_eq!(started.ask("/logged").send().status, 200);
        }
        let directory = std::fs::read_dir(started.run.path().join("logs")).expect("logs");
        let mut paths = directory.flatten().map(|entry| entry.path());
        let log = paths.find(|path| path.is_dir()).expect("one").join("access.log");
        // nginx may write a log line after it has sent the response.
        wait_until(&format!("{} has logged three requests", started.what), PATIENCE, || {
            let lines = std::fs::read_to_string(&log).expect("a log");
            lines.matches("/logged").count() == 3
        });
    });
}

#[test]
fn tls_uses_one_version_and_one_cipher() {
    with_each(&[Feature::Tls], |started, _| {
        let asked = started.ask("/");
        assert_eq!(asked.send().status, 200, "{}: the certificate verifies", started.what);
        // nginx must choose the required TLS version and cipher suite even if the client offers others.
        let mut all = asked.clone();
        let spec = all.tls.as_mut().expect("TLS");
        (spec.versions, spec.cipher_suites) = (vec![TlsVersion::Tls12, TlsVersion::Tls13], vec![]);
        let agreed = all.agreed().expect("agreed");
        let wanted = (rustls::ProtocolVersion::TLSv1_3, rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
        assert_eq!(agreed, wanted, "{}", started.what);
        let mut old = asked.clone();
        let spec = old.tls.as_mut().expect("TLS");
        (spec.versions, spec.cipher_suites) = (vec![TlsVersion::Tls12], vec![]);
        assert!(old.try_send().is_err(), "{}: 1.2 is refused", started.what);
        let mut plain = asked.clone();
        plain.tls = None;
        assert_eq!(plain.send().status, 400, "{}: plain is refused", started.what);
    });
}

#[test]
fn client_certificates_are_required() {
    with_each(&[Feature::Tls, Feature::Mtls], |started, origin| {
        let asked = started.ask("/");
        assert_eq!(asked.send().status, 200, "{}", started.what);
        let mut anonymous = asked.clone();
        anonymous.tls.as_mut().expect("TLS").client_certificate = None;
        assert_eq!(anonymous.send().status, 400, "{}", started.what);
        // A client certificate that another authority signed.
        let other = Origin::start("other");
        let other = start("nginx", Profile::Stock, &[Feature::Tls, Feature::Mtls], &[&other]);
        let theirs = other.ask("/").tls.and_then(|tls| tls.client_certificate);
        let mut stranger = asked.clone();
        stranger.tls.as_mut().expect("TLS").client_certificate = theirs;
        assert_eq!(stranger.send().status, 400, "{}", started.what);
        assert_eq!(origin.seen().0.len(), 1, "{}", started.what);
    });
}

/// The upstream with TLS is another gateway. In the first case, this other gateway belongs to the same run.
/// In the second case, it belongs to another run, so nginx does not know the authority that signed its
/// certificate.
#[test]
fn the_upstreams_certificate_is_verified() {
    needs!("nginx");
    let packs = ["nginx", "nginx-lua"].into_iter().filter(|pack| !is_missing(pack));
    for (pack, profile) in packs.flat_map(|pack| PROFILES.map(|profile| (pack, profile))) {
        let origin = Origin::start("behind TLS");
        let tls: &[Feature] = &[Feature::Tls];
        let secure: &[Feature] = &[Feature::UpstreamTls];
        let (mut here, _run, gateways) = driver(&[("nginx", tls), (pack, secure), (pack, secure)], profile);
        let known = started(&mut here, &gateways[0], &[origin.address], profile).expect("starts");
        let stranger = start("nginx", profile, tls, &[&origin]);

        let mut here = here.with_tls_upstreams(vec![known.1]);
        let via_known = started(&mut here, &gateways[1], &[], profile).expect("starts");
        let mut here = here.with_tls_upstreams(vec![stranger.address]);
        let via_stranger = started(&mut here, &gateways[2], &[], profile).expect("starts");

        let answer = crate::world::get(via_known.1, "/some/path");
        assert_eq!(answer.status, 200, "{pack} {profile:?}");
        assert!(answer.body.starts_with("behind TLS"), "{answer:?}");
        assert_eq!(origin.seen().0[0].path, "/some/path");
        assert_eq!(
            crate::world::get(via_stranger.1, "/").status,
            502,
            "{pack} {profile:?}: nobody knows its authority"
        );
        assert!(origin.seen().0.is_empty(), "{pack} {profile:?}");
    }
}

#[test]
fn headers_are_set_and_removed_both_ways() {
    with_each(&[Feature::HeaderRewrite], |started, origin| {
        let reply = started.ask("/").send();
        let seen = origin.seen().0.remove(0);
        assert_eq!(seen.header("x-hoptax-set"), Some("by-gateway"), "{}: {seen:?}", started.what);
        assert_eq!(seen.header("x-hoptax-remove"), None, "{}: {seen:?}", started.what);
        assert_eq!(reply.header("x-hoptax-answered"), Some("by-gateway"), "{}: {reply:?}", started.what);
        assert_eq!(reply.header("x-hoptax-internal"), None, "{}: {reply:?}", started.what);
    });
}

#[test]
fn prefixes_are_removed_from_paths() {
    with_each(&[Feature::PathRewrite], |started, origin| {
        assert_eq!(started.ask("/items/7?a=b%20c").send().status, 200, "{}", started.what);
        assert_eq!(started.ask("/").send().status, 200, "{}", started.what);
        assert_eq!(started.ask("/").path("/items/7").send().status, 404, "{}: no prefix", started.what);
        let paths: Vec<_> = origin.seen().0.into_iter().map(|seen| seen.path).collect();
        assert_eq!(paths, ["/items/7?a=b%20c", "/"], "{}", started.what);
    });
}

#[test]
fn preflights_are_answered_and_one_origin_is_allowed() {
    with_each(&[Feature::Cors], |started, origin| {
        let asked = started.ask("/");
        let allowed = "access-control-allow-origin";
        let reply = asked.send();
        assert_eq!(reply.header(allowed), Some("https://app.example"), "{}: {reply:?}", started.what);
        assert_eq!(reply.header("access-control-allow-methods"), None, "{}: {reply:?}", started.what);
        let stranger = asked.clone().with("origin", "https://elsewhere.example");
        assert_eq!(stranger.send().header(allowed), None, "{}", started.what);
        assert_eq!(origin.seen().0.len(), 2, "{}", started.what);

        let preflight = asked.method("OPTIONS").with("access-control-request-method", "POST");
        let reply = preflight.send();
        assert_eq!((reply.status, reply.header(allowed)), (204, Some("https://app.example")), "{reply:?}");
        assert_eq!(reply.header("access-control-allow-methods"), Some("GET, POST"), "{}", started.what);
        assert_eq!(
            reply.header("access-control-allow-headers"),
            Some("x-requested-with"),
            "{}",
            started.what
        );
        assert_eq!(reply.header("access-control-max-age"), Some("600"), "{}", started.what);
        assert!(origin.seen().0.is_empty(), "{}: it went no further", started.what);
        let theirs = preflight.with("origin", "https://elsewhere.example").send();
        assert_eq!((theirs.status, theirs.header(allowed)), (200, None), "{}: the upstream's", started.what);
    });
}

#[test]
fn responses_are_compressed_on_request() {
    with_each(&[Feature::Gzip], |started, _| {
        let asked = started.ask("/");
        let (packed, plain) = (asked.send(), asked.clone().without("accept-encoding").send());
        assert_eq!(packed.header("content-encoding"), Some("gzip"), "{}: {packed:?}", started.what);
        assert_eq!(plain.header("content-encoding"), None, "{}: {plain:?}", started.what);
        assert!(packed.body.len() * 4 < plain.body.len(), "{}: {}", started.what, packed.body.len());
        assert_eq!(unpacked(&packed.body), plain.body, "{}", started.what);
    });
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut command = Command::new("gzip");
    command.arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut gzip = command.spawn().expect("gzip starts");
    gzip.stdin.take().expect("a pipe").write_all(bytes).expect("written");
    gzip.wait_with_output().expect("it ends").stdout
}

#[test]
fn each_request_has_an_identifier_of_its_own() {
    with_each(&[Feature::RequestId], |started, origin| {
        let reported: Vec<_> = (0..3)
            .map(|_| started.ask("/").send().header("x-request-id").expect("an identifier").to_owned())
            .collect();
        let (seen, _) = origin.seen();
        let seen: Vec<_> = seen.iter().map(|seen| seen.header("x-request-id").expect("one")).collect();
        assert_eq!(reported, seen, "{}: client and upstream know the same", started.what);
        assert!(
            reported[0] != reported[1] && reported[1] != reported[2] && reported[0].len() >= 16,
            "{}: {reported:?}",
            started.what
        );
    });
}

#[test]
fn only_allowed_addresses_are_accepted() {
    with_each(&[Feature::IpAllow], |started, origin| {
        assert_eq!(started.ask("/").send().status, 200, "{}", started.what);
        let elsewhere = started.ask("/").from(Ipv4Addr::new(127, 0, 0, 2));
        assert_eq!(elsewhere.send().status, 403, "{}", started.what);
        assert_eq!(origin.seen().0.len(), 1, "{}", started.what);
    });
}

#[test]
fn exactly_the_configured_routes_exist() {
    let routes = Feature::Routes { count: 1000, ask: RoutePosition::Middle };
    with_each(&[routes], |started, origin| {
        let asked = started.ask("/x");
        for route in ["/route-00001", "/route-00500", "/route-01000"] {
            assert_eq!(asked.clone().path(&format!("{route}/x")).send().status, 200, "{}", started.what);
        }
        assert_eq!(asked.send().status, 200, "{}", started.what);
        for none in ["/", "/route-01001/x", "/route-00000/x"] {
            assert_eq!(asked.clone().path(none).send().status, 404, "{}: {none}", started.what);
        }
        let paths: Vec<_> = origin.seen().0.into_iter().map(|seen| seen.path).collect();
        let all = ["/route-00001/x", "/route-00500/x", "/route-01000/x", "/route-00500/x"];
        assert_eq!(paths, all, "{}", started.what);
    });
}

#[test]
fn every_consumer_is_accepted() {
    let many = Feature::Consumers { count: 100 };
    for how in [Feature::KeyAuth, Feature::BasicAuth, Feature::Jwt(JwtAlgorithm::Hs256)] {
        let header = if how == Feature::KeyAuth { KEY_HEADER } else { "authorization" };
        with_each(&[how, many], |started, _| {
            let lines: Vec<_> = started.change.files.values().flat_map(|text| text.lines()).collect();
            assert_eq!(lines.len(), 100, "{}", started.what);
            for credential in [lines[0], lines[49], lines[99]] {
                let asked = started.ask("/").with(header, credential);
                assert_eq!(asked.send().status, 200, "{}", started.what);
            }
            let stranger = started.ask("/").with(header, &lines[3][..lines[3].len() - 4]);
            assert_eq!(stranger.send().status, 401, "{}", started.what);
        });
    }
}

#[test]
fn instances_take_turns() {
    for pack in ["nginx", "nginx-lua"].into_iter().filter(|pack| !is_missing(pack)) {
        let origins = [Origin::start("one"), Origin::start("two"), Origin::start("three")];
        let all: Vec<_> = origins.iter().collect();
        let turns = [Feature::RoundRobin { instances: None }];
        let started = start(pack, Profile::Equalised, &turns, &all);
        for _ in 0..9 {
            assert_eq!(started.ask("/").send().status, 200);
        }
        let counts = origins.each_ref().map(|origin| origin.seen().0.len());
        assert_eq!(counts, [3, 3, 3], "{}", started.what);
    }
}

#[test]
fn tokens_are_reviewed_by_the_upstream_once_or_each_time() {
    for cache_s in [0, 600] {
        with_each(&[Feature::TokenReview { cache_s }], |started, origin| {
            let asked = started.ask("/");
            let token = asked.header("authorization").trim_start_matches("Bearer ").to_owned();
            origin.trust(&token);
            for _ in 0..5 {
                assert_eq!(asked.send().status, 200, "{}", started.what);
            }
            let (seen, reviews) = origin.seen();
            let expected = if cache_s == 0 { 5 } else { 1 };
            assert_eq!((seen.len(), reviews.len()), (5, expected), "{}: {seen:#?}", started.what);
            let review = &reviews[0];
            // Plain nginx sends no body with a review, and sees only the status of the answer. The Lua code
            // reads the whole answer.
            if started.what.starts_with("nginx-lua") {
                assert_eq!(
                    (review.method.as_str(), review.header("content-type")),
                    ("POST", Some("application/json"))
                );
                let asked_for: serde_json::Value = serde_json::from_str(&review.body).expect("JSON");
                assert_eq!(asked_for["kind"], "TokenReview");
                assert_eq!(asked_for["spec"]["token"], token.as_str());
                assert_eq!(review.header("authorization"), None, "the client's headers are not forwarded");
            } else {
                assert_eq!(review.header("authorization"), Some(asked.header("authorization")));
            }

            assert_eq!(asked.clone().without("authorization").send().status, 401, "{}", started.what);
            let bare = asked.clone().with("authorization", "Bearer");
            assert_eq!(bare.send().status, 401, "{}", started.what);
            let refused = asked.clone().with("authorization", "Bearer refused").send().status;
            let unknown = asked.clone().with("authorization", "Bearer unknown").send().status;
            assert_eq!((refused, unknown), (401, 401), "{}", started.what);
        });
    }
}

#[test]
fn bodies_are_forwarded_after_a_review() {
    with_each(&[Feature::TokenReview { cache_s: 0 }], |started, origin| {
        let asked = started.ask("/items").post("what is sent");
        origin.trust(asked.header("authorization").trim_start_matches("Bearer "));
        assert_eq!(asked.send().status, 200, "{}", started.what);
        let (seen, reviews) = origin.seen();
        assert_eq!(
            (seen[0].method.as_str(), seen[0].body.as_str(), reviews.len()),
            ("POST", "what is sent", 1)
        );
    });
}
