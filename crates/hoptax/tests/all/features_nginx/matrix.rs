//! Tests of combined features and of single features. One test enables all features that do not exclude each
//! other. Another test is a run that measures each feature alone.

use super::parties::{Origin, start};
use crate::run::{run, run_directory, text, trials};
use crate::support::{Json, Scratch};
use crate::world::is_missing;
use hoptax_lab::features::KEY_HEADER;
use hoptax_plan::{Feature, Profile, RoutePosition};
use std::collections::BTreeSet;

/// All features of `pack` that can be combined with the feature `authorization`. Upstream TLS is left out,
/// because the upstream here has no TLS.
fn together(pack: &str, authorization: &str) -> Vec<Feature> {
    let packs = crate::world::packs();
    let offered = &packs.get(pack).expect("a pack").manifest().features;
    let mut features: Vec<_> = offered
        .iter()
        .map(|name| match Feature::with_defaults(name).expect("a feature") {
            Feature::Routes { .. } => Feature::Routes { count: 30, ask: RoutePosition::Last },
            Feature::Consumers { .. } => Feature::Consumers { count: 20 },
            other => other,
        })
        .filter(|feature| *feature != Feature::UpstreamTls)
        .filter(|feature| {
            let wanted = Feature::with_defaults(authorization).expect("a feature");
            feature.name() == authorization || !feature.excludes(wanted)
        })
        .collect();
    features.sort_unstable();
    features
}

#[test]
fn all_features_work_together() {
    let ways = [
        ("nginx", "basic-auth"),
        ("nginx", "token-review"),
        ("nginx-lua", "basic-auth"),
        ("nginx-lua", "jwt-hs256"),
        ("nginx-lua", "token-review"),
    ];
    for (pack, authorization) in ways.into_iter().filter(|(pack, _)| !is_missing(pack)) {
        let features = together(pack, authorization);
        assert!(features.len() >= 10, "{features:?}");
        let has = |name: &str| features.iter().any(|feature| feature.name() == name);
        for profile in [Profile::Stock, Profile::Equalised] {
            let origins = [Origin::start("one"), Origin::start("two")];
            let started = start(pack, profile, &features, &[&origins[0], &origins[1]]);
            let what = &started.what;
            let asked = started.ask("/x");
            for origin in &origins {
                origin.trust(asked.header("authorization").trim_start_matches("Bearer "));
            }
            let replies = [asked.send(), asked.send()];
            for reply in &replies {
                assert_eq!(reply.status, 200, "{what}: {reply:?}");
                assert_eq!(
                    reply.header("access-control-allow-origin"),
                    Some("https://app.example"),
                    "{what}"
                );
                assert_eq!(reply.header("x-hoptax-answered"), Some("by-gateway"), "{what}");
                assert_eq!(reply.header("x-hoptax-internal"), None, "{what}");
                assert!(reply.header("x-request-id").is_some(), "{what}");
                assert_eq!(reply.header("content-encoding").is_some(), has("gzip"), "{what}");
            }
            let mut all = Vec::new();
            let mut reviews = 0;
            for origin in &origins {
                let (seen, reviewed) = origin.seen();
                all.extend(seen);
                reviews += reviewed.len();
            }
            let path = if has("routes") { "/route-00030/x" } else { "/x" };
            assert_eq!(all.len(), 2, "{what}");
            for seen in &all {
                assert_eq!(
                    (seen.path.as_str(), seen.header("x-hoptax-set")),
                    (path, Some("by-gateway")),
                    "{what}"
                );
                assert_eq!(seen.header("x-hoptax-remove"), None, "{what}");
                let id = seen.header("x-request-id");
                assert!(replies.iter().any(|reply| reply.header("x-request-id") == id), "{what}: {seen:?}");
            }
            assert_eq!(reviews, if has("token-review") { 2 } else { 0 }, "{what}");

            for missing in [KEY_HEADER, "authorization"] {
                assert_eq!(asked.clone().without(missing).send().status, 401, "{what}: {missing}");
            }
            let preflight = asked.clone().method("OPTIONS").with("access-control-request-method", "GET");
            let preflight = preflight.without(KEY_HEADER).without("authorization").send();
            assert_eq!(preflight.status, 204, "{what}: preflights carry no credentials");
            assert_eq!(asked.clone().path("/x").send().status, 404, "{what}: neither prefix nor route");
        }
    }
}

#[test]
fn every_feature_records_its_settings() {
    let packs = crate::world::packs();
    for pack in ["nginx", "nginx-lua"].into_iter().filter(|pack| !is_missing(pack)) {
        let reported = &packs.get(pack).expect("a pack").manifest().settings.features;
        let origin = Origin::start("one");
        let bare = start(pack, Profile::Equalised, &[], &[&origin]).service.0.facts().settings.len();
        for name in &packs.get(pack).expect("a pack").manifest().features {
            // The feature `consumers` has no setting, because it only adds lines to the files of an
            // authentication feature.
            assert!(
                name == "consumers" || reported.contains_key(name),
                "{pack} records no setting for {name}"
            );
        }
        let with_key = start(pack, Profile::Equalised, &[Feature::KeyAuth], &[&origin]);
        let settings = with_key.service.0.facts().settings.clone();
        assert_eq!(settings.len(), bare + reported["key-auth"].len(), "{settings:?}");
        let review = |cache_s| {
            let features = [Feature::TokenReview { cache_s }];
            let settings =
                start(pack, Profile::Equalised, &features, &[&origin]).service.0.facts().settings.clone();
            assert!(
                settings.iter().all(|one| !one.setting.is_empty() && !one.reason.is_empty()),
                "{settings:?}"
            );
            settings.len()
        };
        assert!(review(0) < review(600), "{pack}: the cache setting is recorded only with a cache");
    }
}

/// Every feature of the pack must be measured, and every request must be answered with 200. With token
/// reviews, each request must cause two upstream requests.
#[test]
fn a_run_measures_nginx_bare_and_with_each_feature() {
    needs!("nginx");
    let scratch = Scratch::new();
    let output = run(
        &scratch,
        "gateways: [{ name: nginx, features: each }]
load: [{ loop: closed, connections: 4, requests: 400, duration: 60s }]
trials: 1
warmup: 100ms
upstream: { instances: 2, body: 1KiB }
",
        &["--accept-void"],
    );
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    let directory = run_directory(&scratch);
    let trials = trials(&directory);
    let who = |trial: &Json| trial["contender"].as_str().expect("a label").to_owned();
    let measured: BTreeSet<_> = trials
        .iter()
        .filter(|trial| trial["failed"].is_null())
        .inspect(|trial| {
            let counts = &trial["load_record"]["counts"];
            assert!(counts["completed"].as_u64().unwrap() > 0, "{trial}");
            assert_eq!(counts["status"]["200"], counts["completed"], "{}", who(trial));
        })
        .map(who)
        .collect();
    let packs = crate::world::packs();
    let offered = packs.get("nginx").expect("a pack").manifest().features.clone();
    let wanted = offered.iter().map(|name| format!("nginx.{name}"));
    let missing: BTreeSet<_> = wanted.filter(|label| !measured.contains(label)).collect();
    assert!(missing.is_empty(), "{missing:?} of {measured:?}\n{}", text(&output.stderr));
    assert!(measured.contains("nginx") && measured.contains("direct"), "{measured:?}");

    let reviewed = trials.iter().find(|trial| who(trial) == "nginx.token-review").expect("measured");
    let sent = reviewed["load_record"]["lifetime"]["sent"].as_u64().unwrap();
    let upstream = reviewed["ledger"]["requests"].as_u64().unwrap();
    let completed = reviewed["load_record"]["lifetime"]["completed"].as_u64().unwrap();
    assert!(
        (2 * completed..=2 * sent).contains(&upstream),
        "{upstream} for {completed}..={sent}: each is reviewed"
    );
}
