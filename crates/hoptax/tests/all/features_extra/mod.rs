//! Varnish, Traffic Server, nghttpx, h2o, Spring Cloud Gateway, Express Gateway and Traefik. Real requests
//! prove each feature of these gateways.
//!
//! The first four are installed wherever the tests run. Building the others takes minutes (`make
//! gateways-extra`). If they are missing, their tests are skipped.

mod every_gateway;
mod proofs;
mod world;

use crate::support::{Scratch, skip};
use crate::world::is_missing;
use hoptax_format::spec::ProxyProtocol;
use hoptax_lab::concurrent::concurrently;
use hoptax_lab::packs::binary;
use hoptax_plan::{AccessLog, Feature, JwtAlgorithm, Profile, RoutePosition};
use proofs::prove;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use world::Extra;

/// Sets of features that can be enabled together. The tests enable a whole set at once, so that each gateway
/// is started only a few times.
fn sets() -> Vec<Vec<Feature>> {
    vec![
        vec![
            Feature::KeyAuth,
            Feature::RateLimit { per_second: hoptax_plan::DEFAULT_RATE_LIMIT },
            Feature::AccessLog,
            Feature::HeaderRewrite,
            Feature::PathRewrite,
            Feature::Cors,
            Feature::Gzip,
            Feature::RequestId,
            Feature::IpAllow,
            Feature::Consumers { count: 3 },
        ],
        vec![
            Feature::BasicAuth,
            Feature::Routes { count: 5, ask: RoutePosition::Middle },
            Feature::RoundRobin { instances: None },
            Feature::ProxyProtocol(ProxyProtocol::V1),
        ],
        vec![Feature::Jwt(JwtAlgorithm::Rs256), Feature::Tls, Feature::Mtls],
        vec![Feature::Jwt(JwtAlgorithm::Hs256), Feature::Tls],
        vec![Feature::RateLimit { per_second: 1 }],
    ]
}

fn is_built(pack: &str) -> bool {
    let packs = crate::world::packs();
    binary::find(packs.get(pack).expect("a pack")).is_some()
}

/// Whether tests of `pack` must be skipped. If so, notes the skip.
pub(crate) fn must_skip(pack: &str) -> bool {
    let left_out = !is_built(pack);
    if left_out {
        skip(format!("{pack} is not built; `make gateways-extra` builds it"));
    }
    left_out
}

fn offered(pack: &str) -> Vec<String> {
    let packs = crate::world::packs();
    packs.get(pack).expect("a pack").manifest().features.clone()
}

fn prove_every_feature(pack: &str) {
    let offered = offered(pack);
    let is_offered = |one: &Feature| offered.iter().any(|name| name == one.name());
    let sets = sets().into_iter().map(|set| set.into_iter().filter(is_offered).collect::<Vec<_>>());
    let sets: Vec<_> = sets.filter(|set| !set.is_empty()).collect();
    concurrently(2, &sets, |set| {
        let balanced = set.iter().any(|one| matches!(one, Feature::RoundRobin { .. }));
        let gateway =
            Extra::start(pack, set, if balanced { 2 } else { 1 }, Profile::Equalised, AccessLog::Off);
        for feature in set {
            prove(&gateway, *feature);
        }
        gateway.listens_on_loopback_alone();
    });
    let proved: BTreeSet<String> = sets.iter().flatten().map(|one| one.name().to_owned()).collect();
    // Tests in `client_certificate.rs` prove the feature `upstream-tls`.
    let here = offered.into_iter().filter(|name| name != "upstream-tls").collect();
    assert_eq!(proved, here, "{pack}: every feature has its proof");
}

/// Checks a gateway without features in both profiles. It must pass answers unchanged, cache nothing, listen
/// on loopback only, and stop completely.
fn assert_bare_route_works(pack: &str) {
    let both = [(Profile::Stock, AccessLog::File), (Profile::Equalised, AccessLog::Off)];
    concurrently(2, &both, |&(profile, access_log)| {
        let gateway = Extra::start(pack, &[], 1, profile, access_log);
        let what = format!("{pack} {profile:?}");
        let mut seen = BTreeSet::new();
        for _ in 0..4 {
            let answer = gateway.ask("/some/path?a=b%20c");
            assert_eq!(answer.status, 200, "{what}: {answer:?}");
            assert!(answer.text().starts_with("GET /some/path?a=b%20c HTTP/1.1\n"), "{what}: {answer:?}");
            assert_eq!(answer.header("x-hoptax-internal"), Some("internal"), "{what}: {answer:?}");
            seen.insert(answer.header("x-count").expect("counted").to_owned());
        }
        assert_eq!(seen.len(), 4, "{what}: responses are not cached: {seen:?}");
        if profile == Profile::Equalised {
            let answer = gateway.ask("/");
            assert!(
                answer.text().contains("\nhost: echo.com\n"),
                "{what}: Host passes unchanged: {answer:?}"
            );
            // A connection returns to the pool shortly after its response was forwarded. So a few more
            // connections than necessary may open.
            let before = gateway.upstream_connections();
            (0..20).for_each(|_| assert_eq!(gateway.ask("/").status, 200, "{what}"));
            let more = gateway.upstream_connections() - before;
            assert!(more <= 4, "{what}: {more} more connections for 20 requests, one after the other");
        }
        match access_log {
            AccessLog::File => gateway.logged("/some/path"),
            AccessLog::Off => assert!(!gateway.access_log().exists(), "{what}"),
        }
        gateway.listens_on_loopback_alone();
        gateway.stop();
    });
}

/// Two tests of each gateway. The function before its name notes why it cannot be tested.
macro_rules! tests {
    ($($is_left_out:ident($pack:literal): $hop:ident, $features:ident;)+) => {$(
        #[test]
        fn $hop() {
            if !$is_left_out($pack) {
                assert_bare_route_works($pack);
            }
        }

        #[test]
        fn $features() {
            if !$is_left_out($pack) {
                prove_every_feature($pack);
            }
        }
    )+};
}

tests! {
    is_missing("varnish"): varnish_is_a_hop, varnish_has_its_features;
    is_missing("trafficserver"): trafficserver_is_a_hop, trafficserver_has_its_features;
    is_missing("nghttpx"): nghttpx_is_a_hop, nghttpx_has_its_features;
    is_missing("h2o"): h2o_is_a_hop, h2o_has_its_features;
    must_skip("express-gateway"): express_gateway_is_a_hop, express_gateway_has_its_features;
    must_skip("spring-cloud-gateway"): spring_cloud_gateway_is_a_hop, spring_cloud_gateway_has_its_features;
    must_skip("traefik"): traefik_is_a_hop, traefik_has_its_features;
}

/// `gateways-extra.sh` reads `gateway.yaml` with `sed` instead of a YAML parser. The script must still find
/// every build setting of every pack.
#[test]
fn the_script_knows_every_pack_that_is_built() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/gateways-extra.sh");
    let output = Command::new(script).arg("--list").output().expect("it runs");
    let listed = String::from_utf8(output.stdout).expect("text");
    let packs = crate::world::packs();
    let expected: Vec<_> = packs
        .iter()
        .filter_map(|pack| {
            let build = pack.manifest().build.as_ref()?;
            let words = [pack.name(), &build.folder, &pack.manifest().binary].map(str::to_owned);
            Some(words.into_iter().chain(build.needs.clone()).collect::<Vec<_>>().join(" "))
        })
        .collect();
    assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
    assert!(expected.len() >= 3, "{expected:?}");
}

/// Runs the script on generated packs. It must build each pack once, and build it again if the project
/// changed. If something is missing or a build fails, it must continue with the next pack.
#[test]
fn the_script_rebuilds_changes_and_continues_after_failures() {
    let scratch = Scratch::new();
    let (packs, home) = (scratch.path().join("packs"), scratch.path().join("home"));
    let pack = |name: &str, needs: &str, script: &str| {
        let project = packs.join(name).join("project");
        std::fs::create_dir_all(&project).expect("made");
        let manifest = format!(
            "name: {name}\nbinary: {name}-gateway\nbuild:\n  folder: project\n  needs: [{needs}]\nready: {{ \
            path: / }}\n"
        );
        std::fs::write(packs.join(name).join("gateway.yaml"), manifest).expect("written");
        std::fs::write(project.join("build.sh"), script).expect("written");
    };
    let good = "echo built >> built-here\nmkdir -p \"$1/bin\"\nprintf '#!/bin/sh\\necho version ONE\\n' > \
        \"$1/bin/good-gateway\"\nchmod +x \"$1/bin/good-gateway\"\n";
    pack("bad", "sh", "echo no such thing >&2\nexit 1\n");
    pack("good", "sh, sed", good);
    pack("missing", "no-such-program", "exit 1\n");
    let run = |names: &[&str]| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/gateways-extra.sh");
        let mut command = Command::new(script);
        command.args(names).env("HOPTAX_PACKS", &packs).env("HOPTAX_HOME", &home);
        let output = command.output().expect("it runs");
        let reported = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.code(), reported.into_owned())
    };
    let (code, reported) = run(&[]);
    assert_eq!(code, Some(1), "{reported}");
    for words in
        ["built good", "skipping missing: it needs no-such-program", "cannot build bad", "no such thing"]
    {
        assert!(reported.contains(words), "`{words}` in:\n{reported}");
    }
    assert!(!packs.join("good/project/built-here").exists(), "it is built in a copy");
    let version = || {
        let output = Command::new(home.join("tools/bin/good-gateway")).output().expect("it runs");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(version(), "version ONE\n");

    let (code, reported) = run(&["good"]);
    assert!(code == Some(0) && !reported.contains("built"), "{reported}");
    pack("good", "sh", &good.replace("ONE", "TWO"));
    let (code, reported) = run(&["good"]);
    assert!(code == Some(0) && reported.contains("built good"), "{reported}");
    assert_eq!(version(), "version TWO\n");
}
